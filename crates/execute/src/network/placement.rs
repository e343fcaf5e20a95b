//! Where workers are: servers, and which NICs of them they use.
//!
//! The NICs of a server are treated as *groups*, which flows use evenly. There is one group unless
//! the all-to-all moves data rank by rank (`flat`, `rail`); then there is one per rank of the
//! server, or one per NIC where there are fewer NICs than ranks.

use super::config::Network;
use super::part::{NicGroups, Pair};
use crate::demand::ranks_per_worker;
use crate::error::{ExecuteError, network as unfit};
use lightloom_model::{AllToAll, ServerId, TaskGraph, WorkerId};

/// Servers and NIC groups of all workers.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Server and NIC groups of each worker.
    nics: Vec<NicGroups>,
    /// First GPU of each worker on its server: workers of one server take its GPUs in order of
    /// their indices.
    first_gpu: Vec<u32>,
    /// GPUs per worker.
    pub gpus: u32,
    /// EP ranks per worker, at least 1.
    pub ranks: u32,
    /// NIC groups per server.
    pub groups: u32,
    gpus_per_server: u32,
}

impl Placement {
    /// Places every worker.
    ///
    /// # Errors
    /// If a server does not exist or is too small, or NICs cannot be divided evenly among ranks.
    pub fn new(graph: &TaskGraph, network: &Network) -> Result<Self, ExecuteError> {
        let gpus_per_server = network.gpus_per_server;
        let mut taken = vec![0_u32; network.servers as usize];
        let mut first_gpu = Vec::with_capacity(graph.worker_server.len());
        for (worker, &server) in graph.worker_server.iter().enumerate() {
            let Some(taken) = taken.get_mut(server as usize) else {
                let count = network.servers;
                return Err(unfit(format!(
                    "worker {worker} is on server {server}, but the network has {count} servers"
                )));
            };
            first_gpu.push(*taken);
            *taken += graph.gpus_per_worker;
            if *taken > gpus_per_server {
                return Err(unfit(format!(
                    "server {server} has {gpus_per_server} GPUs, its workers need {taken}"
                )));
            }
        }
        let ranks = ranks_per_worker(graph);
        let groups = groups_per_server(graph, network, ranks)?;
        let gpus = graph.gpus_per_worker;
        let nics = graph.worker_server.iter().zip(&first_gpu).map(|(&server, first)| {
            let begin = first * groups / gpus_per_server;
            let end = ((first + gpus) * groups).div_ceil(gpus_per_server);
            let (first, count) = (begin as u16, (end - begin) as u16);
            NicGroups { server: ServerId(server), first, count }
        });
        Ok(Self { nics: nics.collect(), first_gpu, gpus, ranks, groups, gpus_per_server })
    }

    /// The server of a worker.
    pub fn server(&self, worker: WorkerId) -> ServerId {
        self.nics[worker.index()].server
    }

    /// The servers of two workers.
    pub fn servers(&self, (from, to): (WorkerId, WorkerId)) -> (ServerId, ServerId) {
        (self.server(from), self.server(to))
    }

    /// The NIC group of a rank of a worker.
    pub fn group_of_rank(&self, worker: WorkerId, rank: u32) -> u32 {
        let gpu = self.first_gpu[worker.index()] + rank * self.gpus / self.ranks;
        gpu * self.groups / self.gpus_per_server
    }

    /// The NIC groups of a worker.
    pub fn nics(&self, worker: WorkerId) -> NicGroups {
        self.nics[worker.index()]
    }

    /// The ends of a transfer between two workers.
    pub fn pair(&self, (from, to): (WorkerId, WorkerId)) -> Pair {
        Pair { from: self.nics(from), to: self.nics(to) }
    }

    /// GPUs that share a NIC group.
    pub fn gpus_per_group(&self) -> u32 {
        self.gpus_per_server / self.groups
    }
}

fn groups_per_server(
    graph: &TaskGraph,
    network: &Network,
    ranks: u32,
) -> Result<u32, ExecuteError> {
    let Some(fabric) = network.packet_fabric() else { return Ok(1) };
    if network.all_to_all == AllToAll::Hierarchical {
        return Ok(1);
    }
    let gpus = graph.gpus_per_worker;
    if !gpus.is_multiple_of(ranks) {
        return Err(unfit(format!("{ranks} EP ranks cannot share {gpus} GPUs of a worker")));
    }
    let (nics, _) = fabric.nics();
    let on_server = network.gpus_per_server / (gpus / ranks);
    let groups = on_server.min(nics);
    if groups == 0 || !on_server.is_multiple_of(groups) || !nics.is_multiple_of(groups) {
        return Err(unfit(format!(
            "{nics} NICs cannot be divided evenly among {on_server} EP ranks of a server: use the \
             hierarchical all-to-all"
        )));
    }
    if !network.gpus_per_server.is_multiple_of(groups) {
        return Err(unfit(format!(
            "{} GPUs of a server cannot be divided evenly among {groups} groups of NICs",
            network.gpus_per_server
        )));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{empty_graph, packet};
    use lightloom_model::DemandTable;

    /// So many workers of a server of 8 GPUs and 8 NICs, each of so many EP ranks.
    fn placement(workers: u32, ranks: u32) -> Placement {
        let mut graph = empty_graph(1, workers, 1);
        graph.gpus_per_worker = 8 / workers;
        graph.worker_server = vec![0; workers as usize];
        graph.demands = vec![DemandTable { ranks_per_member: ranks, ..DemandTable::default() }];
        Placement::new(&graph, &packet(1)).unwrap()
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
}
