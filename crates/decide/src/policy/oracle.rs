//! As break-even over a longer horizon, had all demand in it been known.

use super::break_even::BreakEven;
use super::circuit_policy::{Ahead, CircuitPolicy, Foresight, Requests};
use crate::choice::{Choice, Draft};
use crate::decider::Decider;
use lightloom_schedule::Allocation;
use std::sync::Arc;

/// Maximum upcoming all-to-alls that are considered.
const MAX_UPCOMING: u32 = 16;

pub(super) struct Oracle;

impl CircuitPolicy for Oracle {
    fn ahead(&self) -> Ahead {
        Ahead::All(MAX_UPCOMING)
    }

    fn foresight(&self) -> Foresight {
        Foresight::Known
    }

    fn request<'a>(&self, decider: &Decider, draft: &Draft<'a>) -> Requests<'a> {
        BreakEven.request(decider, draft)
    }

    fn choose<'a>(
        &self,
        decider: &Decider,
        draft: &'a Draft,
        proposals: &'a [Arc<Allocation>],
    ) -> Choice<'a> {
        BreakEven.choose(decider, draft, proposals)
    }
}
