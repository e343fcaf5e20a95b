//! Topologies by name.

use crate::error::PacketError;
use crate::topology::{NicId, NodeId, Topology};
use lightloom_model::{Duration, Rate};

const HOST: (&str, &str) = ("host up", "host down");
const TOR: (&str, &str) = ("tor up", "tor down");
const AGGREGATION: (&str, &str) = ("agg up", "agg down");

/// A three-tier fat tree of `radix`-port switches (Al-Fares et al., SIGCOMM 2008), all links alike.
///
/// Host `h` is under ToR `h / (radix / 2)` in pod `h / (radix^2 / 4)`; each ToR is joined to the
/// `radix / 2` aggregation switches of its pod, that at position `p` to cores
/// `p + (radix / 2) l`. NIC `h` is that of host `h`. Trees whose last pods are empty are built as
/// far as hosts go, with all cores.
///
/// # Errors
/// If there are no hosts, the radix is odd or 0, or more than `radix^3 / 4` hosts are asked for.
pub fn fat_tree(
    hosts: u32,
    radix: u32,
    rate: Rate,
    delay: Duration,
) -> Result<Topology, PacketError> {
    if hosts == 0 || radix == 0 || radix % 2 == 1 || radix > 1 << 10 {
        return Err(PacketError::invalid(format!(
            "a fat tree of {hosts} hosts on {radix}-port switches; expected at least one host and \
             an even number of ports, at most 1,024"
        )));
    }
    let half = radix / 2;
    let most = u64::from(radix) * u64::from(half) * u64::from(half);
    if u64::from(hosts) > most {
        return Err(PacketError::invalid(format!(
            "{hosts} hosts do not fit a fat tree of {radix}-port switches, which has {most}; use \
             {} ports",
            smallest_radix(hosts)
        )));
    }
    let mut topology = Topology::new();
    let host_nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
    let tors = hosts.div_ceil(half);
    let pods = tors.div_ceil(half);
    let tor_nodes: Vec<NodeId> = (0..tors).map(|_| topology.add_switch()).collect();
    for (host, &node) in host_nodes.iter().enumerate() {
        topology.connect((node, tor_nodes[host / half as usize]), rate, delay, HOST)?;
    }
    if tors == 1 {
        return Ok(topology);
    }
    let aggregation: Vec<NodeId> = (0..pods * half).map(|_| topology.add_switch()).collect();
    for (tor, &node) in tor_nodes.iter().enumerate() {
        let pod = tor / half as usize;
        for position in 0..half as usize {
            let above = aggregation[pod * half as usize + position];
            topology.connect((node, above), rate, delay, TOR)?;
        }
    }
    if pods == 1 {
        return Ok(topology);
    }
    let cores: Vec<NodeId> = (0..half * half).map(|_| topology.add_switch()).collect();
    for (index, &node) in aggregation.iter().enumerate() {
        let position = index % half as usize;
        for row in 0..half as usize {
            let core = cores[position + half as usize * row];
            topology.connect((node, core), rate, delay, AGGREGATION)?;
        }
    }
    Ok(topology)
}

/// The fewest ports of the switches of a fat tree with so many hosts.
pub fn smallest_radix(hosts: u32) -> u32 {
    let fits = |radix: &u32| u64::from(*radix).pow(3) / 4 >= u64::from(hosts);
    (2..=1 << 12).step_by(2).find(fits).unwrap_or(1 << 12)
}

/// Hosts on one switch.
///
/// # Errors
/// If there is no host, or the rate is 0.
pub fn star(hosts: u32, rate: Rate, delay: Duration) -> Result<Topology, PacketError> {
    if hosts == 0 {
        return Err(PacketError::invalid("a topology needs at least one host"));
    }
    let mut topology = Topology::new();
    let nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
    let switch = topology.add_switch();
    for node in nodes {
        topology.connect((node, switch), rate, delay, HOST)?;
    }
    Ok(topology)
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
    rates: (Rate, Rate),
    delay: Duration,
) -> Result<Topology, PacketError> {
    if hosts == 0 || hosts_per_leaf == 0 || spines == 0 {
        return Err(PacketError::invalid(format!(
            "a leaf-spine network of {hosts} hosts, {hosts_per_leaf} per leaf, {spines} spines; \
             expected at least one of each"
        )));
    }
    let mut topology = Topology::new();
    let host_nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
    let leaves = hosts.div_ceil(hosts_per_leaf);
    let leaf_nodes: Vec<NodeId> = (0..leaves).map(|_| topology.add_switch()).collect();
    for (host, &node) in host_nodes.iter().enumerate() {
        let leaf = leaf_nodes[host / hosts_per_leaf as usize];
        topology.connect((node, leaf), rates.0, delay, HOST)?;
    }
    if leaves > 1 {
        let spine_nodes: Vec<NodeId> = (0..spines).map(|_| topology.add_switch()).collect();
        for &leaf in &leaf_nodes {
            for &spine in &spine_nodes {
                topology.connect((leaf, spine), rates.1, delay, TOR)?;
            }
        }
    }
    Ok(topology)
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
    use crate::routing::Routing;

    #[test]
    fn a_fat_tree_has_the_shortest_paths_of_its_formula() {
        let topology = fat_tree(128, 8, Rate(1), Duration(1)).unwrap();
        assert_eq!(topology.links().len(), 2 * 3 * 128);
        let routing = Routing::new(&topology, 1).unwrap();
        for (a, b) in [(0, 1), (0, 3), (0, 4), (5, 15), (0, 16), (3, 127), (127, 0)] {
            let ends = (NicId(a), NicId(b));
            let mut middle = std::collections::BTreeSet::new();
            for entropy in 0..200 {
                let path = routing.path(&topology, ends, crate::routing::mix(entropy)).unwrap();
                assert_eq!(path.len() as u32, fat_tree_links(8, ends.0, ends.1));
                middle.insert(path);
            }
            let ways = [1, 4, 16][fat_tree_links(8, ends.0, ends.1) as usize / 2 - 1];
            assert_eq!(middle.len(), ways, "{a} to {b}");
        }
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
}
