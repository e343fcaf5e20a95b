//! Checks a routing and recomputes its loads, trusting nothing but the request.

use super::request::{PathKind, RelayPath, RelayRequest};
use lightloom_model::Invalid;

/// Bytes over everything that limits a routing.
#[derive(Debug, Clone, PartialEq)]
pub struct Loads {
    /// Over the circuits from server to server, n x n.
    pub arcs: Vec<u64>,
    /// Into the EPS, n.
    pub eps_out: Vec<u64>,
    /// Out of the EPS, n.
    pub eps_in: Vec<u64>,
    /// Passed on by each server, n: also the memory that it needs if all arrives before any leaves.
    pub staging: Vec<u64>,
    /// Seconds until the last byte at line rate; infinite if bytes use what is not there.
    pub makespan: f64,
}

/// Checks that the paths carry exactly the demand over what is there and within the memory limit.
///
/// # Errors
/// Names the first path or pair that is wrong.
pub fn verify(request: &RelayRequest, paths: &[RelayPath]) -> Result<Loads, Invalid> {
    let n = request.servers;
    let mut carried = vec![0_u64; n * n];
    let mut loads = Loads {
        arcs: vec![0; n * n],
        eps_out: vec![0; n],
        eps_in: vec![0; n],
        staging: vec![0; n],
        makespan: 0.0,
    };
    for path in paths {
        check_path(request, path)?;
        let cell = path.source as usize * n + path.destination as usize;
        let sum = carried[cell].checked_add(path.bytes).filter(|&sum| sum <= request.demand[cell]);
        let (from, to) = (path.source, path.destination);
        carried[cell] =
            sum.ok_or_else(|| Invalid(format!("paths from {from} to {to} carry too much")))?;
        loads.add(path, n);
    }
    for (cell, (&carried, &wanted)) in carried.iter().zip(request.demand).enumerate() {
        let (from, to) = (cell / n, cell % n);
        if from != to && carried != wanted {
            let text = format!("paths from {from} to {to} carry {carried} of {wanted} bytes");
            return Err(Invalid(text));
        }
    }
    if let Some(limit) = request.cost.memory_limit
        && let Some((server, bytes)) =
            loads.staging.iter().enumerate().find(|&(_, &bytes)| bytes > limit)
    {
        return Err(Invalid(format!("server {server} relays {bytes} bytes, at most {limit}")));
    }
    loads.makespan = loads.time(request);
    Ok(loads)
}

fn check_path(request: &RelayRequest, path: &RelayPath) -> Result<(), Invalid> {
    let (n, from, to) = (request.servers, path.source as usize, path.destination as usize);
    let exists = |server: usize| server < n;
    if !exists(from) || !exists(to) || from == to {
        return Err(Invalid(format!("no path leads from {from} to {to}")));
    }
    let relayed = path.kind.is_relayed();
    let relay = path.relay.map(|relay| relay as usize);
    if relayed != relay.is_some() || relay.is_some_and(|k| !exists(k) || k == from || k == to) {
        return Err(Invalid(format!("a path from {from} to {to} has a wrong relay: {relay:?}")));
    }
    let (first, last) = (relay.unwrap_or(to), relay.unwrap_or(from));
    let joined = |a: usize, b: usize| request.circuits[a * n + b] > 0;
    let there = match path.kind {
        PathKind::Circuit => joined(from, to),
        PathKind::Eps => true,
        PathKind::CircuitCircuit => joined(from, first) && joined(last, to),
        PathKind::CircuitEps => joined(from, first),
        PathKind::EpsCircuit => joined(last, to),
    };
    if there {
        Ok(())
    } else {
        Err(Invalid(format!("a path from {from} to {to} takes a circuit that is not there")))
    }
}

impl Loads {
    fn add(&mut self, path: &RelayPath, n: usize) {
        let (from, to, bytes) = (path.source as usize, path.destination as usize, path.bytes);
        let relay = path.relay.map(|relay| relay as usize);
        if let Some(relay) = relay {
            self.staging[relay] += bytes;
        }
        let middle = relay.unwrap_or(0);
        match path.kind {
            PathKind::Circuit => self.arcs[from * n + to] += bytes,
            PathKind::Eps => self.over_eps(from, to, bytes),
            PathKind::CircuitCircuit => {
                self.arcs[from * n + middle] += bytes;
                self.arcs[middle * n + to] += bytes;
            }
            PathKind::CircuitEps => {
                self.arcs[from * n + middle] += bytes;
                self.over_eps(middle, to, bytes);
            }
            PathKind::EpsCircuit => {
                self.over_eps(from, middle, bytes);
                self.arcs[middle * n + to] += bytes;
            }
        }
    }

    fn over_eps(&mut self, from: usize, to: usize, bytes: u64) {
        self.eps_out[from] += bytes;
        self.eps_in[to] += bytes;
    }

    /// Seconds of the busiest resource.
    fn time(&self, request: &RelayRequest) -> f64 {
        let seconds =
            |bytes: u64, bits: f64| if bytes == 0 { 0.0 } else { bytes as f64 * 8.0 / bits };
        let circuit = request.circuit_rate.0 as f64;
        let mut time = 0.0_f64;
        for (&bytes, &count) in self.arcs.iter().zip(request.circuits) {
            time = time.max(seconds(bytes, f64::from(count) * circuit));
        }
        for server in 0..request.servers {
            let bytes = self.eps_out[server].max(self.eps_in[server]);
            time = time.max(seconds(bytes, request.eps_rates.of(server).0 as f64));
        }
        if let Some(rate) = request.cost.staging_rate {
            for &bytes in &self.staging {
                time = time.max(seconds(bytes, rate.0 as f64));
            }
        }
        time
    }
}
