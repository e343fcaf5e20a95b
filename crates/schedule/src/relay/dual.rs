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

/// Prices per byte of everything that limits the routing, in any unit.
#[derive(Debug, Clone, PartialEq)]
pub struct DualPrices {
    /// Circuits from server to server, n x n; ignored where there are none.
    pub arcs: Vec<f64>,
    /// EPS NICs, sending, n.
    pub eps_out: Vec<f64>,
    /// EPS NICs, receiving, n.
    pub eps_in: Vec<f64>,
    /// The NVSwitch of each server, staging, n; ignored if staging has no limit.
    pub staging: Vec<f64>,
}

impl DualPrices {
    /// Whether these are finite numbers from 0 on.
    pub fn are_valid(&self) -> bool {
        let parts = [&self.arcs, &self.eps_out, &self.eps_in, &self.staging];
        parts.into_iter().flatten().all(|price| price.is_finite() && *price >= 0.0)
    }
}

/// Seconds that no routing can beat, as these prices prove.
///
/// # Panics
/// If the request is not consistent, or the prices do not fit it or are not valid.
pub fn dual_bound(request: &RelayRequest, prices: &DualPrices) -> f64 {
    let resources = RegionResources::new(request);
    let parts = [&prices.arcs, &prices.eps_out, &prices.eps_in, &prices.staging];
    let n = resources.n;
    assert!(parts.iter().zip([n * n, n, n, n]).all(|(part, size)| part.len() == size), "sizes");
    assert!(prices.are_valid(), "prices are finite and at least 0");
    let mut price: Vec<f64> = parts.into_iter().flatten().copied().collect();
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
