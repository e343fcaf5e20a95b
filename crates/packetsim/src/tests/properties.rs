//! Random networks, settings, transports and flows: every packet is accounted for, every flow
//! finishes or is reported, and the same input gives the same run.
//!
//! `FUZZ_SECONDS=3600 FUZZ_SEED=1 cargo test --release -p lightloom-packetsim fuzz -- --ignored`
//! goes on for longer.

use super::plain;
use super::series::check_laws;
use crate::SeriesSampling;
use crate::presets::{fat_tree, leaf_spine, star};
use crate::run::RunningScenario;
use crate::{
    Balancing, Cable, CircuitSwitching, Config, Core, EarlyDrop, Ecn, EventKind, EventLogging,
    FlowOutcome, FlowSpec, Marking, NicId, NodeId, Overflow, Packet, PacketError, PacketFlowId,
    PacketKind, PacketLinkId, PacketScenario, PathChoice, Pfc, Sampling, Topology, TransportName,
    profile,
};
use lightloom_kernel::{RunHash, Silent};
use lightloom_model::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::collections::BTreeSet;

const RATES: [u64; 5] =
    [10_000_000_000, 7_000_000_000, 100_000_000_000, 400_000_000_000, 3_200_000_000_000];
/// Events of a trace; runs that have more are not audited.
const MAX_EVENTS: usize = 200_000;

#[derive(Debug, Clone)]
enum Shape {
    Star(u32),
    LeafSpine(u32, u32),
    FatTree(u32),
    /// Switches, the hosts with the switches that they hang on, more links between any two nodes.
    Graph(u32, Vec<u32>, Vec<(u32, u32)>),
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    shape: Shape,
    rates: Vec<usize>,
    transport: usize,
    config: Config,
    /// Source, destination, bytes, start, whether on an explicit route.
    flows: Vec<(u32, u32, u64, u64, bool)>,
    changes: Vec<(u64, u32, bool)>,
    until: u64,
}

fn shape() -> impl Strategy<Value = Shape> {
    let node = 0u32..12;
    let hosts = prop::collection::vec(node.clone(), 2..7);
    let links = prop::collection::vec((node.clone(), node), 0..6);
    prop_oneof![
        (2u32..9).prop_map(Shape::Star),
        (2u32..10, 1u32..4).prop_map(|(hosts, spines)| Shape::LeafSpine(hosts, spines)),
        (2u32..17).prop_map(Shape::FatTree),
        (1u32..6, hosts, links)
            .prop_map(|(switches, hosts, links)| Shape::Graph(switches, hosts, links)),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let packet = (1u32..9000, 1u32..100, 1u32..200, any::<bool>());
    let queue = (prop::option::of(1u32..40), 1u32..50, any::<bool>(), any::<bool>());
    let ecn = (any::<bool>(), 0u32..30_000, 0u32..60_000, 0.01f64..1.0).prop_map(
        |(is_arrival, min_bytes, more, probability)| Ecn {
            marking: if is_arrival { Marking::Arrival } else { Marking::Departure },
            min_bytes,
            max_bytes: min_bytes + more,
            probability,
        },
    );
    let pfc = (1u32..60_000, 0u32..30_000)
        .prop_map(|(resume_bytes, more)| Pfc { pause_bytes: resume_bytes + more, resume_bytes });
    let early = (0.0f64..1.0, 0.01f64..1.0)
        .prop_map(|(share, probability)| EarlyDrop { share, probability });
    let early = prop::option::weighted(0.3, early);
    let rest = (prop::option::of(ecn), prop::option::of(pfc), early, 0u16..9, any::<u64>());
    (packet, queue, rest).prop_map(|(packet, queue, rest)| {
        let (mtu, header, control_bytes, full_tail) = packet;
        let (queue, control_queue, is_trimming, control_priority) = queue;
        let (ecn, pfc, early_drop, paths, seed) = rest;
        let early_drop = early_drop.filter(|_| pfc.is_none());
        Config {
            mtu,
            header,
            full_tail,
            control_bytes,
            control_priority,
            queue_bytes: queue.map_or(u32::MAX, |packets| packets * (mtu + header)),
            control_queue_bytes: control_bytes.max(header) * control_queue,
            overflow: if is_trimming { Overflow::Trim } else { Overflow::Drop },
            early_drop,
            ecn,
            pfc,
            telemetry: seed % 2 == 0,
            links_fail: false,
            highest_priority: [0, 0, 1, 3, 7][(seed / 6 % 5) as usize],
            paths: if paths == 0 { PathChoice::Ecmp } else { PathChoice::Spray(paths) },
            balancing: Balancing::ALL[(seed / 2 % 3) as usize],
            flowlet_gap: Duration(seed % 1_000_000),
            plane_silence: None,
            shared_buffer: None,
            loss: 0.0,
            seed,
        }
    })
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let flow = (0u32..16, 0u32..16, 0u64..100_000, 0u64..20_000_000, any::<bool>());
    let change = (0u64..50_000_000, 0u32..64, any::<bool>());
    (
        shape(),
        prop::collection::vec(0..RATES.len(), 1..5),
        0..TransportName::ALL.len(),
        prop_oneof![config(), Just(plain())],
        prop::collection::vec(flow, 1..8),
        prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(change, 1..4)],
        prop_oneof![Just(u64::MAX), 0u64..100_000_000],
    )
        .prop_map(|(shape, rates, transport, config, flows, changes, until)| Case {
            shape,
            rates,
            transport,
            config,
            flows,
            changes,
            until,
        })
}

fn graph(switches: u32, hosts: &[u32], links: &[(u32, u32)], rates: &[Rate]) -> Topology {
    let mut topology = Topology::new();
    let nodes: Vec<NodeId> = (0..switches).map(|_| topology.add_switch()).collect();
    let ends: Vec<NodeId> = hosts.iter().map(|_| topology.add_host()).collect();
    let mut pairs: Vec<(NodeId, NodeId)> =
        nodes.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.extend(ends.iter().zip(hosts).map(|(&end, &at)| (end, nodes[(at % switches) as usize])));
    let all = switches + hosts.len() as u32;
    pairs.extend(links.iter().map(|&(a, b)| (NodeId(a % all), NodeId(b % all))));
    for (index, &pair) in pairs.iter().filter(|(a, b)| a != b).enumerate() {
        let rate = rates[index % rates.len()];
        let layer = if index % 2 == 0 { ["even", "ever"] } else { ["odd", "other"] };
        topology
            .connect(pair.0, pair.1, Cable { rate, delay: Duration(index as u64 * 100_000) }, layer)
            .unwrap();
    }
    topology
}

fn topology(case: &Case) -> Topology {
    let rates: Vec<Rate> = case.rates.iter().map(|&index| Rate(RATES[index])).collect();
    let (rate, delay) = (rates[0], Duration(500_000));
    match &case.shape {
        Shape::Star(hosts) => star(*hosts, rate, delay).unwrap(),
        Shape::LeafSpine(hosts, spines) => {
            leaf_spine(*hosts, 3, *spines, rate, rates[rates.len() - 1], delay).unwrap()
        }
        Shape::FatTree(hosts) => fat_tree(*hosts, 4, rate, delay).unwrap(),
        Shape::Graph(switches, hosts, links) => graph(*switches, hosts, links, &rates),
    }
}

/// The case as a scenario, without flows that are refused.
pub(super) fn scenario(case: &Case) -> PacketScenario {
    let topology = topology(case);
    let transport =
        profile(TransportName::ALL[case.transport].name(), Rate(RATES[case.rates[0]])).unwrap().1;
    let mut network = transport.simulation(topology.clone(), case.config).unwrap();
    let (nics, links) = (topology.nic_count() as u32, topology.links().len() as u32);
    let flows = case.flows.iter().filter_map(|&(from, to, size, start, is_explicit)| {
        let ends = (NicId(from % nics), NicId(to % nics));
        let path = network.core().path(ends.0, ends.1, size);
        let spec = FlowSpec {
            source: ends.0,
            destination: ends.1,
            size: Bytes(size),
            start: Time(start),
            priority: (start % u64::from(case.config.highest_priority + 1)) as u8,
            class: 0,
            route: path.filter(|_| is_explicit),
        };
        network.add_flow(&spec).is_ok().then_some(spec)
    });
    let change = |&(time, link, dark): &(u64, u32, bool)| CircuitSwitching {
        time: Time(time),
        link: PacketLinkId(link % links),
        dark,
    };
    PacketScenario {
        programs: crate::Programs::default(),
        flows: flows.collect(),
        circuits: case.changes.iter().map(change).collect(),
        failures: Vec::new(),
        topology,
        config: case.config,
        transport,
        classes: Vec::new(),
        sampling: None,
        series: None,
        event_logging: None,
        hashes_ends: false,
        in_halves: false,
        until: Time(case.until),
    }
}

/// Packets on wires and in queues.
fn in_flight(core: &Core) -> Vec<Packet> {
    core.topology().link_ids().flat_map(|link| core.packets_on(link)).collect()
}

/// Whether a packet carries data, or did.
fn is_data(packet: &Packet) -> bool {
    matches!(packet.kind, PacketKind::Data | PacketKind::Header)
}

/// Every packet that was sent arrived, was lost, or is somewhere.
fn audit(core: &Core) -> Result<(), TestCaseError> {
    let trace = core.packet_events();
    if trace.len() == MAX_EVENTS {
        return Ok(());
    }
    let hops = trace.iter().filter(|event| event.event == EventKind::Sent);
    let counters = core.counters();
    prop_assert_eq!(hops.count() as u64, counters.data_hops + counters.control_hops);
    let in_flight = in_flight(core);
    prop_assert_eq!(in_flight.len(), core.live_packets() as usize);
    for flow in (0..core.flow_count() as u32).map(PacketFlowId) {
        let (mut sent, mut ended, mut came) = (0, 0, BTreeSet::new());
        for event in trace.iter().filter(|event| event.flow == flow) {
            let has_payload = event.packet_kind == PacketKind::Data;
            if event.event == EventKind::Delivered {
                let nic = core.endpoints(flow).target(event.packet_kind.is_forward());
                let reached = core.topology().links()[event.link.0 as usize].to;
                prop_assert_eq!(reached, core.topology().host_of(nic));
            }
            match event.event {
                EventKind::Sent if has_payload => {
                    sent += u64::from(event.link == core.first_link(flow));
                }
                EventKind::Dropped if has_payload || event.packet_kind == PacketKind::Header => {
                    ended += 1;
                }
                EventKind::Delivered if event.packet_kind == PacketKind::Header => ended += 1,
                EventKind::Delivered if has_payload => {
                    ended += 1;
                    came.insert(event.sequence);
                }
                _ => {}
            }
        }
        let of_flow = |packet: &&Packet| packet.flow == flow && is_data(packet);
        let left = in_flight.iter().filter(of_flow).count();
        prop_assert_eq!(sent, ended + left as u64, "packets of flow {}", flow.0);
        let state = core.flow(flow);
        prop_assert!(state.received as usize <= came.len());
        prop_assert!(came.last().is_none_or(|&last| last < state.packets));
        if state.is_done() {
            prop_assert!(state.start <= state.received_at && state.received_at <= state.done_at);
            prop_assert_eq!(state.received, state.packets);
        }
    }
    Ok(())
}

/// Plays a scenario; returns what finished, and the hash if it came to its end.
fn play(scenario: &PacketScenario) -> Result<(Vec<FlowOutcome>, Option<RunHash>), TestCaseError> {
    let mut run = RunningScenario::new(scenario).unwrap();
    let mut outcomes = Vec::new();
    let end = loop {
        let more = run.advance(&mut Silent, &mut |some| outcomes.extend_from_slice(some));
        match more {
            Ok(true) => {}
            end => break end,
        }
    };
    run.simulation.settle_all();
    if scenario.event_logging.is_some() {
        audit(run.simulation.core())?;
    }
    let finished: BTreeSet<u32> = outcomes.iter().map(|outcome| outcome.flow.0).collect();
    prop_assert_eq!(finished.len(), outcomes.len(), "each flow finishes once");
    match end {
        Ok(_) => {
            let report = run.report();
            prop_assert_eq!(finished.len() + report.unfinished.len(), scenario.flows.len());
            prop_assert!(report.unfinished.is_empty() || report.end == scenario.until);
            if scenario.series.is_some() {
                check_laws(scenario, &report);
            }
            Ok((outcomes, Some(report.hash)))
        }
        Err(PacketError::Stuck(text)) => {
            let count = scenario.flows.len() - finished.len();
            prop_assert!(text.contains(&format!("; {count} unfinished: flow ")), "{}", text);
            Ok((outcomes, None))
        }
        Err(error) => Err(TestCaseError::fail(error.to_string())),
    }
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let mut scenario = scenario(case);
    scenario.event_logging = Some(EventLogging { max_events: MAX_EVENTS, flow: None });
    let (outcomes, hash) = play(&scenario)?;
    let name = scenario.transport.name().name();
    let is_plain = scenario.config.pfc.is_none() && scenario.config.queue_bytes == u32::MAX;
    for outcome in &outcomes {
        let keeps_paths = scenario.config.balancing == Balancing::Hash;
        // Subflows have paths of their own.
        let has_one = scenario.config.paths == PathChoice::Ecmp && name != "mptcp";
        if has_one && keeps_paths {
            prop_assert!(outcome.slowdown >= 1.0, "nothing is faster than ideal");
        }
        let is_alone = scenario.flows.len() == 1 && scenario.circuits.is_empty();
        // Its idle time is that of a short last packet that overtakes on another path, if any.
        let is_one_path = matches!(scenario.config.paths, PathChoice::Ecmp | PathChoice::Spray(1));
        if name == "ideal" && is_alone && is_plain && keeps_paths && is_one_path {
            prop_assert!(outcome.slowdown <= 1.0, "alone and not ideal: {}", outcome.slowdown);
        }
    }
    scenario.event_logging = None;
    scenario.sampling = Some(Sampling { period: Duration(1_234_567), max_periods: 20 });
    scenario.series = Some(SeriesSampling { period: Duration(123_456), max_rows: 300 });
    prop_assert_eq!(play(&scenario)?, (outcomes, hash), "the same again");
    Ok(())
}

fn settings(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(settings(200))]
    #[test]
    fn packets_are_conserved_and_flows_finish_or_are_reported(case in case()) {
        check(&case)?;
    }
}

#[test]
#[ignore = "goes on for FUZZ_SECONDS (60), with seeds from FUZZ_SEED (1) on"]
fn fuzz() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a whole number"))
    };
    let begin = std::time::Instant::now();
    let mut seed = number("FUZZ_SEED", 1);
    while begin.elapsed().as_secs() < number("FUZZ_SECONDS", 60) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let outcome = TestRunner::new_with_rng(settings(50), rng).run(&case(), |case| check(&case));
        assert!(outcome.is_ok(), "FUZZ_SEED={seed}: {}", outcome.unwrap_err());
        seed += 1;
    }
    println!("seeds up to {seed}, exclusive");
}
