//! Runs that cannot end, circuits that come and go, runs that are stopped.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::{fat_tree, star};
use crate::{
    Cable, CircuitSwitching, FlowSpec, NicId, PacketError, PacketLinkId, RunningScenario, Topology,
    simulate,
};
use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use std::ops::ControlFlow;

const FAST: Rate = Rate(100_000_000_000);
const US: u64 = 1_000_000;
const PACKET: u64 = 4160 * 80;
const ACK: u64 = 64 * 80;

/// A ring of switches with a host each, and flows that go so many switches on, all clockwise.
fn ring(switches: u32, hops: u32) -> (Topology, Vec<FlowSpec>) {
    let mut topology = Topology::new();
    let hosts: Vec<_> = (0..switches).map(|_| topology.add_host()).collect();
    let nodes: Vec<_> = (0..switches).map(|_| topology.add_switch()).collect();
    let names = ["up", "down"];
    for (&host, &node) in hosts.iter().zip(&nodes) {
        topology.connect(host, node, Cable { rate: FAST, delay: Duration(US) }, names).unwrap();
    }
    let next = |index: usize| nodes[(index + 1) % nodes.len()];
    let along: Vec<PacketLinkId> = (0..nodes.len())
        .map(|index| {
            topology.connect(
                nodes[index],
                next(index),
                Cable { rate: FAST, delay: Duration(US) },
                names,
            )
        })
        .collect::<Result<_, _>>()
        .unwrap();
    let flows = (0..switches)
        .map(|from| {
            let to = (from + hops) % switches;
            let mut route = vec![topology.uplink(NicId(from))];
            route.extend((0..hops).map(|step| along[((from + step) % switches) as usize]));
            route.push(topology.uplink(NicId(to)).reverse());
            FlowSpec { route: Some(route), ..flow((from, to), 4_000_000) }
        })
        .collect();
    (topology, flows)
}

#[test]
fn a_ring_of_pauses_is_named() {
    let (topology, flows) = ring(4, 3);
    let scenario = scenario("roce", topology, flows);
    let flow = |flow: u32, to: u32| {
        format!("flow {flow} from host {flow} to host {to} with 6 of 977 packets received")
    };
    let flows = [flow(0, 3), flow(1, 0), flow(2, 1)].join(", ");
    assert_eq!(
        play(&scenario).unwrap_err().to_string(),
        format!(
            "links paused by PFC wait for one another, switch 4 -> switch 5 -> switch 6 -> switch \
             7 -> switch 4; 4 unfinished: {flows}, and 1 more"
        )
    );
}

#[test]
fn a_ring_that_no_flow_goes_round_does_not_deadlock() {
    let (topology, flows) = ring(4, 1);
    let (report, outcomes) = play(&scenario("roce", topology, flows)).unwrap();
    assert_eq!((outcomes.len(), report.totals.drops), (4, 0));
}

#[test]
fn endless_queues_do_not_deadlock() {
    let (topology, flows) = ring(4, 3);
    assert_eq!(play(&scenario("ideal", topology, flows)).unwrap().1.len(), 4);
}

/// Two hosts joined by a circuit.
fn circuit() -> Topology {
    let mut topology = Topology::new();
    let (a, b) = (topology.add_host(), topology.add_host());
    topology.connect(a, b, Cable { rate: FAST, delay: Duration(US) }, ["there", "back"]).unwrap();
    topology
}

fn change(time: u64, link: u32, dark: bool) -> CircuitSwitching {
    CircuitSwitching { time: Time(time), link: PacketLinkId(link), dark }
}

#[test]
fn a_dark_circuit_lets_what_is_on_it_arrive_and_its_sender_wait() {
    // Dark while the third packet is being sent; the other seven begin when it is back.
    let mut scenario = scenario("ideal", circuit(), vec![flow((0, 1), 10 * 4096)]);
    let back = 10 * US + 77;
    scenario.circuits = vec![change(5 * PACKET / 2, 0, true), change(back, 0, false)];
    let (report, outcomes) = play(&scenario).unwrap();
    let received = back + 7 * PACKET + US;
    assert_eq!(outcomes[0].received_at, Time(received));
    assert_eq!(outcomes[0].done_at, Time(received + ACK + US));
    assert_eq!(report.links[0].counters.pauses, 0, "that is not a pause of PFC");
    // By then the first three have arrived.
    scenario.until = Time(back);
    assert_eq!(play(&scenario).unwrap().0.links[0].sent, Bytes(4 * 4160), "one begins at once");
    // The other direction is another link: acknowledgements wait.
    scenario.until = Time(u64::MAX);
    scenario.circuits = vec![change(0, 1, true), change(back, 1, false)];
    let (_, outcomes) = play(&scenario).unwrap();
    assert_eq!(outcomes[0].received_at, Time(10 * PACKET + US));
    assert_eq!(outcomes[0].done_at, Time(back + 10 * ACK + US));
}

#[test]
fn the_queue_of_a_switch_before_a_dark_link_waits_and_then_goes_on() {
    for name in ["ideal", "roce"] {
        let mut scenario =
            scenario(name, star(2, FAST, Duration(US)).unwrap(), vec![flow((0, 1), 10 * 4096)]);
        let back = 50 * US + 1;
        scenario.circuits = vec![change(0, 3, true), change(back, 3, false)];
        let (_, outcomes) = play(&scenario).unwrap();
        assert_eq!(outcomes[0].received_at, Time(back + 10 * PACKET + US));
    }
}

#[test]
fn pauses_last_from_one_message_to_the_other() {
    let mut scenario =
        scenario("roce", star(2, FAST, Duration(US)).unwrap(), vec![flow((0, 1), 40 * 4096)]);
    let back = 50 * US + 1;
    scenario.circuits = vec![change(0, 3, true), change(back, 3, false)];
    let (report, outcomes) = play(&scenario).unwrap();
    // The switch asks for a pause at the 15th packet, and has 22 when that works; it asks for more
    // when 11 of them have left. Either message takes the delay of the link.
    let (pause, resume) = (15 * PACKET + 2 * US, back + 11 * PACKET + US);
    let counters = report.links[0].counters;
    assert_eq!((counters.pauses, counters.paused), (1, Duration(resume - pause)));
    assert_eq!((report.totals.pauses, report.totals.paused), (1, counters.paused));
    assert_eq!(report.links[3].peak_queue, Bytes(22 * 4160));
    assert_eq!(outcomes[0].received_at, Time(back + 40 * PACKET + US));
    // A pause that is not over counts until now.
    scenario.until = Time(40 * US);
    let (report, _) = play(&scenario).unwrap();
    assert_eq!(report.totals.paused, Duration(40 * US - pause));
}

#[test]
fn what_stays_dark_is_named() {
    let flows = vec![flow((0, 1), 10 * 4096), flow((1, 0), 4096)];
    for (name, link, named) in [
        ("ideal", 3, "switch -> host 1"),
        ("dctcp", 3, "switch -> host 1"),
        ("dctcp", 0, "host 0 -> switch"),
    ] {
        let mut scenario = scenario(name, star(2, FAST, Duration(US)).unwrap(), flows.clone());
        scenario.circuits = vec![change(0, link, true)];
        let error = play(&scenario).unwrap_err();
        assert!(matches!(error, PacketError::Stuck(_)));
        let text = error.to_string();
        assert!(text.starts_with(&format!("dark for ever: {named}; ")), "{text}");
        assert!(text.contains("flow 0 from host 0 to host 1 with 0 of "), "{text}");
    }
}

/// Senders with timers repeat themselves for ever. They are given up after 20,000 hops of the
/// slowest link and two timeouts without a new packet: the first such period begins with the last
/// start of a flow, or change of a circuit.
#[test]
fn silence_ends_a_run_after_one_period_without_a_packet() {
    for (dark_at, packets, periods) in [(0, 1, 1), (20 * US, 100, 2)] {
        let topology = star(2, FAST, Duration(US)).unwrap();
        let flows = vec![FlowSpec { start: Time(3 * US), ..flow((0, 1), packets * 4096) }];
        let mut scenario = scenario("dctcp", topology, flows);
        scenario.circuits = vec![change(dark_at, 3, true)];
        let hop = US + u64::from(scenario.config.packet_bytes()) * 80;
        let period = 20_000 * hop + 2 * scenario.transport.longest_timeout().0;
        let mut run = RunningScenario::new(&scenario).unwrap();
        let error = loop {
            match run.advance(&mut Silent, &mut |_| {}) {
                Ok(more) => assert!(more),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, PacketError::Stuck(_)));
        let core = run.simulation.core();
        assert_eq!(core.received_packets() > 0, periods == 2);
        assert_eq!(core.now(), Time(dark_at.max(3 * US) + periods * period));
    }
}

#[test]
fn a_change_of_no_circuit_is_refused() {
    let mut scenario = scenario("ideal", circuit(), vec![]);
    scenario.circuits = vec![change(0, 2, true)];
    let text = play(&scenario).unwrap_err().to_string();
    assert_eq!(text, "a circuit changes on link 2; there are 2 links, from 0 on");
}

#[test]
fn who_is_stopped_keeps_what_has_finished() {
    let mut flows: Vec<_> = (0..16).map(|host| flow((host, (host + 5) % 16), 400_000)).collect();
    flows.extend((0..16).map(|host| flow((host, (host + 7) % 16), 40_000_000)));
    let scenario = scenario("ideal", fat_tree(16, 4, FAST, Duration(US)).unwrap(), flows);
    let mut looks = 0;
    let mut observer = |_: Time, _: u64| {
        looks += 1;
        if looks == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut outcomes = Vec::new();
    let error = simulate(&scenario, &mut observer, &mut |some| outcomes.extend_from_slice(some));
    let Err(PacketError::Interrupted(interrupted)) = error else { panic!("not interrupted") };
    assert!(interrupted.done > 100_000);
    assert_eq!(outcomes.len(), 16);
    assert!(outcomes.iter().all(|one| one.flow.0 < 16 && one.done_at <= interrupted.now));
}

/// Losses in a row are no silence: a run at random loss ends when all has arrived.
#[test]
fn a_run_at_random_loss_is_not_taken_for_stuck() {
    let pairs = || (0..8).flat_map(|from| (0..8).map(move |to| (from, to)));
    let flows: Vec<FlowSpec> =
        pairs().filter(|(from, to)| from != to).map(|ends| flow(ends, 100_000)).collect();
    for name in ["roce", "uet-nscc"] {
        for seed in 0..20 {
            let topology = star(8, FAST, Duration(US)).unwrap();
            let mut scenario = scenario(name, topology, flows.clone());
            (scenario.config.loss, scenario.config.seed) = (0.1, seed);
            let (_, outcomes) =
                play(&scenario).unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
            assert_eq!(outcomes.len(), flows.len(), "{name}, seed {seed}");
        }
    }
}
