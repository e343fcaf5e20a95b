//! How a NIC with ports on several planes finds out that a plane does not reach a host, and what it
//! does about that.
//!
//! What a NIC sends to another NIC by one of its ports is a *stream*. It keeps a copy of each of
//! its packets until that arrives or a queue drops it. Where a link loses a packet, as it failed or
//! at random, and nothing arrives for a time, the stream is *silent*: the plane is avoided on the
//! way to that NIC, and copies of what was lost are sent by other ports, once each, data as well as
//! acknowledgements. From time to time one packet tries the plane again; once anything arrives over
//! it that was sent since, it is as good as others. Neither switches nor transports take part in
//! that, so that every transport survives a plane that fails.
//!
//! Where switches trim what they cannot queue, a packet that a link lost is also sent again once
//! one arrives that was sent so long after it, as where one of several spines of a plane has
//! failed, and the plane is avoided, too. Elsewhere it is then the transport's.
//!
//! Assumes that a NIC knows at once what has arrived at the other one, and never takes what is
//! queued or paused for lost: the time to silence, which begins with the loss, covers the way back.
//! Leaves out that NICs avoid paths of a plane, not planes alone.

use crate::config::{Config, Overflow};
use crate::packet::{Packet, PacketId};
use crate::topology::{NicId, PacketLinkId, Topology};
use lightloom_model::{Duration, Time};
use rustc_hash::FxHashMap;

/// Whether NICs watch what arrives over planes: only a link that fails makes one of them silent.
pub(super) fn watches_planes(topology: &Topology, config: &Config) -> bool {
    config.links_fail && !topology.spraying_nics().is_empty()
}

/// Times to silence between two packets that try a silent plane.
const TRIES: u64 = 10;

/// The copy of a packet on its way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    stream: u32,
    time: Time,
    packet: Packet,
}

/// A packet that a link lost.
#[derive(Debug, Clone, Copy)]
struct Lost {
    sent: Time,
    time: Time,
    packet: Packet,
}

/// What goes by a port to a NIC.
#[derive(Debug, Clone)]
struct Stream {
    /// Time without an arrival after which it is silent.
    patience: Duration,
    /// What was lost and has not been sent again, in the order of the losses.
    lost: Vec<Lost>,
    last_arrival: Time,
    avoided: Option<Avoided>,
    is_timed: bool,
}

/// A plane that is not used on the way to a NIC.
#[derive(Debug, Clone, Copy)]
struct Avoided {
    since: Time,
    /// When the next packet may try it.
    retry_at: Time,
}

impl Stream {
    /// Avoids it from now on; returns whether that is new.
    fn avoid(&mut self, now: Time) -> bool {
        let retry_at = now + Duration(TRIES * self.patience.0);
        self.avoided.replace(Avoided { since: now, retry_at }).is_none()
    }

    /// Takes off what was lost and sent so long before what has arrived.
    fn take_overtaken(&mut self, arrived: Time) -> Vec<Packet> {
        let patience = self.patience;
        let is_overtaken = |lost: &mut Lost| lost.sent + patience < arrived;
        self.lost.extract_if(.., is_overtaken).map(|lost| lost.packet).collect()
    }

    /// When it is silent, if nothing arrives until then; nothing is lost otherwise.
    fn silent_at(&self) -> Option<Time> {
        Some(self.lost.first()?.time.max(self.last_arrival) + self.patience)
    }
}

/// All streams.
#[derive(Debug, Clone, Default)]
pub(super) struct PlaneWatch {
    streams: Vec<Stream>,
    index: FxHashMap<(PacketLinkId, NicId), u32>,
    /// By packet, its copy.
    on_way: Vec<Option<Sent>>,
    avoided: u32,
    /// Whether switches trim what they cannot queue.
    is_trimming: bool,
}

impl PlaneWatch {
    /// Before the first packet.
    pub(super) fn new(overflow: Overflow) -> Self {
        Self { is_trimming: overflow == Overflow::Trim, ..Self::default() }
    }

    /// The stream of a port to a NIC, if there is one.
    pub(super) fn stream(&self, port: PacketLinkId, to: NicId) -> Option<u32> {
        self.index.get(&(port, to)).copied()
    }

    /// Begins a stream.
    pub(super) fn begin(&mut self, port: PacketLinkId, to: NicId, patience: Duration) -> u32 {
        let stream = self.streams.len() as u32;
        self.index.insert((port, to), stream);
        self.streams.push(Stream {
            patience,
            lost: Vec::new(),
            last_arrival: Time::ZERO,
            avoided: None,
            is_timed: false,
        });
        stream
    }

    /// A packet is sent.
    pub(super) fn send(&mut self, number: u32, id: PacketId, packet: Packet, now: Time) {
        let stream = &mut self.streams[number as usize];
        if let Some(avoided) = &mut stream.avoided {
            avoided.retry_at = now + Duration(TRIES * stream.patience.0);
        }
        *self.slot(id) = Some(Sent { stream: number, time: now, packet });
    }

    fn slot(&mut self, id: PacketId) -> &mut Option<Sent> {
        let slot = id.0 as usize;
        if self.on_way.len() <= slot {
            self.on_way.resize(slot + 1, None);
        }
        &mut self.on_way[slot]
    }

    /// A packet has crossed its plane; returns packets that it has overtaken and that are to be
    /// sent again.
    pub(super) fn arrive(&mut self, id: PacketId, now: Time) -> Vec<Packet> {
        let Some(copy) = self.slot(id).take() else { return Vec::new() };
        let stream = &mut self.streams[copy.stream as usize];
        stream.last_arrival = now;
        // The packet that tries it has arrived.
        let works = stream.avoided.is_some_and(|avoided| avoided.since < copy.time);
        if works {
            stream.avoided = None;
            self.avoided -= 1;
        }
        let overtaken = stream.take_overtaken(copy.time);
        if overtaken.is_empty() || !self.is_trimming {
            return Vec::new();
        }
        self.avoided += u32::from(stream.avoid(now));
        overtaken
    }

    /// A queue drops a packet: its transport has to know.
    pub(super) fn forget(&mut self, id: PacketId) {
        *self.slot(id) = None;
    }

    /// A link loses a packet; returns a stream and when to call [`Self::check`] for that, if that
    /// is not planned yet.
    pub(super) fn lose(&mut self, id: PacketId, now: Time) -> Option<(u32, Time)> {
        let Sent { stream: number, time, packet } = self.slot(id).take()?;
        let stream = &mut self.streams[number as usize];
        stream.lost.push(Lost { sent: time, time: now, packet });
        let is_planned = std::mem::replace(&mut stream.is_timed, true);
        stream.silent_at().filter(|_| !is_planned).map(|time| (number, time))
    }

    /// The contents of two packets have changed places.
    pub(super) fn swap(&mut self, ids: [PacketId; 2]) {
        let [one, other] = ids.map(|id| self.slot(id).take());
        *self.slot(ids[0]) = other;
        *self.slot(ids[1]) = one;
    }

    /// Whether a port is not to be used now on the way to a NIC.
    pub(super) fn avoids(&self, port: PacketLinkId, to: NicId, now: Time) -> bool {
        let Some(stream) = self.stream(port, to) else { return false };
        self.streams[stream as usize].avoided.is_some_and(|avoided| now < avoided.retry_at)
    }

    /// Whether any plane is avoided.
    pub(super) fn has_avoided(&self) -> bool {
        self.avoided > 0
    }

    /// Looks whether a stream is silent, and takes what is to be sent again; returns when to look
    /// the next time, if anything is lost.
    pub(super) fn check(
        &mut self,
        number: u32,
        now: Time,
        packets: &mut Vec<Packet>,
    ) -> Option<Time> {
        let stream = &mut self.streams[number as usize];
        let silent_at = stream.silent_at();
        if let Some(time) = silent_at.filter(|&time| time > now) {
            return Some(time);
        }
        stream.is_timed = false;
        silent_at?;
        self.avoided += u32::from(stream.avoid(now));
        packets.extend(stream.lost.drain(..).map(|lost| lost.packet));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: PacketLinkId = PacketLinkId(4);
    const PEER: NicId = NicId(7);

    fn packet(sequence: u32) -> Packet {
        Packet::data(0, sequence, 100)
    }

    fn watch() -> (PlaneWatch, u32) {
        let mut watch = PlaneWatch::new(Overflow::Trim);
        let stream = watch.begin(PORT, PEER, Duration(100));
        (watch, stream)
    }

    #[test]
    fn what_is_late_or_dropped_is_not_sent_again() {
        let (mut watch, stream) = watch();
        for slot in 0..4 {
            watch.send(stream, PacketId(slot), packet(slot), Time(10));
        }
        watch.forget(PacketId(1));
        let mut resent = Vec::new();
        assert_eq!(watch.check(stream, Time(100_000), &mut resent), None);
        assert!(watch.arrive(PacketId(2), Time(200_000)).is_empty());
        assert_eq!(watch.lose(PacketId(1), Time(200_000)), None, "another packet in its place");
        // The first one is lost at last, but something has arrived since.
        assert_eq!(watch.lose(PacketId(0), Time(200_010)), Some((stream, Time(200_110))));
        assert!(watch.arrive(PacketId(3), Time(200_060)).is_empty());
        assert_eq!(watch.check(stream, Time(200_110), &mut resent), Some(Time(200_160)));
        assert!(resent.is_empty() && !watch.has_avoided());
    }

    #[test]
    fn a_silent_plane_is_avoided_but_for_one_packet_now_and_then() {
        let (mut watch, stream) = watch();
        for (slot, time) in [(0, 10), (1, 15), (2, 20), (3, 90)] {
            watch.send(stream, PacketId(slot), packet(slot), Time(time));
        }
        assert!(watch.arrive(PacketId(0), Time(20)).is_empty());
        assert_eq!(watch.lose(PacketId(1), Time(30)), Some((stream, Time(130))));
        assert_eq!(watch.lose(PacketId(3), Time(110)), None, "planned already");
        let mut resent = Vec::new();
        assert_eq!(watch.check(stream, Time(130), &mut resent), None);
        let sequences: Vec<u32> = resent.iter().map(|packet| packet.sequence).collect();
        assert_eq!(sequences, [1, 3], "packet 2 waits somewhere");
        assert_eq!(watch.check(stream, Time(300), &mut resent), None);
        assert_eq!(resent.len(), 2, "once each");
        assert!(watch.has_avoided() && watch.avoids(PORT, PEER, Time(1129)));
        assert!(!watch.avoids(PORT, PEER, Time(1130)) && !watch.avoids(PORT, NicId(1), Time(200)));
        // One tries it, and then no other; where that arrives, the plane is used again.
        watch.send(stream, PacketId(5), packet(9), Time(1130));
        assert!(watch.avoids(PORT, PEER, Time(1131)));
        watch.arrive(PacketId(2), Time(1140));
        assert!(watch.has_avoided(), "that was sent before");
        watch.arrive(PacketId(5), Time(1150));
        assert!(!watch.avoids(PORT, PEER, Time(1151)) && !watch.has_avoided());
    }

    #[test]
    fn what_others_overtake_by_far_is_sent_again_if_it_is_lost() {
        let (mut watch, stream) = watch();
        for (slot, time) in [(0, 10), (1, 11), (2, 150)] {
            watch.send(stream, PacketId(slot), packet(slot), Time(time));
        }
        watch.lose(PacketId(0), Time(20));
        watch.swap([PacketId(2), PacketId(9)]);
        let lost = watch.arrive(PacketId(9), Time(170));
        assert_eq!(lost.iter().map(|packet| packet.sequence).collect::<Vec<_>>(), [0]);
        assert!(watch.avoids(PORT, PEER, Time(171)), "others are lost like it");
    }
}
