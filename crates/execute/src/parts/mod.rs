//! The kinds of parts that a network may have, each in a file of its own.
//!
//! - [`Eps`]: a packet fabric (fat-tree, oversubscribed, rail-optimized);
//! - [`SwitchGraph`]: packet switches that are joined in any way (a topology file);
//! - [`Ocs`]: circuits of regions whose changes are decided during the run (MixNet);
//! - [`Direct`]: fixed circuits between servers with relaying (TopoOpt);
//! - [`ScheduledCircuits`]: circuits that follow a periodic schedule (rotors);
//! - [`RackCircuits`]: racks whose circuits follow what was measured, epoch by epoch (X-NEST+,
//!   Helios, `RotorNet`);
//! - [`Crossbars`]: circuits whose ports take turns, and nothing else (Chronos).

mod crossbars;
mod cycles;
mod eps;
mod fixed_circuits;
mod lost_nics;
mod packet_fabric;
mod packet_tree;
mod rack_circuits;
mod regional_circuits;
mod scheduled_circuits;
mod switch_graph;

pub use crate::ocs::{Ocs, RelayChunk};
pub use crate::turns::{Keeping, Lateness, LowerTier, MatchingFinder, TurnRules, TurnTiming};
pub use crossbars::Crossbars;
pub use cycles::Cycle;
pub use eps::Eps;
pub use fixed_circuits::{Direct, Route};
pub use rack_circuits::{EpochTiming, RackCircuits, RackRouting, SwitchBank};
pub use scheduled_circuits::{ScheduledCircuits, Slot};
pub use switch_graph::{Bundle, SwitchGraph};
