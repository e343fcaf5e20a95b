//! Racks of servers whose circuits change during a run: X-NEST+, Helios, `RotorNet`.
//!
//! Servers are joined to the switch of their rack. Among the racks there are circuit switches, of
//! which each holds a matching, and electrical links that are always lit (a core, or links between
//! two racks). Epoch by epoch an [`EpochDecider`](lightloom_decide::EpochDecider) of each set of
//! switches learns what racks sent to one another in the epoch that ends and what waits, and says
//! what the switches hold next; those that turn are dark meanwhile. Nothing that it is told lies in
//! the future, unless the estimator is the clairvoyant one: that knows all bytes on their way, also
//! those that begin at the very time, and then an epoch begins with the first bytes after idleness.
//!
//! Every transfer is under the care of this part: it is one or several *pieces*, each a
//! flow over the links of a path, or waiting without one. A piece is withdrawn and starts again
//! elsewhere, with what it has left, where tables learn of a better path, its path has been dark
//! for too long, or it is cut for relaying. Under [`RackRouting::Tables`] a piece crosses the
//! circuits of a path at once (racks have no room for more than packets); under
//! [`RackRouting::Direct`] what is relayed is stored, and its second hop begins when the first has
//! ended, as `RotorLB` does it in the memory of servers. Transfers that begin together and are
//! alike ([`alike`]) are one piece as long as nothing else begins that tells them apart.
//!
//! As packets, too, pieces are withdrawn and start again (see the packets that are
//! [launched](crate::packets)), and what is stored is at a host of its rack.
//!
//! Assumes that all racks learn at the same times what is lit, and a fluid's rate on all links of
//! its path. Leaves out the propagation of further hops of fluids, and the packets that hellos
//! take.

mod alike;
mod bundles;
mod config;
mod launching;
mod pieces;
mod relaying;
mod routes;
mod switchboard;
#[cfg(test)]
mod tests;

pub use config::{EpochTiming, RackCircuits, RackRouting, SwitchBank};

use crate::error::ExecuteError;
use crate::links::LinkUse;
use crate::network::{
    Below, Division, End, Flow, Link, Links, Network, NetworkPart, Pair, PartConfig, PartId, Path,
    Setting, positive,
};
use crate::packets::Extent;
use alike::Start;
use bundles::Bundles;
use lightloom_flowsim::LinkId;
use lightloom_model::{Duration, Invalid, Rate, ServerId, Time};
use lightloom_packetsim::Cable;
use lightloom_schedule::rotornet::RotorMatchings;
use lightloom_schedule::steps::Estimator;
use pieces::{Member, Pieces};
use routes::{ELECTRICAL, Edge, Route, Tree};
use std::collections::VecDeque;
use std::sync::Arc;
use switchboard::Switchboard;

/// Which links bytes may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As the routing has it.
    Usual,
    /// Electrical ones alone.
    Electrical,
    /// All circuits that are lit.
    Lit,
}

/// The links of racks, and what is on its way between them.
#[derive(Debug)]
pub(super) struct RackLinks {
    id: PartId,
    config: RackCircuits,
    /// By server.
    up: Vec<LinkId>,
    down: Vec<LinkId>,
    /// By rack, to the electrical core and from it; empty without one.
    core_up: Vec<LinkId>,
    core_down: Vec<LinkId>,
    cables: Vec<LinkId>,
    /// By rack, links to other racks; not those of the core.
    edges: Vec<Vec<Edge>>,
    board: Switchboard,
    /// Those of rotors that relay.
    matchings: RotorMatchings,
    pieces: Pieces,
    bundles: Bundles,
    /// Paths from each rack in the present view, where they were asked for.
    trees: Vec<Option<Tree>>,
    /// When the next epoch begins.
    epoch_at: u64,
    /// Epochs that have begun.
    epochs: u64,
    /// When tables are next renewed; never if nothing is new.
    renew_at: u64,
    /// When bytes have waited too long on a circuit.
    impatient: VecDeque<(u64, u32)>,
}

impl RackLinks {
    /// Adds the links of all servers and racks; circuits are dark.
    fn new(config: &RackCircuits, setting: &mut Setting<'_>) -> Result<Self, Invalid> {
        let (links, delay) = (&mut *setting.links, config.link_delay);
        let servers = setting.network.servers;
        let nics = Cable { rate: config.nic_rate, delay };
        let end = |server| End::Server(ServerId(server));
        let rack = |server| End::Rack(server / config.servers_per_rack);
        let up = |server| Link::new(end(server), rack(server), config.nics, nics);
        let up: Vec<LinkId> = (0..servers).map(|server| links.add(up(server))).collect();
        let down = |server| Link::new(rack(server), end(server), config.nics, nics);
        let down: Vec<LinkId> = (0..servers).map(|server| links.add(down(server))).collect();
        let between =
            |from, to, rate| Link::new(End::Rack(from), End::Rack(to), 1, Cable { rate, delay });
        let (mut core_up, mut core_down) = (Vec::new(), Vec::new());
        if let Some(rate) = config.core {
            // the core is one more switch
            let (racks, core) = (0..config.racks, config.racks);
            core_up = racks.clone().map(|rack| links.add(between(rack, core, rate))).collect();
            core_down = racks.map(|rack| links.add(between(core, rack, rate))).collect();
        }
        let mut edges = vec![Vec::new(); config.racks as usize];
        let mut cables = Vec::new();
        for &(a, b, rate) in &config.cables {
            for (from, to) in [(a, b), (b, a)] {
                let link = links.add(between(from, to, rate));
                edges[from as usize].push(Edge { to, link, circuit: None });
                cables.push(link);
            }
        }
        let board = Switchboard::new(config, links)?;
        let bank = config.banks.first().map_or(RotorMatchings::Shifts { nodes: 0 }, |bank| {
            config.rules.matchings(config.sizes(bank))
        });
        for (number, circuit) in (0..).zip(&board.circuits) {
            let edge = Edge { to: circuit.to, link: circuit.link, circuit: Some(number) };
            edges[circuit.from as usize].push(edge);
        }
        Ok(Self {
            id: setting.id,
            config: config.clone(),
            up,
            down,
            core_up,
            core_down,
            cables,
            edges,
            board,
            matchings: bank,
            pieces: Pieces::new(config.racks, stores(config, links)),
            bundles: Bundles::new(servers),
            trees: vec![None; config.racks as usize],
            epoch_at: if config.averaged { u64::MAX } else { 0 },
            epochs: 0,
            renew_at: u64::MAX,
            impatient: VecDeque::new(),
        })
    }

    fn rack(&self, server: u32) -> u32 {
        server / self.config.servers_per_rack
    }

    /// The servers at the ends of a path.
    fn servers(&self, path: &[LinkId]) -> (u32, u32) {
        let place = |link: LinkId, of: &[LinkId]| link.0 - of[0].0;
        (place(path[0], &self.up), place(path[path.len() - 1], &self.down))
    }

    fn is_clairvoyant(&self) -> bool {
        self.config.rules.estimator == Estimator::Clairvoyant && self.board.reads_demand()
    }

    /// When something next happens by the clock.
    fn due(&self) -> u64 {
        let impatient = self.impatient.front().map_or(u64::MAX, |first| first.0);
        self.epoch_at.min(self.board.due()).min(self.renew_at).min(impatient)
    }

    /// An epoch begins at `at`; others may have been missed until `now`, while nothing was sent.
    fn begin_epoch(&mut self, at: u64, now: Time, links: &mut Links) {
        let tick = self.config.tick().0;
        let missed = (now.0 - at) / tick;
        let mut decided = at;
        let steps = if self.board.reads_demand() {
            let (sent, waiting) = self.pieces.measure(now, links);
            let steps = self.board.decide(&sent, &waiting);
            self.board.pass(missed);
            steps
        } else {
            self.board.pass(missed);
            decided += missed * tick;
            let nothing = vec![0; self.pieces.pairs()];
            self.board.decide(&nothing, &nothing)
        };
        // What switches hold when a network is switched on, nobody has decided.
        let control = if self.epochs == 0 { 0 } else { self.config.timing.control.0 };
        self.board.order(decided.saturating_add(control), steps);
        if self.config.routing == (RackRouting::Direct { relay: true }) {
            self.balance(self.epochs + missed, now, links);
        }
        self.epochs += 1 + missed;
        self.epoch_at = at.saturating_add((missed + 1) * tick);
    }

    /// The path from rack to rack.
    fn route(&mut self, racks: Pair<u32>, way: Way) -> Option<Route> {
        let Pair { from, to } = racks;
        let most = match self.config.routing {
            RackRouting::Tables { circuits, .. } => Some(circuits),
            RackRouting::Direct { .. } if way == Way::Lit => None,
            RackRouting::Direct { .. } => {
                let circuit = self.board.circuit(from, to)?;
                let links = vec![self.board.circuits[circuit as usize].link];
                return Some(Route { links, circuits: vec![circuit], cost: 0 });
            }
        };
        let tree = self.trees[from as usize].get_or_insert_with(|| {
            let is_known = |circuit: u32| self.board.circuits[circuit as usize].known > 0;
            Tree::new(from, &self.edges, most, is_known)
        });
        let over = if way == Way::Electrical { tree.electrical(to) } else { tree.route(to) };
        let cost = over.as_ref().map_or(u32::MAX, |route| route.cost);
        if self.core_up.is_empty() || cost <= ELECTRICAL {
            return over;
        }
        let links = vec![self.core_up[from as usize], self.core_down[to as usize]];
        Some(Route { links, circuits: Vec::new(), cost: ELECTRICAL })
    }

    /// Whether bytes wait for a circuit of their pair, but for those that roam.
    fn is_direct(&self) -> bool {
        matches!(self.config.routing, RackRouting::Direct { .. })
    }

    fn way(&self, piece: u32) -> Way {
        if self.pieces.roams(piece) { Way::Lit } else { Way::Usual }
    }

    /// Has a piece take a path, and watches that it is not dark for too long.
    fn take_route(&mut self, piece: u32, route: Route, now: Time, links: &mut Links) {
        if let RackRouting::Tables { patience: Some(patience), .. } = self.config.routing {
            for &circuit in &route.circuits {
                if self.board.circuits[circuit as usize].lit == 0 {
                    self.be_patient(now.0, patience, circuit);
                }
            }
        }
        self.pieces.take_route(piece, route, now, links);
    }

    fn be_patient(&mut self, at: u64, patience: Duration, circuit: u32) {
        let until = at.saturating_add(patience.0);
        if self.impatient.back() != Some(&(until, circuit)) {
            self.impatient.push_back((until, circuit));
        }
    }

    /// Racks learn what is lit: pieces without a path, or on one that is known to be dark, and
    /// those that a better one has opened for, take the best.
    fn renew(&mut self, now: Time, links: &mut Links) {
        self.renew_at = u64::MAX;
        if !self.board.make_known() {
            return;
        }
        self.trees.fill(None);
        for piece in self.pieces.active() {
            let ends = self.pieces.ends(piece);
            let way = self.way(piece);
            if ends.from == ends.to || (self.is_direct() && way == Way::Usual) {
                continue;
            }
            let Some(route) = self.route(ends, way) else { continue };
            let is_known = |&circuit: &u32| self.board.circuits[circuit as usize].known > 0;
            let moves = match self.pieces.route(piece) {
                Some(old) => route.cost < old.cost || !old.circuits.iter().all(is_known),
                None => true,
            };
            if moves && self.pieces.withdraw(piece, now, links) {
                self.take_route(piece, route, now, links);
            }
        }
    }

    /// Pieces that have waited too long on one of some circuits go over electrical links, if there
    /// are any.
    fn lose_patience(
        &mut self,
        circuits: &[u32],
        patience: Duration,
        now: Time,
        links: &mut Links,
    ) {
        let mut is_dark = vec![false; self.board.circuits.len()];
        for &circuit in circuits {
            is_dark[circuit as usize] = self.board.circuits[circuit as usize].lit == 0;
        }
        for piece in self.pieces.active() {
            let since = self.pieces.since(piece);
            let has_waited = |&circuit: &u32| {
                let dark_since = self.board.circuits[circuit as usize].dark_since;
                is_dark[circuit as usize] && now.0 - dark_since.max(since) >= patience.0
            };
            let route = self.pieces.route(piece);
            if !route.is_some_and(|route| route.circuits.iter().any(has_waited)) {
                continue;
            }
            let ends = self.pieces.ends(piece);
            if let Some(route) = self.route(ends, Way::Electrical)
                && self.pieces.withdraw(piece, now, links)
            {
                self.take_route(piece, route, now, links);
            }
        }
    }

    /// Does what is due at `at`, of which the run is told at `now`.
    fn proceed(&mut self, at: u64, now: Time, links: &mut Links) {
        if self.epoch_at <= at {
            self.begin_epoch(at, now, links);
        }
        self.board.proceed(at);
        let patience = match self.config.routing {
            RackRouting::Tables { patience, .. } => patience,
            RackRouting::Direct { .. } => None,
        };
        if let Some(patience) = patience {
            for circuit in self.board.newly_dark() {
                self.be_patient(at, patience, circuit);
            }
        }
        let hello = match self.config.routing {
            RackRouting::Tables { hello, .. } => Some(hello),
            // When rotors turn is known beforehand.
            RackRouting::Direct { .. } => (self.config.min_bytes > 0).then_some(Duration::ZERO),
        };
        if self.board.show(now, links)
            && let Some(hello) = hello
        {
            let next = |hello: u64| (at / hello + 1).saturating_mul(hello);
            let renew_at = if hello.0 == 0 { at } else { next(hello.0) };
            self.renew_at = self.renew_at.min(renew_at);
        }
        if self.renew_at <= at {
            self.renew(now, links);
        }
        let is_due = |until: &(u64, u32)| until.0 <= at;
        let count = self.impatient.iter().take_while(|until| is_due(until)).count();
        if count > 0 {
            let due: Vec<u32> = self.impatient.drain(..count).map(|until| until.1).collect();
            if let Some(patience) = patience {
                self.lose_patience(&due, patience, now, links);
            }
        }
    }
}

/// By rack, the links into and out of what it stores of packets that it passes on; none of fluids,
/// whose hops begin and end at racks.
fn stores(config: &RackCircuits, links: &mut Links) -> Vec<[LinkId; 2]> {
    if links.are_fluid() || config.routing != (RackRouting::Direct { relay: true }) {
        return Vec::new();
    }
    // the memory of all servers of the rack
    let nics = u64::from(config.nics) * u64::from(config.servers_per_rack);
    let rate = Rate(config.nic_rate.0.saturating_mul(nics));
    let each = Cable { rate, delay: Duration::ZERO };
    let mut add = |from, to| links.add(Link::new(from, to, 1, each));
    let both = |rack| [(End::Rack(rack), End::Store(rack)), (End::Store(rack), End::Rack(rack))];
    (0..config.racks).map(|rack| both(rack).map(|(from, to)| add(from, to))).collect()
}

impl PartConfig for RackCircuits {
    fn name(&self) -> &'static str {
        "racks"
    }

    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        positive("racks.nic_rate", self.nic_rate)?;
        positive("racks.circuit_rate", self.circuit_rate)?;
        positive("racks.core", self.core.unwrap_or(Rate(u64::MAX)))?;
        self.check_sizes(network.servers)?;
        self.check_timing()?;
        self.check_reach(network.servers)?;
        self.check_average()?;
        if self.routing == (RackRouting::Direct { relay: true }) {
            self.check_relay(network.servers)?;
        }
        if self.min_bytes > 0 && matches!(self.routing, RackRouting::Tables { .. }) {
            let text = "racks: min_bytes is of bytes that wait for a circuit of their pair";
            return Err(Invalid::new(text));
        }
        for bank in &self.banks {
            self.decider(bank)?;
        }
        if below.is_empty() && network.parts.len() == 1 {
            Ok(())
        } else {
            Err(Invalid::new("racks are the only part of a network"))
        }
    }

    fn extent(&self, _network: &Network, _below: Duration) -> Extent {
        Extent {
            rate: self.nic_rate.max(self.circuit_rate),
            delay: Duration(4 * self.link_delay.0),
        }
    }

    fn follows_clock(&self) -> bool {
        true
    }

    fn conducts(&self) -> bool {
        true
    }

    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        let part = RackLinks::new(self, setting).map_err(ExecuteError::Network)?;
        Ok(Some(Box::new(part)))
    }
}

impl NetworkPart for RackLinks {
    fn divide(&self, pair: &Pair, bytes: u64, _below: Below<'_>, division: &mut Division) {
        let (from, to) = pair.servers();
        let hops = if self.rack(from.0) == self.rack(to.0) { 2 } else { 3 };
        let path = Path {
            part: self.id,
            latency: Duration(self.config.link_delay.0.saturating_mul(hops)),
            relays: 0,
            sending_nics: self.config.nics,
            receiving_nics: self.config.nics,
            forwarding_gpus: 0,
        };
        division.push(path, &[self.up[from.0 as usize], self.down[to.0 as usize]], bytes);
    }

    fn next_change(&self, now: Time) -> Option<Time> {
        // A clairvoyant decides again at the very time.
        (self.due() < u64::MAX).then(|| Time(self.due().max(now.0)))
    }

    fn follow_clock(&mut self, now: Time, links: &mut Links) {
        while self.due() <= now.0 {
            self.proceed(self.due(), now, links);
        }
    }

    fn conduct(&mut self, now: Time, flow: Flow, path: &[LinkId], _links: &mut Links) -> bool {
        let (from, to) = self.servers(path);
        if flow.bytes == 0 {
            return false;
        }
        let between = self.rack(from) != self.rack(to);
        let is_first = between && !self.bundles.cross_racks() && self.pieces.stay_inside();
        if is_first && self.is_clairvoyant() {
            self.epoch_at = now.0;
        }
        let Flow { bytes, priority, token, .. } = flow;
        let member = Member { token, from, to };
        self.bundles.gather(Start { member, priority, bytes }, between);
        true
    }

    fn launch(&mut self, now: Time, links: &mut Links) {
        self.begin_gathered(now, links);
    }

    fn conducted(&mut self, now: Time, token: u64, links: &mut Links, done: &mut Vec<u64>) {
        let Some(piece) = Pieces::of_token(token) else { return };
        if let Some(hop) = self.pieces.next_hop(piece) {
            let route = self.route(hop, Way::Usual).expect("racks that relay are joined");
            self.pieces.begin_second_hop(piece, route, now, links);
            return;
        }
        self.pieces.arrive(piece, done);
    }

    fn is_busy(&self) -> bool {
        !self.pieces.is_empty() || self.bundles.are_waiting()
    }

    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        self.bundles.account(links);
        let classes = [
            ("server_up", &self.up),
            ("server_down", &self.down),
            ("core_up", &self.core_up),
            ("core_down", &self.core_down),
            ("electrical", &self.cables),
        ];
        let used = classes.into_iter().filter(|(_, class)| !class.is_empty());
        let link_use = |(side, (name, class)): (usize, (&str, &Vec<LinkId>))| {
            let mut carried: Vec<u64> = class.iter().map(|&link| links.carried(link)).collect();
            for (sum, more) in carried.iter_mut().zip(self.bundles.carried(side)) {
                *sum += more;
            }
            let rates: Vec<Rate> = class.iter().map(|&link| links.full_rate(link)).collect();
            LinkUse::new(name, &carried, &rates, end)
        };
        let mut used: Vec<LinkUse> = used.enumerate().map(link_use).collect();
        used.push(self.board.link_use(end, links));
        used
    }
}
