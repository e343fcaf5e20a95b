//! When circuits follow the demand: one file for each policy.
//!
//! A policy says when to decide and how far to look ahead, for which demand circuits are requested,
//! and which of those proposed are taken. A simulated run and a controller ask the same questions:
//! the first two of [`When`], the others in [`Decider::decide`](crate::Decider::decide).
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

use circuit_policy::CircuitPolicy;

/// Finds each policy of the table by its name.
macro_rules! find {
    ($($choice:ident($policy:expr) = $name:literal: $description:literal,)+) => {
        impl Reconfigure {
            /// What it does.
            pub(crate) fn policy(self) -> &'static dyn CircuitPolicy {
                match self {
                    $(Self::$choice => &$policy,)+
                }
            }
        }
    };
}
table::policies!(find);
