//! Failures of links during a run.

use crate::topology::PacketLinkId;
use lightloom_model::{Duration, Time};

/// Links that fail, one or those of a switch, both ways.
///
/// What is on a wire or waits in a switch for one is lost, and so is what comes for it, until all
/// switches know and take other paths. Once it is repaired, they use it again as late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// All links, in both directions.
    pub links: Vec<PacketLinkId>,
    /// When they fail.
    pub time: Time,
    /// When they are repaired, if ever.
    pub repaired: Option<Time>,
    /// How long it takes until all switches know of either.
    pub detection: Duration,
}
