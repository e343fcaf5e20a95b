//! A permutation over a Clos fabric of circuit switches: which path each circuit takes.
//!
//! Hosts hang on *leaves* of `leaf` host ports. Every leaf has one up-link to each *spine*
//! (two tiers). With three tiers the spines of a number are a *plane*: leaves are gathered in pods,
//! every pod has one spine of each plane, and each plane has *cores* of its own that join its
//! spines. A permutation of hosts is a multigraph among leaves, whose colors are the spines
//! (Slepian, 1952; Duguid, 1959). Each plane then has a permutation of leaves to route in the
//! same way among its pods: three tiers are two tiers twice.
//!
//! Pairs inside a leaf, or inside a pod, stay there. All links are one circuit wide and one-way;
//! a host sends one circuit and receives one.

use super::color::color_edges;
use super::graph::Bipartite;
use lightloom_model::Invalid;

/// No host, no port, no switch.
pub const NONE: u32 = u32::MAX;

/// Third tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pods {
    /// Leaves of a pod.
    pub leaves: u32,
    /// Cores of each plane, and up-links of each of its spines.
    pub cores: u32,
}

/// Maximum number of up-links of a fabric, of any number of hosts and of so many.
const MAX_UP_LINKS: u64 = 1 << 28;
const UP_LINKS: [u64; 2] = [1 << 22, 1 << 10];

/// Sizes of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricShape {
    /// Hosts of a leaf.
    pub leaf: u32,
    /// Spines of the fabric, or of each pod (one per plane) if there are pods; up-links of a leaf.
    pub spines: u32,
    /// Three tiers if there are any.
    pub pods: Option<Pods>,
}

/// The path of every circuit, and the setting of every switch.
///
/// A switch's setting names the output of each input, [`NONE`] if dark. Inputs and outputs are
/// numbered alike: first those towards the hosts, then those towards the next tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricRoute {
    /// Spine (three tiers: plane) of each host's circuit; [`NONE`] inside a leaf, or if idle.
    pub spine: Vec<u32>,
    /// Core within the plane; [`NONE`] inside a pod, or with two tiers.
    pub core: Vec<u32>,
    /// Each leaf: hosts, then spines.
    pub leaf_switches: Vec<u32>,
    /// Each spine: leaves. With pods: each plane, pod: leaves of the pod, then cores.
    pub spine_switches: Vec<u32>,
    /// With pods, each plane, core: pods.
    pub core_switches: Vec<u32>,
}

/// Routes a permutation; `permutation` holds the destination of each host, [`NONE`] if idle.
///
/// # Errors
/// If sizes do not fit, two hosts have one destination, or a leaf or pod has more circuits to
/// others than up-links.
pub fn route_permutation(permutation: &[u32], shape: &FabricShape) -> Result<FabricRoute, Invalid> {
    shape.validate(permutation.len())?;
    check_partial(permutation)?;
    let hosts = one_tier(permutation, shape.leaf, shape.spines, "leaf")?;
    let leaves = hosts.groups as usize;
    let Some(pods) = shape.pods else {
        let core = vec![NONE; permutation.len()];
        return Ok(FabricRoute {
            spine: hosts.via,
            core,
            leaf_switches: hosts.switches,
            spine_switches: hosts.upper,
            core_switches: vec![],
        });
    };
    let mut route = FabricRoute {
        spine: hosts.via,
        core: vec![NONE; permutation.len()],
        leaf_switches: hosts.switches,
        spine_switches: vec![],
        core_switches: vec![],
    };
    let mut core_of = vec![NONE; leaves * shape.spines as usize];
    for (plane, among_leaves) in hosts.upper.chunks_exact(leaves.max(1)).enumerate() {
        let tier = one_tier(among_leaves, pods.leaves, pods.cores, "pod")?;
        core_of[plane * leaves..(plane + 1) * leaves].copy_from_slice(&tier.via);
        route.spine_switches.extend(tier.switches);
        route.core_switches.extend(tier.upper);
    }
    for (host, &plane) in route.spine.iter().enumerate() {
        if plane != NONE {
            route.core[host] = core_of[plane as usize * leaves + host / shape.leaf as usize];
        }
    }
    Ok(route)
}

impl FabricShape {
    /// Checks that the fabric has places for so many hosts and no others.
    ///
    /// # Errors
    /// If it has not.
    pub fn validate(&self, hosts: usize) -> Result<(), Invalid> {
        let mut size = self.leaf as usize;
        if size == 0 || self.pods.is_some_and(|pods| pods.leaves == 0) {
            return Err(Invalid::new("a leaf needs at least one host and a pod one leaf"));
        }
        if !hosts.is_multiple_of(size) {
            return Err(Invalid(format!("{hosts} hosts do not fill leaves of {size}")));
        }
        if let Some(pods) = self.pods {
            size *= pods.leaves as usize;
            if !hosts.is_multiple_of(size) {
                return Err(Invalid(format!("{hosts} hosts do not fill pods of {size}")));
            }
        }
        let wide = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let up = wide(hosts as u32 / self.leaf, self.spines);
        let cores = self.pods.map_or(0, |pods| pods.cores);
        let [always, per_host] = UP_LINKS;
        let limit = MAX_UP_LINKS.min(always + per_host * hosts as u64);
        let largest = u64::from(self.spines).max(u64::from(cores)).max(up);
        if u128::from(largest) * u128::from(cores.max(1)) > u128::from(limit) {
            return Err(Invalid(format!(
                "switches of such a fabric have over {limit} up-links, for {hosts} hosts"
            )));
        }
        Ok(())
    }
}

fn check_partial(permutation: &[u32]) -> Result<(), Invalid> {
    let hosts = permutation.len();
    let mut taken = vec![false; hosts];
    for (host, &to) in permutation.iter().enumerate().filter(|entry| *entry.1 != NONE) {
        let Some(seen) = taken.get_mut(to as usize) else {
            return Err(Invalid(format!("host {host} sends to {to}: only {hosts} hosts")));
        };
        if *seen {
            return Err(Invalid(format!("host {to} is the destination of two hosts")));
        }
        *seen = true;
    }
    Ok(())
}

/// What one tier of switches does.
struct Tier {
    groups: u32,
    /// Up-link of each circuit; NONE if it turns round here.
    via: Vec<u32>,
    /// Settings of the tier's switches.
    switches: Vec<u32>,
    /// For every up-link, the permutation of switches that is left to the tier above.
    upper: Vec<u32>,
}

/// Routes a partial permutation over switches of `size` ports with `links` up-links each.
fn one_tier(to: &[u32], size: u32, links: u32, name: &str) -> Result<Tier, Invalid> {
    let groups = to.len() as u32 / size;
    let mut edges = Vec::with_capacity(to.len());
    let mut senders = Vec::with_capacity(to.len());
    for (from, &peer) in (0..).zip(to) {
        if peer != NONE && from / size != peer / size {
            edges.push((from / size, peer / size));
            senders.push(from);
        }
    }
    let graph = Bipartite { left: groups, right: groups, edges: &edges };
    let degree = graph.max_degree();
    if degree > links {
        let text = format!("a {name} has {degree} circuits to others but {links} up-links");
        return Err(Invalid(text));
    }
    let colors = color_edges(&graph, links)?;
    let ports = (size + links) as usize;
    let mut tier = Tier {
        groups,
        via: vec![NONE; to.len()],
        switches: vec![NONE; groups as usize * ports],
        upper: vec![NONE; (links * groups) as usize],
    };
    for (from, &peer) in (0..).zip(to) {
        if peer != NONE && from / size == peer / size {
            let input = (from / size) as usize * ports + (from % size) as usize;
            tier.switches[input] = peer % size;
        }
    }
    for (&from, &link) in senders.iter().zip(&colors) {
        let peer = to[from as usize];
        let (here, there) = (from / size, peer / size);
        tier.via[from as usize] = link;
        tier.switches[here as usize * ports + (from % size) as usize] = size + link;
        tier.switches[there as usize * ports + (size + link) as usize] = peer % size;
        tier.upper[(link * groups + here) as usize] = there;
    }
    Ok(tier)
}
