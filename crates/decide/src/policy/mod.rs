//! When circuits follow the demand: one file for each policy.
//!
//! A policy says when to decide and how far to look ahead, for which demand circuits are requested,
//! and which of those proposed are taken. A simulated run and a controller ask the same questions:
//! the first two of [`When`], the others in [`Decider::decide`].
//!
//! Decisions are taken as soon as the all-to-all before is over, so that switching hides behind the
//! compute in between (MixNet section 5.1 and appendix B.2). The demand of the first all-to-all of
//! a forward pass is not known (but to the oracle): it keeps what is held (`reuse`), or is decided
//! when its last member arrives and waits for the switch (`block`), or it is decided beforehand on
//! predicted demand (`predict`).
//!
//! A policy is a file here that implements [`CircuitPolicy`], its module and a line of `table`.

mod always;
mod break_even;
mod circuit_policy;
mod never;
mod oracle;
mod per_layer;
pub(crate) mod table;
mod when;

pub use table::{Policy, Reconfigure};
pub use when::{Arrival, Program, Turn, When};

use crate::choice::{Choice, Draft};
use crate::decider::Decider;
use crate::decision::Why;
use circuit_policy::CircuitPolicy;
use lightloom_schedule::Allocation;
use std::borrow::Cow;
use std::sync::Arc;

/// Finds each policy of the table by its name.
macro_rules! find {
    ($($choice:ident($policy:expr) = $name:literal: $description:literal,)+) => {
        impl Reconfigure {
            fn policy(self) -> &'static dyn CircuitPolicy {
                match self {
                    $(Self::$choice => &$policy,)+
                }
            }
        }
    };
}
table::policies!(find);

impl Reconfigure {
    /// What circuits are requested for, or why for nothing.
    pub(crate) fn request<'a>(
        self,
        decider: &Decider,
        draft: &Draft<'a>,
    ) -> Result<Vec<Cow<'a, [u64]>>, Why> {
        if draft.upcoming.is_empty() {
            return Err(Why::NothingUpcoming);
        }
        self.policy().request(decider, draft)
    }

    /// What is taken of the proposals, one for each request.
    pub(crate) fn choose<'a>(
        self,
        decider: &Decider,
        draft: &'a Draft,
        proposals: &'a [Arc<Allocation>],
    ) -> Choice<'a> {
        self.policy().choose(decider, draft, proposals)
    }
}
