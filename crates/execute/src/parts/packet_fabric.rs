//! A packet fabric: a tree of packet switches that joins all servers.
//!
//! A flow crosses the sender's NICs, the uplink and downlink of the ToRs where these can be a
//! bottleneck, and the receiver's NICs. Above the ToRs the fabric is non-blocking, so pods only
//! lengthen the path: 2 links under one ToR, 4 within a pod, 6 beyond, each with the propagation
//! delay of one link. Where several ToRs share the NICs of a server (rails), a flow between NICs
//! of different ToRs climbs over the layer above even under one set of ToRs. ToRs that the groups
//! of NICs do not tell apart act as one.
//!
//! As packets it is a three-tier tree, see `packet_tree`.

use super::eps::Eps;
use super::lost_nics::{LostNics, NicGroup, check_parts};
use super::packet_tree::Tree;
use crate::error::ExecuteError;
use crate::links::LinkUse;
use crate::network::{
    Below, Division, End, Link, Links, Network, NetworkPart, NicGroups, PacketFabric, Pair,
    PartConfig, PartId, Path, Setting, common_divisor, equal_shares, positive, weighted_shares,
};
use crate::packets::{Extent, Graph, Place};
use lightloom_flowsim::LinkId;
use lightloom_model::{Duration, Invalid, Rate, ServerId, Time};
use lightloom_packetsim::{Cable, PacketError};
use std::sync::Arc;

impl PartConfig for Eps {
    fn name(&self) -> &'static str {
        "eps"
    }

    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        positive("eps.nic_rate", self.nic_rate)?;
        if self.nics == 0 || self.servers_per_tor == 0 || self.servers_per_pod == 0 {
            return Err(Invalid::new("eps: nics, servers per ToR and per pod must be above 0"));
        }
        if self.rails == 0 || !self.nics.is_multiple_of(self.rails) {
            return Err(Invalid::new(format!(
                "eps: rails = {} must divide the {} NICs of a server",
                self.rails, self.nics
            )));
        }
        if self.planes == 0 || !self.rails.is_multiple_of(self.planes) {
            return Err(Invalid::new(format!(
                "eps: planes = {} must divide the {} rails of a server",
                self.planes, self.rails
            )));
        }
        if self.sprayed_planes == 0 || self.sprayed_planes > 1 && self.planes > 1 {
            return Err(Invalid::new(format!(
                "eps: sprayed_planes = {}: expected at least 1, and no more where NICs are dealt \
                 out to planes",
                self.sprayed_planes
            )));
        }
        let uplinks = [
            ("eps.tor_uplink", self.tor_uplink),
            ("eps.tor_uplink_reached", self.tor_uplink_reached),
        ];
        for (name, rate) in uplinks {
            positive(name, rate.unwrap_or(Rate(u64::MAX)))?;
        }
        check_parts(self, network.servers)?;
        if below.is_empty() {
            Ok(())
        } else {
            Err(Invalid::new("eps is the first part of a network"))
        }
    }

    fn extent(&self, _network: &Network, _below: Duration) -> Extent {
        Extent { rate: self.nic_rate, delay: Duration(6 * self.link_delay.0) }
    }

    fn packet_fabric(&self) -> Option<&dyn PacketFabric> {
        Some(self)
    }

    fn tells_nics_apart(&self) -> bool {
        true
    }

    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        Ok(Some(Box::new(PacketLinks::new(self, setting)?)))
    }
}

impl PacketFabric for Eps {
    fn nics(&self) -> (u32, Rate) {
        (self.nics, self.nic_rate)
    }

    fn tors(&self) -> u32 {
        self.rails
    }

    fn lacks_nics(&self) -> bool {
        !self.failed.is_empty()
    }

    fn sprayed_planes(&self) -> u32 {
        self.sprayed_planes
    }

    fn place(&self, server: ServerId) -> Place {
        if self.replaced.contains(&server.0) {
            return Place { pod: u32::MAX, tor: u32::MAX };
        }
        Place { pod: server.0 / self.servers_per_pod, tor: server.0 / self.servers_per_tor }
    }

    fn hops(&self, from: Place, to: Place, same_group: bool) -> u64 {
        if from == to && (same_group || self.rails == self.planes) {
            2
        } else if from.pod == to.pod {
            4
        } else {
            6
        }
    }

    fn connect(
        &self,
        network: &Network,
        places: &[Place],
        graph: &mut Graph,
    ) -> Result<(), PacketError> {
        Tree::new(self, network.servers).connect(graph, places)
    }
}

/// The links of a packet fabric.
#[derive(Debug)]
struct PacketLinks {
    id: PartId,
    config: Eps,
    groups: u32,
    /// Rails that the groups of NICs tell apart.
    rails: u32,
    /// Groups of NICs of a server that are on one plane.
    groups_per_plane: u32,
    /// GPUs that share a group of NICs.
    gpus_per_group: u32,
    /// Per server and NIC group.
    up: Vec<LinkId>,
    /// Per server and NIC group.
    down: Vec<LinkId>,
    /// Per ToR that is told apart; empty where they cannot be a bottleneck.
    tor_up: Vec<LinkId>,
    /// As `tor_up`.
    tor_down: Vec<LinkId>,
    /// Sets of ToRs of the servers; that of spare servers follows.
    sets: u32,
    lost: LostNics,
}

impl PacketLinks {
    /// Adds the links of all servers and ToRs.
    fn new(config: &Eps, setting: &mut Setting<'_>) -> Result<Self, ExecuteError> {
        let (servers, groups) = (setting.network.servers, setting.placement.groups);
        let each = Cable { rate: config.nic_rate, delay: config.link_delay };
        let of_region = setting.network.failures().into_iter().flat_map(|lost| &lost.eps_nics);
        let failed = config.failed.iter().chain(of_region);
        let lost = LostNics::new(config.nics, groups, failed, |nic| config.plane_of(nic))?;
        let links = &mut *setting.links;
        let ports = (0..servers * groups).map(|port| (port / groups, port % groups));
        let end = |(server, group)| End::Nics { server: ServerId(server), group: group as u16 };
        // a group without NICs that work has no bytes either
        let working = |(server, group)| lost.working(server, group).max(1);
        let up = ports.clone().map(|it| Link::new(end(it), End::Switches, working(it), each));
        let up = up.map(|link| links.add(link)).collect();
        let down = ports.map(|it| Link::new(End::Switches, end(it), working(it), each));
        let down = down.map(|link| links.add(link)).collect();
        let sets = servers.div_ceil(config.servers_per_tor);
        let tors = sets + u32::from(!config.replaced.is_empty());
        let rails = common_divisor(config.rails, groups);
        let (tor_count, tor_rate, attached) = tor_links(config, rails, tors);
        let needed = tors > 1 && tor_rate.0 < attached;
        let planes = common_divisor(config.planes, groups);
        let groups_per_plane = groups / planes;
        let cross_rail = rails > planes && tor_rate.0 < attached;
        let count = if needed || cross_rail { tor_count } else { 0 };
        let each = Cable { rate: tor_rate, delay: config.link_delay };
        let link = Link::new(End::Switches, End::Switches, 1, each);
        let tor_up = (0..count).map(|_| links.add(link)).collect();
        let tor_down = (0..count).map(|_| links.add(link)).collect();
        Ok(Self {
            id: setting.id,
            config: config.clone(),
            groups,
            rails,
            groups_per_plane,
            gpus_per_group: setting.placement.gpus_per_group().max(1),
            up,
            down,
            tor_up,
            tor_down,
            sets,
            lost,
        })
    }

    fn tor(&self, NicGroup { server, group }: NicGroup) -> u32 {
        let is_spare = self.config.replaced.contains(&server.0);
        let set = if is_spare { self.sets } else { server.0 / self.config.servers_per_tor };
        set * self.rails + u32::from(group) * self.rails / self.groups
    }

    /// The group that bytes for another one leave by: the one in their place on the receiver's
    /// plane.
    fn left_by(&self, from: NicGroup, to: NicGroup) -> NicGroup {
        let size = self.groups_per_plane;
        let group = u32::from(to.group) / size * size + u32::from(from.group) % size;
        NicGroup { server: from.server, group: group as u16 }
    }

    /// Adds the path from one NIC group to another, or those that replace it where NICs are lost.
    fn push(&self, from: NicGroup, to: NicGroup, bytes: u64, division: &mut Division) {
        let place = from.group;
        let from = self.left_by(from, to);
        let forwarding = if from.group == place { 0 } else { self.gpus_per_group };
        if !self.lost.concern([from, to]) {
            return self.push_path([from, to], forwarding, bytes, division);
        }
        let weights = self.lost.weights(from, to);
        let groups = self.groups as u16;
        let others =
            (0..groups).map(|group| (NicGroup { group, ..from }, NicGroup { group, ..to }));
        let pairs = std::iter::once((from, to)).chain(others);
        for ((from, to), bytes) in pairs.zip(weighted_shares(bytes, weights.into_iter())) {
            if bytes > 0 {
                self.push_path([from, to], forwarding, bytes, division);
            }
        }
    }

    fn push_path(
        &self,
        [from, to]: [NicGroup; 2],
        forwarding_gpus: u32,
        bytes: u64,
        division: &mut Division,
    ) {
        let port = |NicGroup { server, group }: NicGroup| server.0 * self.groups + u32::from(group);
        let (up, down) = (self.up[port(from) as usize], self.down[port(to) as usize]);
        let (source, destination) = (self.tor(from), self.tor(to));
        let pod = |server: ServerId| self.config.place(server).pod;
        let hops = if source == destination {
            2
        } else if pod(from.server) == pod(to.server) {
            4
        } else {
            6
        };
        let path = Path {
            part: self.id,
            latency: Duration(self.config.link_delay.0.saturating_mul(hops)),
            relays: 0,
            sending_nics: self.config.nics,
            receiving_nics: self.config.nics,
            forwarding_gpus,
        };
        if source == destination || self.tor_up.is_empty() {
            division.push(path, &[up, down], bytes);
        } else {
            let tor_up = self.tor_up[source as usize];
            let tor_down = self.tor_down[destination as usize];
            division.push(path, &[up, tor_up, tor_down, down], bytes);
        }
    }
}

/// Number of ToR links, the rate of each, and the rate of the NICs below each.
fn tor_links(config: &Eps, rails: u32, tors: u32) -> (u32, Rate, u64) {
    let below = config.nic_rate.0.saturating_mul(u64::from(config.servers_per_tor));
    let uplink = config.tor_uplink_reached.or(config.tor_uplink).map_or(u64::MAX, |rate| rate.0);
    let [alike, nics] = [config.rails, config.nics].map(|count| u64::from(count / rails));
    (tors * rails, Rate(uplink.saturating_mul(alike)), below.saturating_mul(nics))
}

impl NetworkPart for PacketLinks {
    /// All NIC groups of both ends evenly.
    fn divide(&self, pair: &Pair, bytes: u64, _below: Below<'_>, division: &mut Division) {
        let count = usize::from(pair.from.count.max(pair.to.count));
        if count == 1 {
            let ends = [pair.from, pair.to]
                .map(|nics| NicGroup { server: nics.server, group: nics.first });
            return self.push(ends[0], ends[1], bytes, division);
        }
        let port = |nics: NicGroups, index: usize| NicGroup {
            server: nics.server,
            group: nics.first + (index % usize::from(nics.count)) as u16,
        };
        for (index, bytes) in equal_shares(bytes, count).enumerate() {
            self.push(port(pair.from, index), port(pair.to, index), bytes, division);
        }
    }

    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        let classes = [
            ("server_up", &self.up),
            ("server_down", &self.down),
            ("tor_up", &self.tor_up),
            ("tor_down", &self.tor_down),
        ];
        let used = classes.into_iter().filter(|(_, class)| !class.is_empty());
        used.map(|(name, class)| LinkUse::of_links(name, class, links, end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GBPS, empty_graph, eps, packet};

    /// Three ToRs of two servers, two ToRs to a pod, half of the NICs' rate upwards.
    fn narrow() -> Eps {
        Eps {
            servers_per_tor: 2,
            servers_per_pod: 4,
            tor_uplink: Some(Rate(8 * 400 * GBPS)),
            ..eps(6)
        }
    }

    fn part(config: &Eps) -> (PacketLinks, Links) {
        let network = packet(6).with(config.clone());
        let placement = network.place(&empty_graph(1, 6, 1)).unwrap();
        let mut links = Links::flows();
        let id = PartId::at(0);
        let part = PacketLinks::new(
            config,
            &mut Setting { id, network: &network, placement: &placement, links: &mut links },
        );
        (part.expect("servers are joined"), links)
    }

    /// The links and the latency from one server to another.
    fn path(part: &PacketLinks, from: u32, to: u32) -> (Vec<LinkId>, Duration) {
        let nics = |server| NicGroups { server: ServerId(server), first: 0, count: 1 };
        let mut division = Division::default();
        let pair = Pair { from: nics(from), to: nics(to) };
        part.divide(&pair, 1, Below::new(&[]), &mut division);
        let path = division.shares[0].path;
        (division.paths.links(path).to_vec(), division.paths.path(path).latency)
    }

    #[test]
    fn a_path_climbs_by_the_tor_of_its_source_and_descends_by_that_of_its_destination() {
        let (part, links) = part(&narrow());
        assert_eq!((part.tor_up.len(), links.count()), (3, 6 + 6 + 3 + 3));
        for (from, to) in (0..6).flat_map(|from| (0..6).map(move |to| (from, to))) {
            let (up, down) = (part.up[from as usize], part.down[to as usize]);
            let (tor, other) = (from / 2, to / 2);
            let expected = if tor == other {
                vec![up, down]
            } else {
                vec![up, part.tor_up[tor as usize], part.tor_down[other as usize], down]
            };
            let (found, latency) = path(&part, from, to);
            assert_eq!(found, expected, "{from} to {to}");
            let hops = [2, 4, 6][usize::from(tor != other) + usize::from(from / 4 != to / 4)];
            assert_eq!(latency.0, hops * 1_000_000, "{from} to {to}");
        }
    }

    #[test]
    fn tors_that_cannot_be_a_bottleneck_have_no_links() {
        let wide = Eps { tor_uplink: Some(Rate(16 * 400 * GBPS)), ..narrow() };
        let (part, links) = part(&wide);
        assert!(part.tor_up.is_empty());
        assert_eq!((links.count(), path(&part, 0, 5).0.len()), (12, 2));
    }

    #[test]
    fn flows_that_collide_make_a_bottleneck_of_full_uplinks() {
        let reached = Some(Rate(15 * 400 * GBPS));
        let full = Eps { tor_uplink: None, tor_uplink_reached: reached, ..narrow() };
        let (part, links) = part(&full);
        assert_eq!(links.full_rate(part.tor_up[0]), Rate(15 * 400 * GBPS));
        assert_eq!((path(&part, 0, 1).0.len(), path(&part, 0, 5).0.len()), (2, 4));
    }

    #[test]
    fn a_path_leaves_and_arrives_over_all_nics() {
        let (part, links) = part(&narrow());
        let groups = |server| NicGroups { server: ServerId(server), first: 0, count: 1 };
        let mut division = Division::default();
        let pair = Pair { from: groups(0), to: groups(5) };
        part.divide(&pair, 7, Below::new(&[]), &mut division);
        let path = division.paths.path(division.shares[0].path);
        assert_eq!((path.sending_nics, path.receiving_nics, path.relays), (8, 8, 0));
        assert_eq!(links.full_rate(part.up[0]), Rate(8 * 400 * GBPS));
        assert_eq!(links.full_rate(part.tor_up[0]), Rate(8 * 400 * GBPS));
    }

    #[test]
    fn places_and_hops_agree_with_latency() {
        let config = narrow();
        let (part, _) = part(&config);
        for (from, to) in [(0, 1), (0, 2), (0, 4), (5, 4), (3, 1)] {
            let [source, destination] = [from, to].map(|server| config.place(ServerId(server)));
            let hops = config.hops(source, destination, true);
            assert_eq!(path(&part, from, to).1.0, hops * config.link_delay.0);
        }
        let rails = Eps { rails: config.nics, ..config };
        let place = rails.place(ServerId(0));
        assert_eq!((rails.hops(place, place, true), rails.hops(place, place, false)), (2, 4));
    }

    #[test]
    fn nothing_leaves_its_plane() {
        let rails = Eps { rails: 8, servers_per_tor: 2, servers_per_pod: 2, ..eps(6) };
        for planes in [1, 2, 4, 8] {
            let config = Eps { planes, ..rails.clone() };
            let network = packet(6).with(config.clone());
            let mut placement = network.place(&empty_graph(1, 6, 1)).unwrap();
            placement.groups = 8;
            let mut links = Links::flows();
            let id = PartId::at(0);
            let part = PacketLinks::new(
                &config,
                &mut Setting { id, network: &network, placement: &placement, links: &mut links },
            )
            .expect("servers are joined");
            let size = 8 / planes;
            for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
                let [a, b] = [(0, from), (5, to)].map(|(server, group)| NicGroup {
                    server: ServerId(server),
                    group: group as u16,
                });
                let left_by = u32::from(part.left_by(a, b).group);
                assert_eq!(left_by / size, to / size, "of {planes} planes");
                assert_eq!(left_by % size, from % size);
                let same = left_by == from;
                assert_eq!(same, from / size == to / size);
            }
        }
    }

    #[test]
    fn wrong_descriptions_are_refused() {
        let refusal = |config: Eps| packet(6).with(config).validate().unwrap_err().to_string();
        let text = "eps: nics, servers per ToR and per pod must be above 0";
        assert_eq!(refusal(Eps { nics: 0, ..narrow() }), text);
        assert_eq!(refusal(Eps { servers_per_pod: 0, ..narrow() }), text);
        let text = "eps.tor_uplink must be above 0 b/s";
        assert_eq!(refusal(Eps { tor_uplink: Some(Rate(0)), ..narrow() }), text);
        let text = "eps.tor_uplink_reached must be above 0 b/s";
        assert_eq!(refusal(Eps { tor_uplink_reached: Some(Rate(0)), ..narrow() }), text);
        assert_eq!(
            refusal(Eps { nic_rate: Rate(0), ..eps(6) }),
            "eps.nic_rate must be above 0 b/s"
        );
    }
}
