//! Scenes against one network, and what is reused against what is not.

use super::{SceneHops, Scenes};
use crate::config::Config;
use crate::flow::{FlowSpec, PacketFlowId};
use crate::hash::mix;
use crate::presets::{fat_tree, leaf_spine, star};
use crate::tests::flow;
use crate::topology::Topology;
use crate::transport::{TransportKind, TransportName, profile};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const RATE: Rate = Rate(100_000_000_000);
const HOSTS: u32 = 16;

fn one_switch() -> Topology {
    star(HOSTS, RATE, Duration(US)).unwrap()
}

fn leaves() -> Topology {
    leaf_spine(HOSTS, 4, 4, RATE, RATE, Duration(US)).unwrap()
}

fn parts(transport: &str) -> (TransportKind, Config) {
    let (config, transport) = profile(transport, RATE).unwrap();
    (transport, Config { full_tail: false, ..config })
}

fn at(time: u64, ends: [u32; 2], bytes: u64) -> FlowSpec {
    FlowSpec { start: Time(time), ..flow((ends[0], ends[1]), bytes) }
}

/// All-to-alls of uneven sizes, in groups of four hosts.
fn uneven() -> Vec<FlowSpec> {
    let pairs = (0..HOSTS).flat_map(|a| (0..HOSTS).map(move |b| (a, b)));
    let near = pairs.filter(|(a, b)| a != b && a % 4 == b % 4);
    let size = |pair: u32| (3_000_000 + mix(u64::from(pair)) % 5_000_000) / 40;
    near.map(|ends| at(0, ends.into(), size(ends.0 * HOSTS + ends.1))).collect()
}

#[test]
fn flows_begin_at_the_next_multiple_of_100_ns() {
    let flows = [at(1, [0, 1], 4_096), at(100_001, [2, 3], 4_096), at(200_000, [4, 5], 4_096)];
    let (ends, _) = in_scenes("ideal", &one_switch(), &flows, true);
    let spans: Vec<u64> = ends.iter().map(|end| end.0 - ends[0].0).collect();
    assert_eq!(spans, [0, 100_000, 100_000]);
}

/// When each flow has ended, in scenes.
fn in_scenes(
    transport: &str,
    topology: &Topology,
    flows: &[FlowSpec],
    reuses: bool,
) -> (Vec<Time>, SceneHops) {
    let (kind, config) = parts(transport);
    let mut scenes = Scenes::new(kind, topology.clone(), config, reuses).unwrap();
    let mut ends = vec![Time::ZERO; flows.len()];
    let mut run = |scenes: &mut Scenes, limit: Time| {
        let mut finished = Vec::new();
        while scenes.advance(limit, &mut finished, &mut Silent).unwrap() {
            for PacketFlowId(flow) in finished.drain(..) {
                assert_eq!(ends[flow as usize], Time::ZERO, "flow {flow} ends twice");
                ends[flow as usize] = scenes.now();
            }
        }
    };
    for together in flows.chunk_by(|a, b| a.start == b.start) {
        run(&mut scenes, together[0].start);
        for flow in together {
            scenes.add_flow(flow.start, flow.clone());
        }
    }
    run(&mut scenes, Time(1_000_000 * US));
    (ends, scenes.hops(&mut Silent).unwrap())
}

/// The same in one network.
fn in_one(transport: &str, topology: &Topology, flows: &[FlowSpec]) -> Vec<Time> {
    let (kind, config) = parts(transport);
    let mut simulation = kind.repeatable_simulation(topology.clone(), config).unwrap();
    simulation.hash_by_ends();
    simulation.finish_on_arrival();
    for flow in flows {
        simulation.add_flow(flow).unwrap();
    }
    let mut finished = Vec::new();
    while simulation.advance(Time(1_000_000 * US), &mut finished, &mut Silent).unwrap() {}
    let core = simulation.core();
    (0..flows.len() as u32).map(|flow| core.flow(PacketFlowId(flow)).received_at).collect()
}

#[test]
fn flows_that_start_together_end_as_in_one_network() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let flows = uneven();
        let topology = leaves();
        let (ends, _) = in_scenes(name, &topology, &flows, true);
        // All of them meet: one scene, in which flows have their numbers.
        assert_eq!(ends, in_one(name, &topology, &flows), "{name}");
    }
}

#[test]
fn equal_scenes_are_simulated_once_and_end_alike() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let topology = leaves();
        let round = |start: u64| {
            let pairs = [[0, 5], [1, 5], [4, 2], [8, 13], [9, 12]];
            pairs.map(|ends| at(start, ends, 400_000))
        };
        // The last two rounds are near enough to meet.
        let starts = [0, 30_000, 70_000, 110_000, 110_003].map(|start| start * US);
        let flows: Vec<FlowSpec> = starts.into_iter().flat_map(round).collect();
        let (once, hops) = in_scenes(name, &topology, &flows, true);
        let (each, all) = in_scenes(name, &topology, &flows, false);
        assert_eq!(once, each, "{name}");
        assert_eq!(hops.all, all.all, "{name}");
        // The last round is one of three that are simulated: the first, and both that meet.
        assert!(3 * all.simulated > 4 * hops.simulated, "{name}: {hops:?} {all:?}");
        let spans = |round: usize| -> Vec<Duration> {
            let range = 5 * round..5 * round + 5;
            range.map(|flow| once[flow].since(flows[flow].start)).collect()
        };
        assert_eq!(spans(0), spans(1), "{name}");
        assert_eq!(spans(0), spans(2), "{name}");
    }
}

#[test]
fn scenes_that_a_flow_joins_become_one() {
    let topology = leaves();
    for name in ["roce", "dctcp"] {
        let flows =
            [([0, 1], 0), ([4, 5], 3), ([1, 4], 10)].map(|(ends, us)| at(us * US, ends, 500_000));
        let (scenes, hops) = in_scenes(name, &topology, &flows, true);
        let one = in_one(name, &topology, &flows);
        for (scene, one) in scenes.iter().zip(&one) {
            let error = scene.0.abs_diff(one.0) as f64 / one.0 as f64;
            assert!(error < 2e-3, "{name}: {scenes:?} {one:?}");
        }
        // What was simulated of two is simulated again.
        assert!(hops.simulated > hops.all, "{name}: {hops:?}");
    }
}

/// Flows of the first NICs of two switches and what comes on top of them, at each of four switches.
fn under_each_switch(shift: u64) -> Vec<FlowSpec> {
    let rounds = [(0, [0, 2]), (0, [1, 2]), (20, [3, 1]), (20, [0, 3]), (300, [2, 0])];
    let at_switch = |(us, [a, b]): (u64, [u32; 2])| {
        (0..4_u32).map(move |switch| {
            // NICs have other numbers at each of them.
            let nic = |nic: u32| 4 * switch + (nic + switch) % 4;
            at((us + u64::from(switch) * shift) * US, [nic(a), nic(b)], 400_000)
        })
    };
    let mut flows: Vec<FlowSpec> = rounds.into_iter().flat_map(at_switch).collect();
    flows.sort_by_key(|flow| flow.start);
    flows
}

#[test]
fn scenes_of_one_switch_are_simulated_once_wherever_they_are() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        // Side by side, one behind the other, and one after the other.
        for shift in [0, 7, 1_000] {
            let flows = under_each_switch(shift);
            let (once, hops) = in_scenes(name, &leaves(), &flows, true);
            let (each, all) = in_scenes(name, &leaves(), &flows, false);
            assert_eq!(once, each, "{name}");
            assert_eq!((hops.all, all.simulated), (all.all, all.all), "{name}");
            let is_apart = shift == 7;
            assert!(is_apart || 4 * hops.simulated == hops.all, "{name} {shift}: {hops:?}");
            let mut spans: Vec<Vec<u64>> = vec![Vec::new(); 4];
            for (flow, end) in flows.iter().zip(&once) {
                spans[flow.source.0 as usize / 4].push(end.since(flow.start).0);
            }
            assert!(spans.windows(2).all(|pair| pair[0] == pair[1]), "{name}: {spans:?}");
        }
    }
}

#[test]
fn switches_that_differ_and_flows_between_them_keep_their_places() {
    // Four hosts at each of two switches, three at the third; host 0 to 4 crosses a spine.
    let topology = leaf_spine(11, 4, 2, RATE, RATE, Duration(US)).unwrap();
    let local = [[0, 1], [4, 5], [8, 9]].map(|ends| at(0, ends, 500_000));
    let (_, hops) = in_scenes("roce", &topology, &local, true);
    assert_eq!(3 * hops.simulated, 2 * hops.all);
    let flows: Vec<_> = local.into_iter().chain([at(41 * US, [1, 4], 500_000)]).collect();
    let (once, hops) = in_scenes("roce", &topology, &flows, true);
    assert_eq!(once, in_scenes("roce", &topology, &flows, false).0);
    assert!(hops.simulated > hops.all, "what has moved begins again: {hops:?}");
}

/// Whatever joins what, each flow ends once, and as if nothing was known.
#[test]
fn flows_at_random_end_once_and_as_if_nothing_was_known() {
    for seed in 0..24_u64 {
        let draw = |what: u64, below: u64| mix(mix(seed) ^ what) % below;
        let flows: Vec<FlowSpec> = (0..40_u64)
            .map(|flow| {
                let source = draw(8 * flow, 16) as u32;
                // Mostly under one switch.
                let near = source / 4 * 4 + (source + 1 + draw(8 * flow + 1, 3) as u32) % 4;
                let far = (source + 1 + draw(8 * flow + 2, 15) as u32) % 16;
                let ends = [source, if draw(8 * flow + 3, 8) == 0 { far } else { near }];
                let start = flow / 4 * draw(7, 40) * US;
                at(start, ends, [4_096, 40_000, 200_001][draw(8 * flow + 4, 3) as usize])
            })
            .collect();
        for name in ["dctcp", "ndp"] {
            let (once, hops) = in_scenes(name, &leaves(), &flows, true);
            let (each, all) = in_scenes(name, &leaves(), &flows, false);
            assert_eq!(once, each, "{name}, seed {seed}");
            assert_eq!(hops.all, all.all, "{name}, seed {seed}");
            assert!(once.iter().zip(&flows).all(|(end, flow)| *end > flow.start));
        }
    }
}

/// The same for every transport, over one switch, a slow spine, and three tiers, with sizes at
/// random.
#[test]
fn random_sizes_over_every_fabric_end_as_if_nothing_was_known() {
    let slow_spine = leaf_spine(HOSTS, 4, 1, RATE, Rate(2 * RATE.0), Duration(US)).unwrap();
    let tree = fat_tree(HOSTS, 4, RATE, Duration(US)).unwrap();
    for (place, topology) in [one_switch(), slow_spine, tree].iter().enumerate() {
        for (index, name) in TransportName::ALL.iter().map(|name| name.name()).enumerate() {
            let draw = |what: u64, below: u64| {
                mix(mix(100 * place as u64 + index as u64) ^ 0x7369_7a65 ^ what) % below
            };
            // A round that comes again, and flows that join it or do not.
            let round: Vec<([u32; 2], u64)> = (0..6_u64)
                .map(|flow| {
                    let source = draw(8 * flow, 16) as u32;
                    let other = (source + 1 + draw(8 * flow + 1, 15) as u32) % 16;
                    ([source, other], 1 + draw(8 * flow + 2, 300_000))
                })
                .collect();
            let mut flows = Vec::new();
            for turn in 0..3_u64 {
                let start = turn * 40_000 * US;
                flows.extend(round.iter().map(|&(ends, bytes)| at(start, ends, bytes)));
                let source = draw(900 + turn, 16) as u32;
                let ends = [source, (source + 3) % 16];
                let late = draw(950 + turn, 30) * US;
                flows.push(at(start + late, ends, 1 + draw(970 + turn, 200_000)));
            }
            let (once, hops) = in_scenes(name, topology, &flows, true);
            let (each, all) = in_scenes(name, topology, &flows, false);
            assert_eq!(once, each, "{name}, fabric {place}");
            assert_eq!(hops.all, all.all, "{name}, fabric {place}");
            assert!(once.iter().zip(&flows).all(|(end, flow)| *end > flow.start), "{name}");
        }
    }
}
