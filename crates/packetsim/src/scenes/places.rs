//! Where scenes are simulated: NICs of one switch that are alike take each other's places.
//!
//! A scene whose flows all cross one switch has the same contention at any switch of its kind and
//! at any of its NICs. It is simulated at the first NICs of the first such switch, in the order in
//! which its NICs come up, so that rails, and groups of servers under switches of their own, are
//! one. Scenes in which a switch has a choice stay where they are, as hashes draw other paths
//! elsewhere.

use crate::flow::FlowSpec;
use crate::network::core::Core;
use crate::topology::{LinkSpec, NicId, NodeId, Topology};
use rustc_hash::{FxHashMap, FxHashSet};

/// The NICs of switches, and which switches are alike.
#[derive(Debug)]
pub(super) struct Places {
    /// The switch of each NIC.
    switches: Vec<NodeId>,
    /// By switch, a NIC of each host at the first one that is alike.
    alike: FxHashMap<NodeId, Vec<NicId>>,
}

impl Places {
    pub(super) fn new(core: &Core) -> Self {
        let topology = core.topology();
        let nics = (0..topology.nic_count() as u32).map(NicId);
        let switches: Vec<NodeId> =
            nics.clone().map(|nic| topology.links()[topology.uplink(nic).index()].to).collect();
        let mut of_switch: FxHashMap<NodeId, Vec<NicId>> = FxHashMap::default();
        // A NIC with several ports sprays over them, whatever its switch is.
        for nic in nics.filter(|_| topology.spraying_nics().is_empty()) {
            of_switch.entry(switches[nic.index()]).or_default().push(nic);
        }
        let mut first: FxHashMap<Kind, Vec<NicId>> = FxHashMap::default();
        let mut nodes: Vec<NodeId> = of_switch.keys().copied().collect();
        nodes.sort_unstable();
        let links_out = topology.links_out();
        let mut alike = FxHashMap::default();
        for node in nodes.into_iter().filter(|&node| !topology.is_host(node)) {
            let nics = &of_switch[&node];
            if let Some(kind) = Kind::of(topology, nics, links_out[node.index()].len()) {
                let mut hosts = FxHashSet::default();
                let is_first = |nic: &NicId| hosts.insert(topology.host_of(*nic));
                let firsts = || nics.iter().copied().filter(is_first).collect();
                alike.insert(node, first.entry(kind).or_insert_with(firsts).clone());
            }
        }
        Self { switches, alike }
    }

    /// The switch that a flow crosses and no other link than those of its NICs, if that is so and
    /// its NICs are alike.
    fn home(&self, flow: &FlowSpec) -> Option<NodeId> {
        let [from, to] = [flow.source, flow.destination].map(|nic| self.switches[nic.index()]);
        (from == to && flow.route.is_none() && self.alike.contains_key(&from)).then_some(from)
    }
}

/// What switches that are alike have in common.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    nics: usize,
    links: usize,
    rate: u64,
    delay: u64,
}

impl Kind {
    /// That of a switch with these NICs; `None` if they differ.
    fn of(topology: &Topology, nics: &[NicId], links: usize) -> Option<Self> {
        let cable = |spec: &LinkSpec| (spec.rate, spec.delay);
        let ends = nics.iter().flat_map(|&nic| {
            let uplink = topology.uplink(nic);
            [uplink, uplink.reverse()].map(|link| cable(&topology.links()[link.index()]))
        });
        let mut ends = ends;
        let (rate, delay) = ends.next()?;
        let (rate_bps, delay_ps) = (rate.0, delay.0);
        ends.all(|other| other == (rate, delay)).then_some(Self {
            nics: nics.len(),
            links,
            rate: rate_bps,
            delay: delay_ps,
        })
    }
}

/// The places of the NICs of a scene.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The switch that all of its flows cross; none before there is a flow, or where some do not.
    home: Option<NodeId>,
    is_fixed: bool,
    of: FxHashMap<NicId, NicId>,
}

impl Labels {
    /// Takes a flow that begins; returns whether its scene, so far at another place, is to stay
    /// where it is.
    pub(super) fn take(&mut self, places: &Places, flow: &FlowSpec) -> bool {
        if self.is_fixed {
            return false;
        }
        let Some(home) = places.home(flow).filter(|&home| self.home.is_none_or(|it| it == home))
        else {
            return self.fix();
        };
        self.home = Some(home);
        let nics = &places.alike[&home];
        for nic in [flow.source, flow.destination] {
            let next = self.of.len();
            if !self.of.contains_key(&nic) {
                let Some(&place) = nics.get(next) else { return self.fix() };
                self.of.insert(nic, place);
            }
        }
        false
    }

    /// The scene stays where it is; returns whether it was elsewhere.
    pub(super) fn fix(&mut self) -> bool {
        self.is_fixed = true;
        let moved = self.of.drain().any(|(nic, place)| nic != place);
        self.home = None;
        moved
    }

    /// The flow at its place.
    pub(super) fn place(&self, flow: &FlowSpec) -> FlowSpec {
        let at = |nic: NicId| self.of.get(&nic).copied().unwrap_or(nic);
        let (source, destination) = (at(flow.source), at(flow.destination));
        FlowSpec { source, destination, ..flow.clone() }
    }
}
