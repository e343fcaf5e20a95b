//! The network of a cluster: servers, what is inside them, and the parts that join them.
//!
//! A fat-tree is a packet fabric alone, MixNet a packet fabric and the circuits of regions above
//! it, TopoOpt fixed circuits alone.
//!
//! A part is one file in `parts/`, with two interfaces. Its *description* ([`PartConfig`]) is plain
//! data that a fabric fills in; it checks itself and, given a job, adds its links. The result is a
//! [`NetworkPart`]. Nothing outside the file knows what kind of part it is.

use super::part::NetworkPart;
use super::placement::Placement;
use crate::demand::ranks_per_worker;
use crate::error::{ExecuteError, network as unfit};
use crate::links::{Links, PartId};
use crate::ocs::Ocs;
use crate::packets::{Extent, Graph, PacketNetwork, PacketTransport, Place};
use crate::turns::TurnRules;
use lightloom_model::{
    AllToAll, Duration, Failures, Invalid, NvSwitch, Rate, ServerId, StartUp, TaskGraph, by_name,
};
use lightloom_packetsim::PacketError;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;

/// Maximum number of servers: each has links of its own, used or not.
const MAX_SERVERS: u32 = 1 << 20;

/// The network that a step runs on.
#[derive(Debug, Clone, Deserialize)]
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
    #[serde(skip)]
    pub parts: Vec<Arc<dyn PartConfig>>,
    /// How the all-to-all is spread.
    #[serde(with = "by_name")]
    pub all_to_all: AllToAll,
    /// Whether GPUs gather and scatter for those whose NICs a path takes, where bytes are spread
    /// over all NICs; not so where links end at every GPU alike.
    pub delegates: bool,
    /// NIC groups of a server above which fluid flows from group to group are regrouped: as many
    /// bytes over each NIC in fewer flows.
    pub regroup_above: u32,
}

/// EP ranks of a worker whose NICs are told apart, of each of which is kept where it is.
const MAX_RANKS: u32 = 1 << 16;

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
        if self.servers > MAX_SERVERS {
            return Err(Invalid(format!(
                "a network of {} servers: expected at most {MAX_SERVERS}",
                self.servers
            )));
        }
        positive("nvswitch.all_to_all.gpu_rate", self.nvswitch.all_to_all.gpu_rate)?;
        positive("nvswitch.gather.gpu_rate", self.nvswitch.gather.gpu_rate)?;
        if let Some(reduce) = self.nvswitch.reduce {
            positive("nvswitch.reduce.gpu_rate", reduce.gpu_rate)?;
        }
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

    /// What decides about turns, where the ports of circuits take turns.
    pub(crate) fn turn_rules(&self) -> Option<&TurnRules> {
        self.parts.iter().find_map(|part| part.turn_rules())
    }

    /// What has failed of its parts, if anything may.
    pub(crate) fn failures(&self) -> Option<&Failures> {
        self.decided_circuits().map(|(_, ocs)| &ocs.failures)
    }

    /// Rate of copies over the NVSwitch of a server: of all of its GPUs.
    pub fn nvswitch_rate(&self) -> Rate {
        Rate(self.nvswitch.all_to_all.gpu_rate.0.saturating_mul(u64::from(self.gpus_per_server)))
    }

    /// That of all parts together.
    pub fn extent(&self) -> Extent {
        let nothing = Extent { rate: Rate(1), delay: Duration::ZERO };
        self.parts.iter().fold(nothing, |Extent { rate, delay }, part| {
            let own = part.extent(self, delay);
            Extent { rate: rate.max(own.rate), delay: delay.max(own.delay) }
        })
    }

    /// That of what carries a transport's packets: each port of NICs that spray them over planes.
    pub fn extent_of(&self, options: &PacketTransport) -> Extent {
        let Extent { rate, delay } = self.extent();
        let planes = self.packet_fabric().map_or(1, PacketFabric::sprayed_planes);
        let planes = if options.sprays() { u64::from(planes) } else { 1 };
        Extent { rate: Rate((rate.0 / planes).max(1)), delay }
    }

    /// Places every worker of a job.
    ///
    /// # Errors
    /// If a server does not exist or is too small, or NICs cannot be divided evenly among ranks.
    pub fn place(&self, graph: &TaskGraph) -> Result<Placement, ExecuteError> {
        let first_gpu = Placement::first_gpus(graph, self.servers, self.gpus_per_server)?;
        let groups = self.groups_per_server(graph)?;
        let ranks = ranks_per_worker(graph);
        if groups > 1 && ranks > MAX_RANKS {
            return Err(unfit(format!(
                "{ranks} EP ranks per worker: expected at most {MAX_RANKS}"
            )));
        }
        Ok(Placement::new(graph, &first_gpu, self.gpus_per_server, groups))
    }

    /// NIC groups per server: one, or one per EP rank or NIC where data moves rank by rank.
    fn groups_per_server(&self, graph: &TaskGraph) -> Result<u32, ExecuteError> {
        let ranks = ranks_per_worker(graph);
        if let Some(nics) = self.parts.iter().find_map(|part| part.nics_of_workers()) {
            return self.workers_with_nics(graph, nics);
        }
        let Some(fabric) = self.packet_fabric() else { return Ok(1) };
        if self.all_to_all == AllToAll::Hierarchical {
            return Ok(1);
        }
        let gpus = graph.gpus_per_worker;
        if !gpus.is_multiple_of(ranks) {
            return Err(unfit(format!("{ranks} EP ranks cannot share {gpus} GPUs of a worker")));
        }
        let (nics, _) = fabric.nics();
        let on_server = self.gpus_per_server / (gpus / ranks);
        let groups = on_server.min(nics);
        if groups == 0 || !on_server.is_multiple_of(groups) || !nics.is_multiple_of(groups) {
            return Err(unfit(format!(
                "{nics} NICs cannot be divided evenly among {on_server} EP ranks of a server: use \
                 the hierarchical all-to-all"
            )));
        }
        if !self.gpus_per_server.is_multiple_of(groups) {
            return Err(unfit(format!(
                "{} GPUs of a server cannot be divided evenly among {groups} groups of NICs",
                self.gpus_per_server
            )));
        }
        Ok(groups)
    }

    /// Workers of a server, each with as many of its NICs.
    fn workers_with_nics(&self, graph: &TaskGraph, nics: u32) -> Result<u32, ExecuteError> {
        let gpus = graph.gpus_per_worker;
        let workers = self.gpus_per_server / gpus;
        if !self.gpus_per_server.is_multiple_of(gpus) || !nics.is_multiple_of(workers) {
            return Err(unfit(format!(
                "{nics} NICs of a server of {} GPUs cannot be divided evenly among workers of \
                 {gpus} GPUs, each of which needs circuits of its own",
                self.gpus_per_server
            )));
        }
        Ok(workers)
    }

    /// Links of packets between servers at these places, without any yet, for transfers of these
    /// priorities, in ascending order.
    ///
    /// # Errors
    /// If a rate is 0, packets cannot be as they are asked to be, or something has failed that
    /// only flows can do without.
    pub(crate) fn packet_links(
        &self,
        places: &[Place],
        options: &PacketTransport,
        priorities: &[u8],
    ) -> Result<Links, ExecuteError> {
        options.config.validate()?;
        let of_region = self.failures().is_some_and(|failures| !failures.eps_nics.is_empty());
        if of_region || self.packet_fabric().is_some_and(PacketFabric::lacks_nics) {
            return Err(unfit("failed EPS NICs are simulated as flows only: leave packets out"));
        }
        let mut graph = Graph::new(places.len(), options.sprays());
        if let Some(fabric) = self.packet_fabric() {
            fabric.connect(self, places, &mut graph)?;
        }
        Ok(Links::packets(PacketNetwork::new(graph, options, priorities)?))
    }
}

/// The description of a part of a network.
pub trait PartConfig: fmt::Debug + Send + Sync {
    /// Its name in results: what a ledger counts its bytes under.
    fn name(&self) -> &'static str;

    /// Checks the description, given the parts below it.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid>;

    /// What packet transports are configured for; `below` is the longest delay of the parts below.
    fn extent(&self, network: &Network, below: Duration) -> Extent;

    /// The packet fabric, where the part is one.
    fn packet_fabric(&self) -> Option<&dyn PacketFabric> {
        None
    }

    /// Whether it tells the NICs of a server apart, so that ranks can send over their own.
    fn tells_nics_apart(&self) -> bool {
        false
    }

    /// Whether its links change by the clock.
    fn follows_clock(&self) -> bool {
        false
    }

    /// Whether it takes transfers into its care.
    fn conducts(&self) -> bool {
        false
    }

    /// The circuits whose changes are decided during the run, where the part is these.
    fn decided_circuits(&self) -> Option<&Ocs> {
        None
    }

    /// What decides about turns, where the ports of its circuits take turns.
    fn turn_rules(&self) -> Option<&TurnRules> {
        None
    }

    /// NICs of each server, where every worker has its own.
    fn nics_of_workers(&self) -> Option<u32> {
        None
    }

    /// Adds its links and finds its paths for a job. Nothing for circuits that follow decisions:
    /// these the run holds itself (see `circuits`).
    ///
    /// # Errors
    /// If it cannot serve the job.
    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError>;
}

/// What a part of packet switches adds to a description.
pub trait PacketFabric {
    /// NICs of each server on it, and the rate of each.
    fn nics(&self) -> (u32, Rate);

    /// Links of each server to it, by which parts that have failed are named, and the rate of each.
    fn links(&self) -> (u32, Rate) {
        self.nics()
    }

    /// Whether some of them have failed.
    fn lacks_nics(&self) -> bool;

    /// Planes over which every NIC sprays packets.
    fn sprayed_planes(&self) -> u32 {
        1
    }

    /// ToRs that share the NICs of a server.
    fn tors(&self) -> u32;

    /// Where it has a server.
    fn place(&self, server: ServerId) -> Place;

    /// Whether places differ in more than who shares them, so that they cannot be renumbered.
    fn tells_places_apart(&self) -> bool {
        false
    }

    /// Links on the shortest path between NICs of two servers, of one group of NICs or of two.
    fn hops(&self, from: Place, to: Place, same_group: bool) -> u64;

    /// Adds its switches and NICs for servers at these places.
    ///
    /// # Errors
    /// If the graph would be too large.
    fn connect(
        &self,
        network: &Network,
        places: &[Place],
        graph: &mut Graph,
    ) -> Result<(), PacketError>;
}

/// What a part is built for.
pub struct Setting<'a> {
    /// The part.
    pub id: PartId,
    /// The network that it is of.
    pub network: &'a Network,
    /// Where workers are.
    pub placement: &'a Placement,
    /// Where its links go.
    pub links: &'a mut Links,
}

/// The greatest number that divides both.
pub(crate) fn common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Refuses a rate of 0.
///
/// # Errors
/// Names the rate.
pub(crate) fn positive(name: &str, rate: Rate) -> Result<(), Invalid> {
    if rate.0 > 0 { Ok(()) } else { Err(Invalid(format!("{name} must be above 0 b/s"))) }
}
