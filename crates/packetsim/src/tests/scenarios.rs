//! Whole runs by one call.

use super::{flow, in_order};
use crate::presets::star;
use crate::{
    CircuitSwitching, FlowOutcome, FlowSpec, PacketFlowId, PacketLinkId, PacketScenario, Programs,
    Report, profile, simulate,
};
use crate::{PacketError, Topology};
use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};

const GBPS: u64 = 1_000_000_000;
const US: u64 = 1_000_000;

/// A scenario with all defaults of a transport.
pub(super) fn scenario(name: &str, topology: Topology, flows: Vec<FlowSpec>) -> PacketScenario {
    let (config, transport) = profile(name, Rate(100 * GBPS)).unwrap();
    PacketScenario {
        topology,
        config,
        transport,
        classes: Vec::new(),
        flows,
        programs: Programs::default(),
        circuits: Vec::new(),
        failures: Vec::new(),
        sampling: None,
        series: None,
        event_logging: None,
        hashes_ends: false,
        in_halves: false,
        until: Time(u64::MAX),
    }
}

/// Its report, and what finished.
pub(super) fn play(scenario: &PacketScenario) -> Result<(Report, Vec<FlowOutcome>), PacketError> {
    let mut outcomes = Vec::new();
    let report =
        simulate(scenario, &mut Silent, &mut |finished| outcomes.extend_from_slice(finished))?;
    Ok((report, outcomes))
}

fn small_star() -> Topology {
    star(4, Rate(100 * GBPS), Duration(US)).unwrap()
}

#[test]
fn a_report_sums_up_what_happened() {
    let flows = in_order([flow((0, 3), 8192), flow((1, 3), 4096), flow((2, 3), 4096)]);
    let (report, outcomes) = play(&scenario("ideal", small_star(), flows)).unwrap();
    // The switch gets three first packets at once and queues two, then one more.
    let (packet, ack) = (4160 * 80, 64 * 80);
    let received = |place: u64| 2 * US + (1 + place) * packet;
    let order: Vec<u32> = outcomes.iter().map(|outcome| outcome.flow.0).collect();
    assert_eq!(order, [1, 2, 0]);
    for (outcome, place) in outcomes.iter().zip([2, 3, 4]) {
        assert_eq!(outcome.received_at, Time(received(place)));
        assert_eq!(outcome.done_at, Time(received(place) + 2 * US + 2 * ack));
    }
    for (outcome, packets) in [(outcomes[0], 1), (outcomes[2], 2)] {
        let ideal = 2 * US + (packets + 1) * packet;
        let slowdown = outcome.received_at.since(outcome.start).0 as f64 / ideal as f64;
        assert!((outcome.slowdown - slowdown).abs() < 1e-12);
    }
    assert_eq!(report.end, outcomes[2].done_at);
    assert_eq!((report.counters.data_hops, report.counters.control_hops), (8, 8));
    let downlink = report.links[7];
    assert_eq!((downlink.sent, downlink.peak_queue), (Bytes(4 * 4160), Bytes(2 * 4160)));
    assert!(report.unfinished.is_empty());
}

#[test]
fn a_run_stops_when_it_should_and_names_what_is_unfinished() {
    let mut scenario =
        scenario("roce", small_star(), vec![flow((0, 3), 40_960), flow((1, 2), 4096)]);
    scenario.until = Time(5 * US);
    let (report, outcomes) = play(&scenario).unwrap();
    assert_eq!(report.end, Time(5 * US));
    assert_eq!(outcomes.iter().map(|outcome| outcome.flow).collect::<Vec<_>>(), [PacketFlowId(1)]);
    assert_eq!(report.unfinished, [PacketFlowId(0)]);
}

#[test]
fn what_never_ends_is_noticed() {
    // A circuit goes dark for ever. Where nothing is lost, nothing happens any more; elsewhere the
    // sender tries again for ever.
    for queue_bytes in [u32::MAX, 4 * 4160] {
        let mut scenario = scenario("ideal", small_star(), vec![flow((0, 3), 40_960)]);
        scenario.config.queue_bytes = queue_bytes;
        scenario.circuits =
            vec![CircuitSwitching { time: Time(US), link: PacketLinkId(7), dark: true }];
        let error = play(&scenario).unwrap_err();
        assert!(matches!(error, PacketError::Stuck(_)), "{error}");
    }
}

#[test]
fn the_same_input_has_the_same_hash_and_another_has_not() {
    let hash = |bytes| {
        let scenario = scenario("roce", small_star(), vec![flow((0, 3), bytes)]);
        play(&scenario).unwrap().0.hash
    };
    assert_eq!(hash(40_000), hash(40_000));
    assert_ne!(hash(40_000), hash(50_000));
}
