//! The servers whose circuits are decided together, and what serves them.

use lightloom_model::{Failures, Fibers, Invalid, Rate};
use lightloom_schedule::{EpsRates, MAX_NUMA_NODES, Request};
use serde::{Deserialize, Serialize};

/// Servers that share circuit switches, with their ports and rates. Servers are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// Optical NICs of each server, those that have failed included.
    pub ports: Vec<u32>,
    /// Pairs that may have circuits, n x n and symmetric; all if absent.
    pub allowed: Option<Vec<bool>>,
    /// How fibers are laid where there is one switch per NIC index; `None` where one switch joins
    /// any two ports.
    pub planes: Option<Fibers>,
    /// NUMA nodes of a server: several circuits of one pair end on different ones.
    pub numa_nodes: u32,
    /// Rate of one circuit, per direction.
    pub circuit_rate: Rate,
    /// Rate of each server into, and out of, the EPS: the sum of its EPS NICs.
    pub eps_rates: Vec<Rate>,
    /// EPS NICs that each of these rates is the sum of; looked at only where some have failed.
    pub eps_nics: u32,
    /// Whether a pair with circuits may send its excess over the EPS.
    pub split: bool,
    /// What has failed.
    pub failures: Failures,
}

/// Maximum number of planes: the NIC table of a region must stay small.
const MAX_PLANES: u32 = 4096;

impl Region {
    /// Number of servers, n.
    pub fn servers(&self) -> usize {
        self.ports.len()
    }

    /// Checks that every array has the size that the number of servers requires, and that the parts
    /// that have failed exist.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        let n = self.servers();
        Request {
            servers: n,
            demand: &vec![0; n * n],
            ports: &self.ports,
            allowed: self.allowed.as_deref(),
            circuit_rate: self.circuit_rate,
            eps_rates: EpsRates::Each(&self.eps_rates),
            split: self.split,
            previous: None,
        }
        .validate()?;
        if self.numa_nodes == 0 {
            return Err(Invalid::new("numa_nodes must be above 0"));
        }
        if self.numa_nodes > MAX_NUMA_NODES {
            let given = self.numa_nodes;
            return Err(Invalid(format!("{given} numa_nodes: at most {MAX_NUMA_NODES}")));
        }
        if !self.failures.eps_nics.is_empty() && self.eps_nics == 0 {
            return Err(Invalid::new("eps_nics must be above 0: EPS NICs have failed"));
        }
        self.failures.validate(&self.ports, self.eps_nics)?;
        if self.planes.is_some() {
            return self.validate_planes();
        }
        Ok(())
    }

    fn validate_planes(&self) -> Result<(), Invalid> {
        let planes = self.width() as u32;
        if planes > MAX_PLANES {
            return Err(Invalid(format!("{planes} planes, at most {MAX_PLANES}")));
        }
        // A server outside all switches has no ports.
        match self.ports.iter().find(|&&ports| ports != planes && ports != 0) {
            Some(ports) => Err(Invalid(format!(
                "a server has {ports} ports, another {planes}: planes expect one NIC per plane at \
                 every server; name failed NICs"
            ))),
            None => Ok(()),
        }
    }

    /// Largest number of optical NICs of a server.
    pub fn width(&self) -> usize {
        self.ports.iter().copied().max().unwrap_or(0) as usize
    }

    /// Which optical NICs work, n x [`Self::width`].
    pub fn working_nics(&self) -> Vec<bool> {
        self.failures.working_nics(&self.ports, self.width())
    }

    /// Rate of each server on the EPS, less what has failed.
    pub fn working_eps_rates(&self) -> Vec<Rate> {
        let rate = |(server, &rate): (usize, &Rate)| {
            self.failures.eps_rate(server as u32, rate, self.eps_nics)
        };
        self.eps_rates.iter().enumerate().map(rate).collect()
    }
}
