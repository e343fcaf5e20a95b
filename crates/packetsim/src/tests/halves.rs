//! Two threads against one: every count, time and hash is the same.

use super::flow;
use super::properties::{case, scenario as random_scenario};
use super::scenarios::{play, scenario};
use crate::network::halves::Halves;
use crate::presets::{fat_tree, leaf_spine, star};
use crate::{
    Cable, CircuitSwitching, EventLogging, Failure, FlowOutcome, FlowSpec, PacketError,
    PacketLinkId, PacketScenario, Pfc, Report, Sampling, SeriesSampling, TransportName,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};

const US: u64 = 1_000_000;
const GBPS: u64 = 1_000_000_000;
const FAST: Rate = Rate(100_000_000_000);

/// The parts of a report that are the same, as text.
fn summary(played: &Result<(Report, Vec<FlowOutcome>), PacketError>) -> String {
    match played {
        Ok((report, outcomes)) => format!(
            "{} {:?} {:?} {:?} {:?} {outcomes:?}",
            report.hash, report.end, report.counters, report.unfinished, report.links
        ),
        Err(error) => error.to_string(),
    }
}

/// Plays a scenario by one thread and by two; returns whether it was divided.
fn compare(scenario: PacketScenario) -> Result<bool, TestCaseError> {
    let one = play(&scenario);
    let two = play(&PacketScenario { in_halves: true, ..scenario });
    prop_assert_eq!(summary(&two), summary(&one));
    Ok(two.is_ok_and(|(report, _)| report.undivided.is_none()))
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

/// Random networks, transports, queues and seeds, with circuits that change and links that fail.
#[test]
fn two_threads_do_what_one_does() {
    let divided = AtomicU32::new(0);
    proptest!(cases(200), |(
        case in case(),
        failures in prop::collection::vec((any::<u32>(), 0..20 * US, 0..10 * US, 0..5 * US), 0..3),
    )| {
        let mut scenario = random_scenario(&case);
        for flow in &mut scenario.flows {
            flow.route = None;
        }
        let links = scenario.topology.links().len() as u32;
        scenario.failures = failures.into_iter().map(|(link, time, lasts, detection)| {
            let link = PacketLinkId(link % links);
            Failure {
                links: vec![link, link.reverse()],
                time: Time(time),
                repaired: (lasts > 0).then_some(Time(time + lasts)),
                detection: Duration(detection),
            }
        }).collect();
        divided.fetch_add(u32::from(compare(scenario)?), Ordering::Relaxed);
    });
    assert!(divided.into_inner() >= 50, "most networks have two halves");
}

/// All pairs of hosts: packets cross, come back, and queue in both halves.
#[test]
fn every_transport_runs_on_two_threads() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let topology = fat_tree(16, 4, FAST, Duration(US)).unwrap();
        let pairs = (0..16).flat_map(|from| (0..16).map(move |to| (from, to)));
        let flows: Vec<FlowSpec> =
            pairs.filter(|(a, b)| a != b).map(|ends| flow(ends, 300_000)).collect();
        let divided = compare(scenario(name, topology, flows)).unwrap();
        assert!(divided, "{name}");
    }
}

/// One half has nothing to send from the start, or is done long before the other.
#[test]
fn a_half_that_is_done_follows_the_other_to_the_end() {
    let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(US)).unwrap();
    let late = |spec: FlowSpec| FlowSpec { start: Time(700 * US), ..spec };
    for flows in [
        vec![flow((0, 5), 1_000_000)],
        vec![flow((6, 1), 1_000_000), flow((7, 1), 10_000)],
        vec![flow((0, 5), 2_000), late(flow((5, 0), 500_000))],
        vec![flow((4, 1), 2_000_000), flow((1, 4), 100)],
    ] {
        for name in ["roce", "ndp", "dctcp", "mptcp"] {
            assert!(compare(scenario(name, topology.clone(), flows.clone())).unwrap());
        }
    }
}

#[test]
fn what_one_thread_has_to_do_is_said() {
    let spines = || leaf_spine(8, 4, 2, FAST, FAST, Duration(US)).unwrap();
    let base = || PacketScenario {
        in_halves: true,
        ..scenario("roce", spines(), vec![flow((0, 5), 100_000)])
    };
    let why = |scenario: PacketScenario| play(&scenario).unwrap().0.undivided;
    assert_eq!(why(base()), None);
    assert_eq!(why(PacketScenario { in_halves: false, ..base() }), None);
    let sampling = Some(Sampling { period: Duration(US), max_periods: 10 });
    assert_eq!(why(PacketScenario { sampling, ..base() }), Some("queues are sampled over time"));
    let series = Some(SeriesSampling { period: Duration(US), max_rows: 10 });
    assert_eq!(why(PacketScenario { series, ..base() }), Some("series over time are kept"));
    let event_logging = Some(EventLogging { max_events: 9, flow: None });
    let traced = PacketScenario { event_logging, ..base() };
    assert_eq!(why(traced), Some("packet events are recorded"));
    let topology = star(8, FAST, Duration(US)).unwrap();
    let single = PacketScenario { topology, ..base() };
    assert_eq!(why(single), Some("all hosts are on one switch"));
    assert!(Halves::of(&spines()).is_ok());
}

/// A window may begin, by another event, so late that the second of two packets leaves for the
/// other half after its end, with nothing else to happen before the first has arrived there.
#[test]
fn what_waits_for_a_link_between_the_halves_is_waited_for() {
    let mut topology = crate::Topology::new();
    let [from, idle, to] = [(); 3].map(|()| topology.add_host());
    let [near, far] = [(); 2].map(|()| topology.add_switch());
    let cable = |gbps: u64, us: u64| Cable { rate: Rate(gbps * GBPS), delay: Duration(us * US) };
    let mut join = |a, b, cable| topology.connect(a, b, cable, ["there", "back"]).unwrap();
    join(from, near, cable(400, 3));
    let unused = join(idle, near, cable(400, 3));
    join(near, far, cable(100, 1));
    join(far, to, cable(400, 3));
    // The packets are at the switch 3.083 and 3.166 us after the start; the second one leaves at
    // 3.416 us.
    let change = CircuitSwitching { time: Time(2_300_000), link: unused, dark: true };
    let flows = vec![flow((0, 2), 8192)];
    let waits = PacketScenario { circuits: vec![change], ..scenario("ideal", topology, flows) };
    let (_, outcomes) = play(&waits).unwrap();
    let packet = 4160 * 8_000 / 400;
    assert_eq!(outcomes[0].received_at, Time(7 * US + packet * 10));
    assert!(compare(waits).unwrap());
}

/// Packets over the near spine reach the other half long before those over the far one.
#[test]
fn windows_end_before_anything_can_have_crossed() {
    let mut topology = crate::Topology::new();
    let hosts = [(); 4].map(|()| topology.add_host());
    let [near, far] = [(); 2].map(|()| topology.add_switch());
    let spines = [(); 2].map(|()| topology.add_switch());
    let mut join = |a, b, us: u64| {
        let cable = Cable { rate: FAST, delay: Duration(us * US) };
        topology.connect(a, b, cable, ["there", "back"]).unwrap();
    };
    for (host, leaf) in hosts.into_iter().zip([near, near, far, far]) {
        join(host, leaf, 1);
    }
    for (spine, us) in spines.into_iter().zip([20, 2]) {
        join(near, spine, us);
        join(far, spine, us);
    }
    assert_eq!(Halves::of(&topology).unwrap().lookahead, Duration(2 * US));
    for name in ["ndp", "mptcp", "dctcp"] {
        let flows = [(0, 2), (3, 0), (1, 3), (2, 1)].map(|ends| flow(ends, 500_000)).to_vec();
        assert!(compare(scenario(name, topology.clone(), flows)).unwrap(), "{name}");
    }
}

/// Everything takes a multiple of a packet's time, so that much happens at once, pauses included.
#[test]
fn what_happens_at_one_time_has_one_order() {
    let packet = 4160 * 80;
    for (name, delay) in [("roce", 1), ("roce", 3), ("hpcc", 2)] {
        let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(delay * packet)).unwrap();
        let incast = (0..7).map(|host| flow((host, 7), 10 * 4096));
        let flows = incast.chain([flow((7, 0), 100_000)]).collect();
        let mut crowded = scenario(name, topology, flows);
        crowded.config.control_bytes = 4160;
        crowded.config.pfc = Some(Pfc { pause_bytes: 2 * 4160, resume_bytes: 4160 });
        assert!(compare(crowded).unwrap(), "{name}, {delay} packets");
    }
}

/// The work of a window is that of the half that has more, which here has all of it.
#[test]
fn a_half_that_does_everything_is_what_windows_wait_for() {
    for ends in [(0, 1), (5, 4)] {
        let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(US)).unwrap();
        let PacketScenario { config, transport, .. } =
            scenario("roce", star(2, FAST, Duration(US)).unwrap(), Vec::new());
        let mut network = transport.simulation_in_halves(topology, config).unwrap();
        network.add_flow(&flow(ends, 1_000_000)).unwrap();
        while network.advance(Time(u64::MAX), &mut Vec::new(), &mut Silent).unwrap() {}
        let balance = network.balance().unwrap();
        assert_eq!(balance.critical_events, network.counters().events, "{ends:?}");
        // Windows of 1 us begin with an event, of which there is one in every packet's time.
        let limit = network.core().now().0 / US + 1;
        assert!((limit * 3 / 4..=limit).contains(&balance.windows), "{balance:?} of {limit}");
    }
}

/// Whichever half has the work, its hops are counted and it can be stopped.
#[test]
fn an_observer_hears_of_both_halves() {
    let delay = 50 * US;
    for ends in [[(0, 1), (1, 0)], [(4, 5), (5, 4)], [(0, 1), (5, 4)]] {
        let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(delay)).unwrap();
        let flows = ends.map(|ends| flow(ends, 150_000_000)).to_vec();
        let long = PacketScenario { in_halves: true, ..scenario("ideal", topology, flows) };
        let mut calls = Vec::new();
        let mut observer = |now: Time, done: u64| {
            calls.push((now.0, done));
            if calls.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let error = crate::simulate(&long, &mut observer, &mut |_| {}).unwrap_err();
        assert!(matches!(error, PacketError::Interrupted(_)), "{ends:?}: {error}");
        assert_eq!(calls.len(), 3);
        for (now, done) in calls {
            // A packet of each flow in every 333 ns, on its second link a delay later. It may hear
            // of a window later, and acknowledgements of flows both ways take 1.5 % of a link.
            let expected = 2.0 * (2 * now - delay) as f64 / (4160.0 * 80.0);
            let ratio = done as f64 / expected;
            assert!((0.95..1.005).contains(&ratio), "{ends:?}: {done} hops, {expected} expected");
        }
    }
}

/// Where a packet takes 30,000 windows, it is asked after few packets.
#[test]
fn an_observer_hears_of_empty_windows() {
    let slow = Rate(1_000_000);
    let topology = leaf_spine(8, 4, 2, slow, slow, Duration(US)).unwrap();
    let flows = vec![flow((6, 5), u64::from(u32::MAX))];
    let long = PacketScenario { in_halves: true, ..scenario("uet-nscc", topology, flows) };
    let mut observer = |_: Time, done: u64| {
        assert!(done < 5_000, "{done} hops");
        ControlFlow::Break(())
    };
    let error = crate::simulate(&long, &mut observer, &mut |_| {}).unwrap_err();
    assert!(matches!(error, PacketError::Interrupted(_)), "{error}");
}

/// Who may not continue is told so, with what had finished.
#[test]
fn an_observer_stops_both_threads() {
    let flows: Vec<FlowSpec> =
        (0..8).map(|host| flow((host, (host + 4) % 8), 50_000_000)).collect();
    let topology = leaf_spine(8, 4, 4, FAST, FAST, Duration(US)).unwrap();
    let stopped = PacketScenario { in_halves: true, ..scenario("roce", topology, flows) };
    let mut calls = 0;
    let mut observer = |_: Time, _: u64| {
        calls += 1;
        ControlFlow::Break(())
    };
    let error = crate::simulate(&stopped, &mut observer, &mut |_| {}).unwrap_err();
    assert!(matches!(error, PacketError::Interrupted(_)), "{error}");
    assert_eq!(calls, 1);
}
