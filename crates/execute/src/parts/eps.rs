//! The description of a packet fabric.

use lightloom_model::{Duration, Rate};
use serde::Deserialize;
use std::collections::BTreeSet;

/// A packet fabric.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Eps {
    /// NICs of each server on this fabric.
    pub nics: u32,
    /// Rate of each.
    #[serde(rename = "nic_rate_bps")]
    pub nic_rate: Rate,
    /// Propagation delay of one link.
    #[serde(rename = "link_delay_ps")]
    pub link_delay: Duration,
    /// Consecutive servers under one ToR (with several rails: under one set of ToRs).
    pub servers_per_tor: u32,
    /// Consecutive servers under one pod (aggregation block).
    pub servers_per_pod: u32,
    /// Rate from a ToR to the layer above, all its uplinks, per direction; `None` if it cannot be
    /// a bottleneck (1:1).
    #[serde(rename = "tor_uplink_bps")]
    pub tor_uplink: Option<Rate>,
    /// What fluid flows reach of all uplinks of a ToR, as some of them collide where others are
    /// idle; `None` for all of it. Packets are spread as their transport spreads them.
    #[serde(rename = "tor_uplink_reached_bps")]
    pub tor_uplink_reached: Option<Rate>,
    /// ToRs that share the NICs of a server, consecutive NICs under the same one: 1 where a ToR
    /// takes all of them, their number in a rail-optimized fabric. A NIC reaches those under
    /// another ToR only over the layer above.
    pub rails: u32,
    /// Separate networks that the NICs of a server are dealt out to, consecutive ones to the same,
    /// each with as many of the rails: 1 where all are joined. What arrives for a NIC of another
    /// plane arrives at the one in its place.
    pub planes: u32,
    /// Networks that every NIC is on, each with an equal part of its rate, and over which it sprays
    /// packets: copies of this one. Flows see one network; so do packets of transports that take
    /// overtaking for loss.
    pub sprayed_planes: u32,
    /// NICs that nothing joins, as (server, NIC): failed, or under a ToR that has. What would cross
    /// them is spread over the other NICs of both servers.
    pub failed: BTreeSet<(u32, u32)>,
    /// Servers that a spare one stands in for: these are under another set of ToRs, in another pod.
    pub replaced: BTreeSet<u32>,
}

impl Eps {
    /// The separate network that a NIC of a server is on.
    pub(super) fn plane_of(&self, nic: usize) -> u32 {
        nic as u32 / (self.nics / self.planes)
    }
}
