//! Decides which circuits a region has: one pure object for the simulator, the Python package and
//! the controller of a real switch.
//!
//! A [`Decider`] knows a [`Region`], a [`Policy`] and the
//! [`SwitchTiming`](lightloom_model::SwitchTiming). [`Decider::decide`] takes the circuits held and
//! the upcoming all-to-alls, and returns a [`Decision`]: the circuits, the NIC and plane of each,
//! what to change, after how long they are up, and why.
//!
//! It contains everything between the demand and the switch: which demand circuits are requested
//! for, whether any could pay, the allocator's calls and the cache of equal requests
//! (`cache`), break-even (`break_even`), relaying, the circuits at the start,
//! and the NICs (`layout`), where failed ones are avoided.
//!
//! [`EpochDecider`] decides for racks whose circuits follow measured traffic, epoch by epoch.
//!
//! [`When`] says when to decide over the [`Program`] of a step, and how far to look (`policy`).
//!
//! It assumes that its caller knows what is upcoming and how much time hides a switch. It has no
//! clock, does no input or output, and draws no random numbers: the same inputs lead to the same
//! decision.

#![warn(unreachable_pub)]

mod allocator;
mod break_even;
mod cache;
mod choice;
mod decide;
mod decider;
mod decision;
mod epochs;
mod layout;
mod policy;
mod predictor;
mod region;

pub use allocator::CircuitAllocator;
pub use break_even::{
    Verdict, break_even, cannot_pay, demands_to_request, plan_time, switch_time, switched_pairs,
};
pub use decide::{Case, decide_all};
pub use decider::Decider;
pub use decision::{Change, Compared, Decision, Held, Requested, Upcoming, Why};
pub use epochs::{CircuitPolicy, EpochDecider, EpochPolicy, EpochRules};
pub use policy::{Arrival, Policy, Program, Reconfigure, Turn, When};
pub use predictor::{DemandPredictor, Estimate, History, LastSeen, PredictedDemand};
pub use region::{NumaNodes, Region, SizedRegion};
