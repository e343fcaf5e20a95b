//! Times that can be computed by hand.

use super::{flow, ideal, lossless, plain, run};
use crate::presets::{fat_tree, leaf_spine, star};
use crate::transport::line_rate::LineRate;
use crate::transport::ndp::{Ndp, NdpParameters};
use crate::{Cable, Config, Core, Ecn, FlowSpec, Marking, PacketLinkId, PathChoice, Topology};
use lightloom_model::{Duration, Rate, Time};
use std::collections::BTreeSet;

const US: u64 = 1_000_000;

/// (N + H - 1) full packets, H delays, and an acknowledgement all the way back.
fn one_flow(packets: u64, links: u64, gbps: u64) -> u64 {
    (packets + links - 1) * 4160 * 8000 / gbps + links * US + links * 64 * 8000 / gbps + links * US
}

#[test]
fn one_flow_takes_what_store_and_forward_takes() {
    for gbps in [100, 400] {
        for (destination, links) in [(1, 2), (4, 4), (127, 6)] {
            for config in [plain(), lossless()] {
                let topology = fat_tree(128, 8, Rate(gbps * 1_000_000_000), Duration(US)).unwrap();
                let specs = [flow((0, destination), 2_000_000)];
                let (simulation, flows) = run(topology, config, LineRate::new, &specs);
                assert_eq!(flows[0].done_at, one_flow(489, links, gbps));
                assert_eq!(ideal(&simulation, 0), Some(flows[0].received_at));
            }
        }
    }
    assert_eq!([one_flow(489, 2, 100), one_flow(489, 6, 100)], [167_082_240, 176_433_920]);
}

/// Ceiling of the time to send so many bytes, in ps.
fn span(bytes: u64, rate: u64) -> u64 {
    u64::try_from((u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(rate))).unwrap()
}

#[test]
fn odd_rates_are_exact_to_the_picosecond() {
    for rate in [7_000_000_000, 3_200_000_000_000, 999_999_999_989, 123_456_789] {
        let topology = star(2, Rate(rate), Duration(333)).unwrap();
        let (_, flows) = run(topology, plain(), LineRate::new, &[flow((0, 1), 1000 * 4096)]);
        let received = 1001 * span(4160, rate) + 2 * 333;
        assert_eq!(flows[0].received_at, received);
        assert_eq!(flows[0].done_at, received + 2 * (span(64, rate) + 333));
    }
    // 1,300 ps for 520 B at 3.2 Tb/s, not 520 x 2 nor 520 x 3.
    assert_eq!(span(520, 3_200_000_000_000), 1300);
}

#[test]
fn an_incast_is_serialised_at_the_receivers_link() {
    let (packet, rate) = (4160 * 80, Rate(100_000_000_000));
    for senders in [2, 5, 8] {
        // All senders are in other pods: six links away.
        let topology = fat_tree(128, 8, rate, Duration(US)).unwrap();
        let specs: Vec<_> = (0..senders).map(|k| flow((16 + 9 * k, 0), 30 * 4096)).collect();
        let (simulation, flows) = run(topology, plain(), LineRate::new, &specs);
        let last = flows.iter().map(|flow| flow.received_at).max().unwrap();
        let packets = 30 * u64::from(senders);
        assert_eq!(last, 5 * (packet + US) + packets * packet + US);
        assert_eq!(simulation.core().sent_bytes(PacketLinkId(1)), packets * 4160);
    }
}

/// Uniform in (0, 1].
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(1);
    ((crate::hash::mix(*state) >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

#[test]
fn a_poisson_stream_waits_as_in_an_m_d_1_queue() {
    const HOSTS: u32 = 64;
    const PACKETS: u32 = 20_000;
    let service = span(4160, 10_000_000_000);
    for load in [0.4, 0.7] {
        let mut waited = 0.0;
        for seed in 0..5 {
            // Links to the switch are 400 times as fast as that to the receiver.
            let mut topology = Topology::new();
            let hosts: Vec<_> = (0..=HOSTS).map(|_| topology.add_host()).collect();
            let switch = topology.add_switch();
            for &host in &hosts {
                let rate = if host.0 < HOSTS { 4_000_000_000_000 } else { 10_000_000_000 };
                let names = ["up", "down"];
                topology
                    .connect(host, switch, Cable { rate: Rate(rate), delay: Duration(US) }, names)
                    .unwrap();
            }
            let (mut state, mut time) = (seed << 32, 0.0);
            let specs: Vec<_> = (0..PACKETS)
                .map(|_| {
                    time -= uniform(&mut state).ln() * service as f64 / load;
                    let host = (uniform(&mut state) * f64::from(HOSTS)) as u32 % HOSTS;
                    FlowSpec { start: Time(time as u64), ..flow((host, HOSTS), 4096) }
                })
                .collect();
            let (_, flows) = run(topology, plain(), LineRate::new, &specs);
            let min = span(4160, 4_000_000_000_000) + 2 * US + service;
            let waits = flows.iter().map(|flow| flow.received_at - flow.start - min);
            waited += waits.map(|wait| wait as f64).sum::<f64>() / f64::from(PACKETS) / 5.0;
        }
        // Pollaczek-Khinchine with constant service times.
        let expected = load / (2.0 * (1.0 - load)) * service as f64;
        assert!((waited / expected - 1.0).abs() < 0.05, "{load}: {waited} against {expected}");
    }
}

#[test]
fn pauses_bound_what_waits_and_nothing_is_sent_twice() {
    let (rate, pause) = (Rate(100_000_000_000), 15 * 4096);
    for senders in [2, 7, 15] {
        let topology = star(16, rate, Duration(US)).unwrap();
        let specs: Vec<_> = (0..senders).map(|k| flow((k + 1, 0), 300 * 4096)).collect();
        let (simulation, flows) = run(topology, lossless(), LineRate::new, &specs);
        let core = simulation.core();
        // Until a pause works, what was on the way arrives: two delays and two packets.
        let headroom = 2 * 12_500 + 2 * 4160;
        let peak = core.peak_bytes(PacketLinkId(1));
        assert!(peak > senders * pause / 2 && peak <= senders * (pause + headroom), "{peak}");
        assert_eq!(core.counters().data_hops, 2 * 300 * u64::from(senders));
        let last = flows.iter().map(|flow| flow.received_at).max().unwrap();
        let serial = (300 * u64::from(senders) + 1) * 4160 * 80 + 2 * US;
        assert_eq!(last, serial, "the receiver's link is never idle");
    }
}

#[test]
fn marks_come_with_the_stated_probability() {
    const PAIRS: u32 = 3000;
    let ecn = Ecn {
        marking: Marking::Arrival,
        min_bytes: 500 * 4160,
        max_bytes: 2500 * 4160,
        probability: 0.4,
    };
    // Two packets come while one leaves: the queue grows by one packet with each pair.
    let queued = (0..2 * PAIRS).map(|packet| f64::from(packet / 2));
    let chance = |packets: f64| match packets {
        ..=500.0 => 0.0,
        ..=2500.0 => (packets - 500.0) / 2000.0 * 0.4,
        _ => 1.0,
    };
    let chances: Vec<f64> = queued.map(chance).collect();
    let expected: f64 = chances.iter().sum();
    let deviation = chances.iter().map(|chance| chance * (1.0 - chance)).sum::<f64>().sqrt();
    let mut different = std::collections::BTreeSet::new();
    for seed in 0..10 {
        let config = Config { ecn: Some(ecn), seed, ..plain() };
        let topology = star(3, Rate(100_000_000_000), Duration(US)).unwrap();
        let specs = [0, 1].map(|host| flow((host, 2), u64::from(PAIRS) * 4096));
        let (simulation, _) = run(topology, config, LineRate::new, &specs);
        let marks = simulation.core().link_counters(PacketLinkId(5)).marks;
        // The queue is known to one packet, which is worth 4 marks, and 2 at Kmax.
        let off = (marks as f64 - expected).abs();
        assert!(off < 4.0 * deviation + 6.0, "{marks} marks against {expected}");
        different.insert(marks);
    }
    assert!(different.len() > 4, "seeds differ");
}

#[test]
fn control_packets_with_priority_wait_for_one_packet_at_most() {
    let (packet, unqueued) = (4160 * 80, 2 * (64 * 80 + US));
    for (control_priority, min, max) in [(true, 0, packet), (false, 20 * packet, 99 * packet)] {
        let config = Config { control_priority, ..plain() };
        let topology = star(4, Rate(100_000_000_000), Duration(US)).unwrap();
        // Data fills the queue before host 2; the acknowledgements of what it sends wait there.
        let mut specs = vec![flow((0, 2), 100 * 4096), flow((1, 2), 100 * 4096)];
        specs.push(FlowSpec { start: Time(20 * US), ..flow((2, 3), 4096) });
        let (_, flows) = run(topology, config, LineRate::new, &specs);
        let waited = flows[2].done_at - flows[2].received_at - unqueued;
        assert!((min..=max).contains(&waited), "waited {waited} ps");
    }
}

#[test]
fn the_ideal_time_holds_for_any_rates_and_short_last_packets() {
    let rates = [1_000_000_000, 7_000_000_000, 10_000_000_000, 3_200_000_000_000];
    for choice in 0..256_usize {
        let mut topology = Topology::new();
        let mut nodes = vec![topology.add_host()];
        nodes.extend((0..3).map(|_| topology.add_switch()));
        nodes.push(topology.add_host());
        for (hop, pair) in nodes.windows(2).enumerate() {
            let rate = Rate(rates[choice >> (2 * hop) & 3]);
            let delay = Duration(hop as u64 * 100_000);
            topology.connect(pair[0], pair[1], Cable { rate, delay }, ["there", "back"]).unwrap();
        }
        let config = Config { full_tail: false, ..plain() };
        for bytes in [1, 4096, 4097, 9 * 4096 + 1, 9 * 4096 + 4000] {
            let (simulation, flows) =
                run(topology.clone(), config, LineRate::new, &[flow((0, 1), bytes)]);
            assert_eq!(ideal(&simulation, 0), Some(flows[0].received_at));
        }
    }
}

/// Sends a window that no flow here fills at the rate of the line, over as many paths as there are.
fn sprayed(core: &Core) -> Ndp {
    Ndp::new(core, NdpParameters { window: Some(1000), ..NdpParameters::default() })
}

/// Spraying changes nothing where there is one path. Where there are several of one pace, packets
/// may come later than ideal where hashes put the last two on one path, but never later than if all
/// were on one.
#[test]
fn the_ideal_time_holds_for_flows_that_are_sprayed() {
    let (slow, fast) = (Rate(10_000_000_000), Rate(100_000_000_000));
    let topologies = [
        star(4, slow, Duration(US)).unwrap(),
        leaf_spine(4, 2, 4, slow, slow, Duration(US)).unwrap(),
        leaf_spine(4, 2, 4, slow, fast, Duration(US)).unwrap(),
        fat_tree(8, 4, fast, Duration(US)).unwrap(),
    ];
    for (case, topology) in topologies.iter().enumerate() {
        for (paths, bytes) in
            [1, 2, 64].into_iter().flat_map(|paths| [1, 4097, 8193, 40_000].map(|it| (paths, it)))
        {
            let time = |paths| {
                let config = Config { full_tail: false, paths, ..plain() };
                let (simulation, flows) =
                    run(topology.clone(), config, sprayed, &[flow((0, 3), bytes)]);
                (ideal(&simulation, 0).unwrap(), flows[0].received_at)
            };
            let (in_order, one_path) = time(PathChoice::Ecmp);
            assert_eq!(one_path, in_order);
            let (best, taken) = time(PathChoice::Spray(paths));
            let is_one = paths == 1 || case == 0 || bytes == 1;
            assert!(best <= taken && taken <= in_order, "{best} {taken} {in_order}");
            assert!(!is_one || best == in_order, "{case} {paths} {bytes}: {best} {in_order}");
        }
    }
}

/// Two paths, and a last link that is faster: the short last packet overtakes the one before it,
/// or comes behind it, as they take two paths or one.
#[test]
fn the_ideal_time_of_a_last_packet_that_overtakes() {
    let mut topology = Topology::new();
    let hosts = [topology.add_host(), topology.add_host()];
    let switches: Vec<_> = (0..4).map(|_| topology.add_switch()).collect();
    let ends = [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(a, b)| (switches[a], switches[b]));
    let ends = ends.into_iter().chain([(hosts[0], switches[0]), (switches[3], hosts[1])]);
    for ((a, b), gbps) in ends.zip([10, 10, 10, 10, 10, 100]) {
        let cable = Cable { rate: Rate(gbps * 1_000_000_000), delay: Duration(US) };
        topology.connect(a, b, cable, ["there", "back"]).unwrap();
    }
    let late = |seed| {
        let config = Config { full_tail: false, paths: PathChoice::Spray(64), seed, ..plain() };
        let (simulation, flows) = run(topology.clone(), config, sprayed, &[flow((0, 1), 9000)]);
        flows[0].received_at - ideal(&simulation, 0).unwrap()
    };
    // The last one comes over 10 Gb/s while the one before it goes on over 100 Gb/s, then follows.
    let last = 9000 - 2 * 4096 + u64::from(plain().header);
    let behind = last * (800 + 80) - 4160 * 80;
    assert_eq!((0..40).map(late).collect::<BTreeSet<_>>(), BTreeSet::from([0, behind]));
}
