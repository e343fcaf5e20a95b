//! A lower bound from prices: weak duality of the routing program.
//!
//! Let every resource r have a price `w(r)` >= 0 per byte. However the bytes are routed, they pay
//! at least the cheapest path of each pair: the sum of `demand * least(w)` over pairs is at most
//! the sum of `load(r) w(r)` over resources. In time T resource r carries at most `capacity(r) T`,
//! so T is at least the former sum over the sum of `capacity(r) w(r)`. Any prices will do, so a
//! bound can be checked without trusting what found them.

use super::cheapest::Cheapest;
use super::request::RelayRequest;
use super::resources::RegionResources;
use lightloom_model::Invalid;

/// Prices per byte of everything that limits the routing, in any unit.
#[derive(Debug, Clone, PartialEq)]
pub struct DualPrices {
    servers: usize,
    /// Of circuits, n x n, then of EPS NICs and staging, 3 x n.
    prices: Vec<f64>,
}

impl DualPrices {
    /// Prices of circuits from server to server, n x n, ignored where there are none; and of each
    /// server's EPS NICs, sending and receiving, and its NVSwitch, staging, n each, ignored if that
    /// has no limit.
    ///
    /// # Errors
    /// If their numbers do not agree, or these are not finite numbers from 0 on.
    pub fn new(arcs: &[f64], [eps_out, eps_in, staging]: [&[f64]; 3]) -> Result<Self, Invalid> {
        let n = eps_out.len();
        let prices = [arcs, eps_out, eps_in, staging].concat();
        if arcs.len() != n * n || eps_in.len() != n || staging.len() != n {
            return Err(Invalid(format!("prices: expected {n} x {n} and 3 x {n}")));
        }
        if !prices.iter().all(|price| price.is_finite() && *price >= 0.0) {
            return Err(Invalid::new("prices: expected finite numbers from 0 on"));
        }
        Ok(Self { servers: n, prices })
    }
}

/// Seconds that no routing can beat, as these prices prove.
///
/// # Panics
/// If the prices are for other servers.
pub fn dual_bound(request: &RelayRequest, prices: &DualPrices) -> f64 {
    let resources = RegionResources::new(request);
    assert_eq!(prices.servers, resources.n, "prices of as many servers");
    let mut price = prices.prices.clone();
    price.push(0.0);
    for (price, &inverse) in price.iter_mut().zip(&resources.inverse) {
        if inverse == 0.0 {
            *price = 0.0;
        } else if inverse.is_infinite() {
            *price = f64::INFINITY;
        }
    }
    bound(&resources, &price) / (request.circuit_rate.0 as f64 / 8.0)
}

/// As [`dual_bound`], in bytes over one circuit.
pub(super) fn bound(resources: &RegionResources, price: &[f64]) -> f64 {
    let mut cheapest = Cheapest::new(resources, price);
    let mut paid = 0.0;
    for from in 0..resources.n {
        for to in 0..resources.n {
            let bytes = resources.demand(from, to);
            if bytes > 0 {
                paid += bytes as f64 * cheapest.find(resources, price, (from, to)).0;
            }
        }
    }
    let mut room = 0.0;
    for &resource in &resources.limited {
        room += price[resource as usize] / resources.inverse[resource as usize];
    }
    if paid > 0.0 { paid / room } else { 0.0 }
}
