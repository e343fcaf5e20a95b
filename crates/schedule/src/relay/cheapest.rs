//! The cheapest path of a pair at given prices, without looking at all of its relays.
//!
//! What a relay adds to a pair over circuits and the EPS is the price of a circuit and of an EPS
//! port of its own: for bytes that come in over a circuit it depends on the source only, for bytes
//! that leave over one on the destination only. So the best relay of every server serves all of its
//! pairs: where it is the other end of a pair, the circuit to it alone costs no more. Relays
//! between two circuits are common peers, which are few where relaying matters.

use super::request::PathKind;
use super::resources::{RegionResources, Via};

/// How much dearer than remembered a relay may have become before a search for a better one.
const STALE: f64 = 1.2;

/// A relay and what it adds to the price of a byte.
#[derive(Debug, Clone, Copy)]
struct Relay {
    price: f64,
    server: u32,
}

const NO_RELAY: Relay = Relay { price: f64::INFINITY, server: u32::MAX };

/// Relay of every server that was the cheapest when last looked at.
#[derive(Debug)]
pub(super) struct Cheapest {
    /// From the server over a circuit, then onto the EPS.
    out: Vec<Relay>,
    /// Off the EPS, then over a circuit to the server.
    into: Vec<Relay>,
}

impl Cheapest {
    pub(super) fn new(resources: &RegionResources, price: &[f64]) -> Self {
        let mut table = Self { out: Vec::new(), into: Vec::new() };
        table.renew(resources, price);
        table
    }

    /// Looks at all relays again.
    pub(super) fn renew(&mut self, resources: &RegionResources, price: &[f64]) {
        self.out.clear();
        self.into.clear();
        for server in 0..resources.n {
            self.out.push(best_out(resources, price, server));
            self.into.push(best_into(resources, price, server));
        }
    }

    /// The cheapest path of a pair and its price. Exact if prices are those of the last look;
    /// otherwise a price that has fallen since may go unnoticed.
    pub(super) fn find(
        &mut self,
        resources: &RegionResources,
        price: &[f64],
        pair: (usize, usize),
    ) -> (f64, Via) {
        let (from, to) = pair;
        let n = resources.n;
        let (arcs, servers) = price.split_at(n * n);
        let (eps_out, servers) = servers.split_at(n);
        let (eps_in, staging) = servers.split_at(n);
        let row = &arcs[from * n..(from + 1) * n];
        let (mut best, mut via) = (row[to], Via::CIRCUIT);
        let mut offer = |price: f64, kind: PathKind, relay: u32| {
            if price < best {
                (best, via) = (price, Via { kind, relay });
            }
        };
        let (out, into) = (eps_out[from], eps_in[to]);
        offer(out + into, PathKind::Eps, 0);
        let mut relay = self.out[from];
        if relay.price < f64::INFINITY {
            let k = relay.server as usize;
            let now = row[k] + staging[k] + eps_out[k];
            if now > relay.price * STALE {
                self.out[from] = best_out(resources, price, from);
                relay = self.out[from];
            } else {
                relay.price = now;
            }
            offer(relay.price + into, PathKind::CircuitEps, relay.server);
        }
        let mut relay = self.into[to];
        if relay.price < f64::INFINITY {
            let k = relay.server as usize;
            let now = eps_in[k] + staging[k] + arcs[k * n + to];
            if now > relay.price * STALE {
                self.into[to] = best_into(resources, price, to);
                relay = self.into[to];
            } else {
                relay.price = now;
            }
            offer(out + relay.price, PathKind::EpsCircuit, relay.server);
        }
        for &relay in resources.common(from, to) {
            let k = relay as usize;
            offer(row[k] + staging[k] + arcs[k * n + to], PathKind::CircuitCircuit, relay);
        }
        (best, via)
    }
}

fn price_out(resources: &RegionResources, price: &[f64], from: usize, relay: usize) -> f64 {
    price[resources.arc(from, relay) as usize]
        + price[resources.staging(relay) as usize]
        + price[resources.eps_out(relay) as usize]
}

fn price_into(resources: &RegionResources, price: &[f64], to: usize, relay: usize) -> f64 {
    price[resources.eps_in(relay) as usize]
        + price[resources.staging(relay) as usize]
        + price[resources.arc(relay, to) as usize]
}

fn best_out(resources: &RegionResources, price: &[f64], from: usize) -> Relay {
    cheapest(
        resources.peers(from).iter().map(|&server| Relay {
            price: price_out(resources, price, from, server as usize),
            server,
        }),
    )
}

fn best_into(resources: &RegionResources, price: &[f64], to: usize) -> Relay {
    cheapest(
        resources.peers(to).iter().map(|&server| Relay {
            price: price_into(resources, price, to, server as usize),
            server,
        }),
    )
}

fn cheapest(relays: impl Iterator<Item = Relay>) -> Relay {
    relays.min_by(|x, y| x.price.total_cmp(&y.price)).unwrap_or(NO_RELAY)
}
