//! The fast method: one hop first, then descent, then whole bytes.

use super::cheapest::Cheapest;
use super::descent::Descent;
use super::request::{Kind, RelayRequest, Relayed, Verdict, Way};
use super::round::{Part, whole_ways};
use super::verify::verify;
use super::ways::{Hop, Ways};
use crate::allocation::{self, Request};
use lightloom_model::Invalid;

/// Divides the demand among one-hop and two-hop ways.
///
/// Never slower than the best routing over one hop, which it returns where relaying does not pay.
///
/// # Panics
/// If the request is not consistent, see [`RelayRequest::validate`].
pub fn relay(request: &RelayRequest) -> Relayed {
    let ways = Ways::new(request);
    let direct = one_hop(&ways);
    let Some(start) = with_relays(&ways, &direct) else {
        return judge(&ways, &direct, &direct, f64::INFINITY);
    };
    let mut descent = Descent::new(&ways, &start, port_bound(&ways));
    descent.run();
    let lower_bound = descent.bound / (request.circuit_rate.0 as f64 / 8.0);
    judge(&ways, &direct, &descent.parts(), lower_bound)
}

/// As [`relay`], for a division that was found elsewhere: makes its bytes whole and compares it
/// with one hop.
///
/// # Errors
/// If some pair with demand has no part, a way is not there, or a relay's memory does not suffice.
///
/// # Panics
/// If the request is not consistent, see [`RelayRequest::validate`].
pub fn relay_as(
    request: &RelayRequest,
    parts: &[Part],
    lower_bound: f64,
) -> Result<Relayed, Invalid> {
    let ways = Ways::new(request);
    verify(request, &whole_ways(&ways, parts))?;
    Ok(judge(&ways, &one_hop(&ways), parts, lower_bound))
}

fn judge(ways: &Ways, direct: &[Part], relayed: &[Part], lower_bound: f64) -> Relayed {
    let request = &ways.request;
    let direct = whole_ways(ways, direct);
    let one_hop = makespan(request, &direct);
    let relayed = whole_ways(ways, relayed);
    let time = makespan(request, &relayed);
    let latency = request.cost.latency(request.circuit_rate);
    let verdict = if time >= one_hop {
        Verdict::NoFaster
    } else if time + latency >= one_hop {
        Verdict::LatencyExceedsGain
    } else {
        Verdict::Pays
    };
    let with_relays = time + latency;
    let (ways, makespan, latency) = match verdict {
        Verdict::Pays => (relayed, time, latency),
        _ => (direct, one_hop, 0.0),
    };
    Relayed { ways, makespan, latency, one_hop, with_relays, lower_bound, verdict }
}

fn makespan(request: &RelayRequest, ways: &[Way]) -> f64 {
    verify(request, ways).expect("a routing of our own is sound").makespan
}

/// The best routing over one hop.
fn one_hop(ways: &Ways) -> Vec<Part> {
    let request = &ways.request;
    let found = allocation::route(
        &Request {
            servers: ways.n,
            demand: request.demand,
            ports: &vec![0; ways.n],
            allowed: None,
            circuit_rate: request.circuit_rate,
            eps_rates: request.eps_rates,
            split: true,
            previous: None,
        },
        request.circuits,
    );
    let mut parts = Vec::with_capacity(2 * ways.n * ways.n);
    for from in 0..ways.n {
        for to in 0..ways.n {
            let bytes = ways.demand(from, to);
            let spilled = found.eps_bytes[from * ways.n + to];
            for (hop, bytes) in [(Hop::CIRCUIT, bytes - spilled.min(bytes)), (Hop::EPS, spilled)] {
                if bytes > 0 {
                    let bytes = bytes as f64;
                    parts.push(Part { from: from as u32, to: to as u32, hop, bytes });
                }
            }
        }
    }
    parts
}

/// As `direct`, but that pairs without circuits and EPS start over any relay; nothing if a pair has
/// no way at all.
fn with_relays(ways: &Ways, direct: &[Part]) -> Option<Vec<Part>> {
    let mut parts = direct.to_vec();
    let mut cheapest = Cheapest::new(ways, &ways.inverse);
    for part in parts.iter_mut().filter(|part| part.hop.kind == Kind::Eps) {
        let (from, to) = (part.from as usize, part.to as usize);
        let there = [ways.eps_out(from), ways.eps_in(to)]
            .iter()
            .all(|&port| ways.inverse[port as usize].is_finite());
        if !there {
            let (price, hop) = cheapest.find(ways, &ways.inverse, (from, to));
            if price == f64::INFINITY {
                return None;
            }
            part.hop = hop;
        }
    }
    Some(parts)
}

/// Bytes of the busiest server over all its ports, in bytes over one circuit.
fn port_bound(ways: &Ways) -> f64 {
    let n = ways.n;
    let mut bound = 0.0_f64;
    for server in 0..n {
        let eps = 1.0 / ways.inverse[ways.eps_out(server) as usize];
        let peers = ways.peers(server).iter();
        let circuits: f64 =
            peers.map(|&peer| f64::from(ways.request.circuits[server * n + peer as usize])).sum();
        let sent: u64 = (0..n).map(|peer| ways.demand(server, peer)).sum();
        let received: u64 = (0..n).map(|peer| ways.demand(peer, server)).sum();
        let bytes = sent.max(received);
        if bytes > 0 {
            bound = bound.max(bytes as f64 / (circuits + eps));
        }
    }
    bound
}
