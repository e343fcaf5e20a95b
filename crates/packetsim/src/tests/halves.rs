//! Two threads against one: every count, time and hash is the same.

use super::flow;
use super::properties::{case, scenario as random_scenario};
use super::scenarios::{play, scenario};
use crate::network::halves::Halves;
use crate::presets::{fat_tree, leaf_spine, star};
use crate::{
    EventLogging, Failure, FlowOutcome, FlowSpec, PacketError, PacketLinkId, PacketScenario,
    Report, Sampling, TransportName,
};
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::sync::atomic::{AtomicU32, Ordering};

const US: u64 = 1_000_000;
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
        for name in ["roce", "ndp", "dctcp"] {
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
    let event_logging = Some(EventLogging { max_events: 9, flow: None });
    let traced = PacketScenario { event_logging, ..base() };
    assert_eq!(why(traced), Some("packet events are recorded"));
    let topology = star(8, FAST, Duration(US)).unwrap();
    let single = PacketScenario { topology, ..base() };
    assert_eq!(why(single), Some("all hosts are on one switch"));
    assert!(Halves::of(&spines()).is_ok());
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
        std::ops::ControlFlow::Break(())
    };
    let error = crate::simulate(&stopped, &mut observer, &mut |_| {}).unwrap_err();
    assert!(matches!(error, PacketError::Interrupted(_)), "{error}");
    assert_eq!(calls, 1);
}
