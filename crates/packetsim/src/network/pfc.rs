//! Priority flow control: per link into a switch and priority, the bytes buffered of what came over
//! it.
//!
//! A packet counts from its arrival until it has left the switch. Beyond `pause_bytes` the sending
//! end of the link is told to pause, below `resume_bytes` to resume; either takes the link's delay.
//! Links are settled lazily (see [`super::fabric`]), so a count may be too high; before a pause all
//! links out of the switch are settled. While any link into a switch is paused, the links out of it
//! are *watched*: where it matters they get an event at the end of a transmission, so that the
//! moment to resume is not missed.

use crate::config::Pfc as Thresholds;
use crate::memory::prefetch;
use crate::packet::Packet;
use crate::topology::{LinkSpec, NodeId, PacketLinkId, Topology};
use lightloom_model::{Duration, Time};

/// One link as PFC sees it: at its receiving end what is buffered of it, of a priority, at its
/// sending end (in the port of the lowest priority) what it is sending.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Port {
    /// Bytes buffered of what came over the link.
    buffered: u32,
    /// The packet that it is sending: over which link that came, and its size; 0 if none.
    serving_over: PacketLinkId,
    serving_size: u16,
    /// And its priority.
    serving_priority: u8,
    /// Where in `into` the links begin that lead to the node that it leaves.
    first_into: u32,
    /// Its index among the links into its node.
    index: u16,
    /// Whether the sending end was told to pause.
    is_pausing: bool,
    /// Whether it is watched and its event pending.
    is_pending: bool,
}

/// The state of all links.
#[derive(Debug, Clone)]
pub(super) struct Pfc {
    /// Per priority; packets of those without are not counted.
    thresholds: Vec<Option<Thresholds>>,
    /// How many ports each link has, one for each priority.
    priorities: u8,
    ports: Vec<Port>,
    /// Links into each node, node by node.
    into: Vec<PacketLinkId>,
    /// Links out of each node.
    out: Vec<Vec<PacketLinkId>>,
    /// Number of paused links into each node.
    paused_count: Vec<u32>,
    /// When each priority of a link was last paused.
    paused_since: Vec<Time>,
}

impl Pfc {
    pub(super) fn new(topology: &Topology, thresholds: Vec<Option<Thresholds>>) -> Self {
        let priorities = thresholds.len() as u8;
        let nodes = topology.node_count();
        let (mut into, mut out) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (index, spec) in topology.links().iter().enumerate() {
            into[spec.to.index()].push(PacketLinkId(index as u32));
            out[spec.from.index()].push(PacketLinkId(index as u32));
        }
        let starts: Vec<u32> = into
            .iter()
            .scan(0, |sum, list: &Vec<PacketLinkId>| {
                *sum += list.len() as u32;
                Some(*sum - list.len() as u32)
            })
            .collect();
        let port = |(index, spec): (usize, &LinkSpec)| {
            let others = &into[spec.to.index()];
            let index = others.iter().position(|&other| other.index() == index);
            Port {
                buffered: 0,
                serving_over: PacketLinkId(0),
                serving_size: 0,
                serving_priority: 0,
                first_into: starts[spec.from.index()],
                index: index.expect("a link leads to its node") as u16,
                is_pausing: false,
                is_pending: false,
            }
        };
        let each = usize::from(priorities);
        let of_link = |link| std::iter::repeat_n(port(link), each);
        Self {
            thresholds,
            priorities,
            ports: topology.links().iter().enumerate().flat_map(of_link).collect(),
            into: into.into_iter().flatten().collect(),
            out,
            paused_count: vec![0; nodes],
            paused_since: vec![Time::ZERO; topology.links().len() * each],
        }
    }

    /// How many priorities there are.
    pub(super) fn priorities(&self) -> u8 {
        self.priorities
    }

    /// Where the port of a link is, of the lowest priority or of another.
    #[inline]
    fn place(&self, link: PacketLinkId, priority: u8) -> usize {
        link.index() * usize::from(self.priorities) + usize::from(priority)
    }

    /// Prefetches the state of a link.
    #[inline]
    pub(super) fn prefetch(&self, link: PacketLinkId) {
        prefetch(&self.ports, self.place(link, 0));
    }

    /// The links out of a switch.
    pub(super) fn out(&self, node: NodeId) -> &[PacketLinkId] {
        &self.out[node.index()]
    }

    /// The thresholds of a priority; none pauses what is not counted.
    #[inline]
    fn thresholds(&self, priority: u8) -> Thresholds {
        const NEVER: Thresholds = Thresholds { pause_bytes: u32::MAX, resume_bytes: 0 };
        self.thresholds[usize::from(priority)].unwrap_or(NEVER)
    }

    /// Whether packets of a priority are counted.
    #[inline]
    pub(super) fn counts(&self, priority: u8) -> bool {
        self.thresholds[usize::from(priority)].is_some()
    }

    /// A packet that came over a link waits in the switch; returns whether that is too much.
    #[inline]
    pub(super) fn buffer(&mut self, over: PacketLinkId, packet: &mut Packet) -> bool {
        packet.ingress = self.ports[self.place(over, 0)].index;
        self.add(over, packet)
    }

    /// A packet that came over a link leaves the switch at once over an idle one; returns whether
    /// too much is buffered.
    #[inline(always)]
    pub(super) fn pass(&mut self, link: PacketLinkId, over: PacketLinkId, packet: &Packet) -> bool {
        self.begin(link, over, packet);
        self.add(over, packet)
    }

    /// A link begins to send a packet that came over another.
    #[inline(always)]
    fn begin(&mut self, link: PacketLinkId, over: PacketLinkId, packet: &Packet) {
        let place = self.place(link, 0);
        let port = &mut self.ports[place];
        (port.serving_over, port.serving_size) = (over, packet.size);
        port.serving_priority = packet.priority();
    }

    /// Counts what came over a link; returns whether that is too much.
    #[inline]
    fn add(&mut self, over: PacketLinkId, packet: &Packet) -> bool {
        let place = self.place(over, packet.priority());
        let port = &mut self.ports[place];
        port.buffered += u32::from(packet.size);
        let (buffered, is_pausing) = (port.buffered, port.is_pausing);
        !is_pausing && buffered > self.thresholds(packet.priority()).pause_bytes
    }

    /// A link out of a switch begins to send a packet that waited there.
    #[inline]
    pub(super) fn serve(&mut self, link: PacketLinkId, packet: &Packet) {
        if !self.counts(packet.priority()) {
            return;
        }
        let first_into = self.ports[self.place(link, 0)].first_into;
        let over = self.into[(first_into + u32::from(packet.ingress)) as usize];
        self.begin(link, over, packet);
    }

    /// What a link was sending has left the switch; returns the link whose sending end is to be
    /// told to resume, and which priority.
    #[inline(always)]
    pub(super) fn release(&mut self, link: PacketLinkId) -> Option<(PacketLinkId, u8)> {
        let place = self.place(link, 0);
        let port = &mut self.ports[place];
        let size = u32::from(std::mem::take(&mut port.serving_size));
        if size == 0 {
            return None;
        }
        let (over, priority) = (port.serving_over, port.serving_priority);
        let place = self.place(over, priority);
        let resume_bytes = self.thresholds(priority).resume_bytes;
        let port = &mut self.ports[place];
        port.buffered -= size;
        if port.is_pausing && port.buffered < resume_bytes {
            port.is_pausing = false;
            return Some((over, priority));
        }
        None
    }

    /// One link into a switch resumes; returns the links that need not be watched any more.
    pub(super) fn resume(&mut self, node: NodeId) -> &[PacketLinkId] {
        let count = &mut self.paused_count[node.index()];
        *count -= 1;
        if *count == 0 { &self.out[node.index()] } else { &[] }
    }

    /// Pauses a priority of a link into a switch whose links out are settled, if too much is
    /// buffered still; returns whether it does. All links out are watched then.
    pub(super) fn pause(&mut self, over: PacketLinkId, priority: u8, node: NodeId) -> bool {
        let place = self.place(over, priority);
        let pause_bytes = self.thresholds(priority).pause_bytes;
        let port = &mut self.ports[place];
        if port.buffered <= pause_bytes {
            return false;
        }
        port.is_pausing = true;
        self.paused_count[node.index()] += 1;
        true
    }

    /// Whether a watched link that is sending needs an event at the end of the transmission: what
    /// it sends came over a paused link, or what follows may have. If so, that is pending now.
    pub(super) fn needs_departure(&mut self, link: PacketLinkId, is_last: bool) -> bool {
        let place = self.place(link, 0);
        let port = self.ports[place];
        let over = &self.ports[self.place(port.serving_over, port.serving_priority)];
        let is_needed = !port.is_pending && (!is_last || over.is_pausing);
        if is_needed {
            self.ports[place].is_pending = true;
        }
        is_needed
    }

    /// The event of a watched link is no longer pending.
    pub(super) fn clear_departure(&mut self, link: PacketLinkId) {
        let place = self.place(link, 0);
        self.ports[place].is_pending = false;
    }

    /// The pause reaches the sending end of a link.
    pub(super) fn begin_pause(&mut self, link: PacketLinkId, priority: u8, now: Time) {
        let place = self.place(link, priority);
        self.paused_since[place] = now;
    }

    /// For how long a paused priority of a link has been paused.
    pub(super) fn paused_for(&self, link: PacketLinkId, priority: u8, now: Time) -> Duration {
        now.since(self.paused_since[self.place(link, priority)])
    }

    /// Whether a packet that waits in a switch came over a link.
    pub(super) fn came_over(&self, packet: &Packet, over: PacketLinkId) -> bool {
        packet.ingress == self.ports[self.place(over, 0)].index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::star;
    use lightloom_model::Rate;

    #[test]
    fn a_port_has_32_bytes() {
        assert_eq!(size_of::<Port>(), 32);
    }

    fn packet(size: u16, priority: u8) -> Packet {
        Packet {
            next_arrival: Time::ZERO,
            flow: crate::flow::PacketFlowId(0),
            sequence: 0,
            value: 0,
            next: crate::network::slab::NO_PACKET,
            size,
            path: 0,
            ingress: 0,
            kind: crate::packet::PacketKind::Data,
            flags: crate::packet::priority_flags(priority),
        }
    }

    #[test]
    fn a_link_is_paused_above_its_threshold_and_resumes_below_the_other() {
        let topology = star(2, Rate(1), Duration(1)).unwrap();
        let thresholds = Thresholds { pause_bytes: 300, resume_bytes: 200 };
        let mut pfc = Pfc::new(&topology, vec![Some(thresholds); 2]);
        let packet = |size: u16| packet(size, 1);
        // Links 0 and 3 lead to the switch and from it to the other host.
        let (over, out, switch) = (PacketLinkId(0), PacketLinkId(3), topology.links()[0].to);
        assert!(
            ![100, 100, 100].into_iter().any(|size| pfc.add(over, &packet(size))),
            "at the threshold"
        );
        assert!(!pfc.pause(over, 1, switch));
        assert!(
            !pfc.add(over, &Packet { flags: 0, ..packet(200) }),
            "the other priority has its own"
        );
        assert!(pfc.add(over, &packet(1)) && pfc.pause(over, 1, switch));
        assert!(!pfc.add(over, &packet(100)), "one pause is enough");
        let mut leave = |size: u16| {
            pfc.begin(out, over, &packet(size));
            pfc.release(out)
        };
        assert_eq!((leave(100), leave(101)), (None, None), "200 B are not below the threshold");
        assert_eq!((leave(1), leave(199)), (Some((over, 1)), None));
        assert_eq!(pfc.resume(switch), [PacketLinkId(1), PacketLinkId(3)]);
    }
}
