//! What the circuit switches hold, which circuits are lit, and what racks know of that.

use super::config::{RackCircuits, SwitchBank};
use crate::links::LinkUse;
use crate::network::{End, Link, Links};
use lightloom_decide::EpochDecider;
use lightloom_flowsim::LinkId;
use lightloom_model::{Invalid, Rate, Time};
use lightloom_packetsim::Cable;
use lightloom_schedule::epochs::NONE;
use lightloom_schedule::steps::SwitchStep;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// Entries of a demand at most: policies add two of them and take up to 2^53.
const MOST_BYTES: u64 = 1 << 51;

/// The circuits of a pair of racks that some switch can join, in one direction.
#[derive(Debug, Clone)]
pub(super) struct Circuit {
    pub from: u32,
    pub to: u32,
    pub link: LinkId,
    /// Switches that hold it and are not turning.
    pub lit: u32,
    /// How many of them racks know of.
    pub known: u32,
    /// When it last went dark.
    pub dark_since: u64,
    /// The links' members that are lit: `lit` as of the last `show`.
    shown: u32,
    shown_since: u64,
    /// Picoseconds for which it was lit, once for each switch.
    lit_time: u128,
}

#[derive(Debug)]
struct Bank {
    racks: Vec<u32>,
    decider: EpochDecider,
    /// Peer of each rack, by switch.
    held: Vec<Vec<u32>>,
    /// Until when each switch is dark; it is lit from then on.
    dark_until: Vec<u64>,
    is_lit: Vec<bool>,
}

/// All circuit switches.
#[derive(Debug)]
pub(super) struct Switchboard {
    pub circuits: Vec<Circuit>,
    racks: u32,
    /// By pair of racks, the circuit; [`NONE`] if no switch can join it.
    place: Vec<u32>,
    /// By pair of racks that no switch can join, the racks over which two circuits do, or else a
    /// circuit and an electrical link; they begin at `first_relay` of the pair.
    relays: Vec<u32>,
    first_relay: Vec<u32>,
    banks: Vec<Bank>,
    dark: u64,
    /// What switches are told when, one step for each bank.
    orders: VecDeque<(u64, Vec<SwitchStep>)>,
    /// When which switch of which bank is lit again.
    turning: VecDeque<(u64, usize, usize)>,
    /// Circuits that may have changed since the last `show`.
    touched: Vec<u32>,
}

impl Switchboard {
    /// Adds a dark link for each pair of racks that some switch can join.
    pub(super) fn new(config: &RackCircuits, links: &mut Links) -> Result<Self, Invalid> {
        let racks = config.racks;
        let mut members = vec![0_u32; (racks * racks) as usize];
        for bank in &config.banks {
            for (&from, &to) in pairs(&bank.racks) {
                members[(from * racks + to) as usize] += bank.switches;
            }
        }
        let mean = if config.averaged { mean_rates(config) } else { Vec::new() };
        let mut place = vec![NONE; members.len()];
        let mut circuits = Vec::new();
        for (pair, &members) in members.iter().enumerate().filter(|(_, members)| **members > 0) {
            place[pair] = circuits.len() as u32;
            let (from, to) = (pair as u32 / racks, pair as u32 % racks);
            let rate = mean.get(pair).copied();
            let each =
                Cable { rate: rate.unwrap_or(config.circuit_rate), delay: config.link_delay };
            // On average there is one, lit at all times.
            let (members, lit) = if rate.is_some() { (1, 1) } else { (members, 0) };
            let link = Link::new(End::Rack(from), End::Rack(to), members, each);
            circuits.push(Circuit {
                from,
                to,
                link: links.add_lit(link, lit),
                lit,
                known: lit,
                dark_since: 0,
                shown: lit,
                shown_since: 0,
                lit_time: 0,
            });
        }
        let bank = |bank: &SwitchBank| {
            Ok(Bank {
                racks: bank.racks.clone(),
                decider: config.decider(bank)?,
                held: vec![vec![NONE; bank.racks.len()]; bank.switches as usize],
                dark_until: vec![0; bank.switches as usize],
                is_lit: vec![true; bank.switches as usize],
            })
        };
        let (relays, first_relay) = relays(&place, config);
        Ok(Self {
            circuits,
            racks,
            place,
            relays,
            first_relay,
            banks: config.banks.iter().map(bank).collect::<Result<_, Invalid>>()?,
            dark: config.timing.dark.0,
            orders: VecDeque::new(),
            turning: VecDeque::new(),
            touched: Vec::new(),
        })
    }

    /// The circuit from one rack to another, if some switch can join them.
    pub(super) fn circuit(&self, from: u32, to: u32) -> Option<u32> {
        let place = self.place[(from * self.racks + to) as usize];
        (place != NONE).then_some(place)
    }

    /// Whether measurements matter to those who decide.
    pub(super) fn reads_demand(&self) -> bool {
        self.banks.iter().any(|bank| bank.decider.reads_demand())
    }

    /// Decides for all banks, from bytes that racks sent to one another and that wait.
    pub(super) fn decide(&mut self, sent: &[u64], waiting: &[u64]) -> Vec<SwitchStep> {
        let count = self.banks.len();
        let demands = [sent, waiting].map(|demand| self.by_bank(demand));
        let decide = |number: usize| {
            let decider = &mut self.banks[number].decider;
            decider.decide(&demands[0][number], &demands[1][number]).expect("sizes were checked")
        };
        (0..count).map(decide).collect()
    }

    /// Lets epochs pass in which nothing is sent.
    pub(super) fn pass(&mut self, epochs: u64) {
        for bank in &mut self.banks {
            bank.decider.pass(epochs);
        }
    }

    /// The demand of each bank. What no switch can carry directly counts, in equal parts, as going
    /// over each rack that switches join to both ends, or, where there is none, over each that they
    /// join to one and an electrical link to the other.
    fn by_bank(&self, demand: &[u64]) -> Vec<Vec<u64>> {
        let racks = self.racks as usize;
        let mut direct = demand.to_vec();
        for (pair, &bytes) in demand.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let (from, to) = (pair / racks, pair % racks);
            if self.place[pair] != NONE || from == to {
                continue;
            }
            direct[pair] = 0;
            let [first, end] = [pair, pair + 1].map(|place| self.first_relay[place] as usize);
            let relays = &self.relays[first..end];
            let part = bytes / relays.len().max(1) as u64;
            for (a, b) in relays.iter().flat_map(|&r| [(from, r as usize), (r as usize, to)]) {
                if self.place[a * racks + b] != NONE {
                    direct[a * racks + b] += part;
                }
            }
        }
        let of_bank = |bank: &Bank| {
            let cells =
                bank.racks.iter().flat_map(|from| bank.racks.iter().map(move |to| (from, to)));
            cells
                .map(|(from, to)| direct[(from * self.racks + to) as usize].min(MOST_BYTES))
                .collect()
        };
        self.banks.iter().map(of_bank).collect()
    }

    /// Has switches told at a time.
    pub(super) fn order(&mut self, at: u64, steps: Vec<SwitchStep>) {
        self.orders.push_back((at, steps));
    }

    /// When something next happens to a switch.
    pub(super) fn due(&self) -> u64 {
        let order = self.orders.front().map_or(u64::MAX, |order| order.0);
        order.min(self.turning.front().map_or(u64::MAX, |turning| turning.0))
    }

    /// Does what is due at a time.
    pub(super) fn proceed(&mut self, at: u64) {
        while self.orders.front().is_some_and(|order| order.0 <= at) {
            let (_, steps) = self.orders.pop_front().expect("it is the first");
            for (bank, step) in steps.into_iter().enumerate() {
                self.tell(bank, step, at);
            }
        }
        while self.turning.front().is_some_and(|turning| turning.0 <= at) {
            let (time, bank, switch) = self.turning.pop_front().expect("it is the first");
            // A switch may have been told again meanwhile.
            if self.banks[bank].dark_until[switch] == time && !self.banks[bank].is_lit[switch] {
                self.set_lit(bank, switch, true, at);
            }
        }
    }

    /// Tells the switches of a bank what to hold; those that stay are not touched.
    fn tell(&mut self, bank: usize, step: SwitchStep, at: u64) {
        let SwitchStep { matchings, turned } = step;
        for (switch, (matching, turned)) in matchings.into_iter().zip(turned).enumerate() {
            if self.banks[bank].held[switch] == matching && !turned {
                continue;
            }
            self.set_lit(bank, switch, false, at);
            let state = &mut self.banks[bank];
            state.held[switch] = matching;
            if turned && self.dark > 0 {
                state.dark_until[switch] = at.saturating_add(self.dark);
                self.turning.push_back((state.dark_until[switch], bank, switch));
            } else {
                self.set_lit(bank, switch, true, at);
            }
        }
    }

    fn set_lit(&mut self, bank: usize, switch: usize, is_lit: bool, at: u64) {
        let bank = &mut self.banks[bank];
        if std::mem::replace(&mut bank.is_lit[switch], is_lit) == is_lit {
            return;
        }
        let peers = bank.racks.iter().zip(&bank.held[switch]).filter(|(_, peer)| **peer != NONE);
        for (&from, &peer) in peers.filter(|(from, peer)| bank.racks[**peer as usize] != **from) {
            let pair = from * self.racks + bank.racks[peer as usize];
            let place = self.place[pair as usize];
            let circuit = &mut self.circuits[place as usize];
            if is_lit {
                circuit.lit += 1;
            } else {
                circuit.lit -= 1;
                circuit.dark_since = at;
            }
            self.touched.push(place);
        }
    }

    /// Circuits that were lit and no longer are, before they are shown.
    pub(super) fn newly_dark(&self) -> Vec<u32> {
        let is_newly_dark = |place: &&u32| {
            let circuit = &self.circuits[**place as usize];
            circuit.lit == 0 && circuit.shown > 0
        };
        self.touched.iter().filter(is_newly_dark).copied().collect()
    }

    /// Brings the links up to date; true if a circuit is not what racks know of it.
    pub(super) fn show(&mut self, now: Time, links: &mut Links) -> bool {
        let mut is_news = false;
        for place in self.touched.drain(..) {
            let circuit = &mut self.circuits[place as usize];
            is_news |= circuit.lit != circuit.known;
            if circuit.lit != circuit.shown {
                let span = u128::from(now.0 - circuit.shown_since);
                circuit.lit_time += span * u128::from(circuit.shown);
                (circuit.shown, circuit.shown_since) = (circuit.lit, now.0);
                links.set_lit(now, circuit.link, circuit.lit);
            }
        }
        is_news
    }

    /// Racks learn what is lit; true if that is new to them.
    pub(super) fn make_known(&mut self) -> bool {
        let mut is_news = false;
        for circuit in &mut self.circuits {
            is_news |= circuit.known != circuit.lit;
            circuit.known = circuit.lit;
        }
        is_news
    }

    /// Use of circuits against the time in which they were lit.
    pub(super) fn link_use(&self, end: Time, links: &Links) -> LinkUse {
        let mut used = LinkUse { name: "circuits".into(), ..LinkUse::default() };
        let mut capacity = 0.0;
        for circuit in &self.circuits {
            let span = u128::from(end.0.saturating_sub(circuit.shown_since));
            let lit = circuit.lit_time + span * u128::from(circuit.shown);
            let bits = links.link(circuit.link).0.rate.0 as f64 * lit as f64;
            let could = bits / 8.0 / lightloom_model::units::PS_PER_S as f64;
            let carried = links.carried(circuit.link);
            used.links += 1;
            used.carried_bytes += carried;
            capacity += could;
            if could > 0.0 {
                used.max = used.max.max(carried as f64 / could);
            }
        }
        used.mean = if capacity > 0.0 { used.carried_bytes as f64 / capacity } else { 0.0 };
        used
    }

    /// Whether a switch holds a circuit from one rack to another.
    #[cfg(test)]
    pub(super) fn is_held(&self, from: u32, to: u32) -> bool {
        let mut all = self.banks.iter().flat_map(|bank| &bank.held);
        all.any(|held| held[from as usize] == to)
    }

    /// Circuits lit now at each port: of each rack and switch, those that leave and that arrive.
    #[cfg(test)]
    pub(super) fn largest_port(&self) -> u32 {
        let mut largest = 0;
        for bank in &self.banks {
            for (held, _) in bank.held.iter().zip(&bank.is_lit).filter(|(_, lit)| **lit) {
                let mut arriving = vec![0; bank.racks.len()];
                for &peer in held.iter().filter(|peer| **peer != NONE) {
                    arriving[peer as usize] += 1;
                }
                largest = largest.max(arriving.into_iter().max().unwrap_or(0));
            }
        }
        largest
    }

    /// Sum of what is lit, by circuit and by switch, which must be the same.
    #[cfg(test)]
    pub(super) fn lit_twice(&self) -> [u32; 2] {
        let by_circuit = self.circuits.iter().map(|circuit| circuit.lit).sum();
        let by_switch = self.banks.iter().flat_map(|bank| {
            let lit = bank.held.iter().zip(&bank.is_lit).filter(|(_, lit)| **lit);
            lit.map(|(held, _)| {
                let peers = held.iter().enumerate().filter(|(_, peer)| **peer != NONE);
                peers.filter(|(node, peer)| **peer as usize != *node).count() as u32
            })
        });
        [by_circuit, by_switch.sum()]
    }
}

/// Rate on average of the circuits of each pair of racks.
fn mean_rates(config: &RackCircuits) -> Vec<Rate> {
    let racks = config.racks;
    let mut rates = vec![Rate(0); (racks * racks) as usize];
    for bank in &config.banks {
        let (mean, ports) = (config.mean_rates(bank), bank.racks.len());
        for (from, to) in (0..ports).flat_map(|from| (0..ports).map(move |to| (from, to))) {
            let pair = bank.racks[from] * racks + bank.racks[to];
            rates[pair as usize].0 += mean[(to + ports - from) % ports].0;
        }
    }
    rates
}

/// Racks that are joined to both ends of each pair that is not, by switches or else by one and an
/// electrical link, and where those of a pair begin.
fn relays(place: &[u32], config: &RackCircuits) -> (Vec<u32>, Vec<u32>) {
    let racks = config.racks;
    let cables: FxHashSet<(u32, u32)> =
        config.cables.iter().map(|&(a, b, _)| (a.min(b), a.max(b))).collect();
    let joins = |a: u32, b: u32| place[(a * racks + b) as usize] != NONE;
    let meets = |a: u32, b: u32| joins(a, b) || cables.contains(&(a.min(b), a.max(b)));
    let (mut relays, mut first) = (Vec::new(), vec![0]);
    for from in 0..racks {
        let joined: Vec<u32> = (0..racks).filter(|&rack| joins(from, rack)).collect();
        let met: Vec<u32> = (0..racks).filter(|&rack| meets(from, rack)).collect();
        for to in 0..racks {
            if from != to && !joins(from, to) {
                let before = relays.len();
                relays.extend(joined.iter().filter(|&&relay| joins(relay, to)));
                if relays.len() == before {
                    relays.extend(met.iter().filter(|&&relay| meets(relay, to)));
                }
            }
            first.push(relays.len() as u32);
        }
    }
    (relays, first)
}

/// All ordered pairs.
fn pairs(racks: &[u32]) -> impl Iterator<Item = (&u32, &u32)> {
    racks
        .iter()
        .flat_map(move |from| racks.iter().map(move |to| (from, to)))
        .filter(|(a, b)| a != b)
}
