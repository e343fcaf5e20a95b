//! What a policy says.

use crate::choice::{Choice, Draft, sum_of};
use crate::decider::Decider;
use crate::decision::Why;
use lightloom_schedule::Allocation;
use std::borrow::Cow;
use std::sync::Arc;

/// How far a decision looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// At so many all-to-alls at most, none of which but the first may be unforeseen.
    Foreseen(u32),
    /// At so many at most, of whatever demand.
    All(u32),
    /// At those of the layer and pass of the next one, which are decided together.
    Layer,
}

/// What is known beforehand of the first all-to-all of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foresight {
    /// What a predictor says, if one is asked.
    Predicted,
    /// Nothing that a decision depends on; all-to-alls wait as if something was predicted.
    Unused,
    /// Its demand.
    Known,
}

/// Demands that circuits are requested for, or why for none.
pub(crate) type Requests<'a> = Result<Vec<Cow<'a, [u64]>>, Why>;

/// One way in which circuits follow the demand; unless it says otherwise, that of the allocator.
pub(crate) trait CircuitPolicy {
    /// How far a decision looks.
    fn ahead(&self) -> Ahead;

    /// What is known beforehand of a first all-to-all.
    fn foresight(&self) -> Foresight {
        Foresight::Predicted
    }

    /// What circuits are requested for; something is upcoming.
    fn request<'a>(&self, _: &Decider, draft: &Draft<'a>) -> Requests<'a> {
        Ok(vec![sum_of(draft.upcoming)])
    }

    /// What is taken of the proposals, one for each request.
    fn choose<'a>(
        &self,
        decider: &Decider,
        draft: &'a Draft,
        proposals: &'a [Arc<Allocation>],
    ) -> Choice<'a> {
        decider.follow(draft, &proposals[0])
    }
}
