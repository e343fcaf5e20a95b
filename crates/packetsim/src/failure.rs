//! Failures of links during a run.

use crate::error::PacketError;
use crate::topology::PacketLinkId;
use lightloom_model::{Duration, Time};

/// Links that fail, one or those of a switch, both ways.
///
/// What is on a wire or waits in a switch for one is lost, and so is what comes for it, until all
/// switches know and take other paths. Once it is repaired, they use it again as late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(crate) links: Vec<PacketLinkId>,
    pub(crate) time: Time,
    pub(crate) repaired: Option<Time>,
    pub(crate) detection: Duration,
}

impl Failure {
    /// All links, in both directions; when they fail and are repaired, if ever; and how long it
    /// takes until all switches know of either.
    ///
    /// # Errors
    /// If they are repaired before they fail, or known of after the end of time.
    pub fn new(
        links: Vec<PacketLinkId>,
        time: Time,
        repaired: Option<Time>,
        detection: Duration,
    ) -> Result<Self, PacketError> {
        let latest = repaired.unwrap_or(time);
        let is_early = repaired.is_some_and(|end| end <= time);
        if is_early || latest.0.checked_add(detection.0).is_none() {
            let (begin, end) = (time.0, latest.0);
            let text = format!("a failure from {begin} to {end} ps: expected a later end");
            return Err(PacketError::Invalid(text));
        }
        Ok(Self { links, time, repaired, detection })
    }
}
