//! Other circuits only where they pay over what is upcoming.

use super::circuit_policy::{Ahead, CircuitPolicy, Requests};
use crate::break_even::{demands_to_request, max_gain};
use crate::choice::{Choice, Draft};
use crate::decider::Decider;
use crate::decision::{Upcoming, Why};
use lightloom_schedule::Allocation;
use std::sync::Arc;

/// Maximum upcoming all-to-alls that are considered: a backward pass through four layers.
const MAX_UPCOMING: u32 = 8;

pub(super) struct BreakEven;

impl CircuitPolicy for BreakEven {
    fn ahead(&self) -> Ahead {
        Ahead::Foreseen(MAX_UPCOMING)
    }

    fn request<'a>(&self, decider: &Decider, draft: &Draft<'a>) -> Requests<'a> {
        let (held, upcoming) = (&draft.held.circuits, draft.upcoming);
        let request = decider.request(&upcoming[0].demand, None);
        if let Some((saved, exposed)) = max_gain(&request, held, upcoming, &decider.timing) {
            return Err(Why::CannotPay { saved, exposed });
        }
        let demands: Vec<&[u64]> = upcoming.iter().filter_map(Upcoming::request).collect();
        Ok(demands_to_request(&demands))
    }

    fn choose<'a>(
        &self,
        decider: &Decider,
        draft: &'a Draft,
        proposals: &'a [Arc<Allocation>],
    ) -> Choice<'a> {
        decider.compare(draft, proposals)
    }
}
