//! Topologies by name.

use crate::error::PacketError;
use crate::topology::{Cable, Dragonfly, MAX_LINKS, NicId, NodeId, PacketLinkId, Topology};
use lightloom_model::{Duration, Rate};

const NIC: [&str; 2] = ["nic up", "nic down"];
const HOST: [&str; 2] = ["host up", "host down"];
const TOR: [&str; 2] = ["tor up", "tor down"];
const LOCAL: [&str; 2] = ["local", "local"];
const GLOBAL: [&str; 2] = ["global", "global"];
const AGGREGATION: [&str; 2] = ["agg up", "agg down"];
const NVLINK: [&str; 2] = ["nvlink up", "nvlink down"];

/// Maximum number of hosts.
const MAX_HOSTS: u32 = 1 << 20;

/// Refuses networks that would not fit memory, before anything is built.
fn check_size(hosts: u32, links: u64) -> Result<(), PacketError> {
    if hosts <= MAX_HOSTS && links <= MAX_LINKS {
        return Ok(());
    }
    Err(PacketError::invalid(format!(
        "{hosts} hosts and {links} links; expected at most {MAX_HOSTS} and {MAX_LINKS}"
    )))
}

/// What joins hosts: a network design with its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// A three-tier fat tree of `radix`-port switches, see [`fat_tree`].
    FatTree {
        /// Ports of a switch.
        radix: u32,
        /// All links.
        cable: Cable,
    },
    /// One switch.
    Star {
        /// All links.
        cable: Cable,
    },
    /// Leaves and spines, see [`leaf_spine`].
    LeafSpine {
        /// Hosts of a leaf.
        hosts_per_leaf: u32,
        /// Spines.
        spines: u32,
        /// Links of hosts.
        host: Cable,
        /// Links between leaves and spines.
        spine: Cable,
    },
    /// Groups of switches that are joined pairwise, as their switches are; host `h` is on switch
    /// `h / p`. Consecutive ports of a group lead to consecutive other groups; fewer groups than
    /// `a h + 1` are joined by as many links each as there are ports for.
    Dragonfly {
        /// Its sizes.
        shape: Dragonfly,
        /// All links.
        cable: Cable,
    },
}

/// Where a fabric is built: the ends of its links to hosts, and how names of its switches begin.
struct Site<'a> {
    topology: &'a mut Topology,
    ends: &'a [NodeId],
    prefix: &'a str,
}

impl Site<'_> {
    /// Switches `kind-0`, `kind-1` and so on.
    fn switches(&mut self, kind: &str, count: u32) -> Vec<NodeId> {
        let name = |index| format!("{}{kind}-{index}", self.prefix);
        (0..count).map(|index| self.topology.add_named_switch(name(index))).collect()
    }
}

impl Preset {
    /// Hosts with one NIC each: NIC `h` is that of host `h`.
    ///
    /// # Errors
    /// If a size is wrong, or a rate 0.
    pub fn build(self, hosts: u32) -> Result<Topology, PacketError> {
        self.check(hosts, 1)?;
        let mut topology = Topology::new();
        let ends: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
        self.add(Site { topology: &mut topology, ends: &ends, prefix: "" })?;
        Ok(topology)
    }

    /// Hosts with a NIC on each of several copies of the fabric, its planes: NIC `p * hosts + h` is
    /// that of host `h` on plane `p`. Names of switches begin with `plane-0/` and so on.
    ///
    /// # Errors
    /// As [`Self::build`]; if there is no plane.
    pub fn build_planes(self, hosts: u32, planes: u32) -> Result<Topology, PacketError> {
        self.check(hosts, planes)?;
        let mut topology = Topology::new();
        let ends: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
        self.add_planes(&mut topology, &ends, planes)?;
        Ok(topology)
    }

    /// As [`Self::build_planes`], where the ports on all planes are those of one NIC, that sends
    /// each packet by the port that is free first. The NIC `nic-h` is a node between host `h` and
    /// its ports, which takes packets as fast as all ports send them.
    ///
    /// # Errors
    /// As [`Self::build_planes`].
    pub fn build_sprayed_planes(self, hosts: u32, planes: u32) -> Result<Topology, PacketError> {
        self.check(hosts, planes)?;
        let port = self.host_cable();
        let rate = Rate(port.rate.0.saturating_mul(u64::from(planes)));
        let mut topology = Topology::new();
        let nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
        let nic = |index| topology.add_spraying_nic(format!("nic-{index}"), planes);
        let nics: Vec<NodeId> = (0..hosts).map(nic).collect();
        for (&host, &nic) in nodes.iter().zip(&nics) {
            topology.connect(host, nic, Cable { rate, delay: Duration::ZERO }, NIC)?;
        }
        self.add_planes(&mut topology, &nics, planes)?;
        Ok(topology)
    }

    fn add_planes(
        self,
        topology: &mut Topology,
        ends: &[NodeId],
        planes: u32,
    ) -> Result<(), PacketError> {
        for plane in 0..planes {
            let prefix = format!("plane-{plane}/");
            self.add(Site { topology, ends, prefix: &prefix })?;
        }
        Ok(())
    }

    /// The links that lead to hosts.
    fn host_cable(self) -> Cable {
        match self {
            Self::FatTree { cable, .. } | Self::Star { cable } | Self::Dragonfly { cable, .. } => {
                cable
            }
            Self::LeafSpine { host, .. } => host,
        }
    }

    fn check(self, hosts: u32, planes: u32) -> Result<(), PacketError> {
        if planes == 0 {
            return Err(PacketError::invalid("0 planes; expected at least one"));
        }
        match self {
            Self::FatTree { radix, .. } => check_fat_tree(hosts, radix)?,
            Self::Star { .. } if hosts == 0 => {
                return Err(PacketError::invalid("a topology needs at least one host"));
            }
            Self::LeafSpine { hosts_per_leaf, spines, .. }
                if hosts == 0 || hosts_per_leaf == 0 || spines == 0 =>
            {
                return Err(PacketError::invalid(format!(
                    "a leaf-spine network of {hosts} hosts, {hosts_per_leaf} per leaf, {spines} \
                     spines; expected at least one of each"
                )));
            }
            Self::Dragonfly { shape, .. } => check_dragonfly(hosts, shape)?,
            _ => {}
        }
        // Of sprayed planes also those between hosts and NICs.
        let inside = if planes == 1 { 0 } else { u64::from(hosts) };
        check_size(hosts, inside + u64::from(planes).saturating_mul(self.link_count(hosts)))
    }

    /// Duplex links of one plane.
    fn link_count(self, hosts: u32) -> u64 {
        u64::from(hosts)
            + match self {
                Self::FatTree { radix, .. } => {
                    let half = radix / 2;
                    let tors = hosts.div_ceil(half);
                    let above = u64::from(tors) + u64::from(tors.div_ceil(half)) * u64::from(half);
                    above * u64::from(half)
                }
                Self::Star { .. } => 0,
                Self::Dragonfly { shape, .. } => {
                    let (groups, links) =
                        (u64::from(shape.groups(hosts)), shape.switches_per_group);
                    groups * u64::from(links) * u64::from(links / 2 + shape.global_links)
                }
                Self::LeafSpine { hosts_per_leaf, spines, .. } => {
                    u64::from(hosts.div_ceil(hosts_per_leaf)) * u64::from(spines)
                }
            }
    }

    fn add(self, mut site: Site<'_>) -> Result<(), PacketError> {
        match self {
            Self::FatTree { radix, cable } => add_fat_tree(&mut site, radix, cable),
            Self::Star { cable } => add_star(&mut site, cable),
            Self::LeafSpine { hosts_per_leaf, spines, host, spine } => {
                add_leaf_spine(&mut site, hosts_per_leaf, spines, [host, spine])
            }
            Self::Dragonfly { shape, cable } => add_dragonfly(&mut site, shape, cable),
        }
    }
}

/// A three-tier fat tree of `radix`-port switches (Al-Fares et al., SIGCOMM 2008), all links alike.
///
/// Host `h` is under ToR `h / (radix / 2)` in pod `h / (radix^2 / 4)`; each ToR is joined to the
/// `radix / 2` aggregation switches of its pod, that at position `p` to cores
/// `p + (radix / 2) l`. NIC `h` is that of host `h`. Trees with fewer hosts lack the last
/// ToRs and pods, but no cores.
///
/// # Errors
/// If there are no hosts, the radix is odd or 0, or more than `radix^3 / 4` hosts are asked for.
pub fn fat_tree(
    hosts: u32,
    radix: u32,
    rate: Rate,
    delay: Duration,
) -> Result<Topology, PacketError> {
    Preset::FatTree { radix, cable: Cable { rate, delay } }.build(hosts)
}

fn check_fat_tree(hosts: u32, radix: u32) -> Result<(), PacketError> {
    if hosts == 0 || radix == 0 || radix % 2 == 1 || radix > 1 << 10 {
        return Err(PacketError::invalid(format!(
            "a fat tree of {hosts} hosts on {radix}-port switches; expected at least one host and \
             an even number of ports, at most 1,024"
        )));
    }
    let half = radix / 2;
    let capacity = u64::from(radix) * u64::from(half) * u64::from(half);
    if u64::from(hosts) > capacity {
        return Err(PacketError::invalid(format!(
            "{hosts} hosts do not fit a fat tree of {radix}-port switches, which has {capacity}; \
             use {} ports",
            smallest_radix(hosts)
        )));
    }
    Ok(())
}

fn add_fat_tree(site: &mut Site<'_>, radix: u32, cable: Cable) -> Result<(), PacketError> {
    let half = radix / 2;
    let tors = (site.ends.len() as u32).div_ceil(half);
    let pods = tors.div_ceil(half);
    let tor_nodes = site.switches("tor", tors);
    for (host, &node) in site.ends.iter().enumerate() {
        site.topology.connect(node, tor_nodes[host / half as usize], cable, HOST)?;
    }
    if tors == 1 {
        return Ok(());
    }
    let aggregation = site.switches("agg", pods * half);
    for (tor, &node) in tor_nodes.iter().enumerate() {
        let pod = tor / half as usize;
        for position in 0..half as usize {
            let above = aggregation[pod * half as usize + position];
            site.topology.connect(node, above, cable, TOR)?;
        }
    }
    if pods == 1 {
        return Ok(());
    }
    let cores = site.switches("core", half * half);
    for (index, &node) in aggregation.iter().enumerate() {
        let position = index % half as usize;
        for row in 0..half as usize {
            let core = cores[position + half as usize * row];
            site.topology.connect(node, core, cable, AGGREGATION)?;
        }
    }
    Ok(())
}

/// The minimum number of ports of the switches of a fat tree with this many hosts.
pub fn smallest_radix(hosts: u32) -> u32 {
    let fits = |radix: &u32| u64::from(*radix).pow(3) / 4 >= u64::from(hosts);
    (2..=1 << 12).step_by(2).find(fits).unwrap_or(1 << 12)
}

/// Hosts on one switch.
///
/// # Errors
/// If there is no host, or the rate is 0.
pub fn star(hosts: u32, rate: Rate, delay: Duration) -> Result<Topology, PacketError> {
    Preset::Star { cable: Cable { rate, delay } }.build(hosts)
}

fn add_star(site: &mut Site<'_>, cable: Cable) -> Result<(), PacketError> {
    let switch = site.topology.add_named_switch(format!("{}switch", site.prefix));
    for &node in site.ends {
        site.topology.connect(node, switch, cable, HOST)?;
    }
    Ok(())
}

/// Leaf switches with `hosts_per_leaf` hosts each and a duplex link to every one of `spines`
/// switches, these of `spine_rate`.
///
/// # Errors
/// If a count or rate is 0.
pub fn leaf_spine(
    hosts: u32,
    hosts_per_leaf: u32,
    spines: u32,
    host_rate: Rate,
    spine_rate: Rate,
    delay: Duration,
) -> Result<Topology, PacketError> {
    let [host, spine] = [host_rate, spine_rate].map(|rate| Cable { rate, delay });
    Preset::LeafSpine { hosts_per_leaf, spines, host, spine }.build(hosts)
}

fn add_leaf_spine(
    site: &mut Site<'_>,
    hosts_per_leaf: u32,
    spines: u32,
    [host_cable, spine_cable]: [Cable; 2],
) -> Result<(), PacketError> {
    let leaves = (site.ends.len() as u32).div_ceil(hosts_per_leaf);
    let leaf_nodes = site.switches("leaf", leaves);
    for (host, &node) in site.ends.iter().enumerate() {
        let leaf = leaf_nodes[host / hosts_per_leaf as usize];
        site.topology.connect(node, leaf, host_cable, HOST)?;
    }
    if leaves > 1 {
        let spine_nodes = site.switches("spine", spines);
        for &leaf in &leaf_nodes {
            for &spine in &spine_nodes {
                site.topology.connect(leaf, spine, spine_cable, TOR)?;
            }
        }
    }
    Ok(())
}

impl Dragonfly {
    /// Groups that so many hosts need.
    pub fn groups(self, hosts: u32) -> u32 {
        hosts.div_ceil((self.hosts_per_switch * self.switches_per_group).max(1))
    }
}

fn check_dragonfly(hosts: u32, shape: Dragonfly) -> Result<(), PacketError> {
    let Dragonfly { hosts_per_switch: p, switches_per_group: a, global_links: h } = shape;
    if hosts == 0 || [p, a, h].iter().any(|size| !(1..=1 << 10).contains(size)) {
        return Err(PacketError::invalid(format!(
            "a dragonfly of {hosts} hosts, {p} on a switch, {a} switches in a group and {h} global \
             links of each; expected at least one host, and 1 to 1,024 of each"
        )));
    }
    let capacity = u64::from(p) * u64::from(a) * (u64::from(a) * u64::from(h) + 1);
    if u64::from(hosts) > capacity {
        return Err(PacketError::invalid(format!(
            "{hosts} hosts do not fit a dragonfly with {p} on a switch, {a} switches in a group \
             and {h} global links of each, which has {capacity}; make one of them larger"
        )));
    }
    Ok(())
}

fn add_dragonfly(site: &mut Site<'_>, shape: Dragonfly, cable: Cable) -> Result<(), PacketError> {
    let (a, h) = (shape.switches_per_group as usize, shape.global_links as usize);
    let groups = shape.groups(site.ends.len() as u32) as usize;
    let name = |index| format!("{}group-{}/switch-{}", site.prefix, index / a, index % a);
    let switches: Vec<NodeId> =
        (0..groups * a).map(|index| site.topology.add_named_switch(name(index))).collect();
    for (host, &node) in site.ends.iter().enumerate() {
        let switch = switches[host / shape.hosts_per_switch as usize];
        site.topology.connect(node, switch, cable, HOST)?;
    }
    for group in switches.chunks(a) {
        for (index, &one) in group.iter().enumerate() {
            for &other in &group[index + 1..] {
                site.topology.connect(one, other, cable, LOCAL)?;
            }
        }
    }
    let others = groups - 1;
    let rounds = (a * h).checked_div(others).unwrap_or(0);
    for (first, second) in (0..groups).flat_map(|one| (one + 1..groups).map(move |it| (one, it))) {
        for round in 0..rounds {
            // The place of each among the others of the other.
            let ports = [second - 1, first].map(|place| place + round * others);
            let [one, other] = [(first, ports[0]), (second, ports[1])]
                .map(|(it, port)| switches[it * a + port / h]);
            let link = site.topology.connect(one, other, cable, GLOBAL)?;
            site.topology.set_global(link);
        }
    }
    site.topology.add_dragonfly(shape, &switches);
    Ok(())
}

/// Servers of `per_server` hosts (GPUs) on an NVSwitch each; host `i` of every server is on rail
/// switch `i` as well, and nothing joins the rails but the servers. `nic` are the links
/// of the NICs, `nvlink` those inside servers. See [`rail_route`].
///
/// # Errors
/// If there is no host, a server is not full, or a rate is 0.
pub fn rail(
    hosts: u32,
    per_server: u32,
    nic: Cable,
    nvlink: Cable,
) -> Result<Topology, PacketError> {
    if hosts == 0 || !hosts.is_multiple_of(per_server) {
        return Err(PacketError::invalid(format!(
            "{hosts} hosts in servers of {per_server}; expected full servers"
        )));
    }
    check_size(hosts, 2 * u64::from(hosts))?;
    let mut topology = Topology::new();
    let nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
    let mut site = Site { topology: &mut topology, ends: &nodes, prefix: "" };
    let rails = site.switches("rail", per_server);
    let servers = site.switches("nvswitch", hosts / per_server);
    for (host, &node) in nodes.iter().enumerate() {
        let (server, slot) = (host / per_server as usize, host % per_server as usize);
        topology.connect(node, rails[slot], nic, HOST)?;
        topology.connect(node, servers[server], nvlink, NVLINK)?;
    }
    Ok(topology)
}

/// The rail-aware route between two hosts of [`rail`]: over `NVSwitch` to the host of the same
/// server that is on the destination's rail, which relays to the rail switch; needless links are
/// left out.
pub fn rail_route(per_server: u32, from: u32, to: u32) -> Vec<PacketLinkId> {
    // Each host has four links: to its rail and back, to its NVSwitch and back.
    let [to_rail, from_rail, to_nvswitch, from_nvswitch] = [0, 1, 2, 3];
    let link = |host: u32, which: u32| PacketLinkId(4 * host + which);
    let server = from / per_server;
    if server == to / per_server {
        return vec![link(from, to_nvswitch), link(to, from_nvswitch)];
    }
    let relay = server * per_server + to % per_server;
    let mut route = vec![link(relay, to_rail), link(to, from_rail)];
    if relay != from {
        route.splice(0..0, [link(from, to_nvswitch), link(relay, from_nvswitch)]);
    }
    route
}

/// The links that a flow between two NICs of a [`fat_tree`] crosses on a shortest path.
pub fn fat_tree_links(radix: u32, a: NicId, b: NicId) -> u32 {
    let half = radix / 2;
    if a.0 / half == b.0 / half {
        2
    } else if a.0 / (half * half) == b.0 / (half * half) {
        4
    } else {
        6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Endpoints;
    use crate::hash::mix;
    use crate::network::routing::Routing;

    #[test]
    fn a_fat_tree_has_the_shortest_paths_of_its_formula() {
        let topology = fat_tree(128, 8, Rate(1), Duration(1)).unwrap();
        assert_eq!(topology.links().len(), 2 * 3 * 128);
        let routing = Routing::new(&topology, 1).unwrap();
        for (a, b) in [(0, 1), (0, 3), (0, 4), (5, 15), (0, 16), (3, 127), (127, 0)] {
            let (source, destination) = (NicId(a), NicId(b));
            let endpoints = Endpoints::new(source, destination);
            let mut middle = std::collections::BTreeSet::new();
            for entropy in 0..200 {
                let path = routing.path(&topology, endpoints, mix(entropy)).unwrap();
                assert_eq!(path.len() as u32, fat_tree_links(8, source, destination));
                middle.insert(path);
            }
            let paths = [1, 4, 16][fat_tree_links(8, source, destination) as usize / 2 - 1];
            assert_eq!(middle.len(), paths, "{a} to {b}");
        }
    }

    #[test]
    fn rail_routes_change_the_rail_inside_the_first_server() {
        let nic = Cable { rate: Rate(1), delay: Duration(1) };
        let nvlink = Cable { rate: Rate(9), delay: Duration(2) };
        let topology = rail(8, 4, nic, nvlink).unwrap();
        let nodes = |from, to| {
            let specs = rail_route(4, from, to).into_iter();
            let specs = specs.map(|link| topology.links()[link.index()]).collect::<Vec<_>>();
            assert_eq!(specs[0].from, NodeId(from));
            assert!(specs.windows(2).all(|pair| pair[0].to == pair[1].from));
            specs.iter().map(|spec| topology.title(spec.to)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(nodes(1, 3), "nvswitch-0 host 3");
        assert_eq!(nodes(1, 5), "rail-1 host 5");
        assert_eq!(nodes(1, 6), "nvswitch-0 host 2 rail-2 host 6");
        assert_eq!(nodes(7, 0), "nvswitch-1 host 4 rail-0 host 0");
        let text = rail(9, 4, nic, nvlink).map(|_| ()).unwrap_err().to_string();
        assert_eq!(text, "9 hosts in servers of 4; expected full servers");
    }

    #[test]
    fn wrong_sizes_are_refused() {
        let text = |hosts, radix| {
            fat_tree(hosts, radix, Rate(1), Duration(1)).map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(
            text(1025, 16),
            "1025 hosts do not fit a fat tree of 16-port switches, which has 1024; use 18 ports"
        );
        assert!(text(0, 16).starts_with("a fat tree of 0 hosts"));
        assert!(text(4, 7).contains("an even number of ports"));
        assert_eq!((smallest_radix(1024), smallest_radix(1025), smallest_radix(1)), (16, 18, 2));
    }

    #[test]
    fn networks_that_no_memory_holds_are_refused_at_once() {
        let cable = Cable { rate: Rate(1), delay: Duration(1) };
        let (many, limits) = (1 << 20, "expected at most 1048576 and 4194304");
        let of_spines = |spines| leaf_spine(4, 2, spines, cable.rate, cable.rate, cable.delay);
        for (refused, text) in [
            (star(many + 1, cable.rate, cable.delay), "1048577 hosts and 1048577 links"),
            (rail(2 * many, many, cable, cable), "2097152 hosts and 4194304 links"),
            (of_spines(u32::MAX), "4 hosts and 8589934594 links"),
            (
                fat_tree(many + 1, 1 << 10, cable.rate, cable.delay),
                "1048577 hosts and 3408385 links",
            ),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), format!("{text}; {limits}"));
        }
        assert_eq!(of_spines(100).unwrap().links().len(), 2 * (4 + 200));
    }

    /// Links of each layer, in the order of their names.
    fn layers(topology: &Topology) -> Vec<(String, usize)> {
        let count = |layer: usize| {
            topology.links().iter().filter(|link| usize::from(link.layer) == layer).count()
        };
        let names = topology.layers().iter().enumerate();
        let mut counted: Vec<_> = names.map(|(index, name)| (name.clone(), count(index))).collect();
        counted.sort();
        counted
    }

    #[test]
    fn a_star_has_a_link_each_way_for_every_host() {
        for hosts in [1, 2, 9] {
            let topology = star(hosts, Rate(3), Duration(4)).unwrap();
            let expected = ["host down", "host up"].map(|name| (name.to_owned(), hosts as usize));
            assert_eq!(layers(&topology), expected);
            assert_eq!(topology.node_count(), hosts as usize + 1);
        }
        assert!(star(0, Rate(1), Duration(1)).is_err() && star(2, Rate(0), Duration(1)).is_err());
    }

    #[test]
    fn a_full_fat_tree_has_as_many_links_in_every_layer() {
        for radix in [2, 4, 6] {
            let hosts = radix * radix * radix / 4;
            let topology = fat_tree(hosts, radix, Rate(1), Duration(1)).unwrap();
            let counts = layers(&topology);
            assert_eq!(counts.len(), 6);
            assert!(counts.iter().all(|(_, count)| *count == hosts as usize), "{counts:?}");
            let switches = topology.node_count() - hosts as usize;
            assert_eq!(switches, 5 * (radix * radix / 4) as usize, "5 k^2 / 4 switches");
        }
    }

    #[test]
    fn a_small_fat_tree_has_no_layers_that_it_does_not_need() {
        let names = |hosts| {
            let topology = fat_tree(hosts, 4, Rate(1), Duration(1)).unwrap();
            layers(&topology).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(2), ["host down", "host up"]);
        assert_eq!(names(4), ["host down", "host up", "tor down", "tor up"]);
        assert_eq!(names(5).len(), 6);
    }

    #[test]
    fn one_leaf_needs_no_spines() {
        let topology = leaf_spine(4, 4, 3, Rate(1), Rate(2), Duration(1)).unwrap();
        assert_eq!(layers(&topology).len(), 2);
        for (hosts, per_leaf, spines) in [(0, 4, 1), (4, 0, 1), (4, 4, 0)] {
            let result = leaf_spine(hosts, per_leaf, spines, Rate(1), Rate(1), Duration(1));
            assert!(result.unwrap_err().to_string().contains("expected at least one of each"));
        }
    }

    #[test]
    fn rails_join_hosts_of_one_index() {
        let [nic, nvlink] = [(1, 5), (9, 2)]
            .map(|(rate, delay)| Cable { rate: Rate(rate), delay: Duration(delay) });
        let topology = rail(12, 4, nic, nvlink).unwrap();
        let routing = Routing::new(&topology, 1).unwrap();
        // NICs 2 h and 2 h + 1 of host h lead to its rail and its NVSwitch.
        let path = |from: u32, to: u32| {
            let endpoints = Endpoints::new(NicId(from), NicId(to));
            routing.path(&topology, endpoints, 0).map(|path| path.len())
        };
        assert_eq!(path(2, 2 * 9), Some(2), "hosts 1 and 9 share rail 1");
        assert_eq!(path(2, 4), None, "hosts 1 and 2 share no rail");
        assert_eq!(path(2 + 1, 4 + 1), Some(2), "but an NVSwitch");
        let rates = topology.links().iter().map(|link| (link.rate, link.delay));
        let [slow, fast] = [nic, nvlink].map(|cable| (cable.rate, cable.delay));
        assert!(rates.clone().filter(|&link| link == slow).count() == 24);
        assert!(rates.filter(|&link| link == fast).count() == 24);
    }
}
