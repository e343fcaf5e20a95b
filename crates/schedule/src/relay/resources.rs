//! The region as resources that paths use: arcs of circuits, ports of the EPS, staging at relays.
//!
//! Capacities are in units of one circuit, so a time is bytes over the rate of one circuit.

use super::request::{PathKind, RelayRequest};

/// Resources of one path; unused places hold [`RegionResources::nothing`].
pub(super) type Uses = [u32; 4];

/// Which paths there are and what they use.
pub(super) struct RegionResources<'a> {
    /// The request.
    pub request: RelayRequest<'a>,
    /// Number of servers.
    pub n: usize,
    /// Peers over circuits, server after server.
    peers: Vec<u32>,
    /// Where the peers of each server begin in `peers`, n + 1.
    first_peer: Vec<u32>,
    /// Servers that have circuits to both ends, pair after pair.
    common: Vec<u32>,
    /// Where those of each pair begin in `common`, n x n + 1.
    first_common: Vec<u32>,
    /// 1 / capacity of each resource in circuits: n x n arcs, n times out to the EPS, n times in
    /// from it, n times staging, and nothing. 0 where a resource is unlimited, infinite where it
    /// is not there.
    pub inverse: Vec<f64>,
    /// Resources that are there and limited.
    pub limited: Vec<u32>,
}

impl<'a> RegionResources<'a> {
    pub(super) fn new(request: &RelayRequest<'a>) -> Self {
        let n = request.servers;
        let mut inverse = vec![f64::INFINITY; n * n + 3 * n + 1];
        let (mut peers, mut first_peer) = (Vec::new(), vec![0]);
        for a in 0..n {
            for b in 0..n {
                let count = request.circuits[a * n + b];
                if count > 0 {
                    peers.push(b as u32);
                    inverse[a * n + b] = 1.0 / f64::from(count);
                }
            }
            first_peer.push(peers.len() as u32);
        }
        let (mut common, mut first_common) = (Vec::new(), vec![0]);
        let peers_of = |a: usize| &peers[first_peer[a] as usize..first_peer[a + 1] as usize];
        for a in 0..n {
            for b in 0..n {
                if a != b && request.demand[a * n + b] > 0 {
                    let joined = |&&k: &&u32| request.circuits[k as usize * n + b] > 0;
                    common.extend(peers_of(a).iter().filter(joined));
                }
                first_common.push(common.len() as u32);
            }
        }
        let circuit = request.circuit_rate.0 as f64;
        let staging = request.cost.staging_rate.map_or(0.0, |rate| circuit / rate.0 as f64);
        for server in 0..n {
            let rate = request.eps_rates.of(server).0;
            if rate > 0 {
                inverse[n * n + server] = circuit / rate as f64;
                inverse[n * n + n + server] = circuit / rate as f64;
            }
        }
        inverse[n * n + 2 * n..n * n + 3 * n].fill(staging);
        inverse[n * n + 3 * n] = 0.0;
        let there = |resource: &u32| {
            let inverse = inverse[*resource as usize];
            inverse.is_finite() && inverse > 0.0
        };
        let limited = (0..inverse.len() as u32).filter(there).collect();
        Self { request: *request, n, peers, first_peer, common, first_common, inverse, limited }
    }

    /// Servers that this one has circuits to.
    pub(super) fn peers(&self, server: usize) -> &[u32] {
        let begin = self.first_peer[server] as usize;
        &self.peers[begin..self.first_peer[server + 1] as usize]
    }

    /// Servers that can pass bytes of a pair on from circuit to circuit; none if it has no demand.
    pub(super) fn common(&self, from: usize, to: usize) -> &[u32] {
        let pair = from * self.n + to;
        &self.common[self.first_common[pair] as usize..self.first_common[pair + 1] as usize]
    }

    /// The circuits from one server to another.
    pub(super) fn arc(&self, a: usize, b: usize) -> u32 {
        (a * self.n + b) as u32
    }

    /// The EPS NICs of a server, sending.
    pub(super) fn eps_out(&self, server: usize) -> u32 {
        (self.n * self.n + server) as u32
    }

    /// The EPS NICs of a server, receiving.
    pub(super) fn eps_in(&self, server: usize) -> u32 {
        (self.n * self.n + self.n + server) as u32
    }

    /// The NVSwitch of a server, staging.
    pub(super) fn staging(&self, server: usize) -> u32 {
        (self.n * self.n + 2 * self.n + server) as u32
    }

    /// Whether a resource is the staging of some server.
    pub(super) fn is_staging(&self, resource: usize) -> bool {
        (self.staging(0)..self.nothing()).contains(&(resource as u32))
    }

    /// No resource.
    pub(super) fn nothing(&self) -> u32 {
        (self.n * self.n + 3 * self.n) as u32
    }

    /// Bytes from one server to another.
    pub(super) fn demand(&self, from: usize, to: usize) -> u64 {
        if from == to { 0 } else { self.request.demand[from * self.n + to] }
    }

    /// What a path uses.
    pub(super) fn uses(&self, from: usize, to: usize, via: Via) -> Uses {
        let (relay, no) = (via.relay as usize, self.nothing());
        match via.kind {
            PathKind::Circuit => [self.arc(from, to), no, no, no],
            PathKind::Eps => [self.eps_out(from), self.eps_in(to), no, no],
            PathKind::CircuitCircuit => {
                [self.arc(from, relay), self.arc(relay, to), self.staging(relay), no]
            }
            PathKind::CircuitEps => {
                [self.arc(from, relay), self.eps_in(to), self.staging(relay), self.eps_out(relay)]
            }
            PathKind::EpsCircuit => {
                [self.eps_out(from), self.arc(relay, to), self.staging(relay), self.eps_in(relay)]
            }
        }
    }
}

/// Which of the paths of a pair: what carries the bytes and over which relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Via {
    /// What carries the bytes.
    pub kind: PathKind,
    /// The relay; 0 where there is none.
    pub relay: u32,
}

impl Via {
    /// The circuits of the pair.
    pub const CIRCUIT: Self = Self { kind: PathKind::Circuit, relay: 0 };
    /// The packet switches.
    pub const EPS: Self = Self { kind: PathKind::Eps, relay: 0 };
}
