//! Regions as a job uses them: servers whose circuits are decided together.
//!
//! EP groups that share servers share the optical ports of these, hence their circuits; all other
//! groups are on their own, even on one circuit switch, because a switch joins any of its ports. So
//! a region is a connected set of groups, usually one; within it, only pairs of servers of one
//! switch may have circuits.

use crate::links::{Link, Links};
use crate::network::{Network, PacketFabric};
use crate::ocs::{Ocs, RelayChunk};
use lightloom_decide::{Held, NumaNodes, Policy, Region as Description, SizedRegion};
use lightloom_flowsim::LinkId;
use lightloom_model::{
    CircuitRate, Failures, GroupFamily, GroupId, Invalid, Pairs, PerServer, Rate, RelayCost,
    ServerId, TaskGraph, Time,
};
use lightloom_packetsim::Cable;
use rustc_hash::FxHashMap;

/// Server without a circuit switch.
const NO_REGION: u32 = u32::MAX;

/// A set of servers and the circuits between them.
#[derive(Debug, Default)]
pub(crate) struct Region {
    /// Servers, ascending.
    pub servers: Vec<u32>,
    /// Who decides: regions that are alike have the same decider.
    pub decider: u32,
    /// Its circuits.
    pub held: Held,
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

impl Region {
    fn new(servers: Vec<u32>) -> Self {
        let cells = servers.len() * servers.len();
        Self {
            up_since: vec![Time::ZERO; cells],
            capacity: vec![0; cells],
            servers,
            ..Self::default()
        }
    }

    /// Number of servers.
    pub(crate) fn size(&self) -> usize {
        self.servers.len()
    }

    /// Adds a link per ordered pair that may have circuits, at the rate of its present ones.
    pub(crate) fn add_links(&mut self, sized: &SizedRegion, ocs: &Ocs, links: &mut Links) {
        let size = self.size();
        let each = Cable { rate: ocs.nic_rate, delay: ocs.circuit_delay };
        self.links = (0..size * size)
            .map(|cell| {
                let may = sized.allowed().is_none_or(|allowed| allowed[cell]);
                let (a, b) = (cell / size, cell % size);
                let (from, to) = (ServerId(self.servers[a]), ServerId(self.servers[b]));
                let members = sized.ports()[a].min(sized.ports()[b]);
                // How many there will be is not known yet where all are dark.
                let link = Link { awaited: 1, ..Link::circuits(from, to, members, each) };
                let lit = u32::from(self.held.circuits[cell]);
                (may && a != b).then(|| links.add_lit(link, lit))
            })
            .collect();
    }
}

/// What the deciders have to know of these servers.
///
/// # Errors
/// If there are too many servers, or ports, for one region.
pub(super) fn describe(
    servers: &[u32],
    network: &Network,
    ocs: &Ocs,
) -> Result<SizedRegion, Invalid> {
    let size = servers.len();
    let switch = |place: usize| ocs.region_of_server[servers[place] as usize];
    let allowed: Vec<bool> = (0..size * size)
        .map(|cell| {
            let (a, b) = (switch(cell / size), switch(cell % size));
            a == b && a != NO_REGION
        })
        .collect();
    let ports: Vec<u32> =
        (0..size).map(|place| if switch(place) == NO_REGION { 0 } else { ocs.ports }).collect();
    let all = allowed.iter().all(|&pair| pair);
    let (eps_nics, rate) = network.packet_fabric().map_or((0, Rate(0)), PacketFabric::links);
    let count = |parts: u32| {
        u16::try_from(parts)
            .map_err(|_| Invalid(format!("{parts} NICs of one server, at most {}", u16::MAX)))
    };
    let description = Description {
        failures: failures_of(servers, &ports, ocs),
        ports: PerServer::Each(ports.into_iter().map(count).collect::<Result<_, _>>()?),
        allowed: (!all).then(|| Pairs::new(size, allowed, "allowed")).transpose()?,
        planes: ocs.planes,
        numa_nodes: NumaNodes::TWO,
        circuit_rate: CircuitRate::new(ocs.nic_rate)?,
        eps_rates: PerServer::All(Rate(rate.0.saturating_mul(u64::from(eps_nics)))),
        eps_nics: Some(count(eps_nics)?),
        split: ocs.split,
    };
    SizedRegion::new(size, description)
}

/// How circuits follow the demand in this network.
pub(super) fn policy_of(network: &Network, ocs: &Ocs) -> Policy {
    let cost = |RelayChunk { bytes, latency }| RelayCost {
        staging_rate: Some(network.nvswitch_rate()),
        chunk_bytes: bytes,
        relay_delay: latency,
        memory_limit: None,
    };
    Policy { allocator: ocs.allocator, when: ocs.when, relaying: ocs.relaying.map(cost) }
}

/// What has failed of these servers, which are then counted from 0. The spare for a failed server
/// is on the packet fabric, so only its circuits are lost.
fn failures_of(servers: &[u32], ports: &[u32], ocs: &Ocs) -> Failures {
    let failures = &ocs.failures;
    let place = |server: u32| servers.binary_search(&server).ok().map(|place| place as u32);
    let inside = |&(server, nic): &(u32, u32)| place(server).map(|place| (place, nic));
    let spared = failures.servers.iter().filter_map(|&server| place(server));
    let nics = spared
        .flat_map(|place| (0..ports[place as usize]).map(move |nic| (place, nic)))
        .chain(failures.nics.iter().filter_map(inside))
        .filter(|&(place, nic)| nic < ports[place as usize]);
    let planes = ports.iter().copied().max().unwrap_or(0);
    Failures {
        nics: nics.collect(),
        eps_nics: failures.eps_nics.iter().filter_map(inside).collect(),
        servers: Vec::new(),
        planes: failures.planes.iter().copied().filter(|&plane| plane < planes).collect(),
    }
}

/// The regions of a job, and where each group finds its own.
#[derive(Debug)]
pub(super) struct Regions {
    /// All regions.
    pub all: Vec<Region>,
    /// Region of each group, `None` where its all-to-alls stay in one server.
    pub of_group: Vec<Option<u32>>,
    /// Of each member of a group, its server's place in the region, group by group.
    pub place: Vec<u32>,
    /// Where each group begins in `place`; one entry more than groups.
    pub offsets: Vec<u32>,
}

impl Regions {
    /// Finds connected sets of groups.
    pub(super) fn new(graph: &TaskGraph, servers: usize) -> Self {
        let family = graph.regional_family.map(|family| &graph.families[family.index()]);
        let groups = family.map_or(0, GroupFamily::groups);
        let mut parent: Vec<u32> = (0..servers as u32).collect();
        let lists_of_groups: Vec<Vec<u32>> = (0..groups as u32)
            .filter_map(|group| family.map(|family| family.members(GroupId(group))))
            .map(|members| members.iter().map(|m| graph.worker_server[m.index()]).collect())
            .collect();
        let group_servers = |group: usize| lists_of_groups[group].as_slice();
        let crosses = |group: &usize| group_servers(*group).len() > 1;
        for group in (0..groups).filter(crosses) {
            let first = find(&mut parent, group_servers(group)[0]);
            for &server in group_servers(group) {
                let root = find(&mut parent, server);
                parent[root as usize] = first;
            }
        }
        let mut region_of_root: FxHashMap<u32, u32> = FxHashMap::default();
        let mut lists: Vec<Vec<u32>> = Vec::new();
        let mut of_group = vec![None; groups];
        for group in (0..groups).filter(crosses) {
            let root = find(&mut parent, group_servers(group)[0]);
            let region = *region_of_root.entry(root).or_insert_with(|| {
                lists.push(Vec::new());
                lists.len() as u32 - 1
            });
            of_group[group] = Some(region);
            lists[region as usize].extend_from_slice(group_servers(group));
        }
        let mut regions = Vec::with_capacity(lists.len());
        for mut list in lists {
            list.sort_unstable();
            list.dedup();
            regions.push(Region::new(list));
        }
        let place = places(&lists_of_groups, &regions, &of_group);
        let offsets = family.map_or_else(|| vec![0], |family| family.offsets.clone());
        Self { all: regions, of_group, place, offsets }
    }

    /// Gives regions that are alike the same decider; what each decider has to know.
    ///
    /// # Errors
    /// If one is too large.
    pub(super) fn descriptions(
        &mut self,
        network: &Network,
        ocs: &Ocs,
    ) -> Result<Vec<SizedRegion>, Invalid> {
        let mut found: Vec<SizedRegion> = Vec::new();
        let mut index_of: FxHashMap<SizedRegion, u32> = FxHashMap::default();
        for region in &mut self.all {
            let sized = describe(&region.servers, network, ocs)?;
            region.decider = *index_of.entry(sized).or_insert_with_key(|sized| {
                found.push(sized.clone());
                found.len() as u32 - 1
            });
        }
        Ok(found)
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

fn places(groups: &[Vec<u32>], regions: &[Region], of_group: &[Option<u32>]) -> Vec<u32> {
    let mut places = Vec::new();
    for (servers, region) in groups.iter().zip(of_group) {
        places.extend(servers.iter().map(|server| {
            region.map_or(0, |region| {
                let servers = &regions[region as usize].servers;
                servers.binary_search(server).expect("a group's servers are in its region") as u32
            })
        }));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn regions(groups: &[&[u32]], switches: &[u32]) -> (Regions, Vec<SizedRegion>) {
        let members = groups[0].len() as u32;
        let mut graph = testing::empty_graph(1, groups.len() as u32, members);
        graph.worker_server = groups.concat();
        graph.roles[0].tasks = vec![testing::all_to_all(0, true)];
        let ocs = Ocs { region_of_server: switches.to_vec(), ..testing::ocs(switches.len()) };
        let mut found = Regions::new(&graph, switches.len());
        let descriptions =
            found.descriptions(&testing::mixnet(switches.len() as u32), &ocs).unwrap();
        (found, descriptions)
    }

    #[test]
    fn groups_on_their_own_servers_are_regions_that_are_alike() {
        let (found, descriptions) = regions(&[&[0, 1], &[3, 2]], &[0, 0, 0, 0]);
        assert_eq!(found.of_group, [Some(0), Some(1)]);
        assert_eq!(found.all[1].servers, [2, 3]);
        assert_eq!(found.place, [0, 1, 1, 0]);
        assert_eq!((descriptions.len(), descriptions[0].allowed()), (1, None));
    }

    #[test]
    fn groups_that_share_servers_share_a_region() {
        let (found, _) = regions(&[&[0, 1], &[1, 2], &[3, 4]], &[0; 5]);
        assert_eq!(found.of_group, [Some(0), Some(0), Some(1)]);
        assert_eq!(found.all[0].servers, [0, 1, 2]);
    }

    #[test]
    fn only_servers_of_one_switch_may_be_joined() {
        let (_, descriptions) = regions(&[&[0, 1, 2]], &[0, 0, u32::MAX]);
        assert_eq!(descriptions[0].ports(), [6, 6, 0]);
        let allowed = descriptions[0].allowed().unwrap();
        assert!(allowed[1] && !allowed[2] && !allowed[8]);
    }

    #[test]
    fn regions_with_other_pairs_allowed_have_deciders_of_their_own() {
        // As many ports everywhere; in the first group 0 meets 1, in the second one 4 meets 6.
        let switches = [0, 0, 1, 1, 2, 3, 2, 3];
        let (found, descriptions) = regions(&[&[0, 1, 2, 3], &[4, 5, 6, 7]], &switches);
        assert_eq!(descriptions[0].ports(), descriptions[1].ports());
        let allowed = |region: usize| descriptions[region].allowed().unwrap();
        assert_eq!((allowed(0)[1], allowed(0)[2]), (true, false));
        assert_eq!((allowed(1)[1], allowed(1)[2]), (false, true));
        assert_eq!((found.all[0].decider, found.all[1].decider), (0, 1));
    }

    #[test]
    fn failures_are_those_of_the_region() {
        let failures = Failures {
            nics: vec![(4, 5), (9, 0)],
            eps_nics: vec![(5, 1)],
            servers: vec![7],
            planes: vec![3],
        };
        let ocs = Ocs { ports: 2, failures, ..testing::ocs(10) };
        let ocs = Ocs { region_of_server: vec![0; 10], ..ocs };
        let found = describe(&[4, 5, 7], &testing::mixnet(10), &ocs).unwrap();
        let found = found.record().failures.clone();
        assert_eq!(found.nics, [(2, 0), (2, 1)], "NIC 4/5 is beyond the ports");
        assert_eq!((found.eps_nics, found.planes), (vec![(1, 1)], vec![]));
        let ocs = Ocs { ports: 6, ..ocs };
        let found = describe(&[4, 5, 7], &testing::mixnet(10), &ocs).unwrap();
        let found = &found.record().failures;
        assert!(found.nics.contains(&(0, 5)) && found.planes == [3]);
    }

    proptest! {
        /// Two groups are of one region if and only if a chain of groups that share servers joins
        /// them; a region has the servers of its groups and no others.
        #[test]
        fn regions_are_connected_sets_of_groups(
            lists in prop::collection::vec(prop::collection::btree_set(0_u32..12, 3), 1..7),
        ) {
            let list = |set: BTreeSet<u32>| set.into_iter().collect();
            let lists: Vec<Vec<u32>> = lists.into_iter().map(list).collect();
            let slices: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
            let (found, _) = regions(&slices, &[0; 12]);
            // Spread labels until nothing changes any more.
            let mut label: Vec<usize> = (0..lists.len()).collect();
            for _ in 0..lists.len() {
                for a in 0..lists.len() {
                    for b in 0..lists.len() {
                        if lists[a].iter().any(|server| lists[b].contains(server)) {
                            label[a] = label[a].min(label[b]);
                        }
                    }
                }
            }
            for a in 0..lists.len() {
                for b in 0..lists.len() {
                    prop_assert_eq!(found.of_group[a] == found.of_group[b], label[a] == label[b]);
                }
                let region = &found.all[found.of_group[a].expect("it crosses servers") as usize];
                let joined = (0..lists.len()).filter(|&b| label[b] == label[a]);
                let mut expected: Vec<u32> = joined.flat_map(|b| lists[b].clone()).collect();
                expected.sort_unstable();
                expected.dedup();
                prop_assert_eq!(&region.servers, &expected);
                for (member, server) in lists[a].iter().enumerate() {
                    let place = found.place[found.offsets[a] as usize + member];
                    prop_assert_eq!(region.servers[place as usize], *server);
                }
            }
        }
    }
}
