//! The links over which servers of regions pass on the bytes of others.

use super::region::{Region, policy_of};
use crate::links::{Link, Links};
use crate::network::Network;
use crate::ocs::Ocs;
use lightloom_flowsim::LinkId;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{Duration, ServerId};
use lightloom_packetsim::Cable;

/// The links over which relays pass bytes on.
#[derive(Debug)]
pub(super) struct RelayLinks {
    /// Link of each server's NVSwitch; none where it is in no region.
    pub(super) staging: Vec<Option<LinkId>>,
}

/// What a relay adds to a transfer: the time of a chunk; nothing if servers do not relay.
pub(crate) fn relay_delay(network: &Network, ocs: &Ocs) -> Duration {
    let Some(cost) = policy_of(network, ocs).relaying else { return Duration::ZERO };
    let seconds = cost.latency(ocs.nic_rate);
    Duration((seconds * PS_PER_S as f64).round() as u64)
}

impl RelayLinks {
    /// Adds a link per server of the regions.
    pub(super) fn new(network: &Network, ocs: &Ocs, regions: &[Region], links: &mut Links) -> Self {
        let inside = Cable { rate: network.nvswitch_rate(), delay: relay_delay(network, ocs) };
        let mut staging = vec![None; network.servers as usize];
        for &server in regions.iter().flat_map(|region| &region.servers) {
            let link = Link::relay(ServerId(server), inside);
            staging[server as usize] = Some(links.add(link));
        }
        Self { staging }
    }
}
