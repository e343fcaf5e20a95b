//! The fast method: one hop first, then descent, then whole bytes.

use super::cheapest::Cheapest;
use super::descent::Descent;
use super::request::{PathKind, RelayPath, RelayRequest, RelayVerdict, Relayed};
use super::resources::{RegionResources, Via};
use super::round::{PathShare, whole_paths};
use super::verify::verify;
use crate::allocation::{self, Request};
use lightloom_model::Invalid;

/// Divides the demand among one-hop and two-hop paths.
///
/// Never slower than the best routing over one hop, which it returns where relaying does not pay.
pub fn relay(request: &RelayRequest) -> Relayed {
    let resources = RegionResources::new(request);
    let direct = one_hop(&resources);
    let Some(start) = with_relays(&resources, &direct) else {
        return judge(&resources, &direct, &direct, f64::INFINITY);
    };
    let mut descent = Descent::new(&resources, &start, port_bound(&resources));
    descent.run();
    let lower_bound = descent.bound / (request.circuit_rate.0 as f64 / 8.0);
    judge(&resources, &direct, &descent.parts(), lower_bound)
}

/// As [`relay`], for a division that was found elsewhere: makes its bytes whole and compares it
/// with one hop.
///
/// # Errors
/// If some pair with demand has no part, a path is not there, or a relay's memory does not suffice.
pub fn relay_as(
    request: &RelayRequest,
    parts: &[PathShare],
    lower_bound: f64,
) -> Result<Relayed, Invalid> {
    let resources = RegionResources::new(request);
    verify(request, &whole_paths(&resources, parts))?;
    Ok(judge(&resources, &one_hop(&resources), parts, lower_bound))
}

fn judge(
    resources: &RegionResources,
    direct: &[PathShare],
    relayed: &[PathShare],
    lower_bound: f64,
) -> Relayed {
    let request = &resources.request;
    let direct = whole_paths(resources, direct);
    let one_hop = makespan(request, &direct);
    let relayed = whole_paths(resources, relayed);
    let time = makespan(request, &relayed);
    let latency = request.cost.latency(request.circuit_rate);
    let verdict = if time >= one_hop {
        RelayVerdict::NoFaster
    } else if time + latency >= one_hop {
        RelayVerdict::LatencyExceedsGain
    } else {
        RelayVerdict::Pays
    };
    let with_relays = time + latency;
    let (paths, makespan, latency) = match verdict {
        RelayVerdict::Pays => (relayed, time, latency),
        _ => (direct, one_hop, 0.0),
    };
    Relayed { paths, makespan, latency, one_hop, with_relays, lower_bound, verdict }
}

fn makespan(request: &RelayRequest, paths: &[RelayPath]) -> f64 {
    verify(request, paths).expect("a routing of our own is sound").makespan
}

/// The best routing over one hop.
fn one_hop(resources: &RegionResources) -> Vec<PathShare> {
    let request = &resources.request;
    let routing = allocation::route(
        &Request {
            servers: resources.n,
            demand: request.demand,
            ports: &vec![0; resources.n],
            allowed: None,
            circuit_rate: request.circuit_rate,
            eps_rates: request.eps_rates,
            split: true,
            previous: None,
        },
        request.circuits,
    );
    let mut parts = Vec::with_capacity(2 * resources.n * resources.n);
    for from in 0..resources.n {
        for to in 0..resources.n {
            let bytes = resources.demand(from, to);
            let spilled = routing.eps_bytes[from * resources.n + to];
            for (via, bytes) in [(Via::CIRCUIT, bytes - spilled.min(bytes)), (Via::EPS, spilled)] {
                if bytes > 0 {
                    let bytes = bytes as f64;
                    parts.push(PathShare { from: from as u32, to: to as u32, via, bytes });
                }
            }
        }
    }
    parts
}

/// As `direct`, but that pairs without circuits and EPS start over any relay; nothing if a pair has
/// no path at all.
fn with_relays(resources: &RegionResources, direct: &[PathShare]) -> Option<Vec<PathShare>> {
    let mut parts = direct.to_vec();
    let mut cheapest = Cheapest::new(resources, &resources.inverse);
    for part in parts.iter_mut().filter(|part| part.via.kind == PathKind::Eps) {
        let (from, to) = (part.from as usize, part.to as usize);
        let there = [resources.eps_out(from), resources.eps_in(to)]
            .iter()
            .all(|&port| resources.inverse[port as usize].is_finite());
        if !there {
            let (price, via) = cheapest.find(resources, &resources.inverse, (from, to));
            if price == f64::INFINITY {
                return None;
            }
            part.via = via;
        }
    }
    Some(parts)
}

/// Bytes of the busiest server over all its ports, in bytes over one circuit.
fn port_bound(resources: &RegionResources) -> f64 {
    let n = resources.n;
    let mut bound = 0.0_f64;
    for server in 0..n {
        let eps = 1.0 / resources.inverse[resources.eps_out(server) as usize];
        let peers = resources.peers(server).iter();
        let circuits: f64 = peers
            .map(|&peer| f64::from(resources.request.circuits[server * n + peer as usize]))
            .sum();
        let sent: u64 = (0..n).map(|peer| resources.demand(server, peer)).sum();
        let received: u64 = (0..n).map(|peer| resources.demand(peer, server)).sum();
        let bytes = sent.max(received);
        if bytes > 0 {
            bound = bound.max(bytes as f64 / (circuits + eps));
        }
    }
    bound
}
