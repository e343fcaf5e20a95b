//! Where workers sit: servers, and which NICs of them they own.
//!
//! The NICs of a server are treated as *slots*: groups of NICs that flows use evenly. There is one
//! slot unless the all-to-all moves data rank by rank (`flat`, `rail`); then there is one per rank
//! of the server, or one per NIC where there are fewer NICs than ranks.

use crate::demand::ranks_per_worker;
use crate::error::{ExecuteError, network as unfit};
use lightloom_model::{AllToAll, Network, TaskGraph, WorkerId};

/// Servers and slots of all workers.
#[derive(Debug, Clone)]
pub struct Seats {
    /// Server of each worker.
    pub server: Vec<u32>,
    /// First GPU of each worker on its server: workers of one server take its GPUs in order of
    /// their numbers.
    first_gpu: Vec<u32>,
    /// GPUs per worker.
    pub gpus: u32,
    /// EP ranks per worker, at least 1.
    pub ranks: u32,
    /// Slots per server.
    pub slots: u32,
    gpus_per_server: u32,
}

impl Seats {
    /// Seats every worker.
    ///
    /// # Errors
    /// If a server does not exist or is too small, or NICs cannot be dealt out to ranks.
    pub fn new(graph: &TaskGraph, network: &Network) -> Result<Self, ExecuteError> {
        let gpus_per_server = network.gpus_per_server;
        let mut taken = vec![0_u32; network.servers as usize];
        let mut first_gpu = Vec::with_capacity(graph.worker_server.len());
        for (worker, &server) in graph.worker_server.iter().enumerate() {
            let Some(taken) = taken.get_mut(server as usize) else {
                let count = network.servers;
                return Err(unfit(format!(
                    "worker {worker} sits on server {server}, but the network has {count} servers"
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
        let slots = slots_per_server(graph, network, ranks)?;
        let server = graph.worker_server.clone();
        Ok(Self { server, first_gpu, gpus: graph.gpus_per_worker, ranks, slots, gpus_per_server })
    }

    /// The slot of a rank of a worker.
    pub fn slot_of_rank(&self, worker: WorkerId, rank: u32) -> u32 {
        let gpu = self.first_gpu[worker.index()] + rank * self.gpus / self.ranks;
        gpu * self.slots / self.gpus_per_server
    }

    /// The slots of a worker.
    pub fn slots_of(&self, worker: WorkerId) -> std::ops::Range<u32> {
        let first = self.first_gpu[worker.index()];
        let begin = first * self.slots / self.gpus_per_server;
        let end = ((first + self.gpus) * self.slots).div_ceil(self.gpus_per_server);
        begin..end
    }

    /// GPUs that share a slot.
    pub fn gpus_per_slot(&self) -> u32 {
        self.gpus_per_server / self.slots
    }
}

fn slots_per_server(graph: &TaskGraph, network: &Network, ranks: u32) -> Result<u32, ExecuteError> {
    let Some(eps) = &network.eps else { return Ok(1) };
    if network.all_to_all == AllToAll::Hierarchical {
        return Ok(1);
    }
    let gpus = graph.gpus_per_worker;
    if !gpus.is_multiple_of(ranks) {
        return Err(unfit(format!("{ranks} EP ranks cannot share {gpus} GPUs of a worker")));
    }
    let on_server = network.gpus_per_server / (gpus / ranks);
    let slots = on_server.min(eps.nics);
    if slots == 0 || !on_server.is_multiple_of(slots) || !eps.nics.is_multiple_of(slots) {
        return Err(unfit(format!(
            "{} NICs cannot be dealt out evenly to {on_server} EP ranks of a server: use the \
             hierarchical all-to-all",
            eps.nics
        )));
    }
    if !network.gpus_per_server.is_multiple_of(slots) {
        return Err(unfit(format!(
            "{} GPUs of a server cannot be dealt out evenly to {slots} groups of NICs",
            network.gpus_per_server
        )));
    }
    Ok(slots)
}
