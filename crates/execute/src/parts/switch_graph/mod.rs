//! Packet switches that are joined in any way: a topology that a user describes.
//!
//! A flow crosses the sender's links, links between switches along all shortest paths (see
//! `routes`), and the receiver's links. Link i of a group of NICs sends to link i of the other
//! group. Switches that no server can tell apart are one (see `classes`), so that a tree has the
//! flows and the bottlenecks of [`crate::parts::Eps`]. Parts of the graph that nothing joins are
//! planes: what is for a NIC of another plane arrives at one of the sender's.
//!
//! As packets each switch and each link is one, and switches choose among the shortest paths.

mod classes;
mod config;
mod routes;
#[cfg(test)]
mod tests;

pub use config::{Bundle, SwitchGraph};

use super::lost_nics::{LostNics, NicGroup};
use crate::error::{ExecuteError, network as unfit};
use crate::links::LinkUse;
use crate::network::{
    Below, Division, End, Link, Links, Network, NetworkPart, NicGroups, PacketFabric, Pair,
    PartConfig, PartId, Path, Setting, equal_shares, weighted_shares,
};
use crate::packets::Extent;
use classes::{classes, components};
use lightloom_flowsim::LinkId;
use lightloom_model::{Duration, Invalid, Rate, ServerId, Time};
use lightloom_packetsim::Cable;
use routes::{Hop, Router};
use rustc_hash::FxHashMap;
use std::sync::Arc;

impl PartConfig for SwitchGraph {
    fn name(&self) -> &'static str {
        "eps"
    }

    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        self.check(network.servers)?;
        if below.is_empty() {
            Ok(())
        } else {
            Err(Invalid::new("switches are the first part of a network"))
        }
    }

    fn extent(&self, _network: &Network, _below: Duration) -> Extent {
        self.reach()
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
        Ok(Some(Box::new(SwitchPart::new(self, setting)?)))
    }
}

/// The links of switches that are joined in any way.
#[derive(Debug)]
struct SwitchPart {
    id: PartId,
    nics: u32,
    port_delay: Duration,
    groups: u32,
    /// Links of a group of NICs.
    per_group: usize,
    /// Per server and NIC group.
    up: Vec<LinkId>,
    /// Per server and NIC group.
    down: Vec<LinkId>,
    /// Class of the switch of each link of each server.
    class_of_port: Vec<u32>,
    /// Groups of NICs on the same planes as each group, itself among them.
    same_planes: Vec<Vec<u16>>,
    router: Router,
    /// Names of layers, and the links between classes that are of each.
    layers: Vec<(String, Vec<LinkId>)>,
    lost: LostNics,
    is_fluid: bool,
}

impl SwitchPart {
    /// Adds the links of all servers, and those between classes of switches.
    ///
    /// # Errors
    /// If a server is on other planes than the first one.
    fn new(graph: &SwitchGraph, setting: &mut Setting<'_>) -> Result<Self, ExecuteError> {
        let (servers, groups) = (setting.network.servers, setting.placement.groups);
        let per_group = graph.server_ports() / groups as usize;
        let of_region = setting.network.failures().into_iter().flat_map(|lost| &lost.eps_nics);
        let failed = graph.failed.iter().chain(of_region);
        let parts = components(&graph.neighbors());
        let plane = |link: usize| parts[graph.switch_of_port[link] as usize];
        let lost = LostNics::new(graph.server_ports() as u32, groups, failed, plane)?;
        let class = classes(graph, per_group, &lost);
        let own = Cable { rate: graph.port_rate, delay: graph.port_delay };
        let links = &mut *setting.links;
        let ends = (0..servers * groups).map(|port| (port / groups, port % groups));
        let end = |(server, group)| End::Nics { server: ServerId(server), group: group as u16 };
        // a group without links that work has no bytes either
        let working = |(server, group)| lost.working(server, group).max(1);
        let up = ends.clone().map(|it| Link::new(end(it), End::Switches, working(it), own));
        let up = up.map(|link| links.add(link)).collect();
        let down = ends.map(|it| Link::new(End::Switches, end(it), working(it), own));
        let down = down.map(|link| links.add(link)).collect();
        let mut layers: Vec<(String, Vec<LinkId>)> = Vec::new();
        for (there, back) in &graph.layers {
            layers.extend([(there.clone(), Vec::new()), (back.clone(), Vec::new())]);
        }
        let out = between_classes(graph, &class, links, &mut layers);
        Ok(Self {
            id: setting.id,
            nics: graph.nics,
            port_delay: graph.port_delay,
            groups,
            per_group,
            up,
            down,
            same_planes: same_planes(graph, servers, per_group)?,
            class_of_port: graph.switch_of_port.iter().map(|&at| class[at as usize]).collect(),
            router: Router::new(out),
            layers,
            lost,
            is_fluid: links.are_fluid(),
        })
    }

    /// Adds the paths from one group of NICs to another, and those that replace them where links of
    /// servers are lost.
    fn push(&self, from: NicGroup, to: NicGroup, bytes: u64, out: &mut Division) {
        if !self.lost.concern([from, to]) {
            return self.push_group(from, to, bytes, out);
        }
        let weights = self.lost.weights(from, to);
        let others = (0..self.groups as u16)
            .map(|group| (NicGroup { group, ..from }, NicGroup { group, ..to }));
        let pairs = std::iter::once((from, to)).chain(others);
        for ((from, to), bytes) in pairs.zip(weighted_shares(bytes, weights.into_iter())) {
            if bytes > 0 {
                self.push_group(from, to, bytes, out);
            }
        }
    }

    /// Links of a group of NICs that work at both ends; where there are none, those of the sender
    /// with those of the receiver that they lead to, by the classes that links end at.
    fn working(&self, from: NicGroup, to: NicGroup, ends: Pair<&[u32]>) -> Vec<(usize, usize)> {
        let works = |end: NicGroup, link: usize| {
            let place = usize::from(end.group) * self.per_group + link;
            self.lost.is_working(end.server.0, place as u32)
        };
        let links = 0..self.per_group;
        let both = links.clone().filter(|&link| works(from, link) && works(to, link));
        let both: Vec<(usize, usize)> = both.map(|link| (link, link)).collect();
        if !both.is_empty() {
            return both;
        }
        let there: Vec<usize> = links.clone().filter(|&link| works(to, link)).collect();
        let lead = |a: u32, b: u32| a == b || !self.router.routes(a, b).is_empty();
        let here = links.filter(|&link| works(from, link)).enumerate();
        here.filter_map(|(place, link)| {
            let mut reached = there.clone();
            reached.retain(|&other| lead(ends.from[link], ends.to[other]));
            Some((link, *reached.get(place % reached.len().max(1))?))
        })
        .collect()
    }

    /// Adds the paths from one group of NICs to another, or to one on the sender's planes.
    fn push_group(&self, from: NicGroup, to: NicGroup, bytes: u64, out: &mut Division) {
        let alike = &self.same_planes[usize::from(from.group)];
        let is_reached = alike.contains(&to.group);
        let group = if is_reached { to.group } else { alike[usize::from(to.group) % alike.len()] };
        let to = NicGroup { group, ..to };
        let [sending, receiving] = [from, to]
            .map(|end| end.server.index() * self.groups as usize + usize::from(end.group));
        let ends = Pair::new(self.up[sending], self.down[receiving]);
        let classes = |end: usize| &self.class_of_port[end * self.per_group..][..self.per_group];
        let (here, there) = (classes(sending), classes(receiving));
        let mut pairs: Vec<(Pair<u32>, u64)> = Vec::new();
        let mut count = |a: u32, b: u32| {
            let pair = Pair::new(a, b);
            match pairs.iter_mut().find(|(other, _)| *other == pair) {
                Some((_, count)) => *count += 1,
                None => pairs.push((pair, 1)),
            }
        };
        if self.lost.are_of([from, to]) {
            let working = self.working(from, to, Pair::new(here, there));
            working.into_iter().for_each(|(a, b)| count(here[a], there[b]));
        } else {
            here.iter().zip(there).for_each(|(&a, &b)| count(a, b));
        }
        if !self.is_fluid && pairs.len() > 1 {
            return self.push_path(&[ends.from, ends.to], Duration::ZERO, bytes, out);
        }
        let counts = pairs.iter().map(|&(_, count)| count);
        for (&(classes, _), bytes) in pairs.iter().zip(weighted_shares(bytes, counts)) {
            self.push_routes(ends, classes, bytes, out);
        }
    }

    fn push_routes(&self, ends: Pair<LinkId>, classes: Pair<u32>, bytes: u64, out: &mut Division) {
        if classes.from == classes.to {
            return self.push_path(&[ends.from, ends.to], Duration::ZERO, bytes, out);
        }
        let routes = self.router.routes(classes.from, classes.to);
        if !self.is_fluid && routes.len() > 1 {
            // switches choose
            return self.push_path(&[ends.from, ends.to], routes[0].delay, bytes, out);
        }
        let weights = routes.iter().map(|route| route.weight);
        for (route, bytes) in routes.iter().zip(weighted_shares(bytes, weights)) {
            let mut path = Vec::with_capacity(route.links.len() + 2);
            path.push(ends.from);
            path.extend(&route.links);
            path.push(ends.to);
            self.push_path(&path, route.delay, bytes, out);
        }
    }

    fn push_path(&self, links: &[LinkId], between: Duration, bytes: u64, out: &mut Division) {
        let latency = Duration(self.port_delay.0.saturating_mul(2)) + between;
        let (part, nics) = (self.id, self.nics);
        let path = Path {
            part,
            latency,
            relays: 0,
            sending_nics: nics,
            receiving_nics: nics,
            forwarding_gpus: 0,
        };
        out.push(path, links, bytes);
    }
}

/// Adds a link for all links from one class to another, and says what leaves each class.
fn between_classes(
    graph: &SwitchGraph,
    class: &[u32],
    links: &mut Links,
    layers: &mut [(String, Vec<LinkId>)],
) -> Vec<Vec<Hop>> {
    let mut order = Vec::new();
    let mut sums: FxHashMap<(u32, u32), (u64, Duration, u32)> = FxHashMap::default();
    for bundle in &graph.bundles {
        let [a, b] = [bundle.a, bundle.b].map(|end| class[end as usize]);
        for (key, layer) in [((a, b), 2 * bundle.layer), ((b, a), 2 * bundle.layer + 1)] {
            let (rate, delay, _) = sums.entry(key).or_insert_with(|| {
                order.push(key);
                (0, Duration::ZERO, layer)
            });
            *rate = rate.saturating_add(bundle.rate.0.saturating_mul(u64::from(bundle.count)));
            *delay = (*delay).max(bundle.delay);
        }
    }
    let count = class.iter().max().map_or(0, |&last| last as usize + 1);
    let mut out = vec![Vec::new(); count];
    for (from, to) in order {
        let (rate, delay, layer) = sums[&(from, to)];
        let reached = Rate(((graph.reached * rate as f64).round() as u64).max(1));
        let each = Cable { rate: reached, delay };
        let link = links.add(Link::new(End::Switches, End::Switches, 1, each));
        layers[layer as usize].1.push(link);
        out[from as usize].push(Hop { to, link, rate, delay });
    }
    out
}

/// The groups of NICs on the same parts of the graph as each group, which are the same for all
/// servers.
fn same_planes(
    graph: &SwitchGraph,
    servers: u32,
    per_group: usize,
) -> Result<Vec<Vec<u16>>, ExecuteError> {
    let parts = components(&graph.neighbors());
    let planes =
        |server: u32| graph.switches_of(ServerId(server)).iter().map(|&at| parts[at as usize]);
    let first: Vec<u32> = planes(0).collect();
    if let Some(server) = (1..servers).find(|&server| planes(server).ne(first.iter().copied())) {
        return Err(unfit(format!("no links lead from server 0 to server {server}, NIC to NIC")));
    }
    let groups: Vec<&[u32]> = first.chunks(per_group).collect();
    let alike = |mine: &&[u32]| {
        let numbered = (0..).zip(&groups);
        numbered.filter(|(_, other)| *other == mine).map(|(group, _)| group).collect()
    };
    Ok(groups.iter().map(alike).collect())
}

impl NetworkPart for SwitchPart {
    /// All NIC groups of both ends evenly.
    fn divide(&self, pair: &Pair, bytes: u64, _below: Below<'_>, division: &mut Division) {
        let count = usize::from(pair.from.count.max(pair.to.count));
        let end = |nics: NicGroups, index: usize| NicGroup {
            server: nics.server,
            group: nics.first + (index % usize::from(nics.count)) as u16,
        };
        for (index, bytes) in equal_shares(bytes, count).enumerate() {
            self.push(end(pair.from, index), end(pair.to, index), bytes, division);
        }
    }

    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        let ends = [("server_up", &self.up), ("server_down", &self.down)];
        let between = self.layers.iter().map(|(name, class)| (name.as_str(), class));
        let used = ends.into_iter().chain(between).filter(|(_, class)| !class.is_empty());
        used.map(|(name, class)| LinkUse::of_links(name, class, links, end)).collect()
    }
}
