//! Fitted transports: a flow alone fills links of any rate and length.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::{fat_tree, smallest_radix, star};
use crate::{Extent, PacketScenario, Topology, TransportName, fitted, profile};
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;

const GBPS: u64 = 1_000_000_000;
const US: u64 = 1_000_000;
const SIZE: u64 = 10_000_000;

/// A transport fitted to links of a rate and a delay, of which paths have so many.
fn fitted_to(name: &str, topology: Topology, [gbps, delay, links]: [u64; 3]) -> PacketScenario {
    let hosts = topology.nic_count() as u32;
    let extent = Extent { rate: Rate(gbps * GBPS), delay: Duration(links * delay) };
    let (config, transport) = fitted(name, extent).unwrap();
    let flows = vec![flow((0, hosts - 1), SIZE)];
    PacketScenario { config, transport, ..scenario(name, topology, flows) }
}

/// The time of a flow alone across a fat tree, in ps, and how often longer than its packets need.
fn alone(name: &str, gbps: u64, delay: u64) -> (u64, f64) {
    let tree = fat_tree(16, smallest_radix(16), Rate(gbps * GBPS), Duration(delay)).unwrap();
    let (_, outcomes) = play(&fitted_to(name, tree, [gbps, delay, 6])).unwrap();
    (outcomes[0].received_at.since(Time::ZERO).0, outcomes[0].slowdown)
}

/// At 10 to 1,600 Gb/s, 10 MB end within a tenth of the time that their packets need, and never
/// later on faster links.
#[test]
fn a_flow_alone_fills_links_of_any_rate() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let mut before = u64::MAX;
        for gbps in [10, 25, 50, 100, 200, 400, 800, 1_600] {
            let (time, slowdown) = alone(name, gbps, US);
            assert!(slowdown <= 1.0 / 0.9, "{name} at {gbps} Gb/s: {slowdown}");
            assert!(time <= before, "{name} at {gbps} Gb/s: {time} ps, slower than before");
            before = time;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the length of links, too.
    #[test]
    fn a_flow_alone_fills_links_of_any_length(
        index in 0..TransportName::ALL.len(),
        gbps in 10_u64..1_600,
        delay_ns in 100_u64..20_000,
    ) {
        let name = TransportName::ALL[index].name();
        let (time, slowdown) = alone(name, gbps, 1_000 * delay_ns);
        prop_assert!(slowdown <= 1.0 / 0.9, "{name}: {slowdown}");
        let (faster, _) = alone(name, 2 * gbps, 1_000 * delay_ns);
        prop_assert!(faster <= time, "{name}: {faster} and {time} ps");
    }
}

/// However short, and whichever path its last packet takes, no flow is faster than its packets.
#[test]
fn no_flow_alone_is_faster_than_its_packets() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        for size in [1, 4_000, 4_097, 4_500, 8_000, 8_193, 13_000, 40_000, 90_001] {
            for receiver in [1, 3, 15] {
                let tree = fat_tree(16, 4, Rate(100 * GBPS), Duration(US)).unwrap();
                let mut scenario = fitted_to(name, tree, [100, US, 6]);
                scenario.flows = vec![flow((0, receiver), size)];
                let slowdown = play(&scenario).unwrap().1[0].slowdown;
                let text = format!("{name}, {size} B to {receiver}: {slowdown}");
                // Subflows have paths of their own, of which the form knows nothing.
                let least = if name == "mptcp" { 0.9 } else { 1.0 };
                assert!((least..1.1).contains(&slowdown), "{text}");
            }
        }
    }
}

/// Where a round trip holds no more than in the network of the reference, its thresholds stay.
#[test]
fn thresholds_grow_with_what_a_round_trip_holds_and_never_shrink() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let sizes = |gbps: u64, us: u64| {
            let extent = Extent { rate: Rate(gbps * GBPS), delay: Duration(us * US) };
            let config = fitted(name, extent).unwrap().0;
            assert!(!config.full_tail && config.validate() == Ok(()));
            let (ecn, pfc) = (config.ecn, config.pfc);
            [
                config.queue_bytes,
                ecn.map_or(0, |it| it.min_bytes),
                ecn.map_or(0, |it| it.max_bytes),
                pfc.map_or(0, |it| it.pause_bytes),
                pfc.map_or(0, |it| it.resume_bytes),
            ]
        };
        let published = profile(name, Rate(100 * GBPS)).unwrap().0;
        assert_eq!(sizes(100, 6)[0], published.queue_bytes, "{name}");
        assert_eq!(sizes(100, 6)[3], published.pfc.map_or(0, |it| it.pause_bytes), "{name}");
        assert_eq!(sizes(100, 2), sizes(100, 6), "{name}");
        for (low, high) in [((100, 6), (400, 6)), ((400, 6), (400, 20)), ((10, 6), (100, 6))] {
            let pairs = sizes(low.0, low.1).into_iter().zip(sizes(high.0, high.1));
            for (small, large) in pairs {
                assert!(small <= large, "{name}: {small} and {large} B");
            }
        }
    }
}

/// Of a flow that is shorter than a packet, no link carries more than that.
#[test]
fn a_byte_is_no_full_packet() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let topology = star(2, Rate(100 * GBPS), Duration(US)).unwrap();
        let mut scenario = fitted_to(name, topology, [100, US, 2]);
        scenario.flows = vec![flow((0, 1), 1)];
        let (report, _) = play(&scenario).unwrap();
        let header = u64::from(scenario.config.header);
        assert_eq!(report.links[0].sent.0, 1 + header, "{name}");
    }
}

/// The last packets of a subflow that are lost show no duplicate acknowledgement: a probe finds
/// them, not the timeout of 10 ms.
#[test]
fn small_incasts_of_mptcp_wait_for_no_timeout() {
    for (senders, size) in [(4, 64_000), (8, 200_000), (16, 1_000_000), (32, 100_000)] {
        let topology = star(senders + 1, Rate(100 * GBPS), Duration(US)).unwrap();
        let mut scenario = fitted_to("mptcp", topology, [100, US, 2]);
        scenario.flows = (1..=senders).map(|host| flow((host, 0), size)).collect();
        let (_, outcomes) = play(&scenario).unwrap();
        let last = outcomes.iter().map(|outcome| outcome.received_at.0).max().unwrap();
        let busy = u64::from(senders) * size * 80;
        assert!(last < 2 * busy, "{senders} times {size} B: {last} ps of {busy} ps");
    }
}

/// Senders at any rate keep the link of their receiver busy. The rates of DCQCN recover by 300 us a
/// time whatever the rate; HPCC leaves a twentieth free, and adds slowly to 10 Gb/s.
#[test]
fn an_incast_fills_a_link_of_any_rate() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        for gbps in [10, 100, 400, 1_600] {
            let topology = star(9, Rate(gbps * GBPS), Duration(US)).unwrap();
            let mut scenario = fitted_to(name, topology, [gbps, US, 2]);
            scenario.flows = (1..9).map(|host| flow((host, 0), 4_000_000)).collect();
            let (_, outcomes) = play(&scenario).unwrap();
            let last = outcomes.iter().map(|outcome| outcome.received_at.0).max().unwrap();
            let busy = 32_000_000 * 8_000 / gbps;
            let limit = match name {
                "dcqcn" => 3.0,
                "hpcc" => 1.3,
                "mptcp" => 1.4,
                _ => 1.06,
            };
            let share = last as f64 / busy as f64;
            assert!(share <= limit, "{name} at {gbps} Gb/s: {share}");
        }
    }
}
