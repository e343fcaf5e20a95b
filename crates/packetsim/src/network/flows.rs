//! Flows as the network sees them; the state of a flow that only a transport understands is in the
//! transport.

use crate::flow::{Endpoints, FlowProgress, FlowSpec, PacketFlowId};
use crate::hash::mix;
use crate::memory::prefetch;
use crate::topology::PacketLinkId;
use lightloom_model::Time;

/// What routing the packets of a flow takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteKey {
    pub(super) endpoints: Endpoints,
    /// Seed of the choice among equal paths.
    hash: u32,
    /// Index of an explicit route, or [`NO_ROUTE`].
    route: u32,
}

const NO_ROUTE: u32 = u32::MAX;

impl RouteKey {
    /// The hash that chooses among equal paths.
    #[inline]
    pub(super) fn entropy(self, path: u16, is_forward: bool) -> u64 {
        mix(u64::from(self.hash) << 17 ^ u64::from(path) << 1 ^ u64::from(is_forward))
    }

    /// Whether the flow has an explicit route.
    #[inline]
    pub(super) fn is_explicit(self) -> bool {
        self.route != NO_ROUTE
    }
}

/// Where the links of an explicit route are.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    length: u32,
}

/// All flows; arrays of what is used together.
#[derive(Debug, Clone)]
pub(super) struct Flows {
    keys: Vec<RouteKey>,
    /// As far as the last flow of a priority above the lowest.
    priorities: Vec<u8>,
    /// As far as the last flow of a class beyond the first.
    classes: Vec<u8>,
    state: Vec<FlowProgress>,
    routes: Vec<Span>,
    route_links: Vec<PacketLinkId>,
    /// Number of flows that are done.
    done: usize,
    /// Flows that begin here and whose senders do not know yet that everything has arrived.
    open: usize,
    /// Flows that have finished and were not collected yet, and when.
    finished: Vec<(Time, PacketFlowId)>,
    /// Whether a flow counts as finished when its receiver has everything.
    finishes_on_arrival: bool,
    /// Whether it does when its sender knows that.
    finishes_on_acknowledgement: bool,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            priorities: Vec::new(),
            classes: Vec::new(),
            state: Vec::new(),
            routes: Vec::new(),
            route_links: Vec::new(),
            done: 0,
            open: 0,
            finished: Vec::new(),
            finishes_on_arrival: false,
            finishes_on_acknowledgement: true,
        }
    }
}

impl Flows {
    pub(super) fn add(&mut self, spec: &FlowSpec, mtu: u32, hash: u32) -> PacketFlowId {
        let route = spec.route.as_ref().map_or(NO_ROUTE, |links| {
            let start = self.route_links.len() as u32;
            self.routes.push(Span { start, length: links.len() as u32 });
            self.route_links.extend(links);
            self.routes.len() as u32 - 1
        });
        let endpoints = Endpoints::new(spec.source, spec.destination);
        self.keys.push(RouteKey { endpoints, hash, route });
        if spec.priority > 0 {
            self.priorities.resize(self.keys.len(), 0);
            self.priorities[self.keys.len() - 1] = spec.priority;
        }
        if spec.class > 0 {
            self.classes.resize(self.keys.len(), 0);
            self.classes[self.keys.len() - 1] = spec.class;
        }
        self.open += 1;
        self.state.push(FlowProgress {
            size: spec.size,
            packets: spec.size.0.div_ceil(u64::from(mtu)).max(1) as u32,
            received: 0,
            start: spec.start,
            received_at: FlowProgress::NEVER,
            done_at: FlowProgress::NEVER,
        });
        PacketFlowId(self.keys.len() as u32 - 1)
    }

    pub(super) fn len(&self) -> usize {
        self.state.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = PacketFlowId> + use<> {
        (0..self.state.len() as u32).map(PacketFlowId)
    }

    /// Number of flows whose senders know that everything has arrived.
    pub(super) fn done_count(&self) -> usize {
        self.done
    }

    #[inline]
    pub(super) fn get(&self, flow: PacketFlowId) -> &FlowProgress {
        &self.state[flow.index()]
    }

    #[inline]
    pub(super) fn key(&self, flow: PacketFlowId) -> RouteKey {
        self.keys[flow.index()]
    }

    /// The priority of a flow.
    #[inline]
    pub(super) fn priority(&self, flow: PacketFlowId) -> u8 {
        self.priorities.get(flow.index()).copied().unwrap_or(0)
    }

    /// The class of a flow.
    #[inline]
    pub(super) fn class(&self, flow: PacketFlowId) -> usize {
        self.classes.get(flow.index()).map_or(0, |&class| usize::from(class))
    }

    /// Prefetches the progress of a flow.
    #[inline]
    pub(super) fn prefetch(&self, flow: PacketFlowId) {
        prefetch(&self.state, flow.index());
    }

    /// The next link of an explicit route for a packet that has crossed some of them; `None` at its
    /// end.
    pub(super) fn route_link(
        &self,
        key: RouteKey,
        is_forward: bool,
        crossed: u16,
    ) -> Option<PacketLinkId> {
        let Span { start, length } = self.routes[key.route as usize];
        let crossed = u32::from(crossed);
        if crossed >= length {
            return None;
        }
        if is_forward {
            return Some(self.route_links[(start + crossed) as usize]);
        }
        Some(self.route_links[(start + length - 1 - crossed) as usize].reverse())
    }

    /// The last flow begins in the other half of the network.
    pub(super) fn leave_to_other_half(&mut self) {
        self.open -= 1;
    }

    /// Number of flows that begin here and whose senders do not know that everything has arrived.
    #[inline]
    pub(super) fn open_count(&self) -> usize {
        self.open
    }

    /// Takes over what the other half of the network knows of a flow: of its sender, its receiver.
    pub(super) fn merge(&mut self, other: &mut Self, flow: PacketFlowId, ends: [bool; 2]) {
        let theirs = other.state[flow.index()];
        let ours = &mut self.state[flow.index()];
        if ends[0] && theirs.done_at != ours.done_at {
            ours.done_at = theirs.done_at;
            self.done += 1;
        }
        if ends[1] {
            (ours.received, ours.received_at) = (theirs.received, theirs.received_at);
        }
    }

    /// Takes over the flows that have finished in the other half of the network.
    pub(super) fn merge_finished(&mut self, other: &mut Self) {
        self.finished.append(&mut other.finished);
    }

    /// From now on a flow finishes when its receiver has everything.
    pub(super) fn finish_on_arrival(&mut self) {
        self.finishes_on_arrival = true;
        self.finishes_on_acknowledgement = false;
    }

    /// From now on a flow finishes twice: when its receiver has everything, and when its sender
    /// knows that.
    pub(super) fn finish_twice(&mut self) {
        self.finishes_on_arrival = true;
        self.finishes_on_acknowledgement = true;
    }

    /// A flow that was added without a start starts at this time.
    pub(super) fn set_start(&mut self, flow: PacketFlowId, time: Time) {
        let start = &mut self.state[flow.index()].start;
        debug_assert_eq!(*start, FlowProgress::NEVER, "a flow starts once");
        *start = time;
    }

    /// The receiver has one more packet; returns whether that was the last.
    #[inline]
    pub(super) fn receive(&mut self, flow: PacketFlowId, now: Time) -> bool {
        let state = &mut self.state[flow.index()];
        state.received += 1;
        debug_assert!(state.received <= state.packets, "each packet is counted once");
        if state.received == state.packets {
            state.received_at = now;
            if self.finishes_on_arrival {
                self.finished.push((now, flow));
            }
            return true;
        }
        false
    }

    /// The sender knows that everything has arrived.
    pub(super) fn complete(&mut self, flow: PacketFlowId, now: Time) {
        let state = &mut self.state[flow.index()];
        if !state.is_done() {
            state.done_at = now;
            self.done += 1;
            self.open -= 1;
            if self.finishes_on_acknowledgement {
                self.finished.push((now, flow));
            }
        }
    }

    /// Whether flows have finished that were not collected yet.
    #[inline]
    pub(super) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Moves the flows that have finished to `finished`, by time and index.
    pub(super) fn collect_finished(&mut self, finished: &mut Vec<PacketFlowId>) {
        self.finished.sort_unstable();
        finished.extend(self.finished.drain(..).map(|(_, flow)| flow));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NicId;
    use lightloom_model::Bytes;

    fn spec(bytes: u64, route: Option<&[u32]>) -> FlowSpec {
        FlowSpec {
            source: NicId(4),
            destination: NicId(9),
            size: Bytes(bytes),
            start: Time(77),
            priority: 0,
            class: 0,
            route: route.map(|links| links.iter().copied().map(PacketLinkId).collect()),
        }
    }

    #[test]
    fn a_flow_has_as_many_packets_as_its_bytes_fill_and_at_least_one() {
        let mut flows = Flows::default();
        for (bytes, packets) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (10_000, 10)] {
            let flow = flows.add(&spec(bytes, None), 1_000, 0);
            assert_eq!(flows.get(flow).packets, packets, "{bytes} B");
        }
        assert_eq!((flows.len(), flows.ids().count(), flows.done_count()), (5, 5, 0));
    }

    #[test]
    fn a_route_is_followed_to_its_end_and_back_over_the_reverse_links() {
        let mut flows = Flows::default();
        flows.add(&spec(1, Some(&[7])), 1_000, 0);
        let flow = flows.add(&spec(1, Some(&[0, 4, 9])), 1_000, 0);
        let key = flows.key(flow);
        assert!(key.is_explicit());
        let follow = |is_forward| {
            let links = (0..).map_while(|crossed| flows.route_link(key, is_forward, crossed));
            links.map(|link| link.0).collect::<Vec<_>>()
        };
        assert_eq!(follow(true), [0, 4, 9]);
        assert_eq!(follow(false), [8, 5, 1]);
        let plain = flows.add(&spec(1, None), 1_000, 0);
        assert!(!flows.key(plain).is_explicit());
    }

    #[test]
    fn paths_directions_and_flows_have_entropy_of_their_own() {
        let mut flows = Flows::default();
        let mut key = |hash| {
            let flow = flows.add(&spec(1, None), 1_000, hash);
            flows.key(flow)
        };
        let keys: Vec<RouteKey> = (0..50).map(&mut key).collect();
        let mut seen = std::collections::BTreeSet::new();
        for key in &keys {
            for path in 0..20 {
                seen.extend([true, false].map(|is_forward| key.entropy(path, is_forward)));
            }
        }
        assert_eq!(seen.len(), 50 * 20 * 2);
        let [forward, back] = [true, false].map(|is_forward| keys[0].endpoints.target(is_forward));
        assert_eq!((forward, back), (NicId(9), NicId(4)));
    }

    #[test]
    fn a_flow_finishes_twice_where_both_ends_count() {
        let mut flows = Flows::default();
        flows.finish_twice();
        let flow = flows.add(&spec(1_000, None), 1_000, 0);
        let mut finished = Vec::new();
        assert!(flows.receive(flow, Time(200)));
        flows.collect_finished(&mut finished);
        assert_eq!((finished.as_slice(), flows.done_count()), ([flow].as_slice(), 0));
        flows.complete(flow, Time(300));
        flows.complete(flow, Time(400));
        flows.collect_finished(&mut finished);
        assert_eq!((finished.as_slice(), flows.done_count()), ([flow, flow].as_slice(), 1));
    }

    #[test]
    fn a_flow_finishes_once_on_arrival_or_when_the_sender_knows() {
        for on_arrival in [false, true] {
            let mut flows = Flows::default();
            if on_arrival {
                flows.finish_on_arrival();
            }
            let flow = flows.add(&spec(2_000, None), 1_000, 0);
            assert!(!flows.receive(flow, Time(100)));
            assert!(!flows.has_finished());
            assert!(flows.receive(flow, Time(200)), "the last packet");
            assert_eq!(flows.has_finished(), on_arrival);
            flows.complete(flow, Time(300));
            flows.complete(flow, Time(400));
            let mut finished = Vec::new();
            flows.collect_finished(&mut finished);
            assert_eq!((finished.as_slice(), flows.done_count()), ([flow].as_slice(), 1));
            assert!(!flows.has_finished());
            let state = flows.get(flow);
            assert_eq!((state.received_at, state.done_at), (Time(200), Time(300)));
            assert!(state.is_done());
        }
    }
}
