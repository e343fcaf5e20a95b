//! Several transports in one run: each as if it were alone where it is, and what they share obeys
//! priorities.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::{leaf_spine, star};
use crate::{
    Config, Ecn, FlowSpec, Marking, PacketScenario, Pfc, Report, Topology, TrafficClass,
    TransportName, profile,
};
use lightloom_model::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;

const RATE: Rate = Rate(100_000_000_000);
const DELAY: Duration = Duration(500_000);
/// Time of the longest packet at [`RATE`].
const PACKET: u64 = 4160 * 80;

/// A scenario of classes by the names of their transports, at priorities that are their places.
fn classes(names: &[&str], topology: Topology, flows: Vec<FlowSpec>) -> PacketScenario {
    let mut base = scenario(names[0], topology, flows);
    base.config.highest_priority = names.len() as u8 - 1;
    let class = |name: &&str| {
        let (config, transport) = profile(name, RATE).unwrap();
        TrafficClass { config, transport }
    };
    base.classes = names[1..].iter().map(class).collect();
    base
}

/// A flow of a class whose priority is its place.
fn of(class: u8, spec: FlowSpec) -> FlowSpec {
    FlowSpec { class, priority: class, ..spec }
}

/// When each flow is received and done.
fn ends(scenario: &PacketScenario) -> Vec<[u64; 2]> {
    let (_, outcomes) = play(scenario).unwrap();
    let mut ends = vec![[0; 2]; scenario.flows.len()];
    for one in outcomes {
        ends[one.flow.0 as usize] = [one.received_at.0, one.done_at.0];
    }
    ends
}

fn received(ends: &[[u64; 2]]) -> Vec<u64> {
    ends.iter().map(|end| end[0]).collect()
}

/// An incast of two to one and a flow back, at the hosts from `first` on.
fn traffic(first: u32) -> Vec<FlowSpec> {
    let ends = [(0, 2), (1, 2), (2, 3)];
    let sizes = [900_000, 1_300_001, 500_000];
    let specs = ends.into_iter().zip(sizes);
    specs.map(|((from, to), bytes)| flow((first + from, first + to), bytes)).collect()
}

/// Every pair of transports: on links of their own each ends as alone, to the picosecond, and
/// sends the same bytes over them, whichever is the higher priority.
#[test]
fn transports_on_disjoint_links_end_as_alone() {
    let names: Vec<&str> = TransportName::ALL.iter().map(|it| it.name()).collect();
    for (index, one) in names.iter().enumerate() {
        let other = names[(index + 4) % names.len()];
        let topology = || star(8, RATE, DELAY).unwrap();
        let both: Vec<FlowSpec> = [(0, traffic(0)), (1, traffic(4))]
            .into_iter()
            .flat_map(|(class, specs)| specs.into_iter().map(move |it| of(class, it)))
            .collect();
        let together = classes(&[one, other], topology(), both.clone());
        // The numbers of flows draw which packets are trimmed: they stay, far from the others.
        let alone = |name: &str, class: u8| {
            let idle = |spec: &FlowSpec| FlowSpec { class: 0, priority: 0, ..spec.clone() };
            let mut specs: Vec<FlowSpec> = both.iter().map(idle).collect();
            for spec in specs.iter_mut().zip(&both).filter(|(_, it)| it.class != class) {
                spec.0.start = Time(1 << 50);
            }
            let mut only = scenario(name, topology(), specs);
            only.until = Time(1 << 49);
            let (_, outcomes) = play(&only).unwrap();
            let mut found: Vec<(u32, u64, u64)> =
                outcomes.iter().map(|it| (it.flow.0, it.received_at.0, it.done_at.0)).collect();
            found.sort_unstable();
            found
        };
        let found = ends(&together);
        let expected = [alone(one, 0), alone(other, 1)].concat();
        assert_eq!(expected.len(), 6);
        for (id, received_at, done_at) in expected {
            assert_eq!(found[id as usize], [received_at, done_at], "flow {id} of {one}, {other}");
        }
    }
}

/// Flows that are dealt out to two classes of one transport and priority run as those of one: NICs
/// that send one flow each do not tell the difference.
#[test]
fn classes_of_one_transport_are_one_class() {
    for name in ["ideal", "roce", "dctcp", "dcqcn", "hpcc", "swift", "uet-nscc", "mptcp"] {
        let specs = |classes: u8| -> Vec<FlowSpec> {
            let one = |it: u32| FlowSpec {
                class: (it % u32::from(classes)) as u8,
                ..flow((it, (5 * it + 3) % 12), 40_000 + 70_000 * u64::from(it))
            };
            (0..12).map(one).collect()
        };
        let topology = || leaf_spine(12, 4, 2, RATE, RATE, DELAY).unwrap();
        let single = scenario(name, topology(), specs(1));
        let (config, transport) = profile(name, RATE).unwrap();
        let dealt = PacketScenario {
            classes: vec![TrafficClass { config, transport }],
            ..scenario(name, topology(), specs(2))
        };
        assert_eq!(ends(&single), ends(&dealt), "{name}");
    }
}

/// Two classes with the same transport, marks and priority share a link alike, at one NIC and
/// where they meet at a receiver.
#[test]
fn two_classes_with_the_same_marks_share_alike() {
    for sources in [[0, 0], [0, 1]] {
        let size = 20_000_000;
        let specs = [(sources[0], 0), (sources[1], 1)]
            .map(|(from, class)| FlowSpec { class, ..flow((from, 3), size) });
        let (config, transport) = profile("dctcp", RATE).unwrap();
        let both = PacketScenario {
            classes: vec![TrafficClass { config, transport }],
            ..scenario("dctcp", star(4, RATE, DELAY).unwrap(), specs.to_vec())
        };
        let [one, other] = received(&ends(&both))[..] else { panic!("two flows") };
        let fair = 2 * size * 80;
        assert!(one.abs_diff(other) < fair / 10, "{sources:?}: {one}, {other}");
        assert!(one.max(other) > fair && one.max(other) < fair + fair / 10, "{one}, {other}");
    }
}

fn bytes_over(report: &Report, link: usize) -> Bytes {
    report.links[link].sent
}

/// A lossless class above marked and trimmed ones: pauses stop its own packets alone, and each
/// class has its own marks, trims and pauses.
#[test]
fn each_class_has_queues_of_its_own() {
    let specs: Vec<FlowSpec> = (0..3)
        .flat_map(|class| (1..5).map(move |from| of(class, flow((from, 0), 1_000_000))))
        .collect();
    let run = |kept: &[u8]| {
        let mut all =
            classes(&["dctcp", "ndp", "roce"], star(5, RATE, DELAY).unwrap(), specs.clone());
        all.flows.retain(|spec| kept.contains(&spec.class));
        play(&all).unwrap().0
    };
    let whole = run(&[0, 1, 2]);
    assert!(whole.unfinished.is_empty());
    let counts = |report: &Report| {
        (report.totals.marks > 0, report.totals.trims > 0, report.totals.pauses > 0)
    };
    assert_eq!(counts(&run(&[0])), (true, false, false));
    assert_eq!(counts(&run(&[1])), (false, true, false));
    assert_eq!(counts(&run(&[2])), (false, false, true));
    assert_eq!(counts(&whole), (true, true, true));
    // What reaches the receiver is each payload once, and its headers: DCTCP has 1,460 B of
    // payload or what its profile says, so that bytes are counted by packets.
    let payload: u64 = specs.iter().map(|spec| spec.size.0).sum();
    assert!(bytes_over(&whole, 1).0 >= payload, "{:?}", bytes_over(&whole, 1));
}

/// Where classes share a queue they have to agree on it.
#[test]
fn classes_that_share_a_queue_and_differ_are_refused() {
    let specs = vec![flow((0, 1), 1_000), FlowSpec { class: 1, ..flow((1, 2), 1_000) }];
    let refused = |names: &[&str], specs: &[FlowSpec]| {
        let mut scenario = classes(names, star(4, RATE, DELAY).unwrap(), specs.to_vec());
        scenario.config.highest_priority = 1;
        play(&scenario).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&["roce", "dctcp"], &specs),
        "roce and dctcp share the queues of priority 0, and differ in size_bytes; give them other \
         priorities, or the same queues"
    );
    let mixed = vec![flow((0, 1), 1_000), FlowSpec { priority: 1, ..flow((1, 2), 1_000) }];
    assert_eq!(
        refused(&["roce", "roce"], &mixed),
        "flows of class 0 have several priorities; expected one"
    );
    let absent = vec![FlowSpec { class: 2, ..flow((0, 1), 1_000) }];
    assert_eq!(
        refused(&["roce", "roce"], &absent),
        "a flow of class 2; the network has classes up to 1"
    );
}

/// Two threads would each need all transports: one does it, and says why.
#[test]
fn several_transports_take_one_thread() {
    let specs = vec![flow((0, 1), 100_000), of(1, flow((1, 2), 100_000))];
    let mut scenario = classes(&["dctcp", "roce"], star(4, RATE, DELAY).unwrap(), specs);
    scenario.in_halves = true;
    assert_eq!(play(&scenario).unwrap().0.undivided, Some("flows have several transports"));
}

/// Flows between random hosts, of random sizes, starts and classes.
fn random_flows(classes: u8) -> impl Strategy<Value = Vec<FlowSpec>> {
    let one = (0_u32..6, 1_u32..6, 1_u64..400_000, 0_u64..60_000_000, 0..classes);
    prop::collection::vec(one, 1..12).prop_map(|all| {
        let spec = |(from, step, bytes, start, class): (u32, u32, u64, u64, u8)| {
            let ends = (from, (from + step) % 6);
            of(class, FlowSpec { start: Time(start), ..flow(ends, bytes) })
        };
        all.into_iter().map(spec).collect()
    })
}

fn three() -> impl Strategy<Value = [&'static str; 3]> {
    let names: Vec<&'static str> = TransportName::ALL.iter().map(|it| it.name()).collect();
    let one = prop::sample::select(names);
    (one.clone(), one.clone(), one).prop_map(|(first, second, third)| [first, second, third])
}

fn settings() -> ProptestConfig {
    ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(settings())]

    /// Whatever the transports: all flows finish, every link into a receiver carries at least its
    /// payload, and the run repeats to the same hash.
    #[test]
    fn every_mix_delivers_everything(names in three(), flows in random_flows(3)) {
        let topology = leaf_spine(6, 2, 2, RATE, RATE, DELAY).unwrap();
        let mix = classes(&names, topology, flows.clone());
        let (report, outcomes) = play(&mix).unwrap();
        prop_assert_eq!(outcomes.len(), flows.len());
        for host in 0..6_u32 {
            let to = |spec: &&FlowSpec| spec.destination.0 == host;
            let payload: u64 = flows.iter().filter(to).map(|spec| spec.size.0).sum();
            let link = mix.topology.uplink(crate::NicId(host)).reverse();
            prop_assert!(bytes_over(&report, link.index()).0 >= payload, "{}", host);
        }
        prop_assert_eq!(report.hash, play(&mix).unwrap().0.hash);
    }

    /// A class takes nothing from those above it but a packet that has begun, at each of the links
    /// of a path. Senders of the higher class do not slow down for what they do not see: `ideal`.
    #[test]
    fn a_lower_class_delays_a_higher_one_by_packets_that_have_begun(
        lower in prop::sample::select(vec!["dctcp", "roce", "dcqcn", "swift", "ideal"]),
        flows in random_flows(2),
        to_one in any::<bool>(),
    ) {
        let meet = |spec: FlowSpec| if to_one && spec.source.0 != 0 {
            FlowSpec { destination: crate::NicId(0), ..spec }
        } else if !to_one && spec.destination.0 != 0 {
            FlowSpec { source: crate::NicId(0), ..spec }
        } else {
            spec
        };
        let flows: Vec<FlowSpec> = flows.into_iter().map(meet).collect();
        let last = |flows: &[FlowSpec]| {
            let mix = classes(&[lower, "ideal"], star(6, RATE, DELAY).unwrap(), flows.to_vec());
            let ends = received(&ends(&mix));
            let higher = flows.iter().zip(&ends).filter(|(spec, _)| spec.class == 1);
            higher.map(|(_, &end)| end).max().unwrap_or(0)
        };
        let higher: Vec<FlowSpec> = flows.iter().filter(|it| it.class == 1).cloned().collect();
        if !higher.is_empty() {
            let (alone, together) = (last(&higher), last(&flows));
            let differs = alone.abs_diff(together) > 3 * PACKET;
            prop_assert!(!differs, "{}: {}, {} alone", lower, together, alone);
        }
    }
}

/// Marks of one class say nothing of another: a DCTCP class above a line-rate one that fills the
/// link keeps the rate that it has alone, and its own marks.
#[test]
fn marks_are_of_their_own_class() {
    let ecn =
        Ecn { min_bytes: 20_000, max_bytes: 20_000, probability: 1.0, marking: Marking::Arrival };
    let run = |has_others: bool| {
        let mut specs = vec![of(1, flow((1, 0), 4_000_000))];
        if has_others {
            specs.push(of(0, flow((2, 0), 8_000_000)));
        }
        let mut mix = classes(&["roce", "dctcp"], star(3, RATE, DELAY).unwrap(), specs);
        let config = mix.classes[0].config;
        mix.classes[0].config = Config { ecn: Some(ecn), ..config };
        let pfc = Pfc { pause_bytes: 60_000, resume_bytes: 50_000 };
        mix.config.pfc = Some(pfc);
        let (report, outcomes) = play(&mix).unwrap();
        let end = outcomes.iter().find(|it| it.flow.0 == 0).unwrap().received_at.0;
        (end, report.totals.pauses)
    };
    let ((alone, no_pauses), (together, pauses)) = (run(false), run(true));
    assert!(together <= alone + alone / 50, "{together}, {alone} alone");
    assert!(no_pauses == 0 && pauses > 0, "the lower class alone is paused: {pauses}");
}
