//! Links and switches that fail: what is lost, when other paths are taken, what never finishes.

use super::scenarios::{play, scenario};
use super::{flow, run, total};
use crate::presets::{leaf_spine, star};
use crate::run::RunningScenario;
use crate::transport::line_rate::LineRate;
use crate::{
    Config, EventKind, EventLogging, Failure, FlowSpec, NodeId, PacketError, PacketLinkId,
    PacketScenario, Simulation, Topology, TransportName,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
const SPAN: u64 = 4160 * 80;

/// Two leaves of four hosts, and two spines.
fn two_spines() -> Topology {
    leaf_spine(8, 4, 2, FAST, FAST, Duration(US)).unwrap()
}

/// All links of a switch, both ways.
fn links_of(topology: &Topology, name: &str) -> Vec<PacketLinkId> {
    let is_end = |node: NodeId| topology.title(node) == name;
    let ends = |link: &PacketLinkId| {
        let spec = topology.links()[link.index()];
        is_end(spec.from) || is_end(spec.to)
    };
    topology.link_ids().filter(ends).collect()
}

fn failure(links: Vec<PacketLinkId>, us: u64, repaired_us: Option<u64>) -> Failure {
    let repaired = repaired_us.map(|us| Time(us * US));
    Failure { links, time: Time(us * US), repaired, detection: Duration(20 * US) }
}

/// Eight flows between the leaves.
fn crossing(bytes: u64) -> Vec<FlowSpec> {
    (0..8).map(|host| flow((host, (host + 4) % 8), bytes)).collect()
}

fn with_failure(name: &str, failure: Failure) -> PacketScenario {
    let mut scenario = scenario(name, two_spines(), crossing(2_000_000));
    scenario.failures = vec![failure];
    scenario
}

/// Whatever the transport, flows finish over the other spine, and packets were lost.
#[test]
fn every_transport_survives_a_spine() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let links = links_of(&two_spines(), "spine-0");
        for repaired in [None, Some(90)] {
            let failed = with_failure(name, failure(links.clone(), 60, repaired));
            let (report, outcomes) = play(&failed).unwrap();
            assert_eq!(outcomes.len(), 8, "{name}");
            assert!(report.totals.drops + report.totals.control_drops > 0, "{name}");
            let healthy = PacketScenario { failures: Vec::new(), ..failed };
            let (report, _) = play(&healthy).unwrap();
            let is_lossy = ["dctcp", "mptcp", "swift"].contains(&name);
            assert!(report.totals.drops == 0 || is_lossy, "{name}");
        }
    }
}

/// From its failure on a link sends nothing; once it is repaired and that is known, it does again.
#[test]
fn a_failed_link_sends_nothing_until_it_is_repaired() {
    let topology = two_spines();
    let links = links_of(&topology, "spine-1");
    let config = Config { links_fail: true, ..super::plain() };
    let mut simulation = Simulation::new(topology, config, LineRate::new).unwrap();
    for spec in crossing(1 << 32) {
        simulation.add_flow(&spec).unwrap();
    }
    simulation.add_failure(&failure(links.clone(), 100, Some(400)));
    let mut sent = |us: u64| -> Vec<u64> {
        simulation.advance(Time(us * US), &mut Vec::new(), &mut Silent).unwrap();
        simulation.settle_all();
        links.iter().map(|&link| simulation.core().sent_bytes(link)).collect()
    };
    let before = sent(100);
    assert!(before.iter().sum::<u64>() > 0);
    let (down, up) = (sent(399), sent(419));
    assert_eq!(before, down, "it is down");
    // Those that wait at its other end know of it 20 us later only.
    assert_eq!(down, up, "it is up, and nobody uses it yet");
    assert!(sent(500).iter().sum::<u64>() > up.iter().sum());
}

/// On a star, what left the host within a link's delay before the failure is lost, and the packet
/// that it was sending.
#[test]
fn what_is_on_the_wire_is_lost() {
    for time_us in [50, 51, 77] {
        let topology = star(2, FAST, Duration(5 * US)).unwrap();
        let mut scenario = scenario("ideal", topology, vec![flow((0, 1), 4096 * 1_000)]);
        scenario.until = Time(time_us * US + 20 * US);
        scenario.failures = vec![Failure {
            links: vec![PacketLinkId(0), PacketLinkId(1)],
            time: Time(time_us * US),
            repaired: None,
            detection: Duration(US),
        }];
        let (report, _) = play(&scenario).unwrap();
        let begun = (time_us * US).div_ceil(SPAN);
        let arrived = (time_us * US - 5 * US) / SPAN;
        assert_eq!(report.links[0].counters.drops, begun - arrived, "at {time_us} us");
        assert_eq!(report.links[0].sent.0, begun * 4160);
    }
}

/// A link that carries nothing may fail and come back: everything happens as without.
#[test]
fn an_idle_link_that_fails_changes_nothing() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let topology = || star(4, FAST, Duration(US)).unwrap();
        let flows = || vec![flow((0, 1), 1_000_000), flow((2, 1), 700_000)];
        let healthy = play(&scenario(name, topology(), flows())).unwrap();
        let mut failing = scenario(name, topology(), flows());
        failing.failures = vec![failure(vec![PacketLinkId(6), PacketLinkId(7)], 10, Some(50))];
        let failed = play(&failing).unwrap();
        let times = |(_, outcomes): &(_, Vec<crate::FlowOutcome>)| {
            outcomes.iter().map(|one| (one.flow, one.received_at, one.done_at)).collect::<Vec<_>>()
        };
        assert_eq!(times(&healthy), times(&failed), "{name}");
    }
}

/// Hosts that nothing joins any more never finish, and that is said.
#[test]
fn a_host_that_is_cut_off_is_reported() {
    for name in ["roce", "dctcp", "ndp"] {
        let mut cut = scenario(
            name,
            star(3, FAST, Duration(US)).unwrap(),
            vec![flow((0, 1), 3_000_000), flow((2, 1), 3_000)],
        );
        cut.failures = vec![failure(vec![PacketLinkId(0), PacketLinkId(1)], 30, None)];
        let error = play(&cut).map(|_| ()).unwrap_err();
        assert!(matches!(error, PacketError::Stuck(_)), "{name}: {error}");
        assert!(error.to_string().contains("flow 0 from host 0 to host 1"), "{name}: {error}");
    }
}

/// Two failures of one link that overlap end with the later one.
#[test]
fn failures_that_overlap_are_counted() {
    let topology = star(2, FAST, Duration(US)).unwrap();
    let config = Config { links_fail: true, ..super::plain() };
    let mut simulation = Simulation::new(topology, config, LineRate::new).unwrap();
    simulation.add_flow(&flow((0, 1), 4096 * 1_000)).unwrap();
    let links = || vec![PacketLinkId(0), PacketLinkId(1)];
    simulation.add_failure(&failure(links(), 20, Some(60)));
    simulation.add_failure(&failure(links(), 40, Some(80)));
    let mut sent = |us: u64| {
        simulation.advance(Time(us * US), &mut Vec::new(), &mut Silent).unwrap();
        simulation.settle_all();
        simulation.core().sent_bytes(PacketLinkId(0))
    };
    let before = sent(20);
    assert_eq!(sent(79), before);
    assert!(sent(90) > before);
}

#[test]
fn a_lossless_network_goes_back_after_a_failure() {
    let config = Config { links_fail: true, ..super::lossless() };
    let specs = [flow((0, 1), 4096 * 100)];
    let (healthy, flows) = run(star(2, FAST, Duration(US)).unwrap(), config, LineRate::new, &specs);
    assert_eq!(total(&healthy, |link| link.drops), 0);
    let mut failing = scenario("roce", star(2, FAST, Duration(US)).unwrap(), specs.to_vec());
    failing.failures = vec![failure(vec![PacketLinkId(0), PacketLinkId(1)], 10, Some(12))];
    let (_, outcomes) = play(&failing).unwrap();
    // The gap is reported by the first packet behind it: no timeout of 67 ms.
    let lost = outcomes[0].done_at.0 - flows[0].done_at;
    assert!(lost < 20 * US, "{lost} ps");
}

/// Until switches know of a failure they send to the link, and lose a packet per transmission.
#[test]
fn packets_are_lost_until_a_failure_is_known() {
    let drops = |detection_us: u64| -> u64 {
        let of = |spine: &str| {
            let links = links_of(&two_spines(), spine);
            let flows = vec![flow((0, 4), 4096 * 3_000)];
            let mut failing = scenario("roce", two_spines(), flows);
            let detection = Duration(detection_us * US);
            failing.failures = vec![Failure { detection, ..failure(links, 100, None) }];
            play(&failing).unwrap().0.totals.drops
        };
        // The flow takes one of them.
        of("spine-0") + of("spine-1")
    };
    let more = drops(150) - drops(30);
    assert!(more.abs_diff(120 * US / SPAN) <= 2, "{more} packets in 120 us");
}

/// Packets that are on a wire when a failure becomes known take another path from its end on.
#[test]
fn a_failure_that_is_known_loses_nothing_any_more() {
    let topology = leaf_spine(32, 8, 4, FAST, FAST, Duration(US)).unwrap();
    let flows: Vec<FlowSpec> = (0..32).map(|host| flow((host, (host + 8) % 32), 600_000)).collect();
    for (name, known_ps) in [("ideal", 31 * US), ("roce", 32 * US + 7), ("eqds", 33 * US + 99)] {
        let mut failing = scenario(name, topology.clone(), flows.clone());
        let links = links_of(&topology, "spine-2");
        let (time, detection) = (Time(known_ps - 9 * US), Duration(9 * US));
        failing.failures = vec![Failure { links: links.clone(), time, repaired: None, detection }];
        failing.event_logging = Some(EventLogging { max_events: 1 << 20, flow: None });
        let mut run = RunningScenario::new(&failing).unwrap();
        while run.advance(&mut Silent, &mut |_| {}).unwrap() {}
        let events = run.simulation.core().packet_events();
        let lost: Vec<u64> = events
            .iter()
            .filter(|event| event.event == EventKind::Dropped && links.contains(&event.link))
            .map(|event| event.time.0)
            .collect();
        assert!(lost.len() > 10, "{name}: {} are lost", lost.len());
        assert!(lost.last() <= Some(&known_ps), "{name}: lost at {:?}", lost.last());
    }
}
