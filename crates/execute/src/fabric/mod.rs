//! The network as links of a medium, and how a transfer finds its way over them.

pub mod direct;
pub mod eps;
pub mod rings;

use crate::circuits::relays::relay_delay;
use crate::error::ExecuteError;
use crate::medium::{Flow, Medium};
use crate::outcome::LinkUse;
use crate::seats::Seats;
use direct::DirectLinks;
use eps::{EpsLinks, EpsPath};
use lightloom_flowsim::LinkId;
use lightloom_model::{
    Bytes, Carrier, Duration, Failures, Network, NvSwitch, Rate, Time, WorkerId,
};

/// A part of a transfer between two workers that takes one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Way.
    pub carrier: Carrier,
    /// Size.
    pub bytes: u64,
}

/// The links that a transfer takes.
#[derive(Debug, Clone)]
pub enum Way {
    /// Over the packet fabric.
    Eps(EpsPath),
    /// A route of the direct fabric.
    Route(u32),
    /// The circuits between the two servers.
    Circuits(LinkId),
    /// Over a relay of the region.
    Relayed(Vec<LinkId>),
}

/// Everything that carries bytes.
#[derive(Debug)]
pub struct Fabric {
    /// What carries them.
    pub medium: Medium,
    /// Transfers started.
    pub started: u64,
    /// Packet fabric.
    pub eps: Option<EpsLinks>,
    /// Fixed circuits.
    pub direct: Option<DirectLinks>,
    nvswitch: NvSwitch,
    circuit_delay: Duration,
    /// What a relay of a region adds to a transfer.
    relay_delay: Duration,
}

impl Fabric {
    /// Adds the links of the packet fabric and of fixed circuits.
    ///
    /// # Errors
    /// If a route is broken.
    pub fn new(network: &Network, seats: &Seats, mut medium: Medium) -> Result<Self, ExecuteError> {
        let none = Failures::default();
        let failures = network.ocs.as_ref().map_or(&none, |ocs| &ocs.failures);
        let slots = (network.servers, seats.slots);
        let eps = network.eps.as_ref().map(|eps| EpsLinks::new(eps, failures, slots, &mut medium));
        let direct = match &network.direct {
            Some(direct) => Some(DirectLinks::new(direct, network, &mut medium)?),
            None => None,
        };
        let ocs = network.ocs.as_ref();
        Ok(Self {
            medium,
            started: 0,
            eps,
            direct,
            nvswitch: network.nvswitch,
            circuit_delay: ocs.map_or(Duration::ZERO, |ocs| ocs.circuit_delay),
            relay_delay: ocs.map_or(Duration::ZERO, |ocs| relay_delay(network, ocs)),
        })
    }

    /// Time of a local collective in which the busiest GPU moves this many bytes; none for none.
    pub fn local_time(&self, bytes_per_gpu: u64) -> Duration {
        if bytes_per_gpu == 0 {
            return Duration::ZERO;
        }
        self.nvswitch.latency + self.nvswitch.gpu_rate.transmission(Bytes(bytes_per_gpu))
    }

    /// The way of a transfer between two servers outside regions of circuits.
    pub fn way(&self, (from, to): (u32, u32), carrier: Carrier) -> Way {
        match carrier {
            Carrier::Eps { from_slot, to_slot } => {
                let eps = self.eps.as_ref().expect("an EPS carrier needs an EPS");
                Way::Eps(eps.path((from, from_slot), (to, to_slot)))
            }
            Carrier::Direct { route } => Way::Route(route),
            Carrier::Circuit | Carrier::Relay { .. } => {
                unreachable!("the circuits know their links")
            }
            Carrier::Local => unreachable!("local transfers take no links"),
        }
    }

    /// The links of a way, in order.
    pub fn links<'a>(&'a self, way: &'a Way) -> &'a [LinkId] {
        links(self.direct.as_ref(), way)
    }

    /// Starts a transfer; see [`Medium::start`].
    pub fn start(&mut self, now: Time, flow: Flow, way: &Way) {
        self.started += 1;
        self.medium.start(now, flow, links(self.direct.as_ref(), way));
    }

    /// Time from the end of a transfer to the arrival of its last byte.
    pub fn latency(&self, servers: (u32, u32), carrier: Carrier) -> Duration {
        if self.medium.ends_on_arrival() {
            return Duration::ZERO;
        }
        self.propagation(servers, carrier)
    }

    /// Time of the last byte on its way.
    pub fn propagation(&self, (from, to): (u32, u32), carrier: Carrier) -> Duration {
        match carrier {
            Carrier::Local => Duration::ZERO,
            Carrier::Circuit => self.circuit_delay,
            Carrier::Relay { server, circuit_in, circuit_out } => {
                let eps = Carrier::Eps { from_slot: 0, to_slot: 0 };
                let hop = |circuit| if circuit { Carrier::Circuit } else { eps };
                self.propagation((from, server), hop(circuit_in))
                    + self.relay_delay
                    + self.propagation((server, to), hop(circuit_out))
            }
            Carrier::Eps { from_slot, to_slot } => {
                let eps = self.eps.as_ref().expect("an EPS carrier needs an EPS");
                eps.latency((from, from_slot), (to, to_slot))
            }
            Carrier::Direct { route } => {
                self.direct.as_ref().expect("a route needs a direct fabric").route(route).latency
            }
        }
    }

    /// Relays that a carrier passes.
    pub fn relays(&self, carrier: Carrier) -> u64 {
        match (carrier, &self.direct) {
            (Carrier::Direct { route }, Some(direct)) => u64::from(direct.route(route).relays),
            (Carrier::Relay { .. }, _) => 1,
            _ => 0,
        }
    }

    /// The ways of a transfer between two workers outside all-to-alls: all NICs of both evenly,
    /// or the routes of the pair in proportion to their circuits.
    pub fn pieces(&self, seats: &Seats, ends: (WorkerId, WorkerId), bytes: u64) -> Vec<Piece> {
        let (from, to) = (seats.server[ends.0.index()], seats.server[ends.1.index()]);
        if from == to {
            return vec![Piece { carrier: Carrier::Local, bytes }];
        }
        if let Some(direct) = &self.direct {
            return direct
                .shares(from, to, bytes)
                .map(|(route, bytes)| Piece { carrier: Carrier::Direct { route }, bytes })
                .collect();
        }
        let (source, destination) = (seats.slots_of(ends.0), seats.slots_of(ends.1));
        let count = source.len().max(destination.len());
        let slot = |slots: &std::ops::Range<u32>, index: usize| {
            (slots.start + (index % slots.len()) as u32) as u16
        };
        shares(bytes, count)
            .enumerate()
            .map(|(index, bytes)| Piece {
                carrier: Carrier::Eps {
                    from_slot: slot(&source, index),
                    to_slot: slot(&destination, index),
                },
                bytes,
            })
            .collect()
    }

    /// Use of each class of links up to now.
    pub fn link_use(&self, end: Time) -> Vec<LinkUse> {
        let mut uses = Vec::new();
        let mut add = |name: &str, links: &[LinkId], rates: &[Rate]| {
            if !links.is_empty() {
                let carried: Vec<u64> =
                    links.iter().map(|&link| self.medium.carried(link)).collect();
                uses.push(LinkUse::new(name, &carried, rates, end));
            }
        };
        if let Some(eps) = &self.eps {
            add("server_up", &eps.up, &eps.slot_rates);
            add("server_down", &eps.down, &eps.slot_rates);
            add("tor_up", &eps.tor_up, &vec![eps.tor_rate; eps.tor_up.len()]);
            add("tor_down", &eps.tor_down, &vec![eps.tor_rate; eps.tor_down.len()]);
        }
        if let Some(direct) = &self.direct {
            add("relay", &direct.relays, &vec![direct.relay_rate; direct.relays.len()]);
            let bundle = |bundle: &direct::Bundle| self.medium.carried(bundle.link);
            let rate =
                |bundle: &direct::Bundle| Rate(direct.circuit_rate.0 * u64::from(bundle.count));
            let carried: Vec<u64> = direct.bundles.iter().map(bundle).collect();
            let rates: Vec<Rate> = direct.bundles.iter().map(rate).collect();
            uses.push(LinkUse::new("direct", &carried, &rates, end));
        }
        uses
    }
}

fn links<'a>(direct: Option<&'a DirectLinks>, way: &'a Way) -> &'a [LinkId] {
    match way {
        Way::Eps(path) => path.links(),
        Way::Route(route) => &direct.expect("a route needs a direct fabric").route(*route).links,
        Way::Circuits(link) => std::slice::from_ref(link),
        Way::Relayed(links) => links,
    }
}

/// Splits bytes in proportion to weights, whose sum is above 0 and below 2^64; rounded so that all
/// add up.
pub fn weighted_shares(
    bytes: u64,
    weights: impl Iterator<Item = u64> + Clone,
) -> impl Iterator<Item = u64> {
    let total: u128 = weights.clone().map(u128::from).sum();
    let (mut before, mut given) = (0_u128, 0_u64);
    weights.map(move |weight| {
        before += u128::from(weight);
        // at most `bytes`; below 2^128 as weights and bytes are below 2^64
        let until = (u128::from(bytes) * before / total) as u64;
        let share = until - given;
        given = until;
        share
    })
}

/// Splits bytes into equal shares, the remainder spread over the first ones.
pub fn shares(bytes: u64, count: usize) -> impl Iterator<Item = u64> {
    let count = count as u64;
    (0..count).map(move |index| bytes / count + u64::from(index < bytes % count))
}

#[cfg(test)]
mod tests {
    use super::{shares, weighted_shares};

    #[test]
    fn no_byte_is_lost_in_shares() {
        for bytes in [0, 1, 7, 1_000_003, u64::MAX] {
            for weights in [&[1][..], &[1, 1, 1], &[3, 1], &[0, 5, 2], &[u64::MAX - 1, 1]] {
                let found: Vec<u64> = weighted_shares(bytes, weights.iter().copied()).collect();
                assert_eq!(found.iter().map(|&x| u128::from(x)).sum::<u128>(), u128::from(bytes));
                let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
                for (&share, &weight) in found.iter().zip(weights) {
                    let exact = u128::from(bytes) * u128::from(weight) / total;
                    assert!(u128::from(share).abs_diff(exact) <= 1, "{bytes} {weights:?}");
                }
            }
            assert_eq!(shares(bytes, 3).sum::<u64>(), bytes);
        }
    }
}
