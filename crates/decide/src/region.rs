//! The servers whose circuits are decided together, and what serves them.

use lightloom_model::record::{Takes, Value};
use lightloom_model::{CircuitRate, Failures, Fibers, Invalid, Pairs, PerServer, Rate};
use lightloom_schedule::{MAX_NUMA_NODES, MAX_SERVERS};

lightloom_model::records! {
    /// Servers that share circuit switches, with their ports and rates. Servers are counted from 0.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct Region {
        ports = ports: PerServer<u16>,
            "Optical ports per server, those that have failed included: one number for all, or one \
             per server.";
        circuit_rate = circuit_gbps: CircuitRate,
            "Rate of one circuit, per direction.";
        eps_rates = eps_gbps: PerServer<Rate>,
            "Rate of one server into, and out of, the EPS (the sum of its EPS NICs): one number \
             for all, or one per server; 0 for none.";
        split = split: bool = true,
            "Whether a pair with circuits may send its excess over the EPS.";
        allowed = allowed: Option<Pairs> = None,
            "Pairs that may have circuits, n x n booleans, symmetric; all by default.";
        failures = failed: Failures = Failures::default(),
            "What is broken and must not be used.";
        eps_nics = eps_nics: Option<u16> = None,
            "EPS NICs of a server, of which its rate is the sum; needed only if some of them have \
             failed.";
        planes = planes: Option<Fibers> = None,
            "How fibers are laid where NIC i of every server is on a circuit switch of its own; by \
             default one switch joins any two ports.";
        numa_nodes = numa_nodes: NumaNodes = NumaNodes::TWO,
            "NUMA nodes of a server: several circuits of one pair end on different ones.";
    }
}

/// Number of NUMA nodes of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NumaNodes(u32);

impl NumaNodes {
    /// As most servers have.
    pub const TWO: Self = Self(2);

    /// So many.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Value for NumaNodes {
    const TAKES: Takes = Takes::Whole(1, MAX_NUMA_NODES as u64);
    type Written = u64;

    fn read(written: u64, name: &str) -> Result<Self, Invalid> {
        if !(1..=u64::from(MAX_NUMA_NODES)).contains(&written) {
            let most = MAX_NUMA_NODES;
            return Err(Invalid(format!("{name}: expected 1 to {most}, got {written}")));
        }
        Ok(Self(written as u32))
    }

    fn write(&self) -> u64 {
        u64::from(self.0)
    }
}

/// Maximum number of planes: the NIC table of a region must stay small.
const MAX_PLANES: usize = 4096;

/// A region of so many servers: its lists are as long, and what has failed is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SizedRegion {
    region: Region,
    ports: Vec<u32>,
    eps_rates: Vec<Rate>,
}

impl SizedRegion {
    /// The region of so many servers.
    ///
    /// # Errors
    /// Names the first field that does not fit the number of servers, or another field.
    pub fn new(servers: usize, region: Region) -> Result<Self, Invalid> {
        if servers > MAX_SERVERS {
            return Err(Invalid(format!("{servers} servers in one region, at most {MAX_SERVERS}")));
        }
        let ports = region.ports.each(servers, "ports")?.into_iter().map(u32::from).collect();
        let eps_rates = region.eps_rates.each(servers, "eps_gbps")?;
        if region.allowed.as_ref().is_some_and(|pairs| pairs.servers() != servers) {
            return Err(Invalid(format!(
                "allowed: expected a symmetric {servers} x {servers} matrix of true and false"
            )));
        }
        if !region.failures.eps_nics.is_empty() && region.eps_nics.unwrap_or(0) == 0 {
            return Err(Invalid::new(
                "eps_nics: EPS NICs have failed, expected how many a server has",
            ));
        }
        let sized = Self { region, ports, eps_rates };
        let Region { failures, planes, .. } = &sized.region;
        failures.validate(&sized.ports, sized.eps_nics())?;
        if planes.is_some() {
            sized.check_planes()?;
        }
        Ok(sized)
    }

    fn check_planes(&self) -> Result<(), Invalid> {
        let planes = self.width();
        if planes > MAX_PLANES {
            return Err(Invalid(format!("{planes} planes, at most {MAX_PLANES}")));
        }
        // A server outside all switches has no ports.
        match self.ports.iter().find(|&&ports| ports as usize != planes && ports != 0) {
            Some(ports) => Err(Invalid(format!(
                "a server has {ports} ports, another {planes}: planes expect one NIC per plane at \
                 every server; name failed NICs"
            ))),
            None => Ok(()),
        }
    }

    /// What it was made of.
    pub fn record(&self) -> &Region {
        &self.region
    }

    /// Number of servers, n.
    pub fn servers(&self) -> usize {
        self.ports.len()
    }

    /// Optical NICs of each server, those that have failed included.
    pub fn ports(&self) -> &[u32] {
        &self.ports
    }

    /// Pairs that may have circuits, n x n; all if absent.
    pub fn allowed(&self) -> Option<&[bool]> {
        self.region.allowed.as_ref().map(Pairs::cells)
    }

    fn eps_nics(&self) -> u32 {
        self.region.eps_nics.map_or(0, u32::from)
    }

    /// Largest number of optical NICs of a server.
    pub fn width(&self) -> usize {
        self.ports.iter().copied().max().unwrap_or(0) as usize
    }

    /// Which optical NICs work, n x [`Self::width`].
    pub fn working_nics(&self) -> Vec<bool> {
        self.region.failures.working_nics(&self.ports, self.width())
    }

    /// Optical NICs of each server that work.
    pub fn working_ports(&self) -> Vec<u32> {
        let (width, working) = (self.width(), self.working_nics());
        let count = |server: usize| {
            working[server * width..][..width].iter().filter(|&&works| works).count() as u32
        };
        (0..self.servers()).map(count).collect()
    }

    /// Rate of each server on the EPS, less what has failed.
    pub fn working_eps_rates(&self) -> Vec<Rate> {
        let nics = self.eps_nics();
        let rate = |(server, &rate): (usize, &Rate)| {
            self.region.failures.eps_rate(server as u32, rate, nics)
        };
        self.eps_rates.iter().enumerate().map(rate).collect()
    }
}
