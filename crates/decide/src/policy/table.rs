//! The table of all policies, and how a user says which one.

use lightloom_model::{Allocator, RelayCost};
use serde::{Deserialize, Serialize};

/// Hands the table to a macro: type, name and description of each policy.
macro_rules! policies {
    ($of:ident) => {
        $of! {
        Never(never::Never) =
            "never": "The circuits of the start of the run stay",
        Always(always::Always) =
            "always": "Before every all-to-all whose demand is known, as in MixNet",
        PerLayer(per_layer::PerLayer) =
            "per-layer":
            "At most once per layer and pass, for all of its all-to-alls whose demand is known",
        BreakEven(break_even::BreakEven) =
            "break-even":
            "Where it saves more than it exposes, over upcoming all-to-alls of known demand",
        Oracle(oracle::Oracle) =
            "oracle":
            "As `break-even` with all upcoming demand known: what perfect prediction could gain",
        }
    };
}
pub(super) use policies;

/// Makes a choice of the names.
macro_rules! names {
    ($($choice:ident($policy:expr) = $name:literal: $description:literal,)+) => {
        lightloom_model::choices! {
            /// When circuits follow the demand.
            #[derive(Serialize, Deserialize)]
            #[serde(rename_all = "kebab-case")]
            pub enum Reconfigure: "when" {
                $($choice = $name: $description,)+
            }
        }
    };
}
policies!(names);

lightloom_model::records! {
    /// How circuits follow the demand.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Policy {
        allocator = allocator: Allocator = Allocator::Best,
            "What turns demand into circuits.";
        when = when: Reconfigure = Reconfigure::BreakEven,
            "When circuits change.";
        relaying = relaying: Option<RelayCost> = None,
            "What servers pay for passing bytes of others on; nothing if they do not.";
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self { allocator: Allocator::Best, when: Reconfigure::BreakEven, relaying: None }
    }
}
