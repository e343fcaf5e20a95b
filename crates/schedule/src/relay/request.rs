//! Requests for relaying, and their results.

use crate::allocation::EpsRates;
use lightloom_model::{Invalid, Rate, RelayCost, choices};

/// The demand of one region, the circuits that are there and what relaying costs.
///
/// Its arrays fit each other: that is checked where it is made.
#[derive(Debug, Clone, Copy)]
pub struct RelayRequest<'a> {
    pub(crate) servers: usize,
    pub(crate) demand: &'a [u64],
    pub(crate) circuits: &'a [u16],
    pub(crate) circuit_rate: Rate,
    pub(crate) eps_rates: EpsRates<'a>,
    pub(crate) cost: RelayCost,
}

impl<'a> RelayRequest<'a> {
    /// Paths for `demand`, bytes from source to destination, row-major n x n, whose diagonal is
    /// ignored, over parallel duplex `circuits` of each pair, n x n, symmetric. Circuits have a
    /// rate, per direction, and so have servers into, and out of, the EPS; a relay pays `cost`.
    ///
    /// # Errors
    /// Names the first argument that is wrong.
    pub fn new(
        demand: &'a [u64],
        circuits: &'a [u16],
        circuit_rate: Rate,
        eps_rates: EpsRates<'a>,
        cost: RelayCost,
    ) -> Result<Self, Invalid> {
        let n = demand.len().isqrt();
        if n > MAX_SERVERS {
            return Err(Invalid(format!("{n} servers in one region, at most {MAX_SERVERS}")));
        }
        for (name, found) in [("demand", demand.len()), ("circuits", circuits.len())] {
            if found != n * n {
                return Err(Invalid(format!("{name} has {found} entries, expected {}", n * n)));
            }
        }
        if let EpsRates::Each(rates) = eps_rates
            && rates.len() != n
        {
            return Err(Invalid(format!("eps_rates has {} entries, expected {n}", rates.len())));
        }
        for a in 0..n {
            if circuits[a * n + a] > 0 {
                return Err(Invalid(format!("server {a} has circuits to itself")));
            }
            if (0..a).any(|b| circuits[a * n + b] != circuits[b * n + a]) {
                return Err(Invalid::new("circuits are duplex: expected a symmetric matrix"));
            }
        }
        let total: u128 = demand.iter().map(|&bytes| u128::from(bytes)).sum();
        if total > MAX_BYTES {
            return Err(Invalid(format!("{total} bytes of demand, at most {MAX_BYTES}")));
        }
        if circuit_rate.0 == 0 {
            return Err(Invalid::new("circuit_rate must be above 0 b/s"));
        }
        if cost.staging_rate == Some(Rate(0)) {
            return Err(Invalid::new("staging_rate must be above 0 b/s"));
        }
        Ok(Self { servers: n, demand, circuits, circuit_rate, eps_rates, cost })
    }

    /// Number of servers, n.
    pub fn servers(&self) -> usize {
        self.servers
    }
}

/// Maximum number of servers in one region: dense tables of pairs must stay small.
const MAX_SERVERS: usize = 1024;

/// Maximum number of bytes in all: loads are sums over pairs and must fit 64 bits.
pub const MAX_BYTES: u128 = 1 << 63;

choices! {
    /// What carries the bytes of a path, in order.
    pub enum PathKind: "relay kind" {
        Circuit = "circuit": "The circuits of the pair",
        Eps = "eps": "The packet switches",
        CircuitCircuit = "circuit-circuit": "Circuits to the relay, circuits from it",
        CircuitEps = "circuit-eps": "Circuits to the relay, the packet switches from it",
        EpsCircuit = "eps-circuit": "The packet switches to the relay, circuits from it",
    }
}

impl PathKind {
    /// Whether a third server passes the bytes on.
    pub fn is_relayed(self) -> bool {
        !matches!(self, Self::Circuit | Self::Eps)
    }
}

/// Bytes of one pair that take one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelayPath {
    /// Where they come from.
    pub source: u32,
    /// Where they go.
    pub destination: u32,
    /// What carries them.
    pub kind: PathKind,
    /// The server that passes them on.
    pub relay: Option<u32>,
    /// How many.
    pub bytes: u64,
}

choices! {
    /// Why a routing uses relays, or does not.
    pub enum RelayVerdict: "relay verdict" {
        Pays = "pays": "relaying is faster, its latency included",
        NoFaster = "no faster": "no routing with relays is faster than one hop",
        LatencyExceedsGain = "latency exceeds gain":
            "the latency of relaying is more than what it gains",
    }
}

/// How the demand is divided among paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Relayed {
    /// Every path that carries bytes, sorted by source, destination, kind and relay.
    pub paths: Vec<RelayPath>,
    /// Seconds until the last byte at line rate, without latency; infinite if a pair has no path.
    pub makespan: f64,
    /// Seconds that relaying adds (0 if nothing is relayed).
    pub latency: f64,
    /// Seconds until the last byte of the best routing over one hop.
    pub one_hop: f64,
    /// Seconds until the last byte with relays, their latency included, whether it pays or not.
    pub with_relays: f64,
    /// Seconds that no routing over these circuits, in one or two hops, can beat.
    pub lower_bound: f64,
    /// Why this is, or is not, a routing over relays.
    pub verdict: RelayVerdict,
}

impl Relayed {
    /// Bytes that some server passes on.
    pub fn relayed_bytes(&self) -> u64 {
        self.paths.iter().filter(|path| path.relay.is_some()).map(|path| path.bytes).sum()
    }
}
