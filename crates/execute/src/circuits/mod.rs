//! The circuits of the regions during a run (MixNet section 5.1, appendix B.2).
//!
//! What circuits a region has is decided by `lightloom-decide`. Here are their links, who uses
//! them, and the accounting ([`Circuits`]), the relays among their servers, what a user supplies
//! instead of the built-in allocators, and the record of what was decided.

mod custom;
mod record;
mod region;
mod relay_links;
mod relaying;
mod state;
mod statistics;

pub use custom::Plugins;
pub use record::{DecisionRecord, Decisions};
pub(crate) use relay_links::relay_delay;
pub(crate) use relaying::{RegionHop, RegionPath};
pub(crate) use state::Circuits;
pub use statistics::CircuitStatistics;
