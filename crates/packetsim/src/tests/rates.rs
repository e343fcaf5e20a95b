//! Who gets how much of a link, by transport: fairness, and no idle bottleneck.

use super::scenarios::{play, scenario};
use super::{Finished, flow, plain, run};
use crate::presets::{leaf_spine, star};
use crate::transport::dcqcn::{Dcqcn, DcqcnParameters};
use crate::transport::line_rate::LineRate;
use crate::{Config, Core, FlowSpec, PacketLinkId, TransportName, profile};
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
const PACKET: u64 = 4160 * 80;

/// Whatever the transport, a flow is no faster than its packets on an idle network, and an incast
/// no faster than the receiver's link.
#[test]
fn no_transport_exceeds_the_capacity_of_a_link() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let flows: Vec<FlowSpec> = (1..6).map(|host| flow((host, 0), 500_000)).collect();
        let scenario = scenario(name, star(6, FAST, Duration(US)).unwrap(), flows);
        let packet = u64::from(scenario.config.packet_bytes());
        let (report, outcomes) = play(&scenario).unwrap();
        let last = outcomes.iter().map(|outcome| outcome.received_at).max().unwrap();
        let sent = report.links[1].sent.0;
        assert!(last.0 >= sent * 80, "{name}: {sent} B by {} ps", last.0);
        let payload = 5 * 500_000_u64.div_ceil(u64::from(scenario.config.mtu));
        assert!(sent >= (payload - 5) * packet, "{name}: all payload crossed the link");
        assert!(outcomes.iter().all(|outcome| outcome.slowdown >= 1.0), "{name}");
    }
}

/// The bottleneck of an incast is hardly idle: 10 % at most, with all losses and control. DCQCN
/// takes milliseconds to recover from its cuts; HPCC leaves 5 % of every link free on purpose; the
/// windows of MPTCP are so small that the last packets of some wait for a timeout of 10 ms.
#[test]
fn every_transport_keeps_a_bottleneck_busy() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let flows: Vec<FlowSpec> = (1..5).map(|host| flow((host, 0), 4_000_000)).collect();
        let scenario = scenario(name, star(5, FAST, Duration(US)).unwrap(), flows);
        let (_, outcomes) = play(&scenario).unwrap();
        let last = outcomes.iter().map(|outcome| outcome.received_at.0).max().unwrap();
        let busy = 16_000_000 * 80;
        let percent = match name {
            "dcqcn" => 140,
            "hpcc" => 116,
            _ => 110,
        };
        let waited = if name == "mptcp" { 11_000 * US } else { 0 };
        let limit = busy * percent / 100 + waited;
        assert!(last < limit, "{name}: {last} ps for {busy} ps of payload");
    }
}

/// Flows of one NIC take turns packet by packet. The one that starts first sends before there are
/// others, and again when there are; so it ends two packets of each other flow before the last.
#[test]
fn flows_of_one_nic_share_it() {
    for count in [2, 5] {
        let specs: Vec<FlowSpec> = (1..=count).map(|host| flow((0, host), 100 * 4096)).collect();
        let topology = star(count + 1, FAST, Duration(US)).unwrap();
        let (_, flows) = run(topology, plain(), LineRate::new, &specs);
        let times: Vec<u64> = flows.iter().map(|flow| flow.received_at).collect();
        let [first, last] = [times.iter().min().unwrap(), times.iter().max().unwrap()];
        assert_eq!(last - first, 2 * u64::from(count - 1) * PACKET);
        // All packets left one after the other, then one more hop.
        assert_eq!(*last, (100 * u64::from(count) + 1) * PACKET + 2 * US);
    }
}

/// A flow that joins later gets its turn at once, and a finished one takes none.
#[test]
fn a_later_flow_takes_half_from_then_on() {
    let early = flow((0, 1), 100 * 4096);
    let late = FlowSpec { start: Time(50 * PACKET), ..flow((0, 2), 20 * 4096) };
    let topology = star(3, FAST, Duration(US)).unwrap();
    let (_, flows) = run(topology, plain(), LineRate::new, &[early, late]);
    let hop = PACKET + 2 * US;
    // 50 packets alone; then pairs, until the late flow has sent its 20.
    assert!((50 + 40..=50 + 41).any(|sent| flows[1].received_at == sent * PACKET + hop));
    assert_eq!(flows[0].received_at, 120 * PACKET + hop);
}

/// Hosts behind an uplink of half their rate take twice as long.
#[test]
fn oversubscription_divides_the_rate() {
    let time = |spine_gbps: u64| {
        let spine = Rate(spine_gbps * 1_000_000_000);
        let topology = leaf_spine(4, 2, 1, FAST, spine, Duration(US)).unwrap();
        let specs = [flow((0, 2), 200 * 4096), flow((1, 3), 200 * 4096)];
        let (simulation, flows) = run(topology, plain(), LineRate::new, &specs);
        let peak = simulation.core().peak_bytes(PacketLinkId(8));
        (flows.iter().map(|flow| flow.received_at).max().unwrap(), peak)
    };
    let (full, none) = time(200);
    let (half, queued) = time(100);
    assert_eq!(none, 4160, "of two packets at once one waits for the other");
    // Two packets come while one leaves: half of them wait in the end.
    assert!(queued.abs_diff(200 * 4160) <= 2 * 4160, "{queued} B");
    assert!((half as f64 / full as f64 - 2.0).abs() < 0.1, "{half} and {full} ps");
}

/// Paced at a tenth of the rate by its minimum, a flow takes ten times as long.
#[test]
fn a_paced_flow_takes_its_packets_times() {
    let (config, _) = profile("dcqcn", FAST).unwrap();
    // Every packet is marked, so that the rate falls to the minimum and stays there.
    let ecn = config.ecn.map(|ecn| crate::Ecn { min_bytes: 0, max_bytes: 0, ..ecn });
    let parameters = DcqcnParameters {
        minimum: Rate(10_000_000_000),
        increase_interval: Duration(1_000_000 * US),
        gain: 1.0 / 16.0,
        ..DcqcnParameters::of_rate(FAST)
    };
    let new = |core: &Core| Dcqcn::new(core, parameters);
    let config = Config { ecn, pfc: None, full_tail: true, ..config };
    let specs = [flow((0, 2), 4000 * 4096), flow((1, 2), 4000 * 4096)];
    let (_, flows) = run(star(3, FAST, Duration(US)).unwrap(), config, new, &specs);
    let paced = |flow: &Finished| flow.received_at - flow.start;
    for flow in &flows {
        let share = 4000.0 * PACKET as f64 / paced(flow) as f64;
        assert!((0.1..0.5).contains(&share), "{share} of the rate");
    }
}
