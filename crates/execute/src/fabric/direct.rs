//! Links and routes of fixed circuits with relaying (TopoOpt).
//!
//! Each bundle of parallel circuits is one link per direction, of the rate of all of them. A relay
//! passes bytes through its NVSwitch, whose link is shared by everything that it relays, and adds
//! its forwarding delay.
//!
//! Routes of one pair share its bytes in proportion to the circuits of their narrowest bundle: on
//! routes without bundles in common and without other traffic, they are done at the same time.

use super::weighted_shares;
use crate::error::{ExecuteError, network as unfit};
use crate::medium::{Medium, Wire};
use lightloom_flowsim::LinkId;
use lightloom_model::{Cycle, Direct, Duration, Network, Rate};
use rustc_hash::FxHashMap;

/// A bundle of circuits in one direction.
#[derive(Debug, Clone, Copy)]
pub struct Bundle {
    /// Its link.
    pub link: LinkId,
    /// Parallel circuits.
    pub count: u32,
}

/// One route, ready for use.
#[derive(Debug, Clone)]
pub struct CompiledRoute {
    /// Bundles and relays in order.
    pub links: Vec<LinkId>,
    /// Propagation and forwarding.
    pub latency: Duration,
    /// Relays on the way.
    pub relays: u32,
    /// Parallel circuits of the narrowest bundle.
    pub circuits: u32,
    /// Bundle out of the source.
    pub first_bundle: u32,
    /// Bundle into the destination.
    pub last_bundle: u32,
}

/// The links and routes of a direct fabric.
#[derive(Debug)]
pub struct DirectLinks {
    /// All bundles, both directions.
    pub bundles: Vec<Bundle>,
    /// NVSwitch links of the servers that relay.
    pub relays: Vec<LinkId>,
    /// Rate of each of `relays`.
    pub relay_rate: Rate,
    /// Rate of one circuit.
    pub circuit_rate: Rate,
    /// Cycles for ring collectives.
    pub cycles: Vec<Cycle>,
    /// Cycles by their servers, sorted.
    cycles_of: FxHashMap<Vec<u32>, Vec<u32>>,
    routes: Vec<CompiledRoute>,
    /// Routes of each ordered pair, as a range of `order`.
    by_pair: FxHashMap<(u32, u32), (u32, u32)>,
    order: Vec<u32>,
}

impl DirectLinks {
    /// Adds all links and compiles the routes.
    ///
    /// # Errors
    /// If a route crosses a pair of servers that no circuit joins, or neighbours in a cycle have no
    /// route.
    pub fn new(
        direct: &Direct,
        network: &Network,
        medium: &mut Medium,
    ) -> Result<Self, ExecuteError> {
        let mut counts: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut keys = Vec::new();
        for circuit in direct.circuits.iter().filter(|circuit| circuit.count > 0) {
            for key in [(circuit.a, circuit.b), (circuit.b, circuit.a)] {
                let count = counts.entry(key).or_insert_with(|| {
                    keys.push(key);
                    0
                });
                *count += circuit.count;
            }
        }
        let mut bundles = Vec::with_capacity(keys.len());
        let mut bundle_of: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for key in keys {
            let count = counts[&key];
            let (rate, delay) = (direct.link_rate, direct.link_delay);
            let wire = Wire::Circuits { from: key.0, to: key.1, most: count, rate, delay };
            let link = medium.add_link(Rate(rate.0.saturating_mul(u64::from(count))), wire);
            bundle_of.insert(key, bundles.len() as u32);
            bundles.push(Bundle { link, count });
        }
        let gpu_rate = network.nvswitch.gpu_rate.0;
        let relay_rate = Rate(gpu_rate.saturating_mul(u64::from(network.gpus_per_server)));
        let mut links = Self {
            bundles,
            relays: Vec::new(),
            relay_rate,
            circuit_rate: direct.link_rate,
            cycles: direct.cycles.clone(),
            cycles_of: FxHashMap::default(),
            routes: Vec::with_capacity(direct.routes.len()),
            by_pair: FxHashMap::default(),
            order: Vec::new(),
        };
        links.compile(direct, &bundle_of, medium)?;
        links.index_cycles()?;
        Ok(links)
    }

    fn compile(
        &mut self,
        direct: &Direct,
        bundle_of: &FxHashMap<(u32, u32), u32>,
        medium: &mut Medium,
    ) -> Result<(), ExecuteError> {
        let mut relay_of: FxHashMap<u32, LinkId> = FxHashMap::default();
        for route in &direct.routes {
            let servers = &route.servers;
            if (1..servers.len()).any(|place| servers[..place].contains(&servers[place])) {
                return Err(unfit(format!("route {servers:?} visits a server twice")));
            }
            let hops: Vec<u32> = servers
                .windows(2)
                .map(|hop| bundle_of.get(&(hop[0], hop[1])).copied())
                .collect::<Option<_>>()
                .ok_or_else(|| unfit(format!("route {servers:?} crosses a missing circuit")))?;
            let mut links = Vec::with_capacity(2 * hops.len());
            for (index, &hop) in hops.iter().enumerate() {
                if index > 0 {
                    let relays = &mut self.relays;
                    let rate = self.relay_rate;
                    let wire = Wire::Relay { server: servers[index], delay: direct.relay_delay };
                    links.push(*relay_of.entry(servers[index]).or_insert_with(|| {
                        let link = medium.add_link(rate, wire);
                        relays.push(link);
                        link
                    }));
                }
                links.push(self.bundles[hop as usize].link);
            }
            let relays = hops.len() as u32 - 1;
            let latency = Duration(direct.link_delay.0.saturating_mul(hops.len() as u64))
                + Duration(direct.relay_delay.0.saturating_mul(u64::from(relays)));
            self.routes.push(CompiledRoute {
                links,
                latency,
                relays,
                circuits: hops
                    .iter()
                    .map(|&hop| self.bundles[hop as usize].count)
                    .min()
                    .unwrap_or(1),
                first_bundle: hops[0],
                last_bundle: hops[hops.len() - 1],
            });
        }
        self.index(direct);
        Ok(())
    }

    fn index(&mut self, direct: &Direct) {
        let ends = |&route: &u32| {
            let servers = &direct.routes[route as usize].servers;
            (servers[0], servers[servers.len() - 1])
        };
        self.order = (0..direct.routes.len() as u32).collect();
        self.order.sort_by_key(ends);
        let mut begin = 0;
        for group in self.order.chunk_by(|a, b| ends(a) == ends(b)) {
            let end = begin + group.len() as u32;
            self.by_pair.insert(ends(&group[0]), (begin, end));
            begin = end;
        }
    }

    fn index_cycles(&mut self) -> Result<(), ExecuteError> {
        for (number, cycle) in self.cycles.iter().enumerate() {
            for (from, to) in cycle.hops().flat_map(|(a, b)| [(a, b), (b, a)]) {
                if self.routes(from, to).is_empty() {
                    return Err(unfit(format!(
                        "cycle {:?} has no route from server {from} to server {to}",
                        cycle.servers
                    )));
                }
            }
            let mut servers = cycle.servers.clone();
            servers.sort_unstable();
            self.cycles_of.entry(servers).or_default().push(number as u32);
        }
        Ok(())
    }

    /// Cycles of exactly these servers, which are sorted, as indices into [`Self::cycles`].
    pub fn cycles_of(&self, servers: &[u32]) -> &[u32] {
        self.cycles_of.get(servers).map_or(&[], Vec::as_slice)
    }

    /// The route over the pair's own circuits, if it has some.
    pub fn own_route(&self, from: u32, to: u32) -> Option<u32> {
        self.routes(from, to).iter().copied().find(|&route| self.route(route).relays == 0)
    }

    /// Bytes of a pair over each of its routes.
    pub fn shares(&self, from: u32, to: u32, bytes: u64) -> impl Iterator<Item = (u32, u64)> {
        let routes = self.routes(from, to);
        let circuits = routes.iter().map(|&route| u64::from(self.route(route).circuits));
        routes.iter().copied().zip(weighted_shares(bytes, circuits))
    }

    /// Routes from one server to another, as indices for [`Self::route`]; empty if there are none.
    pub fn routes(&self, from: u32, to: u32) -> &[u32] {
        let (begin, end) = self.by_pair.get(&(from, to)).copied().unwrap_or((0, 0));
        &self.order[begin as usize..end as usize]
    }

    /// A route by its index.
    pub fn route(&self, index: u32) -> &CompiledRoute {
        &self.routes[index as usize]
    }
}
