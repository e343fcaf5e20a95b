//! What flows still have left, and their withdrawal before they have finished.
//!
//! A flow is asked for by its name and its token, as the slot of one that has finished is reused.

use crate::ids::{FlowId, NO_LINK};
use crate::network::FlowNetwork;
use crate::store::{Flow, IN_CELL};
use lightloom_model::{Bytes, Time};

impl FlowNetwork {
    /// Bytes that a flow still has left at `now`, a byte that has begun included; `None` if it has
    /// finished until then.
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn left(&mut self, now: Time, flow: FlowId, token: u64) -> Option<Bytes> {
        self.step_to(now);
        let Flow { size, .. } = self.find(flow, token)?;
        Some(Bytes(((self.bits_left(flow.0) / 8.0).ceil() as u64).min(size)))
    }

    /// Takes a flow off its links at `now` and returns what it had left; links have carried the
    /// rest. Its token does not come back. `None` if it has finished until then.
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn withdraw(&mut self, now: Time, flow: FlowId, token: u64) -> Option<Bytes> {
        self.step_to(now);
        if self.find(flow, token)?.bottleneck == NO_LINK {
            // It has no rate yet that it could give back.
            self.flush();
        }
        let left = self.left(now, flow, token)?;
        let Flow { size, bottleneck, .. } = self.store.flows[flow.0 as usize];
        self.note_path(flow.0);
        if bottleneck == IN_CELL {
            self.leave_cell(flow.0);
        } else {
            self.touch(bottleneck);
            self.leave_links(flow.0, self.levels[bottleneck as usize]);
        }
        self.count_carried(flow.0, size - left.0);
        self.store.free(flow.0);
        Some(left)
    }

    /// A flow that is on its way and has bytes.
    fn find(&self, flow: FlowId, token: u64) -> Option<Flow> {
        let found = *self.store.flows.get(flow.0 as usize)?;
        (found.token == token && found.size > 0 && self.store.holds(flow.0)).then_some(found)
    }

    fn bits_left(&self, flow: u32) -> f64 {
        let Flow { bottleneck, size, .. } = self.store.flows[flow as usize];
        match bottleneck {
            NO_LINK => size as f64 * 8.0,
            IN_CELL => self.bits_left_in_cell(flow),
            link => self.bits_left_on(flow, link),
        }
    }
}
