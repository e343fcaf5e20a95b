//! Requests to allocators, and their results.

use lightloom_model::{Allocator, Invalid, Rate};

/// The demand of one region and the ports that can serve it.
///
/// Its arrays fit each other: that is checked where it is made.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub(crate) servers: usize,
    pub(crate) demand: &'a [u64],
    pub(crate) ports: &'a [u32],
    pub(crate) allowed: Option<&'a [bool]>,
    pub(crate) circuit_rate: Rate,
    pub(crate) eps_rates: EpsRates<'a>,
    pub(crate) split: bool,
    pub(crate) previous: Option<&'a [u16]>,
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

impl<'a> Request<'a> {
    /// Circuits for `demand`, bytes from source to destination, row-major n x n, whose diagonal is
    /// ignored: it never leaves the server. Each server has some optical `ports` (one per NIC), n;
    /// circuits have a rate, per direction, and so have servers into, and out of, the EPS.
    ///
    /// Any pair may have circuits, and none has any yet. With `split` a pair that has some may send
    /// its excess over the EPS.
    ///
    /// # Errors
    /// Names the first argument that is wrong.
    pub fn new(
        demand: &'a [u64],
        ports: &'a [u32],
        circuit_rate: Rate,
        eps_rates: EpsRates<'a>,
        split: bool,
    ) -> Result<Self, Invalid> {
        let servers = ports.len();
        if servers > MAX_SERVERS {
            return Err(Invalid(format!("{servers} servers in one region, at most {MAX_SERVERS}")));
        }
        if let Some(&ports) = ports.iter().find(|&&ports| ports > MAX_PORTS) {
            return Err(Invalid(format!("{ports} ports at one server, at most {MAX_PORTS}")));
        }
        if let EpsRates::Each(rates) = eps_rates {
            expect("eps_rates", rates.len(), servers)?;
        }
        if circuit_rate.0 == 0 {
            return Err(Invalid::new("circuit_rate must be above 0 b/s"));
        }
        let (allowed, previous) = (None, None);
        Self { servers, demand, ports, allowed, circuit_rate, eps_rates, split, previous }
            .with_demand(demand)
    }

    /// The same for another demand.
    ///
    /// # Errors
    /// If it is not n x n.
    pub fn with_demand(self, demand: &'a [u64]) -> Result<Self, Invalid> {
        expect("demand", demand.len(), self.servers * self.servers)?;
        Ok(Self { demand, ..self })
    }

    /// The same with circuits for these pairs only, n x n and symmetric; for all if there are none.
    ///
    /// # Errors
    /// If they are not n x n.
    pub fn with_allowed(self, allowed: Option<&'a [bool]>) -> Result<Self, Invalid> {
        let cells = self.servers * self.servers;
        allowed.map_or(Ok(()), |pairs| expect("allowed", pairs.len(), cells))?;
        Ok(Self { allowed, ..self })
    }

    /// The same with circuits that are there now, n x n: among equally fast results the one closest
    /// to them is taken.
    ///
    /// # Errors
    /// If they are not n x n, not duplex, or lead from a server to itself.
    pub fn with_previous(self, previous: Option<&'a [u16]>) -> Result<Self, Invalid> {
        if let Some(previous) = previous {
            expect("previous", previous.len(), self.servers * self.servers)?;
            self.check_previous(previous)?;
        }
        Ok(Self { previous, ..self })
    }

    /// Number of servers, n.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Bytes from source to destination, n x n.
    pub fn demand(&self) -> &'a [u64] {
        self.demand
    }

    /// Optical ports of each server, n.
    pub fn ports(&self) -> &'a [u32] {
        self.ports
    }

    /// Pairs that may have circuits, n x n; all if absent.
    pub fn allowed(&self) -> Option<&'a [bool]> {
        self.allowed
    }

    /// Rate of one circuit, per direction.
    pub fn circuit_rate(&self) -> Rate {
        self.circuit_rate
    }

    /// Rate of each server into, and out of, the EPS.
    pub fn eps_rates(&self) -> EpsRates<'a> {
        self.eps_rates
    }

    /// Whether a pair with circuits may send its excess over the EPS.
    pub fn split(&self) -> bool {
        self.split
    }

    /// Circuits that are there now, n x n.
    pub fn previous(&self) -> Option<&'a [u16]> {
        self.previous
    }

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

fn expect(name: &str, entries: usize, expected: usize) -> Result<(), Invalid> {
    if entries == expected {
        return Ok(());
    }
    Err(Invalid(format!("{name} has {entries} entries, expected {expected}")))
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
