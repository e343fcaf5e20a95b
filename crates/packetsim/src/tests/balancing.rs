//! Switches that choose by load, in small worlds by hand.

use super::bench::{Bench, brief};
use super::scenarios::{play, scenario};
use super::{flow, in_order, plain, run};
use crate::presets::{leaf_spine, star};
use crate::transport::line_rate::{LineRate, TIMEOUT};
use crate::{
    Balancing, Cable, Config, Core, FlowSpec, PacketKind, PacketLinkId, Recovery, Simulation,
    Topology, TransportName,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
const MTU: u64 = 4096;
/// Time to send a packet, and an acknowledgement, in ps.
const SPAN: u64 = 4160 * 80;
const ACK: u64 = 64 * 80;

fn balanced(balancing: Balancing, gap: u64, seed: u64) -> Config {
    Config { balancing, flowlet_gap: Duration(gap), seed, ..plain() }
}

/// Two leaves of so many hosts, joined by so many spines.
fn spines(hosts: u32, spines: u32) -> Topology {
    leaf_spine(2 * hosts, hosts, spines, FAST, FAST, Duration(US)).unwrap()
}

/// A flow from each host of one leaf to a host of the other.
fn crossing(hosts: u32, packets: u64) -> Vec<FlowSpec> {
    (0..hosts).map(|host| flow((host, hosts + host), packets * MTU)).collect()
}

/// Completion times over a leaf with as many uplinks as hosts.
fn times(balancing: Balancing, gap: u64, seed: u64) -> Vec<u64> {
    let config = balanced(balancing, gap, seed);
    let (_, flows) = run(spines(4, 4), config, LineRate::new, &crossing(4, 100));
    flows.iter().map(|flow| flow.done_at).collect()
}

/// With as many uplinks as flows at line rate, each is as fast as alone, where hashes collide.
#[test]
fn flows_at_line_rate_do_not_collide() {
    let alone = (100 + 3) * SPAN + 4 * ACK + 8 * US;
    let mut collided = 0;
    for seed in 1..20 {
        for balancing in [Balancing::Adaptive, Balancing::Flowlets] {
            assert_eq!(times(balancing, 50 * US, seed), [alone; 4], "{balancing:?}, seed {seed}");
        }
        let hashed = times(Balancing::Hash, 0, seed);
        collided += u32::from(hashed.iter().any(|&time| time > alone + 90 * SPAN));
    }
    // Four flows on four uplinks are all apart in 4! / 4^4 = 9 % of draws.
    assert!(collided >= 12, "{collided} of 19 draws");
}

/// Where all links are free the hash decides: packets far apart take the links that they take by
/// ECMP, all of them.
#[test]
fn an_idle_network_is_used_as_by_hash() {
    let far_apart = |index: u64| FlowSpec { start: Time(index * 20 * US), ..flow((0, 4), MTU) };
    let specs: Vec<FlowSpec> = (0..100).map(far_apart).collect();
    let sent = |balancing| {
        let config = balanced(balancing, 0, 1);
        let (simulation, _) = run(spines(4, 4), config, LineRate::new, &specs);
        let core = simulation.core();
        core.topology().link_ids().map(|link| core.sent_bytes(link)).collect::<Vec<_>>()
    };
    let hashed = sent(Balancing::Hash);
    assert_eq!(sent(Balancing::Adaptive), hashed);
    assert_eq!(sent(Balancing::Flowlets), hashed);
}

/// Over uplinks of different rates packets divide in proportion to them: each goes where it can
/// first begin.
#[test]
fn packets_divide_in_proportion_to_rates() {
    let mut topology = Topology::new();
    let hosts = [topology.add_host(), topology.add_host()];
    let [near, far, slow, fast] = std::array::from_fn(|_| topology.add_switch());
    let mut connect = |a, b, gbps: u64| {
        let cable = Cable { rate: Rate(gbps * 1_000_000_000), delay: Duration(US) };
        topology.connect(a, b, cable, ["there", "back"]).unwrap();
    };
    connect(hosts[0], near, 100);
    connect(near, slow, 25);
    connect(near, fast, 75);
    connect(slow, far, 100);
    connect(fast, far, 100);
    connect(far, hosts[1], 100);
    // Flows of a packet each, so that none is out of order.
    let specs: Vec<FlowSpec> = (0..4_000).map(|_| flow((0, 1), MTU)).collect();
    for seed in [1, 2, 3] {
        let config = balanced(Balancing::Adaptive, 0, seed);
        let (simulation, flows) = run(topology.clone(), config, LineRate::new, &specs);
        let sent = [2, 4].map(|link| simulation.core().sent_bytes(PacketLinkId(link)) / 4160);
        assert!(sent[0].abs_diff(1_000) <= 3 && sent[0] + sent[1] == 4_000, "{sent:?} packets");
        let last = flows.iter().map(|flow| flow.received_at).max().unwrap();
        assert!(last <= 4_010 * SPAN + 5 * US, "both uplinks are as fast as the host");
    }
}

/// Packets at line rate follow each other by one transmission. Where that ends a flowlet, each is
/// one of its own; where it does not, a flow never changes its path.
#[test]
fn the_gap_between_flowlets_decides() {
    let specs = in_order(crossing(4, 200));
    for seed in 1..6 {
        let finish = |balancing, gap| {
            let config = balanced(balancing, gap, seed);
            let (simulation, flows) = run(spines(4, 3), config, LineRate::new, &specs);
            let done: Vec<u64> = flows.iter().map(|flow| flow.done_at).collect();
            (done, simulation.core().counters().data_hops)
        };
        let adaptive = finish(Balancing::Adaptive, 0);
        assert_eq!(finish(Balancing::Flowlets, SPAN), adaptive);
        let (pinned, hops) = finish(Balancing::Flowlets, SPAN + 1);
        assert_eq!(hops, 4 * 200 * 4, "nothing is sent twice");
        // Four flows take turns on three uplinks, or two of them share one.
        let last = |done: Vec<u64>| done.into_iter().max().unwrap();
        assert!(last(adaptive.0) < 270 * SPAN + 10 * US, "seed {seed}");
        assert!(last(pinned) > 400 * SPAN, "seed {seed}");
    }
}

/// A link that may not send is the last choice.
#[test]
fn dark_links_are_avoided() {
    let topology = spines(2, 2);
    let is_first_uplink = |link: &PacketLinkId| {
        let spec = topology.links()[link.index()];
        topology.title(spec.from) == "leaf-0" && topology.title(spec.to) == "spine-0"
    };
    let dark = topology.link_ids().find(is_first_uplink).unwrap();
    let config = balanced(Balancing::Adaptive, 0, 1);
    let mut simulation = Simulation::new(topology.clone(), config, LineRate::new).unwrap();
    simulation.set_dark(Time::ZERO, dark, true);
    for spec in crossing(2, 100) {
        simulation.add_flow(&spec).unwrap();
    }
    let mut done = Vec::new();
    while simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap() {}
    assert_eq!((done.len(), simulation.core().sent_bytes(dark)), (2, 0));
    let last = done.iter().map(|&flow| simulation.core().flow(flow).received_at.0).max();
    assert_eq!(last, Some((200 + 3) * SPAN + 4 * US), "all over the other spine");
}

/// Links so long that nothing has arrived yet: a queue that has drained meanwhile counts as empty.
#[test]
fn queues_are_what_they_are_now() {
    let (packets, delay) = (100, 10_000 * US);
    let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(delay)).unwrap();
    let is_first_uplink = |link: &PacketLinkId| {
        let spec = topology.links()[link.index()];
        topology.title(spec.from) == "leaf-0" && topology.title(spec.to) == "spine-0"
    };
    let dark = topology.link_ids().find(is_first_uplink).unwrap();
    let config = balanced(Balancing::Adaptive, 0, 1);
    let mut simulation = Simulation::new(topology.clone(), config, LineRate::new).unwrap();
    // Four hosts fill the queue of the other uplink, which takes until 400 packets later.
    simulation.set_dark(Time::ZERO, dark, true);
    simulation.set_dark(Time(delay + 250 * SPAN), dark, false);
    for spec in crossing(4, packets) {
        simulation.add_flow(&spec).unwrap();
    }
    let start = Time(500 * SPAN);
    let late = [0, 1].map(|host| {
        let spec = FlowSpec { start, ..flow((host, 4 + host), packets * MTU) };
        simulation.add_flow(&spec).unwrap()
    });
    let mut done = Vec::new();
    while simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap() {}
    for flow in late {
        let received = simulation.core().flow(flow).received_at;
        assert_eq!(received.since(start).0, (packets + 3) * SPAN + 4 * delay, "as alone");
    }
}

/// The last of two packets overtakes the first, and the acknowledgement of the first what the
/// receiver said of the last: that is in nobody's mind any more, and a timeout brings it back.
#[test]
fn a_last_packet_that_overtook_another_is_sent_again() {
    let config = balanced(Balancing::Adaptive, 0, 1);
    let topology = star(2, FAST, Duration(US)).unwrap();
    let goes_back = |core: &Core| LineRate::with_recovery(core, Recovery::GoBackN);
    let mut bench = Bench::new(topology, config, goes_back, &[flow((0, 1), 2 * MTU)]);
    bench.start(0);
    let sent = bench.burst(0, 99);
    let [refused, accepted] = [sent[1], sent[0]].map(|packet| bench.deliver(packet));
    bench.deliver(accepted[0]);
    bench.deliver(refused[0]);
    assert!(bench.next(0).is_none());
    bench.core.set_now(Time(TIMEOUT.0));
    bench.timer(0);
    assert_eq!(brief(&bench.burst(0, 99)), [(PacketKind::Data, 1)]);
}

/// Whatever the transport does about packets out of order, everything arrives.
#[test]
fn every_transport_finishes() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        for balancing in [Balancing::Adaptive, Balancing::Flowlets] {
            let flows: Vec<FlowSpec> =
                (0..8).map(|host| flow((host, (host + 3 + host % 2) % 8), 300_000)).collect();
            let mut scenario = scenario(name, spines(4, 3), flows);
            scenario.config.balancing = balancing;
            let (report, outcomes) = play(&scenario).unwrap();
            assert_eq!(outcomes.len(), 8, "{name}");
            let again = play(&scenario).unwrap().0;
            assert_eq!(report.hash, again.hash, "{name}");
        }
    }
}
