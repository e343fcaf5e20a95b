//! Links: a queue, a transmitter and a wire each.
//!
//! A transmitter has no events: what it has sent by a given time is worked out when the link is
//! touched, see [`super::fabric`].

mod lanes;
mod priorities;

use super::slab::{Chain, PacketSlab};
use crate::config::Config;
use crate::counters::LinkCounters;
use crate::error::PacketError;
use crate::memory::{prefetch, with_large_pages};
use crate::packet::{Packet, PacketId};
use crate::topology::{NodeId, PacketLinkId, Topology};
use lanes::Lanes;
pub(super) use lanes::Queue;
use lightloom_model::{Bytes, Duration, Rate, Time};

/// No link.
pub(super) const NO_LINK: PacketLinkId = PacketLinkId(u32::MAX);

/// A property or state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flag(u8);

/// The receiving end is a host.
pub(super) const TO_HOST: Flag = Flag(1);
/// The sending end is a host.
pub(super) const FROM_HOST: Flag = Flag(2);
/// PFC: the receiving end has paused the link.
pub(super) const PAUSED: Flag = Flag(4);
/// A circuit that is dark.
pub(super) const DARK: Flag = Flag(8);
/// It has failed.
pub(super) const FAILED: Flag = Flag(32);
/// PFC: other links wait for what leaves here, see [`super::pfc`].
pub(super) const WATCHED: Flag = Flag(16);
/// The receiving end is in the other half of the network.
pub(super) const CROSSES: Flag = Flag(64);
/// Packets wait in its [`Lanes`], or PFC has paused some of its priorities.
const LANED: Flag = Flag(128);

/// 64 bytes, for there are many, and each hop uses one or two.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Link {
    /// When the transmitter is free.
    free_at: Time,
    sent_bytes: u64,
    wire: Chain,
    data: Chain,
    control: Chain,
    data_bytes: u32,
    control_bytes: u32,
    /// Maximum of `data_bytes`.
    peak_bytes: u32,
    to: NodeId,
    /// The next link of the first packet on the wire, once that has been looked up, or [`NO_LINK`].
    next_hop: PacketLinkId,
    class: u16,
    flags: u8,
}

impl Link {
    /// Whether the transmitter may have something to send.
    #[inline]
    fn may_send(&self) -> bool {
        !self.is_empty() || self.flags & (FROM_HOST.0 | LANED.0) != 0
    }

    /// Whether its queues are empty, but for its lanes.
    #[inline]
    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.control.is_empty()
    }

    #[inline]
    fn has(&self, flag: Flag) -> bool {
        self.flags & flag.0 != 0
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.flags & (PAUSED.0 | DARK.0 | FAILED.0) != 0
    }

    /// Whether it is stopped, or its lanes have a say.
    #[inline]
    fn needs_care(&self) -> bool {
        self.flags & (PAUSED.0 | DARK.0 | FAILED.0 | LANED.0) != 0
    }
}

/// What alike links have in common.
#[derive(Debug, Clone, Copy)]
struct Class {
    rate: Rate,
    delay: Duration,
    full: KnownSize,
    control: KnownSize,
}

/// The transmission time of a frequent size.
#[derive(Debug, Clone, Copy)]
struct KnownSize {
    bytes: u16,
    time: Duration,
}

impl Class {
    fn new(rate: Rate, delay: Duration, config: &Config) -> Self {
        let known_size =
            |bytes: u16| KnownSize { bytes, time: rate.transmission(Bytes(u64::from(bytes))) };
        let full = known_size(config.packet_bytes() as u16);
        Self { rate, delay, full, control: known_size(config.control_bytes as u16) }
    }

    /// Transmission time, rounded up to a picosecond.
    #[inline]
    fn transmission(&self, size: u16) -> Duration {
        if size == self.full.bytes {
            return self.full.time;
        }
        if size == self.control.bytes {
            return self.control.time;
        }
        self.rate.transmission(Bytes(u64::from(size)))
    }
}

/// What a transmitter that is free sends next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turn {
    /// A packet from its queues.
    Packet(Waiting),
    /// What the transport of its NIC provides, from this time on.
    Pull(Time),
    /// Nothing.
    Idle,
}

/// A packet that a transmitter takes from its queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) id: PacketId,
    pub(super) packet: Packet,
    /// When the transmitter is free.
    pub(super) begin: Time,
    /// Bytes in its data queue, this packet included; 0 if it is from a control queue.
    pub(super) queued: u32,
    /// Whether it waited in a NIC.
    pub(super) is_from_host: bool,
}

/// The next packet to arrive over a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arriving {
    pub(super) id: PacketId,
    /// Where it will arrive.
    pub(super) node: NodeId,
    /// Whether that is a host.
    pub(super) is_to_host: bool,
}

/// A packet that a transmitter has put on its wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transmission {
    /// When the transmitter is free again.
    pub(super) free_at: Time,
    /// When the packet arrives.
    pub(super) arrival: Time,
    /// Whether it is the first on the wire.
    pub(super) is_first: bool,
    /// Whether PFC watches the link.
    pub(super) is_watched: bool,
    /// Whether the packet is on no wire here, but to go to the other half of the network.
    pub(super) crosses: bool,
}

/// A packet that has arrived at the far end of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) id: PacketId,
    pub(super) packet: Packet,
    /// Where it has arrived.
    pub(super) node: NodeId,
    /// Whether that is a host.
    pub(super) is_to_host: bool,
    /// Its next link if that has been looked up, or [`NO_LINK`].
    pub(super) next_hop: PacketLinkId,
    /// Whether another packet follows on the wire.
    pub(super) is_followed: bool,
}

/// All links.
#[derive(Debug, Clone)]
pub(super) struct Links {
    all: Vec<Link>,
    classes: Vec<Class>,
    lanes: Lanes,
    counters: Vec<LinkCounters>,
}

impl Links {
    pub(super) fn new(topology: &Topology, config: &Config) -> Result<Self, PacketError> {
        let mut classes: Vec<Class> = Vec::new();
        let mut links = with_large_pages(topology.links().len());
        for spec in topology.links() {
            let is_alike = |class: &Class| class.rate == spec.rate && class.delay == spec.delay;
            let class = classes.iter().position(is_alike).unwrap_or_else(|| {
                classes.push(Class::new(spec.rate, spec.delay, config));
                classes.len() - 1
            });
            let end = |is_host: bool, flag: Flag| if is_host { flag.0 } else { 0 };
            links.push(Link {
                free_at: Time::ZERO,
                sent_bytes: 0,
                wire: Chain::EMPTY,
                data: Chain::EMPTY,
                control: Chain::EMPTY,
                data_bytes: 0,
                control_bytes: 0,
                peak_bytes: 0,
                to: spec.to,
                next_hop: NO_LINK,
                class: u16::try_from(class).map_err(|_| {
                    PacketError::invalid(
                        "links have more than 65,536 combinations of rate and delay; expected \
                         at most as many",
                    )
                })?,
                flags: end(topology.is_host(spec.to), TO_HOST)
                    | end(topology.is_host(spec.from), FROM_HOST),
            });
        }
        let lanes = Lanes::new(links.len(), config.highest_priority);
        let counters = vec![LinkCounters::default(); links.len()];
        Ok(Self { all: links, classes, lanes, counters })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = PacketLinkId> + use<> {
        (0..self.all.len() as u32).map(PacketLinkId)
    }

    /// The longest time from the begin of a full packet's transmission until its arrival.
    pub(super) fn longest_hop(&self) -> Option<Duration> {
        self.classes.iter().map(|class| class.full.time + class.delay).max()
    }

    #[inline]
    fn class(&self, link: PacketLinkId) -> &Class {
        &self.classes[usize::from(self.all[link.index()].class)]
    }

    pub(super) fn rate(&self, link: PacketLinkId) -> Rate {
        self.class(link).rate
    }

    pub(super) fn delay(&self, link: PacketLinkId) -> Duration {
        self.class(link).delay
    }

    /// Time to send a packet of a size.
    pub(super) fn transmission(&self, link: PacketLinkId, size: u16) -> Duration {
        self.class(link).transmission(size)
    }

    /// The node at the far end of a link.
    #[inline]
    pub(super) fn to(&self, link: PacketLinkId) -> NodeId {
        self.all[link.index()].to
    }

    #[inline]
    pub(super) fn has(&self, link: PacketLinkId, flag: Flag) -> bool {
        self.all[link.index()].has(flag)
    }

    #[inline]
    pub(super) fn set(&mut self, link: PacketLinkId, flag: Flag) {
        self.all[link.index()].flags |= flag.0;
    }

    #[inline]
    pub(super) fn clear(&mut self, link: PacketLinkId, flag: Flag) {
        self.all[link.index()].flags &= !flag.0;
    }

    /// Whether it may not send packets of a priority.
    #[inline]
    pub(super) fn is_stopped(&self, link: PacketLinkId, priority: u8) -> bool {
        let it = &self.all[link.index()];
        it.is_stopped() || it.has(LANED) && self.lanes.is_paused(link, priority)
    }

    /// When the transmitter is free, as far as the link is settled.
    #[inline]
    pub(super) fn free_at(&self, link: PacketLinkId) -> Time {
        self.all[link.index()].free_at
    }

    /// Whether the transmitter is free.
    #[inline]
    pub(super) fn is_free(&self, link: PacketLinkId, now: Time) -> bool {
        self.all[link.index()].free_at <= now
    }

    /// Whether transmissions may have begun that were not worked out yet.
    #[inline]
    pub(super) fn is_behind(&self, link: PacketLinkId, now: Time) -> bool {
        let link = &self.all[link.index()];
        link.free_at <= now && link.may_send()
    }

    /// If the transmitter of a settled link is free, its next transmission begins now or later;
    /// returns whether it is.
    #[inline]
    pub(super) fn catch_up(&mut self, link: PacketLinkId, now: Time) -> bool {
        let link = &mut self.all[link.index()];
        let is_free = link.free_at <= now;
        if is_free {
            link.free_at = now;
        }
        is_free
    }

    /// As [`Self::catch_up`], unless the link is stopped for packets of a priority.
    #[inline]
    pub(super) fn catch_up_to_send(&mut self, link: PacketLinkId, priority: u8, now: Time) -> bool {
        let it = &mut self.all[link.index()];
        if it.free_at > now || it.needs_care() && self.is_stopped(link, priority) {
            return false;
        }
        self.all[link.index()].free_at = now;
        true
    }

    /// The turn of a transmitter that is free; a packet is removed from its queue.
    #[inline(always)]
    pub(super) fn take_turn(&mut self, link: PacketLinkId, packets: &mut PacketSlab) -> Turn {
        let number = link;
        let link = &mut self.all[number.index()];
        let begin = link.free_at;
        if link.needs_care() {
            return self.take_turn_of_lanes(number, packets);
        }
        let is_from_host = link.has(FROM_HOST);
        if !link.control.is_empty() {
            let (id, packet) = packets.pop(&mut link.control);
            link.control_bytes -= u32::from(packet.size);
            return Turn::Packet(Waiting { id, packet, begin, queued: 0, is_from_host });
        }
        if link.data.is_empty() {
            return if is_from_host { Turn::Pull(begin) } else { Turn::Idle };
        }
        let queued = link.data_bytes;
        let (id, packet) = packets.pop(&mut link.data);
        link.data_bytes -= u32::from(packet.size);
        Turn::Packet(Waiting { id, packet, begin, queued, is_from_host })
    }

    /// Sends a packet from `begin` on.
    #[inline(always)]
    pub(super) fn transmit(
        &mut self,
        link: PacketLinkId,
        id: PacketId,
        size: u16,
        begin: Time,
        packets: &mut PacketSlab,
    ) -> Transmission {
        let link = &mut self.all[link.index()];
        let class = &self.classes[usize::from(link.class)];
        // Runs end long before such sums exceed 64 bits, see `Run`.
        let free_at = Time(begin.0 + class.transmission(size).0);
        let arrival = Time(free_at.0 + class.delay.0);
        link.free_at = free_at;
        link.sent_bytes += u64::from(size);
        let crosses = link.has(CROSSES);
        let is_first = !crosses && packets.push_arriving(&mut link.wire, id, arrival);
        Transmission { free_at, arrival, is_first, is_watched: link.has(WATCHED), crosses }
    }

    /// Puts a packet that comes from the other half of the network on the wire of a link; returns
    /// whether it is the first there.
    pub(super) fn push_arriving(
        &mut self,
        link: PacketLinkId,
        id: PacketId,
        arrival: Time,
        packets: &mut PacketSlab,
    ) -> bool {
        packets.push_arriving(&mut self.all[link.index()].wire, id, arrival)
    }

    /// Removes the first packet from the wire of a link.
    #[inline(always)]
    pub(super) fn take_arrived(&mut self, link: PacketLinkId, packets: &mut PacketSlab) -> Arrived {
        let link = &mut self.all[link.index()];
        let next_hop = std::mem::replace(&mut link.next_hop, NO_LINK);
        let (id, packet) = packets.pop(&mut link.wire);
        Arrived {
            id,
            packet,
            node: link.to,
            is_to_host: link.has(TO_HOST),
            next_hop,
            is_followed: !link.wire.is_empty(),
        }
    }

    /// Removes the first packet that waits, stopped or not.
    pub(super) fn take_queued(
        &mut self,
        link: PacketLinkId,
        packets: &mut PacketSlab,
    ) -> Option<(PacketId, Packet)> {
        let (queue, priority) = self.order().find(|&(queue, priority)| {
            let (chain, _) = self.queue(link, queue, priority);
            !chain.is_empty()
        })?;
        let (id, packet, _) = self.pop(link, queue, priority, packets);
        Some((id, packet))
    }

    /// Appends a packet to a queue.
    #[inline]
    pub(super) fn push(
        &mut self,
        link: PacketLinkId,
        queue: Queue,
        id: PacketId,
        packets: &mut PacketSlab,
    ) {
        if packets[id].priority() > 0 {
            self.set(link, LANED);
            return self.lanes.push(link, queue, id, packets);
        }
        let size = u32::from(packets[id].size);
        let link = &mut self.all[link.index()];
        let (chain, bytes) = match queue {
            Queue::Data => (&mut link.data, &mut link.data_bytes),
            Queue::Control => (&mut link.control, &mut link.control_bytes),
        };
        *bytes += size;
        packets.push(chain, id);
    }

    /// Appends a data packet of a size to its data queue.
    #[inline]
    pub(super) fn push_data(
        &mut self,
        link: PacketLinkId,
        id: PacketId,
        size: u32,
        packets: &mut PacketSlab,
    ) {
        if self.lanes.highest() > 0 {
            self.push(link, Queue::Data, id, packets);
            let it = &mut self.all[link.index()];
            it.peak_bytes = it.peak_bytes.max(it.data_bytes + self.lanes.data_bytes(link, 1));
            return;
        }
        let link = &mut self.all[link.index()];
        link.data_bytes += size;
        link.peak_bytes = link.peak_bytes.max(link.data_bytes);
        packets.push(&mut link.data, id);
    }

    /// Bytes in a queue of a priority.
    #[inline]
    pub(super) fn queued_bytes(&self, link: PacketLinkId, queue: Queue, priority: u8) -> u32 {
        self.queue(link, queue, priority).1
    }

    /// Bytes of data in the queues of all priorities.
    pub(super) fn queued_data(&self, link: PacketLinkId) -> u64 {
        let lanes = if self.lanes.highest() > 0 { self.lanes.data_bytes(link, 1) } else { 0 };
        u64::from(self.all[link.index()].data_bytes) + u64::from(lanes)
    }

    /// Whether nothing is queued.
    #[inline]
    pub(super) fn is_empty(&self, link: PacketLinkId) -> bool {
        let it = &self.all[link.index()];
        it.is_empty() && (!it.has(LANED) || self.lanes.are_empty(link))
    }

    /// A packet in the data queue of a priority has been replaced by one of another size.
    pub(super) fn resize_queued(&mut self, link: PacketLinkId, priority: u8, sizes: [u16; 2]) {
        if priority > 0 {
            return self.lanes.resize_queued(link, priority, sizes);
        }
        let [old, new] = sizes;
        let link = &mut self.all[link.index()];
        link.data_bytes = link.data_bytes - u32::from(old) + u32::from(new);
    }

    /// The first packet on the wire of a link, if there is such a link; its id may be
    /// [`NO_PACKET`].
    #[inline]
    pub(super) fn arriving(&self, link: PacketLinkId) -> Option<Arriving> {
        let link = self.all.get(link.index())?;
        Some(Arriving { id: link.wire.head(), node: link.to, is_to_host: link.has(TO_HOST) })
    }

    /// The packets on the wire in order.
    pub(super) fn wire(&self, link: PacketLinkId) -> Chain {
        self.all[link.index()].wire
    }

    /// Bytes of the packets that it has sent or is sending.
    pub(super) fn sent_bytes(&self, link: PacketLinkId) -> u64 {
        self.all[link.index()].sent_bytes
    }

    /// Maximum number of bytes of data in its queue.
    pub(super) fn peak_bytes(&self, link: PacketLinkId) -> u32 {
        self.all[link.index()].peak_bytes
    }

    /// The same since the last call.
    pub(super) fn take_peak(&mut self, link: PacketLinkId) -> u32 {
        std::mem::take(&mut self.all[link.index()].peak_bytes)
    }

    pub(super) fn counters(&self, link: PacketLinkId) -> LinkCounters {
        self.counters[link.index()]
    }

    #[inline]
    pub(super) fn count(&mut self, link: PacketLinkId) -> &mut LinkCounters {
        &mut self.counters[link.index()]
    }

    /// Notes the next link of the first packet on the wire.
    #[inline]
    pub(super) fn set_next_hop(&mut self, link: PacketLinkId, next: PacketLinkId) {
        self.all[link.index()].next_hop = next;
    }

    /// What was looked up does not hold any more: paths have changed.
    pub(super) fn forget_next_hops(&mut self) {
        for link in &mut self.all {
            link.next_hop = NO_LINK;
        }
    }

    /// Prefetches a link.
    #[inline]
    pub(super) fn prefetch(&self, link: PacketLinkId) {
        prefetch(&self.all, link.index());
    }

    /// Prefetches the packets at the front of the wire and the queues of a link, if it exists.
    #[inline]
    pub(super) fn prefetch_fronts(&self, link: PacketLinkId, packets: &PacketSlab) {
        if let Some(link) = self.all.get(link.index()) {
            packets.prefetch(link.wire.head());
            packets.prefetch(link.control.head());
            packets.prefetch(link.data.head());
        }
    }

    /// Prefetches the packets at the front of the queues of the next hop of a link. If that is not
    /// known, returns the first packet on the wire.
    #[inline]
    pub(super) fn prefetch_next_hop<'a>(
        &self,
        link: PacketLinkId,
        packets: &'a PacketSlab,
    ) -> Option<&'a Packet> {
        let link = self.all.get(link.index())?;
        if let Some(next) = self.all.get(link.next_hop.index()) {
            packets.prefetch(next.control.head());
            packets.prefetch(next.data.head());
            return None;
        }
        packets.get(link.wire.head())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_cache_line() {
        assert_eq!(size_of::<Link>(), 64);
    }

    use crate::flow::PacketFlowId;
    use crate::packet::PacketKind;
    use crate::presets::star;
    use crate::tests::plain;

    /// One link each way between a host and a switch, a packet takes 8 ps per byte and 100 ps more.
    fn one() -> (Links, PacketSlab) {
        let topology = star(1, Rate(1_000_000_000_000), Duration(100)).unwrap();
        (Links::new(&topology, &plain()).unwrap(), PacketSlab::new())
    }
    const UP: PacketLinkId = PacketLinkId(0);
    const DOWN: PacketLinkId = PacketLinkId(1);

    fn packet(slab: &mut PacketSlab, sequence: u32, size: u16) -> PacketId {
        slab.insert(Packet {
            next_arrival: Time::ZERO,
            flow: PacketFlowId(0),
            sequence,
            value: 0,
            next: crate::network::slab::NO_PACKET,
            size,
            path: 0,
            ingress: 0,
            kind: PacketKind::Data,
            flags: 0,
        })
    }

    #[test]
    fn ends_of_links_are_known() {
        let (links, _) = one();
        assert_eq!((links.len(), links.ids().count()), (2, 2));
        assert!(links.has(UP, FROM_HOST) && !links.has(UP, TO_HOST));
        assert!(links.has(DOWN, TO_HOST) && !links.has(DOWN, FROM_HOST));
        assert_eq!([UP, DOWN].map(|link| links.to(link)), [NodeId(1), NodeId(0)]);
        assert_eq!(links.longest_hop(), Some(Duration(4160 * 8 + 100)));
        assert_eq!((links.rate(UP), links.delay(UP)), (Rate(1_000_000_000_000), Duration(100)));
    }

    #[test]
    fn every_size_has_its_transmission_time() {
        let (links, _) = one();
        for size in [1, 63, 64, 65, 4159, 4160, 4161, u16::MAX] {
            assert_eq!(links.transmission(UP, size), Duration(8 * u64::from(size)));
        }
    }

    #[test]
    fn control_packets_overtake_data_but_not_each_other() {
        let (mut links, mut slab) = one();
        for (sequence, queue) in
            [(0, Queue::Data), (1, Queue::Control), (2, Queue::Data), (3, Queue::Control)]
        {
            let id = packet(&mut slab, sequence, 100 + sequence as u16);
            links.push(DOWN, queue, id, &mut slab);
        }
        let queued = [Queue::Data, Queue::Control].map(|it| links.queued_bytes(DOWN, it, 0));
        assert_eq!(queued, [202, 204]);
        let mut order = Vec::new();
        while let Turn::Packet(waiting) = links.take_turn(DOWN, &mut slab) {
            order.push((waiting.packet.sequence, waiting.queued));
            assert!(!waiting.is_from_host);
        }
        // Data is told how much was queued, itself included.
        assert_eq!(order, [(1, 0), (3, 0), (0, 202), (2, 102)]);
        assert!(links.is_empty(DOWN));
    }

    #[test]
    fn an_idle_nic_pulls_and_an_idle_switch_does_not() {
        let (mut links, mut slab) = one();
        assert!(matches!(links.take_turn(UP, &mut slab), Turn::Pull(Time::ZERO)));
        assert!(matches!(links.take_turn(DOWN, &mut slab), Turn::Idle));
        assert!(links.is_behind(UP, Time(5)), "its transport may have something");
        assert!(!links.is_behind(DOWN, Time(5)), "nothing waits");
    }

    #[test]
    fn a_stopped_link_sends_nothing_until_both_stops_end() {
        let (mut links, mut slab) = one();
        let id = packet(&mut slab, 0, 64);
        links.push(DOWN, Queue::Data, id, &mut slab);
        for flag in [PAUSED, DARK] {
            links.set(DOWN, flag);
        }
        links.clear(DOWN, PAUSED);
        assert!(
            links.is_stopped(DOWN, 0) && matches!(links.take_turn(DOWN, &mut slab), Turn::Idle)
        );
        assert!(!links.catch_up_to_send(DOWN, 0, Time(9)));
        links.set(DOWN, WATCHED);
        links.clear(DOWN, DARK);
        assert!(!links.is_stopped(DOWN, 0), "watching stops nothing");
        assert!(matches!(links.take_turn(DOWN, &mut slab), Turn::Packet(_)));
    }

    #[test]
    fn packets_follow_one_another_on_the_wire() {
        let (mut links, mut slab) = one();
        let mut free_at = Time(1_000);
        let mut arrivals = Vec::new();
        for sequence in 0..3 {
            let id = packet(&mut slab, sequence, 64);
            let sent = links.transmit(UP, id, 64, free_at, &mut slab);
            assert_eq!(sent.is_first, sequence == 0);
            assert_eq!(sent.free_at, free_at + Duration(512));
            assert_eq!(sent.arrival, sent.free_at + Duration(100));
            free_at = sent.free_at;
            arrivals.push(sent.arrival);
        }
        assert_eq!((links.sent_bytes(UP), links.free_at(UP)), (192, free_at));
        assert!(!links.is_free(UP, Time(free_at.0 - 1)) && links.is_free(UP, free_at));
        for sequence in 0..3 {
            let arrived = links.take_arrived(UP, &mut slab);
            assert_eq!((arrived.packet.sequence, arrived.node), (sequence, NodeId(1)));
            assert_eq!((arrived.is_to_host, arrived.is_followed), (false, sequence < 2));
            if arrived.is_followed {
                assert_eq!(arrived.packet.next_arrival, arrivals[sequence as usize + 1]);
            }
        }
    }

    #[test]
    fn the_next_hop_is_that_of_the_first_packet_alone() {
        let (mut links, mut slab) = one();
        for sequence in 0..2 {
            let id = packet(&mut slab, sequence, 64);
            links.transmit(UP, id, 64, Time::ZERO, &mut slab);
        }
        links.set_next_hop(UP, DOWN);
        assert_eq!(links.take_arrived(UP, &mut slab).next_hop, DOWN);
        assert_eq!(links.take_arrived(UP, &mut slab).next_hop, NO_LINK);
    }

    #[test]
    fn a_transmitter_that_was_idle_begins_now() {
        let (mut links, _) = one();
        assert!(links.catch_up(UP, Time(70)) && links.free_at(UP) == Time(70));
        assert!(!links.catch_up(UP, Time(60)), "it is busy until then");
        assert_eq!(links.free_at(UP), Time(70));
    }

    #[test]
    fn the_peak_is_that_of_data() {
        let (mut links, mut slab) = one();
        for (sequence, size) in [(0, 4160), (1, 100)] {
            let id = packet(&mut slab, sequence, size);
            links.push_data(DOWN, id, u32::from(size), &mut slab);
        }
        links.take_turn(DOWN, &mut slab);
        let id = packet(&mut slab, 2, 900);
        links.push_data(DOWN, id, 900, &mut slab);
        let id = packet(&mut slab, 3, 9_000);
        links.push(DOWN, Queue::Control, id, &mut slab);
        assert_eq!(links.peak_bytes(DOWN), 4260);
        assert_eq!(links.queued_bytes(DOWN, Queue::Data, 0), 1_000);
        links.resize_queued(DOWN, 0, [900, 1_500]);
        assert_eq!(links.queued_bytes(DOWN, Queue::Data, 0), 1_600);
    }
}
