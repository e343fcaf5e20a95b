//! Where workers are: servers, and which NICs of them they use.
//!
//! The NICs of a server are treated as *groups*, which flows use evenly. There is one group unless
//! the all-to-all moves data rank by rank (`flat`, `rail`); then there is one per rank of the
//! server, or one per NIC where there are fewer NICs than ranks.

use crate::demand::ranks_per_worker;
use crate::error::{ExecuteError, network as unfit};
use lightloom_model::{ServerId, TaskGraph, WorkerId};

/// A group of NICs of a server, which bytes use evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicGroups {
    /// Server.
    pub server: ServerId,
    /// First group.
    pub first: u16,
    /// How many.
    pub count: u16,
}

/// The ends of a transfer: NIC groups, workers, servers, or members by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<T = NicGroups> {
    /// Where bytes leave.
    pub from: T,
    /// Where they arrive.
    pub to: T,
}

impl<T> Pair<T> {
    /// From one end to the other.
    pub fn new(from: T, to: T) -> Self {
        Self { from, to }
    }
}

impl Pair {
    /// The two servers.
    pub fn servers(&self) -> (ServerId, ServerId) {
        (self.from.server, self.to.server)
    }
}

/// Servers and NIC groups of all workers.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Server and NIC groups of each worker.
    nics: Vec<NicGroups>,
    /// GPUs per worker.
    pub gpus: u32,
    /// EP ranks per worker, at least 1.
    pub ranks: u32,
    /// NIC groups per server.
    pub groups: u32,
    /// NIC group of each rank of each worker; empty where there is one group, which has all ranks.
    group_of_rank: Vec<u32>,
    gpus_per_server: u32,
}

impl Placement {
    /// The first GPU of each worker on its server, of so many servers of so many GPUs: workers of
    /// one server take its GPUs in order of their indices.
    ///
    /// # Errors
    /// If a server does not exist or is too small.
    pub(super) fn first_gpus(
        graph: &TaskGraph,
        servers: u32,
        gpus_per_server: u32,
    ) -> Result<Vec<u32>, ExecuteError> {
        let mut taken = vec![0_u32; servers as usize];
        let mut first_gpu = Vec::with_capacity(graph.worker_server.len());
        for (worker, &server) in graph.worker_server.iter().enumerate() {
            let Some(taken) = taken.get_mut(server as usize) else {
                return Err(unfit(format!(
                    "worker {worker} is on server {server}, but the network has {servers} servers"
                )));
            };
            first_gpu.push(*taken);
            *taken = taken.saturating_add(graph.gpus_per_worker);
            if *taken > gpus_per_server {
                return Err(unfit(format!(
                    "server {server} has {gpus_per_server} GPUs, its workers need {taken}"
                )));
            }
        }
        Ok(first_gpu)
    }

    /// Places every worker from its first GPU on, with the NICs of servers in so many groups.
    pub(super) fn new(
        graph: &TaskGraph,
        first_gpu: &[u32],
        gpus_per_server: u32,
        groups: u32,
    ) -> Self {
        let (ranks, gpus) = (ranks_per_worker(graph), graph.gpus_per_worker);
        let nics = graph.worker_server.iter().zip(first_gpu).map(|(&server, first)| {
            let begin = first * groups / gpus_per_server;
            let end = ((first + gpus) * groups).div_ceil(gpus_per_server);
            let (first, count) = (begin as u16, (end - begin) as u16);
            NicGroups { server: ServerId(server), first, count }
        });
        let gpu = |(&first, rank): (&u32, u32)| first + rank * gpus / ranks;
        let kept = if groups > 1 { ranks } else { 0 };
        let all_ranks = first_gpu.iter().flat_map(|first| (0..kept).map(move |rank| (first, rank)));
        let group_of_rank = all_ranks.map(|rank| gpu(rank) * groups / gpus_per_server).collect();
        let nics = nics.collect();
        Self { nics, gpus, ranks, groups, group_of_rank, gpus_per_server }
    }

    /// The server of a worker.
    pub fn server(&self, worker: WorkerId) -> ServerId {
        self.nics[worker.index()].server
    }

    /// The servers of two workers.
    pub fn servers(&self, workers: Pair<WorkerId>) -> (ServerId, ServerId) {
        (self.server(workers.from), self.server(workers.to))
    }

    /// The NIC group of a rank of a worker.
    pub fn group_of_rank(&self, worker: WorkerId, rank: u32) -> u32 {
        if self.groups == 1 {
            return 0;
        }
        self.group_of_rank[worker.index() * self.ranks as usize + rank as usize]
    }

    /// The NIC groups of a worker.
    pub fn nics(&self, worker: WorkerId) -> NicGroups {
        self.nics[worker.index()]
    }

    /// The ends of a transfer between two workers.
    pub fn pair(&self, workers: Pair<WorkerId>) -> Pair {
        Pair::new(self.nics(workers.from), self.nics(workers.to))
    }

    /// Whether the bytes of a worker also leave over NICs of other workers of its server.
    pub fn shares_nics(&self) -> bool {
        self.groups * self.gpus < self.gpus_per_server
    }

    /// GPUs that share a NIC group.
    pub fn gpus_per_group(&self) -> u32 {
        self.gpus_per_server / self.groups
    }

    /// Workers that share a NIC group, where a server has as many as fit.
    pub fn workers_per_group(&self) -> u32 {
        (self.gpus_per_group() / self.gpus).max(1)
    }

    /// Workers that fit on a server.
    pub fn workers_per_server(&self) -> u32 {
        self.gpus_per_server / self.gpus
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use crate::testing::{empty_graph, packet};
    use lightloom_model::{AllToAll, DemandTable};
    use proptest::prelude::*;

    /// So many workers of a server of 8 GPUs and 8 NICs, each of so many EP ranks.
    fn placement(workers: u32, ranks: u32) -> Placement {
        let mut graph = empty_graph(1, workers, 1);
        graph.gpus_per_worker = 8 / workers;
        graph.worker_server = vec![0; workers as usize];
        graph.demands = vec![DemandTable { ranks_per_member: ranks, ..DemandTable::default() }];
        packet(1).place(&graph).unwrap()
    }

    /// Ranks are as many as the graph says; what is kept of them is not.
    #[test]
    fn ranks_that_share_all_nics_take_no_memory() {
        let mut graph = empty_graph(1, 2, 1);
        graph.demands = vec![DemandTable { ranks_per_member: u32::MAX, ..DemandTable::default() }];
        let network = Network { all_to_all: AllToAll::Hierarchical, ..packet(2) };
        let placement = network.place(&graph).unwrap();
        assert_eq!((placement.groups, placement.group_of_rank.len()), (1, 0));
        assert_eq!(placement.group_of_rank(WorkerId(1), u32::MAX - 1), 0);
    }

    #[test]
    fn ranks_divide_the_nics_of_a_server() {
        let alone = placement(1, 1);
        assert_eq!((alone.groups, alone.gpus_per_group()), (1, 8));
        let ranks = placement(1, 4);
        assert_eq!((ranks.groups, ranks.gpus_per_group()), (4, 2));
        let groups: Vec<u32> = (0..4).map(|rank| ranks.group_of_rank(WorkerId(0), rank)).collect();
        assert_eq!(groups, [0, 1, 2, 3]);
    }

    #[test]
    fn workers_of_a_server_have_nics_of_their_own() {
        let shared = placement(2, 2);
        assert_eq!(shared.groups, 4);
        let nics =
            |worker| (shared.nics(WorkerId(worker)).first, shared.nics(WorkerId(worker)).count);
        assert_eq!([nics(0), nics(1)], [(0, 2), (2, 2)]);
        let groups = [(0, 0), (0, 1), (1, 0), (1, 1)];
        assert_eq!(
            groups.map(|(worker, rank)| shared.group_of_rank(WorkerId(worker), rank)),
            [0, 1, 2, 3]
        );
    }

    /// Workers of so many GPUs on these servers, each of so many EP ranks.
    fn placed(servers: &[u32], gpus: u32, ranks: u32) -> Result<Placement, ExecuteError> {
        let mut graph = empty_graph(1, servers.len() as u32, 1);
        graph.gpus_per_worker = gpus;
        graph.worker_server = servers.to_vec();
        graph.demands = vec![DemandTable { ranks_per_member: ranks, ..DemandTable::default() }];
        packet(4).place(&graph)
    }

    proptest! {
        /// Wherever workers are, in whatever order: the NIC groups of a rank are among those of its
        /// worker, those of a server's workers do not overlap, and each GPU is counted once.
        #[test]
        fn no_nic_group_is_that_of_two_workers(
            servers in prop::collection::vec(0_u32..4, 1..9),
            sizes in prop::sample::select(vec![(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)]),
        ) {
            let (gpus, ranks) = sizes;
            let count = |server: u32| servers.iter().filter(|&&other| other == server).count();
            let needed = (0..4).map(|server| count(server) as u32 * gpus).max().unwrap_or(0);
            let placement = placed(&servers, gpus, ranks);
            prop_assert_eq!(placement.is_ok(), needed <= 8);
            let Ok(placement) = placement else { return Ok(()) };
            prop_assert_eq!(placement.gpus_per_group() * placement.groups, 8);
            let mut users = vec![Vec::new(); 4];
            for (worker, &server) in (0..).map(WorkerId).zip(&servers) {
                let nics = placement.nics(worker);
                prop_assert_eq!(placement.server(worker), ServerId(server));
                prop_assert_eq!(nics.server, ServerId(server));
                let range = u32::from(nics.first)..u32::from(nics.first + nics.count);
                for rank in 0..ranks {
                    prop_assert!(range.contains(&placement.group_of_rank(worker, rank)));
                }
                if placement.groups > 1 {
                    users[server as usize].extend(range);
                }
            }
            for mut groups in users {
                let all = groups.len();
                groups.sort_unstable();
                groups.dedup();
                prop_assert_eq!(groups.len(), all);
            }
        }
    }

    #[test]
    fn workers_take_the_gpus_of_their_server_in_order_of_their_indices() {
        // Servers in turns: the second worker of each has the second half of its GPUs.
        let placement = placed(&[3, 0, 0, 3], 4, 4).expect("they fit");
        let groups = |worker| {
            let group = |rank| placement.group_of_rank(WorkerId(worker), rank);
            (0..4).map(group).collect::<Vec<u32>>()
        };
        assert_eq!(groups(0), [0, 1, 2, 3]);
        assert_eq!(groups(1), [0, 1, 2, 3]);
        assert_eq!(groups(2), [4, 5, 6, 7]);
        assert_eq!(groups(3), [4, 5, 6, 7]);
        let pair = placement.pair(Pair::new(WorkerId(3), WorkerId(1)));
        assert_eq!(pair.servers(), (ServerId(3), ServerId(0)));
        assert_eq!((pair.from.first, pair.to.first), (4, 0));
    }
}
