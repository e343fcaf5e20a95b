//! A region, a policy and a timing as JSON, in the units and names of the Python package.
//!
//! ```json
//! {"servers": 8,
//!  "region": {"ports": 6, "circuit_gbps": 400, "eps_gbps": 800},
//!  "policy": {"allocator": "greedy", "when": "break-even"},
//!  "timing": {"fixed_s": 25e-3}}
//! ```

use lightloom_decide::{Policy, Region};
use lightloom_model::record::{MIN_GBPS, rate_of};
use lightloom_model::{Choice, Failures, Fibers, Invalid, SwitchTiming};
use serde::Deserialize;

/// Maximum number of servers of a region.
pub const MAX_SERVERS: usize = 1024;
/// Maximum number of ports of a server.
pub const MAX_PORTS: u32 = 256;
/// Maximum number of bytes of a text that is parsed.
pub const MAX_TEXT_BYTES: usize = 64 << 20;

/// Everything that a decider is made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    servers: usize,
    region: RegionDescription,
    #[serde(default)]
    policy: Policy,
    timing: SwitchTiming,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionDescription {
    ports: OneOrEach<u32>,
    circuit_gbps: f64,
    eps_gbps: OneOrEach<f64>,
    #[serde(default = "yes")]
    split: bool,
    allowed: Option<Vec<Vec<bool>>>,
    planes: Option<String>,
    #[serde(default = "two")]
    numa_nodes: u32,
    #[serde(default)]
    eps_nics: u32,
    #[serde(default)]
    failed: Failures,
}

/// One value for all servers, or one for each.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected one number, or a list of one per server")]
enum OneOrEach<T> {
    One(T),
    Each(Vec<T>),
}

fn yes() -> bool {
    true
}

fn two() -> u32 {
    2
}

impl Description {
    /// Parses a description.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        let found: Self =
            serde_json::from_str(text).map_err(|error| Invalid(format!("description: {error}")))?;
        if found.servers > MAX_SERVERS {
            let given = found.servers;
            return Err(Invalid(format!("servers: expected at most {MAX_SERVERS}, got {given}")));
        }
        Ok(found)
    }

    /// The same as the core has it.
    pub(crate) fn into_parts(self) -> Result<(Region, Policy, SwitchTiming), Invalid> {
        let Self { servers, region, policy, timing } = self;
        let ports = region.ports.for_all(servers, "ports")?;
        if let Some(count) = ports.iter().find(|&&count| count > MAX_PORTS) {
            return Err(Invalid(format!("ports: expected at most {MAX_PORTS}, got {count}")));
        }
        let eps = region.eps_gbps.for_all(servers, "eps_gbps")?;
        let eps_rates = eps.into_iter().map(|gbps| rate_of(gbps, "eps_gbps", 0.0));
        let made = Region {
            ports,
            allowed: region.allowed.map(|rows| pairs(&rows, servers)).transpose()?,
            planes: region.planes.as_deref().map(choice::<Fibers>).transpose()?,
            numa_nodes: region.numa_nodes,
            circuit_rate: rate_of(region.circuit_gbps, "circuit_gbps", MIN_GBPS)?,
            eps_rates: eps_rates.collect::<Result<_, _>>()?,
            eps_nics: region.eps_nics,
            split: region.split,
            failures: region.failed,
        };
        Ok((made, policy, timing))
    }
}

impl<T: Clone> OneOrEach<T> {
    fn for_all(self, servers: usize, name: &str) -> Result<Vec<T>, Invalid> {
        match self {
            Self::One(value) => Ok(vec![value; servers]),
            Self::Each(values) if values.len() == servers => Ok(values),
            Self::Each(values) => {
                let given = values.len();
                Err(Invalid(format!("{name}: expected one number or {servers}, got {given}")))
            }
        }
    }
}

fn choice<T: Choice>(name: &str) -> Result<T, Invalid> {
    T::parse(name).map_err(|error| Invalid(error.to_string()))
}

fn pairs(rows: &[Vec<bool>], servers: usize) -> Result<Vec<bool>, Invalid> {
    let square = rows.len() == servers && rows.iter().all(|row| row.len() == servers);
    let symmetric = || (0..servers).all(|a| (0..a).all(|b| rows[a][b] == rows[b][a]));
    if !square || !symmetric() {
        return Err(Invalid(format!(
            "allowed: expected a symmetric {servers} x {servers} matrix of true and false"
        )));
    }
    Ok(rows.concat())
}
