//! A region, a policy and a timing as JSON, in the units and names of the Python package.
//!
//! ```json
//! {"servers": 8,
//!  "region": {"ports": 6, "circuit_gbps": 400, "eps_gbps": 800},
//!  "policy": {"allocator": "greedy", "when": "break-even"},
//!  "timing": {"fixed_s": 25e-3}}
//! ```

use lightloom_decide::{Policy, Region, SizedRegion};
use lightloom_model::{Invalid, SwitchTiming};
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
    region: Region,
    #[serde(default)]
    policy: Policy,
    timing: SwitchTiming,
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
    pub(crate) fn into_parts(self) -> Result<(SizedRegion, Policy, SwitchTiming), Invalid> {
        let Self { servers, region, policy, timing } = self;
        let region = SizedRegion::new(servers, region)?;
        if let Some(count) = region.ports().iter().find(|&&count| count > MAX_PORTS) {
            return Err(Invalid(format!("ports: expected at most {MAX_PORTS}, got {count}")));
        }
        Ok((region, policy, timing))
    }
}
