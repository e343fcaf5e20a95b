//! What a run records of its packets, checked against physics: no link sends two at a time or
//! faster than its rate, everything arrives its delay later, and all sums are those reported.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::{fat_tree, leaf_spine};
use crate::{
    EventKind, EventLogging, FlowSpec, PacketEvent, PacketKind, PacketScenario, Report, Topology,
    TransportName,
};
use lightloom_model::{Bytes, Duration, Rate, Time};
use std::collections::{BTreeMap, BTreeSet};

const FAST: Rate = Rate(100_000_000_000);
const US: u64 = 1_000_000;

/// Two receivers of three flows each, which meet; sizes with short last packets.
fn flows() -> Vec<FlowSpec> {
    let ends = [(1, 0), (5, 0), (9, 0), (2, 7), (8, 7), (12, 7), (7, 0), (3, 14)];
    let spec = |(index, ends): (u64, (u32, u32))| FlowSpec {
        start: Time(index * 777_777),
        ..flow(ends, 300_000 + 12_345 * index)
    };
    (0..).zip(ends).map(spec).collect()
}

fn recorded(name: &str, topology: Topology) -> (PacketScenario, Report) {
    let logging = EventLogging { max_events: 1 << 20, flow: None };
    let mut scenario = scenario(name, topology, flows());
    scenario.event_logging = Some(logging);
    let (report, outcomes) = play(&scenario).unwrap();
    assert_eq!(outcomes.len(), 8, "{name}: all finish");
    assert!(report.events.len() < logging.max_events, "{name}: everything is recorded");
    (scenario, report)
}

/// Bytes of a packet on the wire.
fn size(scenario: &PacketScenario, event: &PacketEvent) -> u64 {
    let config = scenario.config;
    let bytes = scenario.flows[event.flow.0 as usize].size.0;
    match event.packet_kind {
        PacketKind::Data if config.full_tail => u64::from(config.packet_bytes()),
        PacketKind::Data => {
            let rest = bytes - u64::from(event.sequence) * u64::from(config.mtu);
            rest.min(u64::from(config.mtu)) + u64::from(config.header)
        }
        PacketKind::Header => u64::from(config.header),
        _ => u64::from(config.control_bytes),
    }
}

/// Every link sends one packet after the other, each in its time, and what it has sent arrives.
fn check_links(name: &str, scenario: &PacketScenario, report: &Report) {
    let mut sent: BTreeMap<u32, Vec<&PacketEvent>> = BTreeMap::new();
    let mut arrived: BTreeMap<u32, Vec<&PacketEvent>> = BTreeMap::new();
    for event in &report.events {
        match event.event {
            EventKind::Sent => sent.entry(event.link.0).or_default().push(event),
            EventKind::Arrived | EventKind::Delivered => {
                arrived.entry(event.link.0).or_default().push(event);
            }
            _ => {}
        }
    }
    for (link, spec) in (0..).zip(scenario.topology.links()) {
        let (sent, arrived) = (sent.remove(&link), arrived.remove(&link));
        let (sent, arrived) = (sent.unwrap_or_default(), arrived.unwrap_or_default());
        let (mut free, mut bytes) = (Time::ZERO, 0);
        for (index, event) in sent.iter().enumerate() {
            let size = size(scenario, event);
            assert!(event.time >= free, "{name}: link {link} sends two packets at once");
            free = event.time + spec.rate.transmission(Bytes(size));
            bytes += size;
            if let Some(there) = arrived.get(index) {
                assert_eq!(there.time, free + spec.delay, "{name}: link {link}");
                let what = |event: &PacketEvent| (event.flow, event.sequence, event.packet_kind);
                assert_eq!(what(there), what(event), "{name}: links keep the order");
            }
        }
        // A run ends as soon as the last flow does; then some may be on the wire.
        assert!(arrived.len() <= sent.len(), "{name}: link {link}");
        assert_eq!(report.links[link as usize].sent, Bytes(bytes), "{name}: link {link}");
    }
}

/// Counters are numbers of events.
fn check_counters(name: &str, report: &Report) {
    let count = |kind: EventKind, is_data: Option<bool>| {
        let is_of = |event: &&PacketEvent| {
            let data = event.packet_kind == PacketKind::Data;
            event.event == kind && is_data.is_none_or(|wanted| wanted == data)
        };
        report.events.iter().filter(is_of).count() as u64
    };
    let totals = report.totals;
    assert_eq!(report.counters.data_hops, count(EventKind::Sent, Some(true)), "{name}");
    assert_eq!(report.counters.control_hops, count(EventKind::Sent, Some(false)), "{name}");
    assert_eq!(totals.marks, count(EventKind::Marked, None), "{name}");
    assert_eq!(totals.trims, count(EventKind::Trimmed, None), "{name}");
    assert_eq!(totals.drops + totals.control_drops, count(EventKind::Dropped, None), "{name}");
}

/// Every packet of every flow is delivered to its receiver, over as many links as a path has.
fn check_flows(name: &str, scenario: &PacketScenario, report: &Report) {
    let mut delivered = vec![BTreeSet::new(); scenario.flows.len()];
    let is_data = |event: &&PacketEvent| event.packet_kind == PacketKind::Data;
    for event in report.events.iter().filter(is_data) {
        let spec = &scenario.flows[event.flow.0 as usize];
        assert!(event.time >= spec.start, "{name}: nothing is sent before its flow starts");
        if event.event == EventKind::Delivered {
            let to = scenario.topology.links()[event.link.0 as usize].to;
            assert_eq!(to.0, spec.destination.0, "{name}: hosts come first, a NIC each");
            delivered[event.flow.0 as usize].insert(event.sequence);
        }
    }
    for (spec, found) in scenario.flows.iter().zip(delivered) {
        let packets = spec.size.0.div_ceil(u64::from(scenario.config.mtu)) as u32;
        assert_eq!(found, (0..packets).collect(), "{name}: each packet, and no other");
    }
}

#[test]
fn every_transport_obeys_the_links_that_it_uses() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        for topology in [
            fat_tree(16, 4, FAST, Duration(US)).unwrap(),
            leaf_spine(16, 4, 2, FAST, Rate(130_000_000_000), Duration(300_001)).unwrap(),
        ] {
            let (scenario, report) = recorded(name, topology);
            check_links(name, &scenario, &report);
            check_counters(name, &report);
            check_flows(name, &scenario, &report);
        }
    }
}

/// The same with queues so short that packets are dropped, trimmed and sent again.
#[test]
fn what_is_lost_and_sent_again_obeys_them_as_well() {
    for name in ["dctcp", "mptcp", "ndp", "eqds", "ideal"] {
        let logging = EventLogging { max_events: 1 << 20, flow: None };
        let topology = fat_tree(16, 4, FAST, Duration(US)).unwrap();
        let mut scenario = scenario(name, topology, flows());
        let packet = scenario.config.packet_bytes();
        scenario.config.queue_bytes = 3 * packet;
        scenario.config.control_queue_bytes = 4 * packet;
        scenario.event_logging = Some(logging);
        let (report, _) = play(&scenario).unwrap();
        assert!(report.totals.drops + report.totals.trims > 0, "{name}: something was lost");
        check_links(name, &scenario, &report);
        check_counters(name, &report);
        check_flows(name, &scenario, &report);
    }
}
