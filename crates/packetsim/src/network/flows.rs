//! Flows as the network sees them; the state of a flow that only a transport understands is in the
//! transport.

use crate::flow::{Endpoints, Flow, FlowId, FlowSpec};
use crate::hash::mix;
use crate::memory::prefetch;
use crate::topology::LinkId;
use lightloom_model::Time;

/// Of every flow, what routing its packets takes.
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
#[derive(Debug, Clone, Default)]
pub(super) struct Flows {
    keys: Vec<RouteKey>,
    state: Vec<Flow>,
    routes: Vec<Span>,
    route_links: Vec<LinkId>,
    /// Number of flows that are done.
    done: usize,
    /// Flows that have finished and were not collected yet.
    finished: Vec<FlowId>,
    finish_on_arrival: bool,
}

impl Flows {
    pub(super) fn add(&mut self, spec: &FlowSpec, mtu: u32, hash: u32) -> FlowId {
        let route = spec.route.as_ref().map_or(NO_ROUTE, |links| {
            let start = self.route_links.len() as u32;
            self.routes.push(Span { start, length: links.len() as u32 });
            self.route_links.extend(links);
            self.routes.len() as u32 - 1
        });
        let endpoints = Endpoints::new(spec.source, spec.destination);
        self.keys.push(RouteKey { endpoints, hash, route });
        self.state.push(Flow {
            size: spec.size,
            packets: spec.size.0.div_ceil(u64::from(mtu)).max(1) as u32,
            received: 0,
            start: spec.start,
            received_at: Flow::NEVER,
            done_at: Flow::NEVER,
        });
        FlowId(self.keys.len() as u32 - 1)
    }

    pub(super) fn len(&self) -> usize {
        self.state.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = FlowId> + use<> {
        (0..self.state.len() as u32).map(FlowId)
    }

    /// Number of flows whose senders know that everything has arrived.
    pub(super) fn done_count(&self) -> usize {
        self.done
    }

    #[inline]
    pub(super) fn get(&self, flow: FlowId) -> &Flow {
        &self.state[flow.index()]
    }

    #[inline]
    pub(super) fn key(&self, flow: FlowId) -> RouteKey {
        self.keys[flow.index()]
    }

    /// Prefetches the progress of a flow.
    #[inline]
    pub(super) fn prefetch(&self, flow: FlowId) {
        prefetch(&self.state, flow.index());
    }

    /// The next link of an explicit route for a packet that has crossed some of them; `None` at its
    /// end.
    pub(super) fn route_link(
        &self,
        key: RouteKey,
        is_forward: bool,
        crossed: u16,
    ) -> Option<LinkId> {
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

    /// From now on a flow finishes when its receiver has everything.
    pub(super) fn finish_on_arrival(&mut self) {
        self.finish_on_arrival = true;
    }

    /// The receiver has one more packet; returns whether that was the last.
    #[inline]
    pub(super) fn receive(&mut self, flow: FlowId, now: Time) -> bool {
        let state = &mut self.state[flow.index()];
        state.received += 1;
        debug_assert!(state.received <= state.packets, "each packet is counted once");
        if state.received == state.packets {
            state.received_at = now;
            if self.finish_on_arrival {
                self.finished.push(flow);
            }
            return true;
        }
        false
    }

    /// The sender knows that everything has arrived.
    pub(super) fn complete(&mut self, flow: FlowId, now: Time) {
        let state = &mut self.state[flow.index()];
        debug_assert_eq!(state.received, state.packets, "nothing is acknowledged unseen");
        if !state.is_done() {
            state.done_at = now;
            self.done += 1;
            if !self.finish_on_arrival {
                self.finished.push(flow);
            }
        }
    }

    /// Whether flows have finished that were not collected yet.
    #[inline]
    pub(super) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Moves the flows that have finished to `finished`.
    pub(super) fn collect_finished(&mut self, finished: &mut Vec<FlowId>) {
        finished.append(&mut self.finished);
    }
}
