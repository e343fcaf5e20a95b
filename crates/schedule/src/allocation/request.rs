//! Requests to allocators, and their results.

use lightloom_model::{Allocator, Invalid, Rate};

/// The demand of one region and the ports that can serve it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Number of servers, n.
    pub servers: usize,
    /// Bytes from source to destination, row-major n x n. The diagonal is ignored: it never
    /// leaves the server.
    pub demand: &'a [u64],
    /// Optical ports (one per NIC) of each server, n.
    pub ports: &'a [u32],
    /// Pairs that may have circuits, n x n and symmetric; all if absent.
    pub allowed: Option<&'a [bool]>,
    /// Rate of one circuit, per direction.
    pub circuit_rate: Rate,
    /// Rate of each server into, and out of, the EPS: the sum of its EPS NICs.
    pub eps_rates: EpsRates<'a>,
    /// Whether a pair with circuits may send its excess over the EPS.
    pub split: bool,
    /// Circuits that are there now, n x n; among equally fast results the one closest to them
    /// is taken.
    pub previous: Option<&'a [u16]>,
}

/// Rate of each server into, and out of, the EPS.
#[derive(Debug, Clone, Copy)]
pub enum EpsRates<'a> {
    /// One rate for all.
    Equal(Rate),
    /// One for each server, as when NICs have failed.
    Each(&'a [Rate]),
}

impl EpsRates<'_> {
    /// The rate of one server.
    pub fn of(&self, server: usize) -> Rate {
        match self {
            Self::Equal(rate) => *rate,
            Self::Each(rates) => rates[server],
        }
    }
}

impl Request<'_> {
    /// Checks that every array has the size that the number of servers requires.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        let n = self.servers;
        let cells = n * n;
        let expect = |name: &str, length: usize, wanted: usize| {
            if length == wanted {
                Ok(())
            } else {
                Err(Invalid(format!("{name} has {length} entries, expected {wanted}")))
            }
        };
        if n > MAX_SERVERS {
            return Err(Invalid(format!("{n} servers in one region, at most {MAX_SERVERS}")));
        }
        expect("demand", self.demand.len(), cells)?;
        expect("ports", self.ports.len(), n)?;
        if let Some(&ports) = self.ports.iter().find(|&&ports| ports > MAX_PORTS) {
            return Err(Invalid(format!("{ports} ports at one server, at most {MAX_PORTS}")));
        }
        if let Some(allowed) = self.allowed {
            expect("allowed", allowed.len(), cells)?;
        }
        if let Some(previous) = self.previous {
            expect("previous", previous.len(), cells)?;
            self.check_previous(previous)?;
        }
        if let EpsRates::Each(rates) = self.eps_rates {
            expect("eps_rates", rates.len(), n)?;
        }
        if self.circuit_rate.0 == 0 {
            return Err(Invalid::new("circuit_rate must be above 0 b/s"));
        }
        Ok(())
    }
}

impl Request<'_> {
    /// Trails between held and new circuits have an end only where both lead both ways.
    fn check_previous(&self, previous: &[u16]) -> Result<(), Invalid> {
        let n = self.servers;
        let is_right = |a: usize| {
            previous[a * n + a] == 0 && (0..a).all(|b| previous[a * n + b] == previous[b * n + a])
        };
        if (0..n).all(is_right) {
            return Ok(());
        }
        Err(Invalid::new(
            "previous: expected as many circuits each way, and none from a server to itself",
        ))
    }

    /// Checks that circuits are symmetric, between pairs that may have them, and within the ports.
    ///
    /// # Errors
    /// Names the first pair or server that is wrong.
    pub fn admits(&self, circuits: &[u16]) -> Result<(), Invalid> {
        let n = self.servers;
        if circuits.len() != n * n {
            let found = circuits.len();
            return Err(Invalid(format!("circuits have {found} entries, expected {n} x {n}")));
        }
        for a in 0..n {
            for b in 0..=a {
                let (count, back) = (circuits[a * n + b], circuits[b * n + a]);
                if count != back {
                    return Err(Invalid(format!(
                        "{back} circuits from {b} to {a} but {count} back: expected a symmetric \
                         matrix"
                    )));
                }
                let may = a != b && self.allowed.is_none_or(|allowed| allowed[a * n + b]);
                if count > 0 && !may {
                    return Err(Invalid(format!("servers {b} and {a} may not have circuits")));
                }
            }
            let used: u32 = circuits[a * n..(a + 1) * n].iter().map(|&c| u32::from(c)).sum();
            if used > self.ports[a] {
                let ports = self.ports[a];
                return Err(Invalid(format!("server {a} has {ports} ports but {used} circuits")));
            }
        }
        Ok(())
    }
}

/// Maximum number of servers in one region: a pair must fit 32 bits.
pub const MAX_SERVERS: usize = 4096;

/// Maximum number of ports of one server: the circuits of a pair must fit 16 bits.
const MAX_PORTS: u32 = u16::MAX as u32;

/// Circuits, and how the demand is split between them and the EPS.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// Number of parallel circuits of each pair, n x n, symmetric.
    pub circuits: Vec<u16>,
    /// Bytes of each ordered pair that go over the EPS, n x n; the rest goes over its circuits.
    pub eps_bytes: Vec<u64>,
    /// The objective: seconds until the last byte, at line rate. Infinite if some pair has neither
    /// circuits nor an EPS.
    pub makespan: f64,
    /// The allocator whose circuits these are: `Best` may find that another's are unbeaten.
    pub chosen: Allocator,
}

/// Number of port pairs that a switch touches on the way from one set of circuits to another:
/// the larger of circuits made and circuits torn down, as each new one replaces an old one where
/// ports are scarce.
///
/// # Panics
/// If the two differ in size, or are not square.
pub fn changed_pairs(previous: &[u16], next: &[u16]) -> u32 {
    assert_eq!(previous.len(), next.len(), "circuits of two different regions");
    let n = previous.len().isqrt();
    assert_eq!(n * n, previous.len(), "circuits are n x n");
    let (mut added, mut torn) = (0, 0);
    for a in 0..n {
        for b in a + 1..n {
            let (old, new) = (u32::from(previous[a * n + b]), u32::from(next[a * n + b]));
            added += new.saturating_sub(old);
            torn += old.saturating_sub(new);
        }
    }
    added.max(torn)
}
