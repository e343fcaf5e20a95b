//! Fixed circuits between servers, with relaying (TopoOpt).
//!
//! Each bundle of parallel circuits is one link per direction, of the rate of all of them. A relay
//! passes bytes through its NVSwitch, whose link is shared by everything that it relays, and adds
//! its forwarding delay.
//!
//! Routes of one pair share its bytes in proportion to the circuits of their narrowest bundle: on
//! routes without bundles in common and without other traffic, they are done at the same time.

use super::cycles::{Cycle, Cycles};
use crate::error::{ExecuteError, network as unfit};
use crate::links::LinkUse;
use crate::network::{
    Below, Division, Link, Links, Network, NetworkPart, Pair, PartConfig, Path, RingOrder, Setting,
    positive, weighted_shares,
};
use crate::packets::Extent;
use lightloom_flowsim::LinkId;
use lightloom_model::{Circuit, Duration, Invalid, Rate, ServerId, Time};
use lightloom_packetsim::Cable;
use rustc_hash::FxHashMap;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::sync::Arc;

/// The servers that a pair's traffic crosses, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `[source, relay..., destination]`, adjacent ones joined by a circuit.
    pub servers: Vec<u32>,
}

/// Fixed circuits with relaying through servers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Direct {
    /// Rate of one link.
    #[serde(rename = "nic_rate_bps")]
    pub nic_rate: Rate,
    /// Propagation delay of one link.
    #[serde(rename = "link_delay_ps")]
    pub link_delay: Duration,
    /// Forwarding delay of one relay server.
    #[serde(rename = "relay_delay_ps")]
    pub relay_delay: Duration,
    /// Circuits.
    pub circuits: Vec<Circuit>,
    /// Routes for each ordered pair that communicates; several routes of one pair share its bytes
    /// in proportion to the parallel circuits of their narrowest hop.
    #[serde(flatten, deserialize_with = "routes")]
    pub routes: Vec<Route>,
    /// Cycles for ring collectives: one among the servers of a cycle is divided over all cycles of
    /// the same servers, both ways. Their neighbors need routes.
    #[serde(flatten, deserialize_with = "cycles")]
    pub cycles: Vec<Cycle>,
}

/// Routes as columns: the servers of all of them, and where each begins.
fn routes<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Route>, D::Error> {
    #[derive(Deserialize)]
    struct Columns {
        route_offsets: Vec<u32>,
        route_servers: Vec<u32>,
    }
    let Columns { route_offsets, route_servers } = Deserialize::deserialize(source)?;
    let lists = split(&route_offsets, &route_servers);
    let lists = lists.ok_or_else(|| D::Error::custom("route_offsets exceed route_servers"))?;
    Ok(lists.into_iter().map(|servers| Route { servers }).collect())
}

/// Cycles as columns: as routes, and the circuits of each hop.
fn cycles<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Cycle>, D::Error> {
    #[derive(Deserialize)]
    struct Columns {
        #[serde(rename = "cycle_offsets")]
        offsets: Vec<u32>,
        #[serde(rename = "cycle_servers")]
        servers: Vec<u32>,
        #[serde(rename = "cycle_counts")]
        counts: Vec<u32>,
    }
    let Columns { offsets, servers, counts } = Deserialize::deserialize(source)?;
    let lists = split(&offsets, &servers);
    let lists = lists.ok_or_else(|| D::Error::custom("cycle_offsets exceed cycle_servers"))?;
    if counts.len() != lists.len() {
        return Err(D::Error::custom("cycle_counts needs one entry per cycle"));
    }
    let cycles = lists.into_iter().zip(counts);
    Ok(cycles.map(|(servers, count)| Cycle { servers, count }).collect())
}

/// The lists that a column is cut into; nothing if one ends outside.
fn split(offsets: &[u32], column: &[u32]) -> Option<Vec<Vec<u32>>> {
    let list = |ends: &[u32]| column.get(ends[0] as usize..ends[1] as usize);
    offsets.windows(2).map(|ends| list(ends).map(<[u32]>::to_vec)).collect()
}

/// Maximum number of parallel circuits of a pair: as packets each is a link.
const MAX_PARALLEL: u32 = 1 << 10;

/// Refuses more parallel circuits than servers have ports.
pub(super) fn check_parallel(circuit: &Circuit) -> Result<(), Invalid> {
    let Circuit { a, b, count } = *circuit;
    if count <= MAX_PARALLEL {
        return Ok(());
    }
    Err(Invalid(format!("{count} circuits {a} - {b}: expected at most {MAX_PARALLEL}")))
}

impl PartConfig for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        positive("direct.nic_rate", self.nic_rate)?;
        let outside = |server: u32| server >= network.servers;
        for circuit in &self.circuits {
            if outside(circuit.a) || outside(circuit.b) || circuit.a == circuit.b {
                return Err(Invalid(format!("circuit {} - {} is no pair", circuit.a, circuit.b)));
            }
            check_parallel(circuit)?;
        }
        for route in &self.routes {
            if route.servers.len() < 2 || route.servers.iter().any(|&server| outside(server)) {
                return Err(Invalid(format!("route {:?} is no path", route.servers)));
            }
        }
        self.cycles.iter().try_for_each(|cycle| cycle.validate(network.servers))?;
        if below.is_empty() {
            Ok(())
        } else {
            Err(Invalid::new("a network has either direct circuits or an eps, not both"))
        }
    }

    fn extent(&self, _network: &Network, _below: Duration) -> Extent {
        let hops = self.routes.iter().map(|route| route.servers.len() as u64 - 1);
        let hops = hops.max().unwrap_or(1);
        let delay = hops * self.link_delay.0 + (hops - 1) * self.relay_delay.0;
        Extent { rate: self.nic_rate, delay: Duration(delay) }
    }

    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        Ok(Some(Box::new(FixedCircuits::new(self, setting)?)))
    }
}

/// One route, ready for use.
#[derive(Debug, Clone)]
struct CompiledRoute {
    /// Bundles and relays in order.
    links: Vec<LinkId>,
    path: Path,
    /// Parallel circuits of the narrowest bundle.
    circuits: u32,
}

/// The links and routes of fixed circuits.
#[derive(Debug)]
struct FixedCircuits {
    /// All bundles, both directions.
    bundles: Vec<LinkId>,
    /// NVSwitch links of the servers that relay.
    relays: Vec<LinkId>,
    cycles: Cycles,
    routes: Vec<CompiledRoute>,
    /// Routes of each ordered pair, as a range of `order`.
    by_pair: FxHashMap<(u32, u32), (u32, u32)>,
    order: Vec<u32>,
}

impl FixedCircuits {
    /// Adds all links and compiles the routes.
    ///
    /// # Errors
    /// If a route crosses a pair of servers that no circuit joins, or neighbors in a cycle have no
    /// route.
    fn new(config: &Direct, setting: &mut Setting<'_>) -> Result<Self, ExecuteError> {
        let mut counts: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut keys = Vec::new();
        for circuit in config.circuits.iter().filter(|circuit| circuit.count > 0) {
            for key in [(circuit.a, circuit.b), (circuit.b, circuit.a)] {
                let count = counts.entry(key).or_insert_with(|| {
                    keys.push(key);
                    0
                });
                *count += circuit.count;
            }
        }
        let mut bundle_of: FxHashMap<(u32, u32), (LinkId, u32)> = FxHashMap::default();
        let mut bundles = Vec::with_capacity(keys.len());
        for key in keys {
            let (from, to, count) = (ServerId(key.0), ServerId(key.1), counts[&key]);
            let each = Cable { rate: config.nic_rate, delay: config.link_delay };
            let link = setting.links.add(Link::circuits(from, to, count, each));
            bundle_of.insert(key, (link, count));
            bundles.push(link);
        }
        let mut part = Self {
            bundles,
            relays: Vec::new(),
            cycles: Cycles::new(&config.cycles),
            routes: Vec::with_capacity(config.routes.len()),
            by_pair: FxHashMap::default(),
            order: Vec::new(),
        };
        part.compile(config, &bundle_of, setting)?;
        part.index(config);
        part.check_cycles(&config.cycles)?;
        Ok(part)
    }

    fn compile(
        &mut self,
        config: &Direct,
        bundle_of: &FxHashMap<(u32, u32), (LinkId, u32)>,
        setting: &mut Setting<'_>,
    ) -> Result<(), ExecuteError> {
        let mut relay_of: FxHashMap<u32, LinkId> = FxHashMap::default();
        for route in &config.routes {
            let servers = &route.servers;
            if (1..servers.len()).any(|place| servers[..place].contains(&servers[place])) {
                return Err(unfit(format!("route {servers:?} visits a server twice")));
            }
            let hops: Vec<(LinkId, u32)> = servers
                .windows(2)
                .map(|hop| bundle_of.get(&(hop[0], hop[1])).copied())
                .collect::<Option<_>>()
                .ok_or_else(|| unfit(format!("route {servers:?} crosses a missing circuit")))?;
            let mut links = Vec::with_capacity(2 * hops.len());
            for (index, &(link, _)) in hops.iter().enumerate() {
                if index > 0 {
                    let relays = &mut self.relays;
                    links.push(*relay_of.entry(servers[index]).or_insert_with(|| {
                        let rate = setting.network.nvswitch_rate();
                        let inside = Cable { rate, delay: config.relay_delay };
                        let relay = Link::relay(ServerId(servers[index]), inside);
                        let link = setting.links.add(relay);
                        relays.push(link);
                        link
                    }));
                }
                links.push(link);
            }
            let relays = hops.len() as u32 - 1;
            let latency = Duration(config.link_delay.0.saturating_mul(hops.len() as u64))
                + Duration(config.relay_delay.0.saturating_mul(u64::from(relays)));
            let (sending_nics, receiving_nics) = (hops[0].1, hops[hops.len() - 1].1);
            self.routes.push(CompiledRoute {
                links,
                path: Path {
                    part: setting.id,
                    latency,
                    relays,
                    sending_nics,
                    receiving_nics,
                    forwarding_gpus: 0,
                },
                circuits: hops.iter().map(|&(_, count)| count).min().unwrap_or(1),
            });
        }
        Ok(())
    }

    fn index(&mut self, config: &Direct) {
        let ends = |&route: &u32| {
            let servers = &config.routes[route as usize].servers;
            (servers[0], servers[servers.len() - 1])
        };
        self.order = (0..config.routes.len() as u32).collect();
        self.order.sort_by_key(ends);
        let mut begin = 0;
        for group in self.order.chunk_by(|a, b| ends(a) == ends(b)) {
            let end = begin + group.len() as u32;
            self.by_pair.insert(ends(&group[0]), (begin, end));
            begin = end;
        }
    }

    fn check_cycles(&self, cycles: &[Cycle]) -> Result<(), ExecuteError> {
        for cycle in cycles {
            for (from, to) in cycle.hops().flat_map(|hop| [(hop.from, hop.to), (hop.to, hop.from)])
            {
                if self.routes(from, to).next().is_none() {
                    return Err(unfit(format!(
                        "cycle {:?} has no route from server {from} to server {to}",
                        cycle.servers
                    )));
                }
            }
        }
        Ok(())
    }

    /// Routes from one server to another.
    fn routes(&self, from: u32, to: u32) -> impl Iterator<Item = &CompiledRoute> + Clone {
        let (begin, end) = self.by_pair.get(&(from, to)).copied().unwrap_or((0, 0));
        let routes = &self.order[begin as usize..end as usize];
        routes.iter().map(|&route| &self.routes[route as usize])
    }

    /// The route over the pair's own circuits, if it has some.
    fn own_route(&self, from: u32, to: u32) -> Option<&CompiledRoute> {
        self.routes(from, to).find(|route| route.path.relays == 0)
    }

    /// What a hop of a cycle can carry, in units of `fine` per circuit: its own circuits, or what
    /// its routes have, divided by the circuits that these take.
    fn hop_capacity(&self, Pair { from, to }: Pair<u32>, fine: u64) -> u64 {
        match self.own_route(from, to) {
            Some(route) => fine * u64::from(route.circuits),
            None => self
                .routes(from, to)
                .map(|route| fine * u64::from(route.circuits) / u64::from(route.path.relays + 1))
                .sum(),
        }
    }
}

impl NetworkPart for FixedCircuits {
    fn joins_all(&self) -> bool {
        false
    }

    fn joins(&self, from: ServerId, to: ServerId) -> bool {
        self.routes(from.0, to.0).next().is_some()
    }

    /// The routes of the pair, in proportion to their circuits.
    fn divide(&self, pair: &Pair, bytes: u64, _below: Below<'_>, division: &mut Division) {
        let (from, to) = pair.servers();
        let routes = self.routes(from.0, to.0);
        let circuits = routes.clone().map(|route| u64::from(route.circuits));
        for (route, bytes) in routes.zip(weighted_shares(bytes, circuits)) {
            division.push(route.path, &route.links, bytes);
        }
    }

    fn divide_edge(&self, pair: &Pair, bytes: u64, below: Below<'_>, division: &mut Division) {
        let (from, to) = pair.servers();
        match self.own_route(from.0, to.0) {
            Some(route) => division.push(route.path, &route.links, bytes),
            None => self.divide(pair, bytes, below, division),
        }
    }

    fn ring_orders(&self, servers: &[ServerId], bytes: u64) -> Vec<RingOrder> {
        self.cycles.ring_orders(servers, bytes, |hop, fine| self.hop_capacity(hop, fine))
    }

    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        let mut uses = Vec::new();
        if !self.relays.is_empty() {
            uses.push(LinkUse::of_links("relay", &self.relays, links, end));
        }
        uses.push(LinkUse::of_links("direct", &self.bundles, links, end));
        uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::direct;

    fn refusal(config: Direct) -> Result<(), String> {
        direct(2, config).validate().map_err(|error| error.to_string())
    }

    fn config() -> Direct {
        Direct { nic_rate: Rate(1), ..Direct::default() }
    }

    #[test]
    fn a_circuit_needs_two_ends() {
        let circuits = vec![Circuit { a: 1, b: 1, count: 1 }];
        let text = Err("circuit 1 - 1 is no pair".into());
        assert_eq!(refusal(Direct { circuits, ..config() }), text);
        let circuits = vec![Circuit { a: 0, b: 2, count: 1 }];
        let text = Err("circuit 0 - 2 is no pair".into());
        assert_eq!(refusal(Direct { circuits, ..config() }), text);
        let circuits = vec![Circuit { a: 0, b: 1, count: 1_025 }];
        let text = Err("1025 circuits 0 - 1: expected at most 1024".into());
        assert_eq!(refusal(Direct { circuits, ..config() }), text);
        let text = Err("direct.nic_rate must be above 0 b/s".into());
        assert_eq!(refusal(Direct::default()), text);
    }

    #[test]
    fn a_route_joins_servers_that_exist() {
        for wrong in [&[0][..], &[0, 2]] {
            let routes = vec![Route { servers: wrong.to_vec() }];
            let text = Err(format!("route {wrong:?} is no path"));
            assert_eq!(refusal(Direct { routes, ..config() }), text);
        }
    }

    #[test]
    fn a_cycle_visits_servers_once() {
        let cycle = |servers: &[u32], count| {
            let cycles = vec![Cycle { servers: servers.to_vec(), count }];
            refusal(Direct { cycles, ..config() })
        };
        assert_eq!(cycle(&[0, 1], 1), Ok(()));
        for wrong in [&[0][..], &[0, 1, 0], &[0, 2]] {
            assert_eq!(cycle(wrong, 1), Err(format!("cycle {wrong:?} is no ring of servers")));
        }
        assert_eq!(cycle(&[1, 0], 0), Err("cycle [1, 0] has no circuits".into()));
    }

    #[test]
    fn fixed_circuits_stand_alone() {
        let network = crate::testing::packet(2).with(config());
        let text = "a network has either direct circuits or an eps, not both";
        assert_eq!(network.validate().unwrap_err().to_string(), text);
    }

    #[test]
    fn the_longest_route_sets_the_extent() {
        let routes = vec![Route { servers: vec![0, 1] }, Route { servers: vec![0, 2, 3, 1] }];
        let (link_delay, relay_delay) = (Duration(5), Duration(100));
        let long = Direct { link_delay, relay_delay, routes, ..config() };
        let network = direct(4, long.clone());
        let delay = Duration(3 * 5 + 2 * 100);
        assert_eq!(long.extent(&network, Duration::ZERO), Extent { rate: Rate(1), delay });
    }
}
