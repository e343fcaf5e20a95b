//! Planes that fail during a run, where NICs spray packets over all: they go on over the others
//! within microseconds, whatever the transport, long before switches know.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::Preset;
use crate::{
    Cable, EventKind, EventLogging, Extent, Failure, FlowOutcome, FlowSpec, NodeId, PacketEvent,
    PacketKind, PacketLinkId, PacketScenario, Report, Topology, TransportName, fitted,
};
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const HOSTS: u32 = 8;
/// Time of a run of 16 MB at the rate of all planes, 800 Gb/s.
const SENDING: u64 = 160 * US;

/// Two leaves and two spines on each plane.
fn fabric(planes: u32) -> Topology {
    let cable = Cable { rate: Rate(800_000_000_000 / u64::from(planes)), delay: Duration(US) };
    let spine = Cable { rate: Rate(2 * cable.rate.0), ..cable };
    Preset::LeafSpine { hosts_per_leaf: 4, spines: 2, host: cable, spine }
        .build_sprayed_planes(HOSTS, planes)
        .unwrap()
}

/// All links at nodes whose names pass.
fn links_of(topology: &Topology, passes: impl Fn(&str) -> bool) -> Vec<PacketLinkId> {
    let is_end = |node: NodeId| passes(&topology.title(node));
    let ends = |link: &PacketLinkId| {
        let spec = topology.links()[link.index()];
        is_end(spec.from) || is_end(spec.to)
    };
    topology.link_ids().filter(ends).collect()
}

/// Fails, and switches know only after the run.
fn unknown(links: Vec<PacketLinkId>, at: u64, repaired: Option<u64>) -> Failure {
    Failure { links, time: Time(at), repaired: repaired.map(Time), detection: Duration(1000 * US) }
}

/// Each host to one under the other leaf, and back.
fn crossing(bytes: u64) -> Vec<FlowSpec> {
    (0..HOSTS).map(|host| flow((host, (host + 4) % HOSTS), bytes)).collect()
}

fn sprayed(name: &str, planes: u32, failures: Vec<Failure>) -> PacketScenario {
    let mut sprayed = scenario(name, fabric(planes), crossing(16_000_000));
    let rate = Rate(800_000_000_000 / u64::from(planes));
    let extent = Extent { rate, delay: Duration(4 * US) };
    (sprayed.config, sprayed.transport) = fitted(name, extent).unwrap();
    sprayed.failures = failures;
    sprayed
}

fn last((_, outcomes): &(Report, Vec<FlowOutcome>)) -> u64 {
    outcomes.iter().map(|it| it.received_at.0).max().unwrap()
}

/// Transports that trim; others take planes only if they tolerate any order.
const TRIMMING: [&str; 4] = ["ndp", "eqds", "uet-nscc", "uet-rccc"];

/// A share s of the bytes is sent when one of n planes fails: the rest takes n / (n - 1) as long,
/// and what was lost less than 50 us.
#[test]
fn a_plane_that_fails_costs_its_share_and_microseconds() {
    for name in TRIMMING {
        for planes in [2, 8] {
            let healthy = last(&play(&sprayed(name, planes, Vec::new())).unwrap());
            assert!(healthy < SENDING * 13 / 10, "{name}: {healthy} ps");
            let failed = links_of(&fabric(planes), |name| name.starts_with("plane-1/"));
            let half = SENDING / 2;
            let outcome = play(&sprayed(name, planes, vec![unknown(failed, half, None)])).unwrap();
            let rest = healthy - half;
            let expected = half + rest * u64::from(planes) / u64::from(planes - 1);
            let lost = last(&outcome).saturating_sub(expected);
            assert!(lost < 50 * US, "{name} on {planes} planes: {} us lost", lost / US);
            assert!(outcome.0.totals.drops > 0 && last(&outcome) > healthy);
        }
    }
}

/// From the start on, n / (n - 1) as long as with all.
#[test]
fn a_network_without_one_of_its_planes_is_slower_by_its_share() {
    for (name, planes) in [("uet-nscc", 8), ("ndp", 4), ("uet-rccc", 2)] {
        let healthy = last(&play(&sprayed(name, planes, Vec::new())).unwrap());
        let failed = links_of(&fabric(planes), |name| name.starts_with("plane-0/"));
        let outcome = play(&sprayed(name, planes, vec![unknown(failed, 0, None)])).unwrap();
        let ratio = last(&outcome) as f64 / healthy as f64;
        let expected = f64::from(planes) / f64::from(planes - 1);
        assert!((expected * 0.95..expected * 1.1).contains(&ratio), "{name}: {ratio}");
    }
}

/// The far port of one host: the others keep all planes.
#[test]
fn a_port_that_fails_at_the_receiver_slows_nobody_else() {
    let topology = fabric(8);
    let down = links_of(&topology, |name| name == "nic-5")
        .into_iter()
        .filter(|link| {
            let spec = topology.links()[link.index()];
            [spec.from, spec.to].iter().any(|&node| topology.title(node).starts_with("plane-3/"))
        })
        .collect();
    let healthy = play(&sprayed("uet-nscc", 8, Vec::new())).unwrap();
    let failed = play(&sprayed("uet-nscc", 8, vec![unknown(down, SENDING / 2, None)])).unwrap();
    let received = |run: &(Report, Vec<FlowOutcome>), flow: u32| {
        run.1.iter().find(|it| it.flow.0 == flow).unwrap().received_at.0
    };
    for flow in 0..HOSTS {
        let (before, after) = (received(&healthy, flow), received(&failed, flow));
        // Flow 1 leads to host 5, and flow 5 from there.
        let most = if flow % 4 == 1 { before + before / 14 + 50 * US } else { before + 10 * US };
        assert!(after < most, "flow {flow}: {} us for {}", after / US, before / US);
    }
}

/// One of two spines of a plane: half of the packets on it are lost, and sent again by NICs, which
/// avoid the plane.
#[test]
fn a_part_of_a_plane_that_fails_costs_microseconds() {
    let failed = links_of(&fabric(4), |name| name == "plane-1/spine-0");
    for name in TRIMMING {
        let healthy = last(&play(&sprayed(name, 4, Vec::new())).unwrap());
        let failure = unknown(failed.clone(), SENDING / 2, None);
        let outcome = play(&sprayed(name, 4, vec![failure])).unwrap();
        let rest = healthy - SENDING / 2;
        let lost = last(&outcome).saturating_sub(SENDING / 2 + rest * 4 / 3);
        assert!(lost < 60 * US, "{name}: {} us lost", lost / US);
        assert!(outcome.0.totals.drops > 0);
    }
}

/// Where a plane works again, a packet that tries it finds that out.
#[test]
fn a_plane_that_is_repaired_is_used_again() {
    let topology = fabric(4);
    let failed = || links_of(&topology, |name| name.starts_with("plane-2/"));
    let run = |repaired: Option<u64>| {
        let failures = vec![unknown(failed(), 10 * US, repaired)];
        play(&sprayed("uet-nscc", 4, failures)).unwrap().0
    };
    let sent = |report: &Report| failed().iter().map(|it| report.links[it.index()].sent.0).sum();
    let (never, soon): (u64, u64) = (sent(&run(None)), sent(&run(Some(20 * US))));
    assert!(soon > 2 * never, "{soon} B over it for {never}");
}

/// Transports that tolerate any order, without trimming, survive a plane, too.
#[test]
fn every_transport_that_takes_any_order_survives_a_plane() {
    let failed = links_of(&fabric(4), |name| name.starts_with("plane-1/"));
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let scenario = sprayed(name, 4, vec![unknown(failed.clone(), 100 * US, None)]);
        let Ok((_, outcomes)) = play(&scenario) else {
            assert!(["dctcp", "mptcp"].contains(&name), "{name}");
            continue;
        };
        assert_eq!(outcomes.len(), HOSTS as usize, "{name}");
    }
}

/// The time to silence is a setting: where it is longer than the rest of the run, that is later.
#[test]
fn silence_may_be_given() {
    let failed = links_of(&fabric(4), |name| name.starts_with("plane-1/"));
    for name in ["ndp", "eqds", "uet-nscc", "uet-rccc", "roce"] {
        let end = |silence: u64| {
            let mut run = sprayed(name, 4, vec![unknown(failed.clone(), 100 * US, None)]);
            run.config.plane_silence = Some(Duration(silence * US));
            last(&play(&run).unwrap())
        };
        assert!(end(20) < end(200), "{name}");
    }
}

/// A NIC that took what arrives late for lost would send more and more.
#[test]
fn silence_shorter_than_a_round_trip_is_refused() {
    let mut run = sprayed("uet-nscc", 4, Vec::new());
    run.config.plane_silence = Some(Duration(2 * US));
    let error = play(&run).unwrap_err().to_string();
    assert!(
        error.starts_with("planes are silent after 2 us; expected at least a round"),
        "{error}"
    );
}

/// Twelve hosts send to one at once, so that it takes long; on two planes of stars, or of two
/// leaves.
fn incast(name: &str, has_spines: bool) -> PacketScenario {
    let cable = Cable { rate: Rate(100_000_000_000), delay: Duration(US) };
    let preset = if has_spines {
        Preset::LeafSpine { hosts_per_leaf: 8, spines: 2, host: cable, spine: cable }
    } else {
        Preset::Star { cable }
    };
    let topology = preset.build_sprayed_planes(16, 2).unwrap();
    let mut flows: Vec<FlowSpec> = (1..13).map(|host| flow((host, 0), 400_000)).collect();
    flows.extend((13..16).map(|host| FlowSpec {
        start: Time(60 * US),
        ..flow((host, 0), if host < 15 { 20_000 } else { 200_000 })
    }));
    let mut run = scenario(name, topology, flows);
    let extent = Extent { rate: cable.rate, delay: Duration(4 * US) };
    (run.config, run.transport) = fitted(name, extent).unwrap();
    run
}

/// Queues and pauses are no failure: one that comes after all flows changes nothing.
#[test]
fn a_failure_after_the_end_changes_nothing() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        for has_spines in [false, true] {
            let mut run = incast(name, has_spines);
            let Ok((before, healthy)) = play(&run) else {
                assert!(["dctcp", "mptcp"].contains(&name), "{name}");
                continue;
            };
            let failed = links_of(&run.topology, |name| name.starts_with("plane-1/"));
            run.failures = vec![unknown(failed, 900_000 * US, None)];
            let (after, outcomes) = play(&run).unwrap();
            let ends = |all: &[FlowOutcome]| {
                all.iter().map(|it| (it.flow, it.received_at, it.done_at)).collect::<Vec<_>>()
            };
            assert_eq!(ends(&outcomes), ends(&healthy), "{name}, spines: {has_spines}");
            let hops = |report: &Report| (report.counters.data_hops, report.counters.control_hops);
            assert_eq!(hops(&after), hops(&before), "{name}, spines: {has_spines}");
        }
    }
}

/// What a link lost is sent again once: where a transport does not repeat itself within the run,
/// each packet arrives once.
#[test]
fn no_packet_arrives_twice() {
    for name in ["ideal", "roce", "dcqcn"] {
        for has_spines in [false, true] {
            let mut run = incast(name, has_spines);
            let failed = links_of(&run.topology, |name| name.starts_with("plane-1/"));
            run.failures = vec![unknown(failed, 100 * US, None)];
            run.event_logging = Some(EventLogging { max_events: 1 << 20, flow: None });
            let outcome = play(&run).unwrap();
            assert!(last(&outcome) < 2_000 * US, "{name}: before any timeout");
            assert!(outcome.0.totals.drops > 0 && outcome.0.events.len() < 1 << 20, "{name}");
            let is_delivery = |it: &&PacketEvent| {
                it.event == EventKind::Delivered && it.packet_kind == PacketKind::Data
            };
            let all = outcome.0.events.iter().filter(is_delivery);
            let mut packets: Vec<_> = all.map(|it| (it.flow, it.sequence)).collect();
            let count = packets.len();
            packets.sort_unstable();
            packets.dedup();
            assert_eq!(packets.len(), count, "{name}, spines: {has_spines}");
        }
    }
}
