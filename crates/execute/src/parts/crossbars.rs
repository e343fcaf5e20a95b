//! Crossbars alone: every NIC has one circuit at a time, and there is no packet switch.
//!
//! NIC i of every server is on plane i, which joins any matching of servers: one crossbar, or tiers
//! of crossbars without oversubscription, through which any permutation can be routed (`lightloom
//! trace permutations` does so). All NICs of a worker do the same at the same time, each with its
//! share of the bytes, so that they are one port; a worker has NICs of its own.
//!
//! Who has which circuit when is in `turns`, with what that leaves out. Left out here: the copy to
//! NICs of another index, inside a server, where two workers do not have the same place on theirs.

use crate::error::{ExecuteError, network as unfit};
use crate::links::LinkUse;
use crate::network::{
    Below, Division, End, Link, Links, Network, NetworkPart, NicGroups, Pair, PartConfig, PartId,
    Path, Setting, positive,
};
use crate::packets::Extent;
use crate::turns::TurnRules;
use lightloom_flowsim::LinkId;
use lightloom_model::{Duration, Invalid, Rate, ServerId, Time};
use lightloom_packetsim::Cable;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Crossbars alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Crossbars {
    /// NICs of each server.
    pub nics: u32,
    /// Rate of each.
    #[serde(rename = "nic_rate_bps")]
    pub nic_rate: Rate,
    /// What decides how long turns are.
    #[serde(flatten)]
    pub rules: TurnRules,
    /// NICs that have no circuits, as (server, NIC): failed, or on crossbars that have.
    pub failed: BTreeSet<(u32, u32)>,
}

impl PartConfig for Crossbars {
    fn name(&self) -> &'static str {
        "crossbar"
    }

    fn validate(&self, network: &Network, _below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        positive("crossbar.nic_rate", self.nic_rate)?;
        if self.nics == 0 {
            return Err(Invalid::new("crossbar: nics must be above 0"));
        }
        if self.rules.finders.is_empty() {
            return Err(Invalid::new("crossbar: expected a method that finds matchings"));
        }
        if network.parts.len() > 1 {
            return Err(Invalid::new("crossbars carry everything: expected no other part"));
        }
        if let Some((server, nic)) =
            self.failed.iter().find(|&&(server, nic)| server >= network.servers || nic >= self.nics)
        {
            return Err(Invalid(format!(
                "crossbar: NIC {nic} of server {server} has failed, but there are {} servers of {} \
                 NICs",
                network.servers, self.nics
            )));
        }
        self.rules.validate()
    }

    fn extent(&self, _network: &Network, _below: Duration) -> Extent {
        Extent { rate: self.nic_rate, delay: self.rules.timing.latency }
    }

    fn turn_rules(&self) -> Option<&TurnRules> {
        Some(&self.rules)
    }

    fn nics_of_workers(&self) -> Option<u32> {
        Some(self.nics)
    }

    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        Ok(Some(Box::new(CrossbarLinks::new(self, setting)?)))
    }
}

/// The ports of crossbars: a link into them and one out of them for the NICs of each worker.
#[derive(Debug)]
struct CrossbarLinks {
    id: PartId,
    groups: u32,
    /// NICs of each group.
    nics: u32,
    up: Vec<LinkId>,
    down: Vec<LinkId>,
}

impl CrossbarLinks {
    fn new(config: &Crossbars, setting: &mut Setting<'_>) -> Result<Self, ExecuteError> {
        let (servers, groups) = (setting.network.servers, setting.placement.groups);
        let nics = config.nics / groups;
        let each = Cable { rate: config.nic_rate, delay: config.rules.timing.latency };
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for server in 0..servers {
            for group in 0..groups {
                let own = (server, group * nics)..(server, (group + 1) * nics);
                let working = nics - config.failed.range(own).count() as u32;
                if working == 0 {
                    return Err(unfit(format!(
                        "all {nics} NICs of a worker on server {server} have failed, and nothing \
                         else reaches it: leave one, or name server:{server}, which a spare one \
                         replaces"
                    )));
                }
                let port = End::Nics { server: ServerId(server), group: group as u16 };
                let (from, to) = (port, End::Switches);
                up.push(setting.links.add(Link::new(from, to, working, each)));
                down.push(setting.links.add(Link::new(to, from, working, each)));
            }
        }
        Ok(Self { id: setting.id, groups, nics, up, down })
    }

    fn port(&self, nics: NicGroups) -> usize {
        assert_eq!(nics.count, 1, "a worker has one group of NICs");
        (nics.server.0 * self.groups) as usize + usize::from(nics.first)
    }
}

impl NetworkPart for CrossbarLinks {
    fn divide(&self, pair: &Pair, bytes: u64, _below: Below<'_>, division: &mut Division) {
        let path = Path {
            part: self.id,
            // A turn ends when its bytes have arrived.
            latency: Duration::ZERO,
            relays: 0,
            sending_nics: self.nics,
            receiving_nics: self.nics,
            forwarding_gpus: 0,
        };
        let links = [self.up[self.port(pair.from)], self.down[self.port(pair.to)]];
        division.push(path, &links, bytes);
    }

    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        [("crossbar_up", &self.up), ("crossbar_down", &self.down)]
            .map(|(name, class)| LinkUse::of_links(name, class, links, end))
            .into()
    }
}
