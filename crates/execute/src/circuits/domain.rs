//! Circuit domains: servers whose circuits are decided together.
//!
//! EP groups that share servers share the optical ports of these, hence their circuits; all other
//! groups are on their own, even within one region, because a switch joins any of its ports. So a
//! domain is a connected set of groups, usually one; within it, only pairs of servers of one region
//! may have circuits.

use crate::medium::{Medium, Wire};
use lightloom_flowsim::LinkId;
use lightloom_model::{Allocator, Ocs, Rate, TaskGraph, Time};
use rustc_hash::FxHashMap;

/// Server without a region.
const NO_REGION: u32 = u32::MAX;

/// A set of servers and the circuits between them.
#[derive(Debug)]
pub struct Domain {
    /// Servers, ascending.
    pub servers: Vec<u32>,
    /// Optical ports of each server.
    pub ports: Vec<u32>,
    /// Pairs in one region, n x n; `None` if all are.
    pub allowed: Option<Vec<bool>>,
    /// Number of its kind: domains with equal ports and pairs have the same.
    pub shape: u32,
    /// Circuits, n x n.
    pub circuits: Vec<u16>,
    /// The allocator whose circuits these are.
    pub chosen: Allocator,
    /// All-to-alls that use the circuits now.
    pub active: u32,
    /// When the last reconfiguration is done.
    pub ready: Time,
    /// Groups that want new circuits when nobody uses these.
    pub pending: Vec<u32>,
    /// Whether its circuits and decisions are recorded.
    pub recorded: bool,
    /// Link of each ordered pair, n x n; `None` where no circuit is allowed.
    pub links: Vec<Option<LinkId>>,
    /// Since when each pair has its present circuits, n x n, upper half.
    pub up_since: Vec<Time>,
    /// Bits that each pair's circuits could have carried per direction while up, times 1e12, n x n,
    /// upper half.
    pub capacity: Vec<u128>,
    /// Pairs that are being switched.
    pub switching: Vec<(u32, u32)>,
}

impl Domain {
    fn new(servers: Vec<u32>, ocs: &Ocs) -> Self {
        let size = servers.len();
        let region = |place: usize| ocs.region_of_server[servers[place] as usize];
        let allowed: Vec<bool> = (0..size * size)
            .map(|cell| {
                let (a, b) = (region(cell / size), region(cell % size));
                a == b && a != NO_REGION
            })
            .collect();
        let ports = (0..size)
            .map(|place| if region(place) == NO_REGION { 0 } else { ocs.degree })
            .collect();
        let all = allowed.iter().all(|&pair| pair);
        Self {
            servers,
            ports,
            allowed: (!all).then_some(allowed),
            shape: 0,
            circuits: vec![0; size * size],
            chosen: Allocator::Static,
            active: 0,
            ready: Time::ZERO,
            pending: Vec::new(),
            recorded: false,
            links: Vec::new(),
            up_since: vec![Time::ZERO; size * size],
            capacity: vec![0; size * size],
            switching: Vec::new(),
        }
    }

    /// Number of servers.
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// Adds a link per ordered pair that may have circuits, at the rate of its present ones.
    pub fn add_links(&mut self, ocs: &Ocs, medium: &mut Medium) {
        let (size, rate) = (self.size(), ocs.nic_rate);
        self.links = (0..size * size)
            .map(|cell| {
                let may = self.allowed.as_ref().is_none_or(|allowed| allowed[cell]);
                let (a, b) = (cell / size, cell % size);
                let count = u64::from(self.circuits[cell]);
                let wire = Wire::Circuits {
                    from: self.servers[a],
                    to: self.servers[b],
                    most: self.ports[a].min(self.ports[b]),
                    rate,
                    delay: ocs.circuit_delay,
                };
                let total = Rate(rate.0.saturating_mul(count));
                (may && a != b).then(|| medium.add_link(total, wire))
            })
            .collect();
    }
}

/// The domains of a job, and where each group finds its own.
#[derive(Debug)]
pub struct Domains {
    /// All domains.
    pub domains: Vec<Domain>,
    /// Domain of each group, `None` where its all-to-alls stay in one server.
    pub of_group: Vec<Option<u32>>,
    /// Place of each worker's server in its group's domain.
    pub place: Vec<u32>,
    /// Number of different shapes.
    pub shapes: usize,
}

impl Domains {
    /// Finds connected sets of groups.
    pub fn new(graph: &TaskGraph, ocs: &Ocs) -> Self {
        let layout = &graph.layout;
        let members = layout.members as usize;
        let groups = layout.workers() / members;
        let servers = ocs.region_of_server.len();
        let mut parent: Vec<u32> = (0..servers as u32).collect();
        let group_servers =
            |group: usize| &layout.worker_server[group * members..(group + 1) * members];
        if members > 1 {
            for group in 0..groups {
                let first = find(&mut parent, group_servers(group)[0]);
                for &server in group_servers(group) {
                    let root = find(&mut parent, server);
                    parent[root as usize] = first;
                }
            }
        }
        let mut domain_of_root: FxHashMap<u32, u32> = FxHashMap::default();
        let mut lists: Vec<Vec<u32>> = Vec::new();
        let mut of_group = vec![None; groups];
        for group in (0..groups).filter(|_| members > 1) {
            let root = find(&mut parent, group_servers(group)[0]);
            let domain = *domain_of_root.entry(root).or_insert_with(|| {
                lists.push(Vec::new());
                lists.len() as u32 - 1
            });
            of_group[group] = Some(domain);
            lists[domain as usize].extend_from_slice(group_servers(group));
        }
        let mut domains = Vec::with_capacity(lists.len());
        for mut list in lists {
            list.sort_unstable();
            list.dedup();
            domains.push(Domain::new(list, ocs));
        }
        let place = places(graph, &domains, &of_group);
        let shapes = number_shapes(&mut domains);
        Self { domains, of_group, place, shapes }
    }
}

fn find(parent: &mut [u32], mut node: u32) -> u32 {
    while parent[node as usize] != node {
        let up = parent[parent[node as usize] as usize];
        parent[node as usize] = up;
        node = up;
    }
    node
}

fn places(graph: &TaskGraph, domains: &[Domain], of_group: &[Option<u32>]) -> Vec<u32> {
    graph
        .layout
        .worker_server
        .iter()
        .enumerate()
        .map(|(worker, server)| {
            let group = graph.layout.group_of(worker as u32);
            of_group[group as usize].map_or(0, |domain| {
                let servers = &domains[domain as usize].servers;
                servers.binary_search(server).expect("a group's servers are in its domain") as u32
            })
        })
        .collect()
}

fn number_shapes(domains: &mut [Domain]) -> usize {
    let mut known: FxHashMap<(Vec<u32>, Option<Vec<bool>>), u32> = FxHashMap::default();
    for domain in domains {
        let next = known.len() as u32;
        let key = (domain.ports.clone(), domain.allowed.clone());
        domain.shape = *known.entry(key).or_insert(next);
    }
    known.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn domains(groups: &[&[u32]], regions: &[u32]) -> Domains {
        let members = groups[0].len() as u32;
        let mut graph = testing::empty_graph(1, groups.len() as u32, members);
        graph.layout.worker_server = groups.concat();
        let ocs = Ocs { region_of_server: regions.to_vec(), ..testing::ocs(regions.len()) };
        Domains::new(&graph, &ocs)
    }

    #[test]
    fn groups_on_their_own_servers_are_domains_of_one_shape() {
        let found = domains(&[&[0, 1], &[3, 2]], &[0, 0, 0, 0]);
        assert_eq!(found.of_group, [Some(0), Some(1)]);
        assert_eq!(found.domains[1].servers, [2, 3]);
        assert_eq!(found.place, [0, 1, 1, 0]);
        assert_eq!((found.shapes, found.domains[0].allowed.clone()), (1, None));
    }

    #[test]
    fn groups_that_share_servers_share_a_domain() {
        let found = domains(&[&[0, 1], &[1, 2], &[3, 4]], &[0; 5]);
        assert_eq!(found.of_group, [Some(0), Some(0), Some(1)]);
        assert_eq!(found.domains[0].servers, [0, 1, 2]);
    }

    #[test]
    fn only_servers_of_one_region_may_be_joined() {
        let found = domains(&[&[0, 1, 2]], &[0, 0, u32::MAX]);
        let domain = &found.domains[0];
        assert_eq!(domain.ports, [6, 6, 0]);
        let allowed = domain.allowed.as_ref().unwrap();
        assert!(allowed[1] && !allowed[2] && !allowed[8]);
    }
}
