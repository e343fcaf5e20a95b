//! MPTCP among others: closed forms, shares of links, paths that are congested or die.

use super::scenarios::{play, scenario};
use super::{flow, run, total};
use crate::presets::{fat_tree, leaf_spine, star};
use crate::transport::Parameters;
use crate::transport::mptcp::{Mptcp, MptcpParameters};
use crate::{
    Config, Core, EarlyDrop, Failure, FlowSpec, NodeId, PacketFlowId, PacketLinkId, Simulation,
    Topology, profile,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const MS: u64 = 1_000 * US;
const FAST: Rate = Rate(100_000_000_000);
const PACKET: u64 = 9_000;
const MTU: u64 = 8_936;
/// Time to send a packet, and an acknowledgement, at 100 Gb/s, in ps.
const SPAN: u64 = PACKET * 80;
const ACK: u64 = 64 * 80;

/// The network of the profile.
fn config() -> Config {
    profile("mptcp", FAST).unwrap().0
}

fn parameters(subflows: u16) -> MptcpParameters {
    MptcpParameters { subflows, ..MptcpParameters::default() }
}

fn mptcp(parameters: MptcpParameters) -> impl FnOnce(&Core) -> Mptcp {
    move |core| Mptcp::new(core, parameters)
}

/// Packets that each flow's receiver has got from one time to another.
fn received(
    topology: Topology,
    (config, parameters): (Config, MptcpParameters),
    specs: &[FlowSpec],
    [from, to]: [u64; 2],
) -> Vec<f64> {
    let mut simulation = Simulation::new(topology, config, mptcp(parameters)).unwrap();
    for spec in specs {
        simulation.add_flow(spec).unwrap();
    }
    let flows = || (0..specs.len() as u32).map(PacketFlowId);
    let mut at = |time| -> Vec<u32> {
        simulation.advance(Time(time), &mut Vec::new(), &mut Silent).unwrap();
        flows().map(|flow| simulation.core().flow(flow).received).collect()
    };
    let (before, after) = (at(from), at(to));
    before.iter().zip(after).map(|(before, after)| f64::from(after - before)).collect()
}

/// What a link of 100 Gb/s carries of the packets that flows received in some time.
fn shares(packets: &[f64], [from, to]: [u64; 2]) -> Vec<f64> {
    packets.iter().map(|packets| packets * SPAN as f64 / (to - from) as f64).collect()
}

/// The links of a flow that crosses these nodes.
fn through(topology: &Topology, ends: (u32, u32), switches: &[&str]) -> FlowSpec {
    let named = |name: &str| {
        let nodes = (0..topology.node_count() as u32).map(NodeId);
        nodes.into_iter().find(|&node| topology.title(node) == name).expect("a switch")
    };
    let mut nodes = vec![NodeId(ends.0)];
    nodes.extend(switches.iter().map(|name| named(name)));
    nodes.push(NodeId(ends.1));
    let link = |pair: &[NodeId]| {
        let joins = |link: &PacketLinkId| {
            let spec = topology.links()[link.index()];
            (spec.from, spec.to) == (pair[0], pair[1])
        };
        topology.link_ids().find(joins).expect("a link")
    };
    let route = nodes.windows(2).map(link).collect();
    FlowSpec { route: Some(route), ..flow(ends, 1 << 33) }
}

/// On an idle network a flow takes (N + H - 1) S + 2 us a link, as on one path: the NIC sends at
/// line rate, whichever subflow's turn it is.
#[test]
fn one_flow_takes_what_store_and_forward_takes() {
    for (subflows, window) in [(1, 100), (3, 20), (8, 10)] {
        for (destination, links) in [(1, 2), (4, 4), (127, 6)] {
            let topology = fat_tree(128, 8, FAST, Duration(US)).unwrap();
            let parameters =
                MptcpParameters { initial_window: Some(window), ..parameters(subflows) };
            let specs = [flow((0, destination), 2_000_000)];
            let (simulation, flows) = run(topology, config(), mptcp(parameters), &specs);
            let there = (224 + links - 1) * SPAN + links * US;
            assert_eq!(flows[0].received_at, there, "{subflows} subflows");
            assert_eq!(flows[0].done_at, there + links * (ACK + US), "{subflows} subflows");
            let core = simulation.core();
            assert_eq!(core.counters().data_hops, 224 * links, "nothing is sent twice");
        }
    }
}

/// All goes twice as fast where rates are doubled and delays and timers halved.
#[test]
fn twice_the_rate_takes_half_the_time() {
    let times = |factor: u64| -> Vec<u64> {
        let topology = star(5, Rate(FAST.0 * factor), Duration(2 * US / factor)).unwrap();
        let parameters = MptcpParameters {
            min_timeout: Duration(4 * MS / factor),
            timer_tick: Duration(2),
            ..parameters(4)
        };
        // Round trips are measured in whole nanoseconds: no losses, no timeouts.
        let config = Config { early_drop: None, queue_bytes: u32::MAX, ..config() };
        // No two packets meet at one picosecond.
        let start = |host| Time(246_914 * u64::from(host) / factor);
        let specs: Vec<FlowSpec> = (0..4)
            .map(|host| FlowSpec { start: start(host), ..flow((host, 4), 100 * MTU) })
            .collect();
        let (_, flows) = run(topology, config, mptcp(parameters), &specs);
        flows.iter().map(|flow| flow.done_at).collect()
    };
    let halved: Vec<u64> = times(1).iter().map(|time| time / 2).collect();
    assert_eq!(halved, times(2));
}

/// RFC 6356, goal 2: over one bottleneck a flow with several subflows takes no more than a flow of
/// TCP would, which subflows that are not coupled would take each.
#[test]
fn subflows_over_one_bottleneck_take_about_one_share() {
    let times = [20 * MS, 100 * MS];
    for others in [1, 2, 4] {
        for subflows in [2, 4] {
            let mut ratios = Vec::new();
            for seed in 1..=3 {
                let topology = star(others + 2, FAST, Duration(20 * US)).unwrap();
                let receiver = others + 1;
                let mut specs: Vec<FlowSpec> = (0..others)
                    .map(|host| through(&topology, (host, receiver), &["switch"]))
                    .collect();
                specs.push(flow((others, receiver), 1 << 33));
                let config = Config { seed, ..config() };
                let packets = received(topology, (config, parameters(subflows)), &specs, times);
                let share: f64 = shares(&packets, times).iter().sum();
                assert!(share > 0.95, "the link is busy: {share}");
                let (own, tcp) = packets.split_last().unwrap();
                ratios.push(own * f64::from(others) / tcp.iter().sum::<f64>());
            }
            let mean = ratios.iter().sum::<f64>() / 3.0;
            assert!((0.7..1.45).contains(&mean), "{others} and {subflows} subflows: {ratios:?}");
        }
    }
}

/// Raiciu et al. (SIGCOMM 2011): over a fat tree single paths carry a permutation at about half of
/// the rate, eight subflows at about nine tenths.
#[test]
fn eight_subflows_fill_a_fat_tree() {
    let times = [8 * MS, 16 * MS];
    let mean = |subflows| {
        let topology = fat_tree(54, 6, FAST, Duration(US)).unwrap();
        let specs: Vec<FlowSpec> =
            (0..54).map(|host| flow((host, (host * 7 + 23) % 54), 1 << 33)).collect();
        let packets = received(topology, (config(), parameters(subflows)), &specs, times);
        let shares = shares(&packets, times);
        shares.iter().sum::<f64>() / 54.0
    };
    let [one, eight] = [1, 8].map(mean);
    assert!((0.4..0.65).contains(&one), "single paths: {one}");
    assert!((0.87..1.0).contains(&eight), "eight subflows: {eight}");
}

/// Two spines, one with three flows of TCP and one with none: most goes over the other.
#[test]
fn a_flow_moves_away_from_a_congested_path() {
    let times = [20 * MS, 60 * MS];
    for seed in 1..=3 {
        let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(US)).unwrap();
        let mut specs: Vec<FlowSpec> = [(1, 5), (2, 6), (3, 7)]
            .map(|ends| through(&topology, ends, &["leaf-0", "spine-0", "leaf-1"]))
            .to_vec();
        specs.push(flow((0, 4), 1 << 33));
        let config = Config { seed, ..config() };
        let packets = received(topology, (config, parameters(8)), &specs, times);
        let shares = shares(&packets, times);
        let congested: f64 = shares[..3].iter().sum();
        assert!(shares[3] > 0.9, "seed {seed}: {shares:?}");
        assert!(congested > 0.75, "seed {seed}: {shares:?}");
    }
}

fn links_between(topology: &Topology, names: [&str; 2]) -> Vec<PacketLinkId> {
    let is_between = |link: &PacketLinkId| {
        let spec = topology.links()[link.index()];
        let ends = [spec.from, spec.to].map(|node| topology.title(node));
        names.iter().all(|name| ends.iter().any(|end| end == name))
    };
    topology.link_ids().filter(is_between).collect()
}

/// A path dies for good and no switch notices: what was on it goes over the others, after one
/// timeout.
#[test]
fn what_a_dead_path_has_goes_over_the_others() {
    let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(US)).unwrap();
    let links = links_between(&topology, ["leaf-0", "spine-0"]);
    assert_eq!(links.len(), 2);
    let mut dying = scenario("mptcp", topology, vec![flow((0, 4), 4_000_000)]);
    let healthy = play(&dying).unwrap().1[0].done_at;
    dying.failures = vec![Failure {
        links,
        time: Time(100 * US),
        repaired: None,
        detection: Duration(10_000 * MS),
    }];
    let (report, outcomes) = play(&dying).unwrap();
    assert!(report.totals.drops > 0);
    let late = outcomes[0].done_at.since(healthy);
    assert!((9 * MS..13 * MS).contains(&late.0), "{late:?}");
    assert_eq!(outcomes[0].received_at.0 / MS, outcomes[0].done_at.0 / MS);
}

/// Subflows that all go over one dead link try again, each twice as late as before.
#[test]
fn a_flow_without_any_path_continues_after_the_repair() {
    let topology = leaf_spine(2, 1, 1, FAST, FAST, Duration(US)).unwrap();
    let links = links_between(&topology, ["leaf-0", "spine-0"]);
    let mut cut = scenario("mptcp", topology, vec![flow((0, 1), 4_000_000)]);
    cut.failures = vec![Failure {
        links,
        time: Time(100 * US),
        repaired: Some(Time(15 * MS)),
        detection: Duration(US),
    }];
    let (report, outcomes) = play(&cut).unwrap();
    // The first attempts, after 10 ms, are lost as well; the second ones come 20 ms later.
    assert!((31 * MS..32 * MS).contains(&outcomes[0].done_at.0), "{:?}", outcomes[0].done_at);
    assert!(report.totals.drops > 8);
}

/// A flow with a route has one subflow: TCP.
#[test]
fn a_flow_with_a_route_keeps_to_it() {
    let topology = leaf_spine(8, 4, 2, FAST, FAST, Duration(US)).unwrap();
    let spine = links_between(&topology, ["leaf-0", "spine-1"]);
    let spec = FlowSpec {
        size: lightloom_model::Bytes(100 * MTU),
        ..through(&topology, (0, 4), &["leaf-0", "spine-0", "leaf-1"])
    };
    let parameters = MptcpParameters { initial_window: Some(100), ..parameters(8) };
    let (simulation, flows) = run(topology, config(), mptcp(parameters), &[spec]);
    assert_eq!(flows[0].received_at, 103 * SPAN + 4 * US);
    assert!(spine.iter().all(|&link| simulation.core().sent_bytes(link) == 0));
    assert_eq!(simulation.transport().windows(simulation.core(), PacketFlowId(0)).len(), 1);
}

/// Short queues, losses everywhere: each packet counts once, and all arrive.
#[test]
fn whatever_is_lost_arrives_in_the_end() {
    for (subflows, early_drop) in
        [(1, None), (3, None), (8, Some(EarlyDrop { share: 0.0, probability: 0.5 }))]
    {
        let config = Config { queue_bytes: 20_000, early_drop, ..config() };
        let specs: Vec<FlowSpec> = (1..12).map(|host| flow((host, 0), 300_000)).collect();
        let topology = fat_tree(16, 4, FAST, Duration(US)).unwrap();
        let (simulation, flows) = run(topology, config, mptcp(parameters(subflows)), &specs);
        assert!(total(&simulation, |link| link.drops) > 0);
        assert!(flows.iter().all(|flow| flow.received == flow.packets));
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let text = |parameters: MptcpParameters| parameters.validate().unwrap_err().to_string();
    assert_eq!(text(parameters(0)), "MPTCP flows of 0 subflows; expected 1 to 256");
    assert_eq!(text(parameters(257)), "MPTCP flows of 257 subflows; expected 1 to 256");
    assert!(parameters(256).validate().is_ok());
    let window = "MPTCP starts with a window of 0 packets and a threshold of 10000; expected at \
                  least 1 each";
    assert_eq!(text(MptcpParameters { initial_window: Some(0), ..parameters(8) }), window);
    let none = MptcpParameters { initial_threshold: 0, ..parameters(8) };
    assert!(text(none).contains("a threshold of 0;"));
    for (min_timeout, timer_tick) in [(0, 1), (1, 0)] {
        let [min_timeout, timer_tick] = [min_timeout, timer_tick].map(Duration);
        let wrong = MptcpParameters { min_timeout, timer_tick, ..parameters(8) };
        assert_eq!(text(wrong), "MPTCP timeout and timer tick; expected both above 0");
    }
}
