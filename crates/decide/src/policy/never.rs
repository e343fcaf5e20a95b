//! The circuits of the start stay. All-to-alls wait for that as for any other decision, so that
//! policies differ by what they switch and not by the order of all-to-alls.

use super::circuit_policy::{Ahead, CircuitPolicy, Foresight, Requests};
use crate::choice::Draft;
use crate::decider::Decider;
use crate::decision::Why;

pub(super) struct Never;

impl CircuitPolicy for Never {
    fn ahead(&self) -> Ahead {
        Ahead::Foreseen(1)
    }

    fn foresight(&self) -> Foresight {
        Foresight::Unused
    }

    fn request<'a>(&self, _: &Decider, _: &Draft<'a>) -> Requests<'a> {
        Err(Why::Never)
    }
}
