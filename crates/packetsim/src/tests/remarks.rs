//! What a report remarks on.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::fat_tree;
use crate::{Balancing, Config, Extent, FlowSpec, PacketScenario, TransportName, fitted, profile};
use lightloom_model::{Duration, Rate};

const US: u64 = 1_000_000;

/// A flow over six links of a rate, by a transport as its reference has it, or fitted.
fn remarks(name: &str, gbps: u64, size: u64, change: fn(&mut PacketScenario)) -> Vec<String> {
    let rate = Rate(gbps * 1_000_000_000);
    let flows: Vec<FlowSpec> = vec![flow((0, 15), size)];
    let mut scenario = scenario(name, fat_tree(16, 4, rate, Duration(US)).unwrap(), flows);
    (scenario.config, scenario.transport) = profile(name, rate).unwrap();
    change(&mut scenario);
    play(&scenario).unwrap().0.remarks
}

fn fit(scenario: &mut PacketScenario) {
    let rate = scenario.topology.links()[0].rate;
    let extent = Extent { rate, delay: Duration(6 * US) };
    let name = scenario.transport.name();
    (scenario.config, scenario.transport) = fitted(name.name(), extent).unwrap();
}

#[test]
fn what_holds_less_than_a_round_trip_is_said() {
    let none: fn(&mut PacketScenario) = |_| ();
    assert_eq!(
        remarks("ndp", 400, 1_000_000, none),
        ["A window of 50 packets is 208 kB, and a round trip at 400 Gb/s holds 625 kB: it does \
          not fill that link."]
    );
    assert_eq!(remarks("ndp", 400, 200_000, none), [""; 0], "the flow is shorter than the window");
    assert_eq!(remarks("ndp", 100, 1_000_000, none), [""; 0]);
    assert_eq!(
        remarks("roce", 800, 1_000, none),
        ["Pauses end below 49 kB, and a link of 800 Gb/s holds 200 kB there and back: it idles \
          after each."]
    );
}

/// Whatever the rate, a fitted transport has nothing to be said.
#[test]
fn fitted_transports_are_not_remarked_on() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        for gbps in [10, 100, 400, 1_600] {
            assert_eq!(remarks(name, gbps, 10_000_000, fit), [""; 0], "{name} at {gbps} Gb/s");
        }
    }
}

#[test]
fn queues_without_end_are_said_where_nothing_pauses() {
    for name in ["roce", "dcqcn", "hpcc"] {
        let found = remarks(name, 100, 1_000, |it| it.config.pfc = None);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].starts_with("Queues have no end and PFC is off"), "{}", found[0]);
        let bounded = |it: &mut PacketScenario| {
            it.config = Config { pfc: None, queue_bytes: 1 << 20, ..it.config };
        };
        assert_eq!(remarks(name, 100, 1_000, bounded), [""; 0]);
    }
    assert_eq!(remarks("ideal", 100, 1_000, |_| ()), [""; 0], "that is what it is for");
}

#[test]
fn transports_that_keep_one_path_are_not_for_balanced_packets() {
    let balanced = |it: &mut PacketScenario| it.config.balancing = Balancing::Adaptive;
    assert_eq!(
        remarks("dctcp", 100, 1_000, balanced),
        ["Packets overtake each other by this routing, which dctcp takes for losses: choose a \
          transport that sprays packets, or routing by hash."]
    );
    for name in ["roce", "ndp", "uet-nscc"] {
        assert_eq!(remarks(name, 100, 1_000, balanced), [""; 0], "{name}");
    }
}
