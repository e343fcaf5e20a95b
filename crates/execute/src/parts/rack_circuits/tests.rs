//! Racks driven as a run drives them: closed forms, and laws of random histories.

mod opera;

use super::*;
use crate::network::Network;
use crate::packets::{PacketTransport, Place};
use crate::testing::{GBPS, empty_graph, packet};
use lightloom_decide::{CircuitPolicy, EpochRules};
use lightloom_kernel::Silent;
use lightloom_model::Rate;
use lightloom_schedule::epochs::{EpochRun, Epochs};
use lightloom_schedule::helios::helios;
use lightloom_schedule::rotornet::{Cycling, Rotor, rotate};
use lightloom_schedule::steps::Turning;
use lightloom_schedule::xnest_plus::{Reading, SwitchRule, xnest_plus};
use proptest::prelude::*;

/// Picoseconds of a byte over a circuit, which is one of 8 Gb/s.
const BYTE: u64 = 1000;

fn rules(policy: CircuitPolicy) -> EpochRules {
    EpochRules {
        policy,
        estimator: Estimator::Last,
        weight: 250,
        hysteresis: None,
        reading: Reading::Pairings,
        rule: SwitchRule::Greedy,
        turning: Turning::First,
        cycling: Cycling::Fixed,
        seed: None,
    }
}

fn tables(hello: u64, patience: Option<u64>) -> RackRouting {
    RackRouting::Tables { circuits: 2, hello: Duration(hello), patience: patience.map(Duration) }
}

/// Racks of one server, which no NIC limits; epochs of 1000 bytes, 100 of them dark.
fn racks(racks: u32, switches: u32, policy: CircuitPolicy, routing: RackRouting) -> RackCircuits {
    let timing = EpochTiming {
        epoch: Duration(1000 * BYTE),
        dark: Duration(100 * BYTE),
        control: Duration::ZERO,
    };
    RackCircuits {
        nics: 1000,
        nic_rate: Rate(8 * GBPS),
        link_delay: Duration::ZERO,
        servers_per_rack: 1,
        racks,
        circuit_rate: Rate(8 * GBPS),
        banks: vec![SwitchBank { racks: (0..racks).collect(), switches }],
        cables: Vec::new(),
        core: None,
        timing,
        rules: rules(policy),
        routing,
        averaged: false,
        min_bytes: 0,
    }
}

fn clairvoyant(config: RackCircuits) -> RackCircuits {
    let rules = EpochRules { estimator: Estimator::Clairvoyant, ..config.rules };
    RackCircuits { rules, ..config }
}

fn network(config: &RackCircuits) -> Network {
    let servers = config.racks * config.servers_per_rack;
    let network = Network { parts: Vec::new(), ..packet(servers) }.with(config.clone());
    network.validate().expect("a valid network");
    network
}

/// The part and its links, driven as `Fabric` drives them.
struct Run {
    part: RackLinks,
    links: Links,
    now: u64,
    /// Bytes by token, of transfers under way.
    offered: Vec<u64>,
    /// When each transfer arrived.
    arrived: Vec<Option<u64>>,
    /// Clock ticks.
    ticks: u64,
}

impl Run {
    fn new(config: &RackCircuits) -> Self {
        Self::over(&network(config), config, Links::flows())
    }

    /// As packets of a transport, without headers.
    fn packets(config: &RackCircuits, name: &str) -> Self {
        let network = network(config);
        let mut options = PacketTransport::new(name, network.extent()).unwrap();
        (options.config.mtu, options.config.header, options.config.control_bytes) = (1500, 0, 1);
        let places = vec![Place::default(); network.servers as usize];
        Self::over(&network, config, network.packet_links(&places, &options, &[0]).unwrap())
    }

    fn over(network: &Network, config: &RackCircuits, mut links: Links) -> Self {
        let placement = network.place(&empty_graph(1, network.servers, 1)).unwrap();
        let id = PartId::at(0);
        let mut setting = Setting { id, network, placement: &placement, links: &mut links };
        let mut part = RackLinks::new(config, &mut setting).unwrap();
        part.follow_clock(Time::ZERO, &mut links);
        links.seal().unwrap();
        Self { part, links, now: 0, offered: vec![], arrived: vec![], ticks: 0 }
    }

    /// A transfer from one server to another; returns its number.
    fn start(&mut self, from: u32, to: u32, bytes: u64) -> usize {
        let token = self.offered.len() as u64;
        let now = Time(self.now);
        if self.part.due() < self.now {
            self.part.follow_clock(now, &mut self.links);
        }
        let path = [self.part.up[from as usize], self.part.down[to as usize]];
        let flow = Flow { bytes, stretch: 1.0, priority: 0, token };
        let is_taken = self.part.conduct(now, flow, &path, &mut self.links);
        assert_eq!(is_taken, bytes > 0);
        if !is_taken {
            self.links.start(now, flow, &path);
        }
        self.offered.push(bytes);
        self.arrived.push(None);
        token as usize
    }

    fn is_busy(&self) -> bool {
        self.links.is_busy() || self.part.is_busy()
    }

    /// Goes on to when transfers end, but not beyond a limit; false if none ends until then.
    fn proceed(&mut self, limit: u64) -> bool {
        let mut done = Vec::new();
        let limit = Some(Time(limit));
        let Some(end) = self.links.run_until(limit, &mut done, &mut Silent).unwrap() else {
            return false;
        };
        self.now = end.0;
        let mut whole = Vec::new();
        for token in done {
            if token >= crate::network::CONDUCTED {
                self.part.conducted(end, token, &mut self.links, &mut whole);
            } else {
                whole.push(token);
            }
        }
        for token in whole {
            assert!(self.arrived[token as usize].replace(end.0).is_none(), "twice");
        }
        true
    }

    /// Goes on until a time, or until nothing is on its way.
    fn run_until(&mut self, limit: u64) {
        while self.is_busy() {
            if self.part.bundles.are_waiting() {
                while self.proceed(self.now) {}
                self.part.launch(Time(self.now), &mut self.links);
            }
            let change = self.part.next_change(Time(self.now)).map_or(u64::MAX, |time| time.0);
            let next = change.min(limit);
            if self.proceed(next) {
                continue;
            }
            self.now = next;
            if next < change {
                return;
            }
            self.part.follow_clock(Time(change), &mut self.links);
            self.ticks += 1;
            assert!(self.ticks < 200_000, "bytes are on their way for ever");
            self.check();
        }
        self.now = self.now.max(limit.min(1 << 50));
    }

    fn end(&mut self) -> u64 {
        self.run_until(1 << 50);
        self.arrived.iter().map(|time| time.expect("all arrive")).max().unwrap_or(0)
    }

    /// No port has two circuits, and bytes offered are those carried, left, and stored.
    fn check(&mut self) {
        assert!(self.part.board.largest_port() <= 1, "two circuits at one port");
        let [by_circuit, by_switch] = self.part.board.lit_twice();
        assert_eq!(by_circuit, by_switch);
        let down = [&self.part.down, self.part.bundles.down()].concat();
        let carried: u64 = down.iter().map(|&link| self.links.carried(link)).sum();
        let under_way = self.part.pieces.under_way(Time(self.now), &mut self.links);
        assert_eq!(carried + under_way, self.offered.iter().sum::<u64>(), "at {}", self.now);
    }
}

/// The end of an all-to-all of these bytes that begins at 0.
fn all_to_all(config: &RackCircuits, demand: &[u64]) -> u64 {
    let mut run = Run::new(config);
    for (cell, &bytes) in (0..).zip(demand) {
        let (from, to) = (cell / config.racks, cell % config.racks);
        if from != to && bytes > 0 {
            run.start(from, to, bytes);
        }
    }
    run.end()
}

/// What epochs of the same lengths take, in bytes of a circuit.
fn sizes(config: &RackCircuits) -> Epochs {
    config.sizes(&config.banks[0])
}

/// A pair of one switch with its own shift waits for the slots of that shift.
#[test]
fn bytes_of_a_rotor_wait_for_their_slot() {
    // Two switches, four racks: shifts 1 and 3 at the first, 2 at the second, always lit.
    let config = racks(4, 2, CircuitPolicy::RotorNet, RackRouting::Direct { relay: false });
    let end = |to, bytes| {
        let mut run = Run::new(&config);
        run.start(0, to, bytes);
        run.end() / BYTE
    };
    assert_eq!(end(1, 900), 100 + 900);
    assert_eq!(end(1, 901), 2000 + 100 + 1);
    assert_eq!(end(3, 900), 1000 + 100 + 900);
    assert_eq!(end(3, 1), 1000 + 100 + 1);
    assert_eq!(end(2, 5000), 100 + 5000);
}

/// What a slot has room for goes over a third rack: faster than to wait, and all of it arrives.
#[test]
fn relaying_takes_two_hops_and_loses_nothing() {
    for cycling in [Cycling::Fixed, Cycling::Shared, Cycling::Staggered] {
        let direct = RackRouting::Direct { relay: false };
        let mut config = racks(8, 1, CircuitPolicy::RotorNet, direct);
        config.rules.cycling = cycling;
        let relayed =
            RackCircuits { routing: RackRouting::Direct { relay: true }, ..config.clone() };
        let end = |config: &RackCircuits| {
            let mut run = Run::new(config);
            run.start(0, 1, 20_000);
            run.end() / BYTE
        };
        // 22 cycles of seven slots and a part of one; staggered rotors begin with the second shift.
        let first = if cycling == Cycling::Staggered { 6000 } else { 0 };
        assert_eq!(end(&config), 22 * 7000 + first + 100 + 200, "{cycling}");
        // Six of seven slots take bytes to other racks; each delivers one slot's worth a cycle.
        assert!(end(&relayed) < 22 * 7000 / 3, "{cycling}: {}", end(&relayed));
    }
}

/// Over the core at 1 Gb/s until the first epoch has been measured and its circuits are lit.
#[test]
fn circuits_follow_the_epoch_that_was_measured() {
    let core = Some(Rate(GBPS));
    let mut config = racks(4, 1, CircuitPolicy::Helios, tables(0, None));
    config.core = core;
    let RackRouting::Tables { circuits, .. } = &mut config.routing else { unreachable!() };
    *circuits = 1;
    let end = |control: u64, hello: u64| {
        let timing = EpochTiming { control: Duration(control * BYTE), ..config.timing };
        let mut config = RackCircuits { timing, ..config.clone() };
        config.routing =
            RackRouting::Tables { circuits: 1, hello: Duration(hello * BYTE), patience: None };
        let mut run = Run::new(&config);
        // At first the switch holds 0 - 3 and 1 - 2.
        let peer = (1..4).find(|&to| run.part.board.is_held(0, to)).unwrap();
        run.start(0, if peer == 2 { 1 } else { 2 }, 5000);
        run.end() / BYTE
    };
    // Until 1100 an eighth of a byte for each: 137.5 bytes.
    assert_eq!(end(0, 0), 1100 + 5000 - 137);
    // 250 later: 31.25 bytes more over the core.
    assert_eq!(end(250, 0), 1350 + 5000 - 168);
    // Tables are renewed at multiples of 400: at 1200 rather than 1100.
    assert_eq!(end(0, 400), 1200 + 5000 - 150);
}

#[test]
fn with_all_known_and_no_delay_the_epochs_are_those_of_the_schedulers() {
    for n in [4_u32, 5, 6, 8] {
        let demand: Vec<u64> =
            (0..n * n).map(|cell| if cell / n == cell % n { 0 } else { 2345 }).collect();
        let compare = |config: RackCircuits, run: EpochRun| {
            let found = all_to_all(&config, &demand);
            let epochs = run.matchings.len() as u64;
            let expected = run.length * BYTE;
            assert!(found.abs_diff(expected) <= epochs * BYTE, "{n}: {found} {expected}");
        };
        let one_hop = RackRouting::Tables { circuits: 1, hello: Duration::ZERO, patience: None };
        let config = clairvoyant(racks(n, 1, CircuitPolicy::Helios, one_hop));
        compare(config.clone(), helios(&demand, &sizes(&config)).unwrap());
        let mut config = clairvoyant(racks(n, 1, CircuitPolicy::XnestPlus, one_hop));
        config.rules.turning = Turning::All;
        compare(config.clone(), xnest_plus(&demand, &sizes(&config), Reading::Pairings).unwrap());
        for switches in [1, 2] {
            let routing = RackRouting::Direct { relay: false };
            let config = racks(n, switches, CircuitPolicy::RotorNet, routing);
            let Epochs { nodes, switches, epoch, delay } = sizes(&config);
            let rotor = Rotor {
                nodes,
                switches,
                slot: Some(epoch),
                delay,
                held: false,
                relay: false,
                cycling: Cycling::Fixed,
            };
            let run = rotate(&demand, &rotor).unwrap();
            let found = all_to_all(&config, &demand);
            let slots = run.turns.len() as u64;
            // A schedule counts whole slots, and its switches are dark also where nothing turns.
            let last = *run.turns.last().unwrap() * 1000 * BYTE;
            assert!(found > last && found <= last + 1000 * BYTE + slots, "{n}: {found} {last}");
        }
    }
}

/// Tables are renewed at 950 and 1900; at 1000 the only switch turns to a pair that has more.
#[test]
fn what_is_dark_waits_or_falls_back() {
    let mut config = racks(4, 1, CircuitPolicy::XnestPlus, tables(0, None));
    config.cables = vec![(0, 1, Rate(GBPS)), (2, 3, Rate(GBPS)), (1, 2, Rate(GBPS))];
    config.timing.dark = Duration(900 * BYTE);
    config.rules.turning = Turning::All;
    let end = |patience: Option<u64>| {
        let mut config = config.clone();
        config.routing = tables(950 * BYTE, patience.map(|patience| patience * BYTE));
        let mut run = Run::new(&config);
        run.now = 960 * BYTE;
        let lit = (1..4).find(|&to| run.part.board.is_held(0, to)).unwrap();
        let first = run.start(0, lit, 600);
        run.start(0, 1 + lit % 3, 40_000);
        run.end();
        run.arrived[first].unwrap() / BYTE
    };
    // 40 bytes over the circuit, the others over cables of 1 Gb/s, from 1900 on alone.
    let hold = 1900 + (600 - 40) * 8;
    assert_eq!(end(None), hold);
    // From 1010 on, beside the other transfer until 1900.
    let earlier = (1900 - 1010) / 2;
    assert!(end(Some(10)).abs_diff(hold - earlier) <= 16, "{}", end(Some(10)));
}

#[test]
fn wrong_descriptions_are_refused() {
    let good = racks(4, 1, CircuitPolicy::RotorNet, RackRouting::Direct { relay: true });
    let refusal = |change: &dyn Fn(&mut RackCircuits)| {
        let mut config = good.clone();
        change(&mut config);
        let network = Network { parts: Vec::new(), ..packet(4) }.with(config);
        network.validate().unwrap_err().to_string()
    };
    let text = refusal(&|config| config.timing.dark = config.timing.epoch);
    let expected = "racks: switches that turn every 1000000 ps are never lit: they are dark for \
                    1000000 ps";
    assert_eq!(text, expected);
    let text = refusal(&|config| config.racks = 3);
    assert_eq!(text, "racks: 4 servers do not fit into 3 places");
    let text = refusal(&|config| config.banks[0].racks = vec![0, 1, 1]);
    assert_eq!(text, "racks: circuit switches must join two racks or more, each once");
    let text = refusal(&|config| {
        config.banks[0].racks = vec![0, 1, 2];
        config.routing = RackRouting::Direct { relay: false };
    });
    assert_eq!(text, "racks: nothing joins rack 0 and rack 3");
    let text = refusal(&|config| config.rules.policy = CircuitPolicy::Helios);
    assert_eq!(text, "racks: only rotors that join all racks relay what waits");
    let text = refusal(&|config| config.cables = vec![(1, 1, Rate(1))]);
    assert_eq!(text, "racks: an electrical link joins no two racks at a rate");
}

/// Any of the fabrics.
fn any_racks() -> impl Strategy<Value = RackCircuits> {
    let times = (50..400_u64, 0..300_u64, 0..500_u64, prop::option::of(1..300_u64));
    (3..7_u32, 1..4_u32, 0..6_u32, times, prop::bool::ANY).prop_map(
        |(count, switches, kind, (dark, control, hello, patience), is_all)| {
            let (hello, patience) = (hello / 100 * 100 * BYTE, patience.map(|time| time * BYTE));
            let mut config = match kind {
                0 => {
                    let relay = RackRouting::Direct { relay: is_all };
                    racks(count, switches, CircuitPolicy::RotorNet, relay)
                }
                1 => racks(count, switches, CircuitPolicy::Helios, tables(hello, patience)),
                2 => racks(count, switches, CircuitPolicy::XnestPlus, tables(hello, patience)),
                3 => opera::racks(count, switches, is_all, 1 + 10 * dark),
                _ => clairvoyant(racks(
                    count,
                    switches,
                    CircuitPolicy::Helios,
                    tables(hello, patience),
                )),
            };
            if kind == 1 || kind == 5 {
                config.core = Some(Rate(GBPS));
            }
            if kind == 2 {
                config.cables = (1..count).map(|rack| (0, rack, Rate(GBPS))).collect();
                config.rules.turning = if is_all { Turning::All } else { Turning::First };
            }
            config.timing.dark = Duration(dark * BYTE);
            config.timing.control = Duration(if kind % 3 == 0 { 0 } else { control * BYTE });
            config
        },
    )
}

/// Transfers: from, to, bytes, and how long until the next.
fn transfers() -> impl Strategy<Value = Vec<(u32, u32, u64, u64)>> {
    let gap = prop_oneof![2 => Just(0_u64), 2 => 0..2000_u64, 1 => 0..20_000_u64];
    prop::collection::vec((0..6_u32, 0..6_u32, 0..4000_u64, gap), 1..14)
}

fn play(config: &RackCircuits, transfers: &[(u32, u32, u64, u64)], more: u64) -> Run {
    let mut run = Run::new(config);
    for &(from, to, bytes, gap) in transfers {
        let (from, to) = (from % config.racks, to % config.racks);
        if from != to {
            run.start(from, to, bytes * more / 100);
        }
        let until = run.now + gap * BYTE;
        run.run_until(until);
        run.now = until.max(run.now);
    }
    run.end();
    run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Through darkness, fall-back, stale tables and relaying: `Run::check` at every tick.
    #[test]
    fn no_byte_is_lost_and_all_arrive(config in any_racks(), transfers in transfers()) {
        let mut run = play(&config, &transfers, 100);
        run.check();
        prop_assert!(run.part.pieces.is_empty());
        let again = play(&config, &transfers, 100);
        prop_assert_eq!(run.arrived, again.arrived);
    }

    /// A transfer that is alone: circuits that are dark for longer, and tables that are renewed
    /// later, never let it end earlier, but for what they change of the phase of the clock: by less
    /// than two epochs, a dark time and a hello.
    #[test]
    fn darkness_and_stale_tables_do_not_help(
        config in any_racks(),
        (to, bytes) in (1..3_u32, 1..20_000_u64),
        more in 0..200_u64,
    ) {
        let end = |config: &RackCircuits| {
            let mut run = Run::new(config);
            run.start(0, to, bytes);
            run.end()
        };
        let mut worse = config.clone();
        worse.timing.dark.0 += more * BYTE;
        if let RackRouting::Tables { hello, .. } = &mut worse.routing {
            hello.0 += more * BYTE;
        }
        let slack = 2 * config.timing.epoch.0 + worse.timing.dark.0 + 700 * BYTE;
        prop_assert!(end(&worse) + slack >= end(&config), "{} {}", end(&worse), end(&config));
    }

    /// One hundredth more bytes: everything ends later by less than a twentieth and four cycles, in
    /// which each pair of racks has its turn.
    #[test]
    fn times_are_continuous_in_demand(config in any_racks(), transfers in transfers()) {
        let [before, after] = [100, 101].map(|more| {
            let run = play(&config, &transfers, more);
            run.arrived.into_iter().flatten().max().unwrap_or(0)
        });
        let cycle = config.timing.epoch.0 * u64::from(config.racks);
        prop_assert!(after <= before + before / 20 + 4 * cycle, "{before} {after}");
        prop_assert!(before <= after + after / 20 + 4 * cycle, "{before} {after}");
    }
}

/// What is left out on average is to wait for slots: a cycle at most, whatever the demand.
#[test]
fn average_circuits_take_as_long_but_for_a_cycle() {
    for cycling in [Cycling::Fixed, Cycling::Shared, Cycling::Staggered] {
        for (count, switches) in [(4, 2), (6, 2), (7, 3), (8, 1), (9, 4)] {
            let routing = RackRouting::Direct { relay: false };
            let mut exact = racks(count, switches, CircuitPolicy::RotorNet, routing);
            exact.rules.cycling = cycling;
            if exact.tick() <= exact.timing.dark {
                continue;
            }
            let average = RackCircuits { averaged: true, ..exact.clone() };
            for skew in 0..4 {
                let demand: Vec<u64> = (0..u64::from(count * count))
                    .map(|cell| 50_000 * (1 + cell * skew % 5))
                    .collect();
                let [exact, average] = [&exact, &average].map(|config| all_to_all(config, &demand));
                let cycle = 1000 * BYTE * u64::from(count);
                let name = format!("{cycling} {count} {switches} {skew}");
                assert!(exact.abs_diff(average) <= cycle, "{name}: {exact} {average}");
            }
        }
    }
    let mut wrong = racks(4, 1, CircuitPolicy::Helios, tables(0, None));
    wrong.averaged = true;
    let network = Network { parts: Vec::new(), ..packet(4) }.with(wrong);
    let text = "racks: only rotors of shifts, without relaying, have average circuits";
    assert_eq!(network.validate().unwrap_err().to_string(), text);
}

/// Racks of so many servers with one NIC each, which is as fast as a circuit.
fn with_servers(config: RackCircuits, servers_per_rack: u32) -> RackCircuits {
    RackCircuits { servers_per_rack, nics: 1, ..config }
}

/// What begins together.
#[derive(Debug, Clone)]
enum Batch {
    /// All servers send to all others, more or less by their racks.
    AllToAll { bytes: u64, skew: u64 },
    /// Every server sends to one.
    Shift { bytes: u64, by: u32 },
    /// One sends to another.
    One { from: u32, to: u32, bytes: u64 },
}

impl Batch {
    fn transfers(&self, config: &RackCircuits) -> Vec<(u32, u32, u64)> {
        let each = config.servers_per_rack;
        let servers = config.racks * each;
        match *self {
            Self::AllToAll { bytes, skew } => (0..servers * servers)
                .map(|cell| (cell / servers, cell % servers))
                .map(|(from, to)| {
                    let place = u64::from(from / each * 5 + to / each * 3);
                    (from, to, bytes * (1 + place * skew % 4))
                })
                .collect(),
            Self::Shift { bytes, by } => {
                (0..servers).map(|server| (server, (server + by) % servers, bytes)).collect()
            }
            Self::One { from, to, bytes } => vec![(from % servers, to % servers, bytes)],
        }
    }
}

/// All transfers of batches, each so many bytes of time after the one before.
fn play_batches(config: &RackCircuits, batches: &[(Batch, u64)], apart: bool) -> Run {
    let mut run = Run::new(config);
    run.part.bundles.is_off = apart;
    for (batch, gap) in batches {
        for (from, to, bytes) in batch.transfers(config) {
            if from != to {
                run.start(from, to, bytes);
            }
        }
        let until = run.now + gap * BYTE;
        run.run_until(until);
        run.now = until.max(run.now);
    }
    run.end();
    run
}

/// How far the times at which transfers arrive are from one another, and from 0.
fn difference(one: &Run, other: &Run) -> (u64, u64) {
    let times = |run: &Run| -> Vec<u64> {
        run.arrived.iter().map(|time| time.expect("all arrive")).collect()
    };
    let (one, other) = (times(one), times(other));
    let apart = one.iter().zip(&other).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    (apart, one.into_iter().max().unwrap_or(0))
}

/// Every fabric, three servers in each rack.
fn every_fabric() -> Vec<RackCircuits> {
    let rotor = |relay| racks(4, 2, CircuitPolicy::RotorNet, RackRouting::Direct { relay });
    let mut helios = racks(4, 2, CircuitPolicy::Helios, tables(0, None));
    helios.core = Some(Rate(2 * GBPS));
    let mut xnest = racks(4, 2, CircuitPolicy::XnestPlus, tables(300 * BYTE, None));
    xnest.cables = vec![(0, 1, Rate(GBPS)), (2, 3, Rate(GBPS)), (1, 2, Rate(GBPS))];
    let fallback = RackCircuits { routing: tables(300 * BYTE, Some(50 * BYTE)), ..xnest.clone() };
    let all = [rotor(false), rotor(true), clairvoyant(helios.clone()), helios, xnest, fallback];
    all.into_iter().map(|config| with_servers(config, 3)).collect()
}

#[test]
fn transfers_that_are_alike_are_as_each_by_itself() {
    for config in every_fabric() {
        for skew in [0, 1, 3] {
            let batches = [(Batch::AllToAll { bytes: 1003, skew }, 1 << 40)];
            let [one, apart] = [false, true].map(|apart| play_batches(&config, &batches, apart));
            let (difference, end) = difference(&one, &apart);
            let name = format!("{:?} {:?} {skew}", config.rules.policy, config.routing);
            assert!(difference <= 4 * BYTE, "{name}: {difference} of {end}");
            // 9 transfers of each pair of racks, 6 inside each: 16 flows, and one for each cut.
            let flows = [&one, &apart].map(|run| run.part.pieces.opened());
            assert!(flows[0] * 3 <= flows[1], "{name}: {flows:?}");
            if config.routing != (RackRouting::Direct { relay: true }) {
                assert_eq!(flows, [16, 132], "{name}");
            }
        }
    }
}

/// Work follows circuits that change: in twice the epochs of the same traffic, twice as much.
#[test]
fn work_is_linear_in_the_changes_of_circuits_and_in_pairs_of_racks() {
    for config in every_fabric() {
        let work = |bytes: u64, per_rack: u32| {
            let config = with_servers(config.clone(), per_rack);
            let batches = [(Batch::AllToAll { bytes, skew: 0 }, 1 << 40)];
            let run = play_batches(&config, &batches, false);
            (run.ticks, run.links.flow_statistics())
        };
        let name = format!("{:?} {:?}", config.rules.policy, config.routing);
        let [(ticks, once), (more_ticks, twice)] = [20_000, 40_000].map(|bytes| work(bytes, 3));
        assert!(more_ticks >= ticks * 3 / 2, "{name}: {ticks} {more_ticks}");
        let per_tick = |links: u64, ticks: u64| links as f64 / ticks as f64;
        let before = per_tick(once.links_touched, ticks);
        let after = per_tick(twice.links_touched, more_ticks);
        assert!(after <= 1.3 * before, "{name}: {before} {after} links for each change");
        // Twice the servers send four times the transfers: over as many flows.
        let (ticks, larger) = work(20_000 / 4, 6);
        let flows = per_tick(larger.flows_touched, ticks);
        let before = per_tick(once.flows_touched, work(20_000, 3).0);
        assert!(flows <= 2.0 * before, "{name}: {before} {flows} flows for each change");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Also where what begins later tells servers apart, or joins them: `Run::check` at every tick.
    #[test]
    fn no_byte_of_bundles_is_lost_and_all_arrive(
        config in any_racks(),
        per_rack in 2..4_u32,
        batches in prop::collection::vec(
            (
                prop_oneof![
                    2 => (1..2000_u64, 0..4_u64)
                        .prop_map(|(bytes, skew)| Batch::AllToAll { bytes, skew }),
                    1 => (1..4000_u64, 1..9_u32).prop_map(|(bytes, by)| Batch::Shift { bytes, by }),
                    1 => (0..18_u32, 0..18_u32, 1..4000_u64)
                        .prop_map(|(from, to, bytes)| Batch::One { from, to, bytes }),
                ],
                prop_oneof![2 => 0..4000_u64, 1 => 0..200_000_u64, 1 => Just(0)],
            ),
            1..4,
        ),
    ) {
        let config = with_servers(config, per_rack);
        let mut one = play_batches(&config, &batches, false);
        one.check();
        prop_assert!(one.part.pieces.is_empty());
        let apart = play_batches(&config, &batches, true);
        let used = [&mut one, &mut { apart }].map(|run| {
            run.part.bundles.account(&run.links);
            let carried = run.part.down.iter().map(|&link| run.links.carried(link));
            carried.zip(run.part.bundles.carried(1)).map(|(a, b)| a + b).collect::<Vec<_>>()
        });
        prop_assert_eq!(&used[0], &used[1], "bytes over each NIC");
    }
}

/// The same racks with servers of one fast NIC, and times of the clock for so much more bytes that
/// packets are small beside them.
fn for_packets(config: RackCircuits) -> RackCircuits {
    let longer = |time: Duration| Duration(time.0 * LONGER);
    let timing = EpochTiming {
        epoch: longer(config.timing.epoch),
        dark: longer(config.timing.dark),
        control: longer(config.timing.control),
    };
    let routing = match config.routing {
        RackRouting::Tables { circuits, hello, patience } => {
            RackRouting::Tables { circuits, hello: longer(hello), patience: patience.map(longer) }
        }
        direct @ RackRouting::Direct { .. } => direct,
    };
    RackCircuits { nics: 1, nic_rate: Rate(80 * GBPS), timing, routing, ..config }
}

const LONGER: u64 = 4000;

/// When transfers have ended as packets, and as fluids.
fn both_ends(config: &RackCircuits, name: &str, transfers: &[(u32, u32, u64)]) -> [f64; 2] {
    [Run::packets(config, name), Run::new(config)].map(|mut run| {
        for &(from, to, bytes) in transfers {
            run.start(from, to, bytes * LONGER);
        }
        let end = run.end();
        run.check();
        end as f64
    })
}

/// By how much longer transfers take as packets than as fluids.
fn longer_as_packets(config: &RackCircuits, name: &str, transfers: &[(u32, u32, u64)]) -> f64 {
    let [packets, fluids] = both_ends(config, name, transfers);
    packets / fluids - 1.0
}

#[test]
fn packets_of_a_rotor_wait_for_their_slots() {
    let config = racks(4, 2, CircuitPolicy::RotorNet, RackRouting::Direct { relay: false });
    let config = for_packets(config);
    for transport in ["ideal", "dctcp"] {
        for (to, bytes) in [(1, 800), (1, 2000), (3, 850), (2, 5000)] {
            let longer = longer_as_packets(&config, transport, &[(0, to, bytes)]);
            // a packet that begins in the light ends in the dark
            assert!((-1e-3..0.05).contains(&longer), "{transport} {to} {bytes}: {longer}");
        }
        let all: Vec<_> =
            (0..16).filter(|cell| cell % 5 > 0).map(|cell| (cell / 4, cell % 4, 2345)).collect();
        let longer = longer_as_packets(&config, transport, &all);
        assert!((-1e-3..0.03).contains(&longer), "{transport}: {longer}");
    }
}

#[test]
fn packets_that_are_relayed_take_about_as_long_as_fluids() {
    for cycling in [Cycling::Fixed, Cycling::Shared, Cycling::Staggered] {
        let relay = RackRouting::Direct { relay: true };
        let mut config = racks(6, 1, CircuitPolicy::RotorNet, relay);
        config.rules.cycling = cycling;
        let config = for_packets(config);
        // `RotorLB` fills slots to the last byte: what does not fit by a packet waits for a cycle.
        let cycle = (5 * config.timing.epoch.0) as f64;
        for transfers in [&[(0, 1, 9_000)][..], &[(0, 1, 5_000), (2, 1, 3_000)], &[(0, 1, 500)]] {
            let [packets, fluids] = both_ends(&config, "ideal", transfers);
            let most = 1.03 * fluids + cycle;
            assert!(packets > 0.97 * fluids && packets < most, "{cycling}: {packets} {fluids}");
        }
    }
}

#[test]
fn packets_follow_circuits_and_fall_back_as_fluids_do() {
    let all: Vec<_> =
        (0..16).filter(|cell| cell % 5 > 0).map(|cell| (cell / 4, cell % 4, 2345)).collect();
    for policy in [CircuitPolicy::Helios, CircuitPolicy::XnestPlus] {
        for patience in [None, Some(10 * BYTE)] {
            let mut config = racks(4, 1, policy, tables(0, patience));
            if policy == CircuitPolicy::Helios {
                config.core = Some(Rate(GBPS));
            } else {
                config.cables = (1..4).map(|rack| (0, rack, Rate(GBPS))).collect();
            }
            let config = for_packets(config);
            for transfers in [&[(0, 2, 5000)][..], &[(0, 1, 3000), (0, 2, 4000)], &all] {
                let longer = longer_as_packets(&config, "ideal", transfers);
                // With all at once the measurements of an epoch differ, and with them circuits.
                let most = if transfers.len() > 2 { 0.15 } else { 0.05 };
                assert!(longer.abs() < most, "{policy} {patience:?} {transfers:?}: {longer}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// As packets, too, bytes that are offered are those that were carried, and those under way.
    #[test]
    fn no_byte_is_lost_as_packets(
        config in any_racks(),
        transfers in prop::collection::vec((0..6_u32, 0..6_u32, 0..1500_u64, 0..2000_u64), 1..6),
        transport in prop::sample::select(vec!["ideal", "dctcp"]),
    ) {
        let config = for_packets(config);
        let play = || {
            let mut run = Run::packets(&config, transport);
            for &(from, to, bytes, gap) in &transfers {
                let (from, to) = (from % config.racks, to % config.racks);
                if from != to && bytes > 0 {
                    run.start(from, to, bytes * 100);
                }
                let until = run.now + gap * BYTE * LONGER / 10;
                run.run_until(until);
                run.now = until.max(run.now);
            }
            run.end();
            run
        };
        let mut run = play();
        run.check();
        prop_assert!(run.part.pieces.is_empty());
        prop_assert_eq!(run.arrived, play().arrived);
    }
}
