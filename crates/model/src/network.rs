//! The network of a cluster, as three parts that fabrics combine.
//!
//! - [`Eps`]: a packet fabric (fat-tree, oversubscribed, rail-optimised) that a number of NICs per
//!   server connect to;
//! - [`Ocs`]: regional circuit switches that the other NICs connect to, with their policy (MixNet);
//! - [`Direct`]: fixed circuits between servers with relaying (TopoOpt).
//!
//! A fat-tree is `Eps` alone, MixNet is `Eps` and `Ocs`, TopoOpt is `Direct` alone.

use crate::ocs::{Failures, Ocs};
use crate::units::{Duration, Rate};
use crate::{Invalid, choices};

choices! {
    /// How the all-to-all is spread over the NICs of a server.
    pub enum AllToAll: "all_to_all" {
        Flat = "flat": "GPU to GPU, each over its own NIC",
        Rail = "rail": "First to the local GPU on the destination's rail (PXN), then across",
        Hierarchical = "hierarchical":
            "Gathered, spread evenly over all NICs of the server, scattered at the receiver",
    }
}

/// The scale-up network inside a server: a non-blocking crossbar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvSwitch {
    /// Rate of one GPU, per direction.
    pub gpu_rate: Rate,
    /// Start-up latency of one local collective or copy.
    pub latency: Duration,
}

/// A packet fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eps {
    /// NICs of each server on this fabric.
    pub nics: u32,
    /// Rate of each.
    pub nic_rate: Rate,
    /// Propagation delay of one link.
    pub link_delay: Duration,
    /// Consecutive servers under one ToR (rail-optimised: under one set of rail ToRs).
    pub servers_per_tor: u32,
    /// Consecutive servers under one pod (aggregation block).
    pub servers_per_pod: u32,
    /// Rate from a ToR to the layer above, all its uplinks, per direction; `None` if it cannot be
    /// a bottleneck (1:1).
    pub tor_uplink: Option<Rate>,
    /// Rail-optimised: NIC i of every server is under ToR i, so a NIC reaches another rail only
    /// over the layer above.
    pub rail: bool,
}

/// A bundle of parallel direct links between two servers, duplex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    /// One end.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// Number of parallel links.
    pub count: u32,
}

/// The servers that a pair's traffic crosses, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `[source, relay..., destination]`, adjacent ones joined by a circuit.
    pub servers: Vec<u32>,
}

/// A ring through servers that all-reduce among each other, each hop over circuits of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Its servers in ring order, each once; the last one is joined to the first.
    pub servers: Vec<u32>,
    /// Parallel duplex circuits of each hop.
    pub count: u32,
}

impl Cycle {
    /// Each server and the next one.
    pub fn hops(&self) -> impl Iterator<Item = (u32, u32)> {
        let next = self.servers.iter().cycle().skip(1);
        self.servers.iter().copied().zip(next.copied())
    }
}

/// Fixed circuits with relaying through servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Direct {
    /// Rate of one link.
    pub link_rate: Rate,
    /// Propagation delay of one link.
    pub link_delay: Duration,
    /// Forwarding delay of one relay server.
    pub relay_delay: Duration,
    /// Circuits.
    pub circuits: Vec<Circuit>,
    /// Routes for each ordered pair that communicates; several routes of one pair share its bytes
    /// in proportion to the parallel circuits of their narrowest hop.
    pub routes: Vec<Route>,
    /// Cycles for ring collectives: one among the servers of a cycle is divided over all cycles of
    /// the same servers, both ways. Their neighbours need routes.
    pub cycles: Vec<Cycle>,
}

/// The network that a step runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Number of servers.
    pub servers: u32,
    /// GPUs per server.
    pub gpus_per_server: u32,
    /// Inside the servers.
    pub nvswitch: NvSwitch,
    /// Packet fabric, if any.
    pub eps: Option<Eps>,
    /// Regional circuits, if any.
    pub ocs: Option<Ocs>,
    /// Fixed circuits, if any.
    pub direct: Option<Direct>,
    /// How the all-to-all is spread.
    pub all_to_all: AllToAll,
}

impl Network {
    /// Checks rates, sizes and that something connects the servers.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        let positive = |what: &str, rate: Rate| {
            if rate.0 > 0 { Ok(()) } else { Err(Invalid(format!("{what} must be above 0 b/s"))) }
        };
        if self.servers == 0 || self.gpus_per_server == 0 {
            return Err(Invalid::new("a network needs at least one server and one GPU in each"));
        }
        positive("nvswitch.gpu_rate", self.nvswitch.gpu_rate)?;
        if let Some(eps) = &self.eps {
            positive("eps.nic_rate", eps.nic_rate)?;
            if eps.nics == 0 || eps.servers_per_tor == 0 || eps.servers_per_pod == 0 {
                return Err(Invalid::new("eps: nics, servers per ToR and per pod must be above 0"));
            }
            if let Some(rate) = eps.tor_uplink {
                positive("eps.tor_uplink", rate)?;
            }
        }
        if let Some(ocs) = &self.ocs {
            positive("ocs.nic_rate", ocs.nic_rate)?;
            if ocs.region_of_server.len() != self.servers as usize {
                return Err(Invalid::new("ocs.region_of_server needs one entry per server"));
            }
            let Some(eps) = &self.eps else {
                return Err(Invalid::new("ocs needs an eps beside it for pairs without circuits"));
            };
            ocs.failures.validate(&vec![ocs.degree; self.servers as usize], eps.nics)?;
            for &(server, _) in &ocs.failures.eps_nics {
                let nics = Failures { servers: Vec::new(), ..ocs.failures.clone() };
                if nics.eps_rate(server, eps.nic_rate, eps.nics) == Rate(0) {
                    return Err(Invalid(format!(
                        "failed EPS NICs: all {} of server {server}, expected one that works",
                        eps.nics
                    )));
                }
            }
        }
        if let Some(direct) = &self.direct {
            self.validate_direct(direct)?;
        }
        if self.eps.is_none() && self.direct.is_none() && self.servers > 1 {
            return Err(Invalid::new("nothing connects the servers: eps or direct is needed"));
        }
        Ok(())
    }

    fn validate_direct(&self, direct: &Direct) -> Result<(), Invalid> {
        if direct.link_rate.0 == 0 {
            return Err(Invalid::new("direct.link_rate must be above 0 b/s"));
        }
        let outside = |server: u32| server >= self.servers;
        for circuit in &direct.circuits {
            if outside(circuit.a) || outside(circuit.b) || circuit.a == circuit.b {
                return Err(Invalid(format!("circuit {} - {} is no pair", circuit.a, circuit.b)));
            }
        }
        for route in &direct.routes {
            if route.servers.len() < 2 || route.servers.iter().any(|&server| outside(server)) {
                return Err(Invalid(format!("route {:?} is no path", route.servers)));
            }
        }
        for Cycle { servers, count } in &direct.cycles {
            let mut sorted = servers.clone();
            sorted.sort_unstable();
            let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
            if sorted.len() < 2 || twice || sorted.iter().any(|&server| outside(server)) {
                return Err(Invalid(format!("cycle {servers:?} is no ring of servers")));
            }
            if *count == 0 {
                return Err(Invalid(format!("cycle {servers:?} has no circuits")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> Network {
        Network {
            servers: 2,
            gpus_per_server: 8,
            nvswitch: NvSwitch { gpu_rate: Rate(1), latency: Duration::ZERO },
            eps: None,
            ocs: None,
            direct: None,
            all_to_all: AllToAll::Hierarchical,
        }
    }

    #[test]
    fn unconnected_servers_are_refused() {
        let text = bare().validate().unwrap_err().to_string();
        assert_eq!(text, "nothing connects the servers: eps or direct is needed");
    }

    #[test]
    fn a_circuit_needs_two_ends() {
        let circuits = vec![Circuit { a: 1, b: 1, count: 1 }];
        let direct = Direct { link_rate: Rate(1), circuits, ..Direct::default() };
        let network = Network { direct: Some(direct), ..bare() };
        assert_eq!(network.validate().unwrap_err().to_string(), "circuit 1 - 1 is no pair");
    }

    #[test]
    fn a_cycle_visits_servers_once() {
        let refusal = |servers: &[u32], count| {
            let cycles = vec![Cycle { servers: servers.to_vec(), count }];
            let direct = Direct { link_rate: Rate(1), cycles, ..Direct::default() };
            Network { direct: Some(direct), ..bare() }.validate().map_err(|error| error.to_string())
        };
        assert_eq!(refusal(&[0, 1], 1), Ok(()));
        for wrong in [&[0][..], &[0, 1, 0], &[0, 2]] {
            assert_eq!(refusal(wrong, 1), Err(format!("cycle {wrong:?} is no ring of servers")));
        }
        assert_eq!(refusal(&[1, 0], 0), Err("cycle [1, 0] has no circuits".into()));
    }
}
