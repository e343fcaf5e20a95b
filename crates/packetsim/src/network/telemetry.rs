//! In-band telemetry (INT): what switches write into data packets, and receivers echo.
//!
//! A switch writes when it begins to send a packet. Only the first [`MAX_STAMPS`] switches of a
//! path write; no preset has longer ones.

use crate::packet::PacketId;
use lightloom_model::{Rate, Time};

/// Maximum number of switches that write into a packet.
pub(crate) const MAX_STAMPS: usize = 8;

/// What one switch writes about the link over which it sends a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Which link that is.
    pub link: u32,
    /// When it began to send the packet.
    pub time: Time,
    /// Bytes that it had sent over the link before.
    pub sent_bytes: u64,
    /// Rate of the link.
    pub rate: Rate,
    /// Bytes of data that waited for the link then, without this packet.
    pub queued_bytes: u32,
}

/// The stamps of one packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stamps {
    stamps: [Stamp; MAX_STAMPS],
    count: u8,
}

/// The stamps of all packets in the network.
#[derive(Debug, Clone, Default)]
pub(super) struct Telemetry {
    /// By slot of the packet.
    packets: Vec<Stamps>,
    /// Stamps of the packet that was delivered last.
    delivered: Stamps,
}

impl Telemetry {
    /// A packet is new. Not inlined, as the next ones: most transports have no telemetry.
    #[cold]
    pub(super) fn begin(&mut self, id: PacketId) {
        let slot = id.0 as usize;
        if slot >= self.packets.len() {
            self.packets.resize(slot + 1, Stamps::default());
        }
        self.packets[slot].count = 0;
    }

    /// What a packet has.
    pub(super) fn of(&self, id: PacketId) -> &Stamps {
        &self.packets[id.0 as usize]
    }

    /// A packet comes from the other half of the network with these.
    pub(super) fn restore(&mut self, id: PacketId, stamps: &Stamps) {
        self.begin(id);
        self.packets[id.0 as usize] = *stamps;
    }

    /// A switch begins to send a packet.
    pub(super) fn stamp(&mut self, id: PacketId, stamp: Stamp) {
        let Stamps { stamps, count } = &mut self.packets[id.0 as usize];
        if let Some(free) = stamps.get_mut(usize::from(*count)) {
            *free = stamp;
            *count += 1;
        }
    }

    /// A packet has arrived at the NIC that it is for.
    #[cold]
    pub(super) fn deliver(&mut self, id: PacketId) {
        self.delivered = self.packets[id.0 as usize];
    }

    /// A control packet takes back what the packet has that was delivered last.
    #[cold]
    pub(super) fn echo(&mut self, id: PacketId) {
        self.packets[id.0 as usize] = self.delivered;
    }

    /// The stamps of the packet that was delivered last, in the order of its path.
    pub(super) fn delivered(&self) -> &[Stamp] {
        &self.delivered.stamps[..usize::from(self.delivered.count)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(time: u64) -> Stamp {
        Stamp { time: Time(time), ..Stamp::default() }
    }

    #[test]
    fn an_echo_has_the_stamps_of_what_was_delivered_and_a_new_packet_none() {
        let mut telemetry = Telemetry::default();
        let (data, ack) = (PacketId(3), PacketId(0));
        telemetry.begin(data);
        telemetry.begin(ack);
        for time in [5, 7] {
            telemetry.stamp(data, stamp(time));
        }
        telemetry.deliver(data);
        telemetry.echo(ack);
        telemetry.begin(data);
        telemetry.deliver(data);
        assert!(telemetry.delivered().is_empty());
        telemetry.deliver(ack);
        assert_eq!(telemetry.delivered(), [stamp(5), stamp(7)]);
    }

    #[test]
    fn switches_beyond_the_last_do_not_write() {
        let mut telemetry = Telemetry::default();
        telemetry.begin(PacketId(1));
        for time in 0..20 {
            telemetry.stamp(PacketId(1), stamp(time));
        }
        telemetry.deliver(PacketId(1));
        assert_eq!(telemetry.delivered().len(), MAX_STAMPS);
        assert_eq!(telemetry.delivered()[7], stamp(7));
    }
}
