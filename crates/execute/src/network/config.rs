//! The network of a cluster: servers, what is inside them, and the parts that join them.
//!
//! A fat-tree is a packet fabric alone, MixNet a packet fabric and the circuits of regions above
//! it, TopoOpt fixed circuits alone.

use super::part::{PacketFabric, PartConfig};
use super::paths::PartId;
use lightloom_model::{AllToAll, Duration, Failures, Invalid, NvSwitch, Ocs, Rate, StartUp};
use std::sync::Arc;

/// The network that a step runs on.
#[derive(Debug, Clone)]
pub struct Network {
    /// Number of servers.
    pub servers: u32,
    /// GPUs per server.
    pub gpus_per_server: u32,
    /// Inside the servers.
    pub nvswitch: NvSwitch,
    /// What software takes to begin operations between them.
    pub start_up: StartUp,
    /// What joins the servers; each part may rely on those before it.
    pub parts: Vec<Arc<dyn PartConfig>>,
    /// How the all-to-all is spread.
    pub all_to_all: AllToAll,
}

impl Network {
    /// The network with one more part, or with a part replaced by another one of its name.
    #[must_use]
    pub fn with(mut self, part: impl PartConfig + 'static) -> Self {
        let part: Arc<dyn PartConfig> = Arc::new(part);
        match self.parts.iter_mut().find(|other| other.name() == part.name()) {
            Some(other) => *other = part,
            None => self.parts.push(part),
        }
        self
    }

    /// Checks rates, sizes and that something joins the servers.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.servers == 0 || self.gpus_per_server == 0 {
            return Err(Invalid::new("a network needs at least one server and one GPU in each"));
        }
        positive("nvswitch.all_to_all.gpu_rate", self.nvswitch.all_to_all.gpu_rate)?;
        positive("nvswitch.gather.gpu_rate", self.nvswitch.gather.gpu_rate)?;
        for (place, part) in self.parts.iter().enumerate() {
            if self.parts[..place].iter().any(|other| other.name() == part.name()) {
                return Err(Invalid(format!("a network has one part {}, not two", part.name())));
            }
            part.validate(self, &self.parts[..place])?;
        }
        if self.parts.is_empty() && self.servers > 1 {
            return Err(Invalid::new("nothing connects the servers: eps or direct is needed"));
        }
        Ok(())
    }

    /// The packet fabric, if there is one.
    pub fn packet_fabric(&self) -> Option<&dyn PacketFabric> {
        self.parts.iter().find_map(|part| part.packet_fabric())
    }

    /// The circuits whose changes are decided during the run, if there are any.
    pub fn decided_circuits(&self) -> Option<(PartId, &Ocs)> {
        let circuits = self.parts.iter().map(|part| part.decided_circuits());
        circuits.enumerate().find_map(|(place, ocs)| Some((PartId::at(place), ocs?)))
    }

    /// What has failed of its parts, if anything may.
    pub(crate) fn failures(&self) -> Option<&Failures> {
        self.decided_circuits().map(|(_, ocs)| &ocs.failures)
    }

    /// Rate of copies over the NVSwitch of a server: of all of its GPUs.
    pub fn nvswitch_rate(&self) -> Rate {
        Rate(self.nvswitch.all_to_all.gpu_rate.0.saturating_mul(u64::from(self.gpus_per_server)))
    }

    /// The fastest single link of all parts, and the longest propagation and forwarding one way.
    pub fn extent(&self) -> (Rate, Duration) {
        self.parts.iter().fold((Rate(1), Duration::ZERO), |(rate, delay), part| {
            let (own_rate, own_delay) = part.extent(self, delay);
            (rate.max(own_rate), delay.max(own_delay))
        })
    }
}

/// Refuses a rate of 0.
///
/// # Errors
/// Names the rate.
pub(crate) fn positive(name: &str, rate: Rate) -> Result<(), Invalid> {
    if rate.0 > 0 { Ok(()) } else { Err(Invalid(format!("{name} must be above 0 b/s"))) }
}
