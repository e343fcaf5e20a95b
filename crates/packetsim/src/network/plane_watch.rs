//! How a NIC with ports on several planes finds out that a plane does not reach a host, and what it
//! does about that.
//!
//! What a NIC sends to another NIC by one of its ports is a *stream*. It keeps a copy of each of
//! its packets until that arrives. Where the oldest has not arrived, and no other has for a time,
//! the stream is *silent*: the plane is avoided on the way to that NIC, and the copies are sent by
//! other ports, data as well as acknowledgements. From time to time one packet tries the plane
//! again; once anything arrives over it, it is as good as others. Neither switches nor transports
//! take part in that, so that every transport survives a plane that fails.
//!
//! Where switches trim what they cannot queue, a packet that arrives neither whole nor trimmed was
//! lost on a link that failed, as where one of several spines of a plane has: it is sent again once
//! one arrives that was sent so long after it, and the plane is avoided, too. Else a queue may have
//! dropped it, and it is the transport's.
//!
//! Assumes that a NIC knows at once what has arrived at the other one: the time to silence covers
//! the way back. Leaves out that NICs avoid paths of a plane, not planes alone.

use crate::config::{Config, Overflow};
use crate::packet::{Packet, PacketId};
use crate::topology::{NicId, PacketLinkId, Topology};
use lightloom_model::{Duration, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Whether NICs watch what arrives over planes: only a link that fails makes one of them silent.
pub(super) fn watches_planes(topology: &Topology, config: &Config) -> bool {
    config.links_fail && !topology.spraying_nics().is_empty()
}

/// Times to silence between two packets that try a silent plane.
const TRIES: u64 = 10;

/// Where the copy of a packet on its way is: its stream, and its number there.
type Place = (u32, u64);

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    time: Time,
    packet: Packet,
}

/// What goes by a port to a NIC.
#[derive(Debug, Clone)]
struct Stream {
    /// Time without an arrival after which it is silent.
    patience: Duration,
    /// Those that have not arrived, with gaps for those that have; the first one is none.
    on_way: VecDeque<Option<Sent>>,
    /// Number of the first of these.
    first: u64,
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

    /// Takes off what has arrived, and what was sent so long before what has that it was lost.
    fn forget(&mut self, arrived: Time, lost: &mut Vec<Packet>) {
        while let Some(copy) = self.on_way.front() {
            if copy.is_some_and(|copy| copy.time + self.patience >= arrived) {
                break;
            }
            lost.extend(self.on_way.pop_front().flatten().map(|copy| copy.packet));
            self.first += 1;
        }
    }

    /// When it is silent, if nothing arrives until then; nothing is on its way otherwise.
    fn silent_at(&self) -> Option<Time> {
        let oldest = self.on_way.front().copied().flatten()?;
        Some(oldest.time.max(self.last_arrival) + self.patience)
    }
}

/// All streams.
#[derive(Debug, Clone, Default)]
pub(super) struct PlaneWatch {
    streams: Vec<Stream>,
    index: FxHashMap<(PacketLinkId, NicId), u32>,
    /// By packet, where its copy is.
    places: Vec<Option<Place>>,
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
            on_way: VecDeque::new(),
            first: 0,
            last_arrival: Time::ZERO,
            avoided: None,
            is_timed: false,
        });
        stream
    }

    /// A packet is sent; returns when to call [`Self::check`], if that is not planned yet.
    pub(super) fn send(
        &mut self,
        number: u32,
        id: PacketId,
        packet: Packet,
        now: Time,
    ) -> Option<Time> {
        let stream = &mut self.streams[number as usize];
        let place = (number, stream.first + stream.on_way.len() as u64);
        stream.on_way.push_back(Some(Sent { time: now, packet }));
        if let Some(avoided) = &mut stream.avoided {
            avoided.retry_at = now + Duration(TRIES * stream.patience.0);
        }
        let slot = id.0 as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, None);
        }
        self.places[slot] = Some(place);
        if std::mem::replace(&mut stream.is_timed, true) {
            return None;
        }
        Some(now + stream.patience)
    }

    /// A packet has crossed its plane, and packets that it has overtaken are lost.
    pub(super) fn arrive(&mut self, id: PacketId, now: Time, lost: &mut Vec<Packet>) {
        let place = self.places.get_mut(id.0 as usize).and_then(Option::take);
        let Some((stream, number)) = place else { return };
        let stream = &mut self.streams[stream as usize];
        stream.last_arrival = now;
        let index = number.checked_sub(stream.first).map(|index| index as usize);
        let copy = index.and_then(|index| stream.on_way.get_mut(index)?.take());
        // What was sent again has arrived after all, or the packet that tries it.
        let works =
            copy.is_none_or(|copy| stream.avoided.is_some_and(|avoided| avoided.since < copy.time));
        if works && stream.avoided.take().is_some() {
            self.avoided -= 1;
        }
        if let Some(copy) = copy {
            stream.forget(copy.time, lost);
        }
        if self.is_trimming && !lost.is_empty() {
            self.avoided += u32::from(stream.avoid(now));
        } else {
            lost.clear();
        }
    }

    /// The contents of two packets have changed places.
    pub(super) fn swap(&mut self, ids: [PacketId; 2]) {
        let [one, other] = ids.map(|id| id.0 as usize);
        if one.max(other) < self.places.len() {
            self.places.swap(one, other);
        }
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
    /// the next time, if anything is on its way.
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
        stream.first += stream.on_way.len() as u64;
        packets.extend(stream.on_way.drain(..).flatten().map(|copy| copy.packet));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::PacketFlowId;
    use crate::network::slab::NO_PACKET;
    use crate::packet::PacketKind;

    const PORT: PacketLinkId = PacketLinkId(4);
    const PEER: NicId = NicId(7);

    fn packet(sequence: u32) -> Packet {
        Packet {
            next_arrival: Time::ZERO,
            flow: PacketFlowId(0),
            sequence,
            value: 0,
            next: NO_PACKET,
            size: 100,
            path: 0,
            ingress: 0,
            kind: PacketKind::Data,
            flags: 0,
        }
    }

    fn watch() -> (PlaneWatch, u32) {
        let mut watch = PlaneWatch::new(Overflow::Trim);
        let stream = watch.begin(PORT, PEER, Duration(100));
        (watch, stream)
    }

    #[test]
    fn what_arrives_is_not_sent_again() {
        let (mut watch, stream) = watch();
        assert_eq!(watch.send(stream, PacketId(0), packet(0), Time(10)), Some(Time(110)));
        assert_eq!(watch.send(stream, PacketId(1), packet(1), Time(20)), None, "planned already");
        watch.arrive(PacketId(1), Time(60), &mut Vec::new());
        let mut resent = Vec::new();
        // The first one is late, but something has arrived since.
        assert_eq!(watch.check(stream, Time(110), &mut resent), Some(Time(160)));
        watch.arrive(PacketId(0), Time(150), &mut Vec::new());
        assert_eq!(watch.check(stream, Time(160), &mut resent), None);
        assert!(resent.is_empty() && !watch.has_avoided());
    }

    #[test]
    fn a_silent_plane_is_avoided_but_for_one_packet_now_and_then() {
        let (mut watch, stream) = watch();
        for (slot, time) in [(0, 10), (1, 20), (2, 90)] {
            watch.send(stream, PacketId(slot), packet(slot), Time(time));
        }
        watch.arrive(PacketId(0), Time(30), &mut Vec::new());
        let mut resent = Vec::new();
        assert_eq!(watch.check(stream, Time(110), &mut resent), Some(Time(130)));
        assert_eq!(watch.check(stream, Time(130), &mut resent), None);
        let sequences: Vec<u32> = resent.iter().map(|packet| packet.sequence).collect();
        assert_eq!(sequences, [1, 2]);
        assert!(watch.has_avoided() && watch.avoids(PORT, PEER, Time(1129)));
        assert!(!watch.avoids(PORT, PEER, Time(1130)) && !watch.avoids(PORT, NicId(1), Time(200)));
        // One tries it, and then no other; where that arrives, the plane is used again.
        assert_eq!(watch.send(stream, PacketId(5), packet(9), Time(1130)), Some(Time(1230)));
        assert!(watch.avoids(PORT, PEER, Time(1131)));
        watch.arrive(PacketId(5), Time(1150), &mut Vec::new());
        assert!(!watch.avoids(PORT, PEER, Time(1151)) && !watch.has_avoided());
    }

    #[test]
    fn what_others_overtake_by_far_is_lost() {
        let (mut watch, stream) = watch();
        watch.send(stream, PacketId(0), packet(0), Time(10));
        watch.send(stream, PacketId(1), packet(1), Time(150));
        let mut lost = Vec::new();
        watch.arrive(PacketId(1), Time(170), &mut lost);
        assert_eq!(lost.iter().map(|packet| packet.sequence).collect::<Vec<_>>(), [0]);
        assert!(watch.avoids(PORT, PEER, Time(171)), "others are lost like it");
    }
}
