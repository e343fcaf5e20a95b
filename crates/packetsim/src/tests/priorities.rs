//! Priorities: ports and NICs send packets of higher ones first, whatever the transport.

use super::{flow, lossless, plain};
use crate::presets::{leaf_spine, star};
use crate::{Config, FlowSpec, PacketFlowId, Topology, TransportKind, TransportName, profile};
use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;

const RATE: Rate = Rate(100_000_000_000);
/// Time of a full packet at [`RATE`].
const PACKET: u64 = 4160 * 80;
const DELAY: Duration = Duration(500_000);

/// When each flow is received.
fn ends(
    topology: Topology,
    config: Config,
    transport: TransportKind,
    flows: &[FlowSpec],
) -> Vec<u64> {
    let highest = flows.iter().map(|spec| spec.priority).max().unwrap_or(0);
    let config = Config { highest_priority: highest, ..config };
    let mut simulation = transport.simulation(topology, config).unwrap();
    for spec in flows {
        simulation.add_flow(spec).unwrap();
    }
    let mut done = Vec::new();
    while simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap() {}
    assert_eq!(done.len(), flows.len(), "all flows finish");
    let core = simulation.core();
    (0..flows.len() as u32).map(|it| core.flow(PacketFlowId(it)).received_at.0).collect()
}

fn of_priority(priority: u8, spec: FlowSpec) -> FlowSpec {
    FlowSpec { priority, ..spec }
}

fn ideal() -> TransportKind {
    profile("ideal", RATE).unwrap().1
}

/// Of experts V1 bytes and of gradients V2 >= V1 leave a NIC together: the first end at 2 V1 / B
/// without priorities and at V1 / B with them, the others at (V1 + V2) / B either way.
#[test]
fn the_smaller_transfer_of_a_nic_ends_at_once_and_the_larger_when_it_did() {
    let span = |packets: u64| (packets + 1) * PACKET + 2 * DELAY.0;
    for (experts, gradients) in [(100, 100), (50, 400), (1, 30)] {
        let sizes = [experts, gradients].map(|packets| packets * 4096);
        let run = |priority| {
            let experts = of_priority(priority, flow((0, 1), sizes[0]));
            let topology = star(3, RATE, DELAY).unwrap();
            ends(topology, plain(), ideal(), &[experts, flow((0, 2), sizes[1])])
        };
        let (shared, strict) = (run(0), run(1));
        let all = span(experts + gradients);
        assert!(shared[0].abs_diff(span(2 * experts)) <= 2 * PACKET, "{shared:?}");
        assert!(shared[1].abs_diff(all) <= PACKET, "{shared:?}");
        assert_eq!(strict, [span(experts), all]);
    }
}

/// The same where the transfers meet at a switch, on the way to one receiver: there what the lower
/// priority has on its way stands before the first packet of the higher, once.
#[test]
fn transfers_that_meet_at_a_switch_go_by_priority() {
    let run = |priority| {
        let early = flow((1, 0), 300 * 4096);
        let late = FlowSpec { start: Time(50 * PACKET + 7), ..flow((2, 0), 100 * 4096) };
        let topology = star(3, RATE, DELAY).unwrap();
        ends(topology, plain(), ideal(), &[early, of_priority(priority, late)])
    };
    let alone = 50 * PACKET + 7 + 101 * PACKET + 2 * DELAY.0;
    let [early, late] = run(1)[..] else { panic!("two flows") };
    assert!((alone..=alone + PACKET).contains(&late), "{late}, alone {alone}");
    assert_eq!(early, 401 * PACKET + 2 * DELAY.0);
    assert!(run(0)[1] > alone + 90 * PACKET);
}

/// Every transport, at its own settings: the higher priority ends as if it were alone, and the NIC
/// is as busy as without priorities.
#[test]
fn every_transport_sends_the_higher_priority_as_if_it_were_alone() {
    for name in TransportName::ALL {
        let (config, transport) = profile(name.name(), RATE).unwrap();
        let specs = [flow((0, 1), 4_000_000), flow((0, 1), 12_000_000)];
        let run =
            |flows: &[FlowSpec]| ends(star(3, RATE, DELAY).unwrap(), config, transport, flows);
        let alone = run(&specs[..1])[0];
        let strict = run(&[of_priority(3, specs[0].clone()), specs[1].clone()]);
        let shared = run(&specs);
        // HPCC takes packets that follow a gap of the lower priority for a faster link.
        let share = if name.name() == "hpcc" { 8 } else { 20 };
        let limit = alone + alone / share + 4 * PACKET;
        assert!(strict[0] <= limit, "{}: {} alone, {strict:?}", name.name(), alone);
        let last = shared[0].max(shared[1]);
        assert!(strict[1] <= last + last / 10, "{}: {strict:?}, {shared:?}", name.name());
        assert!(strict[0] < shared[0], "{}: {strict:?}, {shared:?}", name.name());
    }
}

/// Two senders to one receiver, where pulls, marks and pauses decide who sends.
#[test]
fn every_transport_gives_way_at_the_receiver() {
    for name in TransportName::ALL {
        let (config, transport) = profile(name.name(), RATE).unwrap();
        let specs = [flow((1, 0), 4_000_000), flow((2, 0), 12_000_000)];
        let run =
            |flows: &[FlowSpec]| ends(star(3, RATE, DELAY).unwrap(), config, transport, flows);
        let alone = run(&specs[..1])[0];
        let strict = run(&[of_priority(1, specs[0].clone()), specs[1].clone()]);
        let limit = alone + alone / 10 + 4 * PACKET;
        assert!(strict[0] <= limit, "{}: {} alone, {strict:?}", name.name(), alone);
    }
}

/// With one priority in use, whichever it is, nothing changes.
#[test]
fn a_priority_that_all_share_changes_no_time() {
    for name in TransportName::ALL {
        let (config, transport) = profile(name.name(), RATE).unwrap();
        let run = |priority| {
            let specs =
                (0..12).map(|it| flow((it, (5 * it + 3) % 12), 40_000 + 70_000 * u64::from(it)));
            let flows: Vec<FlowSpec> = specs.map(|spec| of_priority(priority, spec)).collect();
            let topology = leaf_spine(12, 4, 2, RATE, RATE, DELAY).unwrap();
            ends(topology, config, transport, &flows)
        };
        assert_eq!(run(0), run(2), "{}", name.name());
    }
}

/// Packets of the lower priority that a slow receiver holds up fill a switch. Pauses of their
/// priority alone stop those, not what shares their link.
#[test]
fn a_pause_stops_its_own_priority_alone() {
    let run = |priority| {
        let mut flows: Vec<FlowSpec> = (1..4).map(|from| flow((from, 0), 2_000_000)).collect();
        let start = Time(100_000_000);
        let late = FlowSpec { start, ..flow((1, 5), 400_000) };
        flows.push(of_priority(priority, late));
        let topology = leaf_spine(6, 4, 1, RATE, RATE, DELAY).unwrap();
        ends(topology, lossless(), ideal(), &flows)[3] - start.0
    };
    let alone = {
        let topology = leaf_spine(6, 4, 1, RATE, RATE, DELAY).unwrap();
        ends(topology, lossless(), ideal(), &[flow((1, 5), 400_000)])[0]
    };
    assert!(run(1) <= alone + 4 * PACKET, "{} alone, {}", alone, run(1));
    assert!(run(0) > 2 * alone, "{} alone, {}", alone, run(0));
}

#[test]
fn priorities_that_a_network_lacks_are_refused() {
    let config = Config { highest_priority: 8, ..plain() };
    let error = config.validate().unwrap_err().to_string();
    assert_eq!(error, "priorities up to 8; expected at most 7");
    let mut simulation = ideal().simulation(star(2, RATE, DELAY).unwrap(), plain()).unwrap();
    let error = simulation.add_flow(&of_priority(2, flow((0, 1), 1))).unwrap_err().to_string();
    assert_eq!(error, "a flow of priority 2; the network has priorities up to 0");
}

/// Flows of three priorities on one NIC or to one receiver, as (packets, start, priority).
fn flows(of_sender: bool) -> impl Strategy<Value = Vec<FlowSpec>> {
    let one = (1_u64..120, 0_u64..40_000_000, 0_u8..3);
    prop::collection::vec(one, 2..9).prop_map(move |all| {
        let spec = |(index, (packets, start, priority)): (u32, (u64, u64, u8))| {
            let other = 1 + index % 6;
            let ends = if of_sender { (0, other) } else { (other, 0) };
            let start = Time(start);
            FlowSpec { start, priority, ..flow(ends, packets * 4096) }
        };
        (0..).zip(all).map(spec).collect()
    })
}

fn at_one_link() -> impl Strategy<Value = Vec<FlowSpec>> {
    prop_oneof![flows(true), flows(false)]
}

fn ends_of(flows: &[FlowSpec]) -> Vec<u64> {
    ends(star(7, RATE, DELAY).unwrap(), plain(), ideal(), flows)
}

/// When the last flow of a priority or a higher one ends; flows of one priority may swap places
/// when the first of them waits for a packet that has begun.
fn last(flows: &[FlowSpec], ends: &[u64], from: u8) -> u64 {
    let counted = flows.iter().zip(ends).filter(|(spec, _)| spec.priority >= from);
    counted.map(|(_, &end)| end).max().unwrap_or(0)
}

/// Packets that have begun at each of two links, and one that comes at the same instant.
const SLACK: u64 = 3 * PACKET;

fn settings() -> ProptestConfig {
    ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(settings())]

    /// Lower priorities take nothing from higher ones but a packet that has begun.
    #[test]
    fn priorities_end_as_if_lower_ones_were_not_there(flows in at_one_link()) {
        let all = ends_of(&flows);
        for from in 1..3 {
            let kept = |spec: &&FlowSpec| spec.priority >= from;
            let higher: Vec<FlowSpec> = flows.iter().filter(kept).cloned().collect();
            if !higher.is_empty() {
                let alone = last(&higher, &ends_of(&higher), from);
                let together = last(&flows, &all, from);
                prop_assert!(together <= alone + SLACK, "{}: {}, {} alone", from, together, alone);
            }
        }
    }

    /// A link is never idle while anything waits: all is through when it was without priorities.
    #[test]
    fn priorities_change_who_is_first_and_not_when_all_is_through(flows in at_one_link()) {
        let equal: Vec<FlowSpec> = flows.iter().map(|it| of_priority(0, it.clone())).collect();
        let [strict, shared] = [&flows, &equal].map(|flows| last(flows, &ends_of(flows), 0));
        prop_assert!(strict.abs_diff(shared) <= SLACK, "{} {}", strict, shared);
    }

    /// More of a priority makes nothing earlier, and nothing of a higher one later.
    #[test]
    fn more_bytes_are_felt_by_their_own_priority_and_lower_ones(
        flows in at_one_link(),
        more in 1_u64..100,
    ) {
        let mut larger = flows.clone();
        larger[0].size = Bytes(larger[0].size.0 + more * 4096);
        let [before, after] = [ends_of(&flows), ends_of(&larger)];
        for from in 0..3 {
            let [before, after] = [last(&flows, &before, from), last(&flows, &after, from)];
            prop_assert!(after + SLACK >= before, "{}: {} instead of {}", from, after, before);
            let is_above = from > flows[0].priority;
            prop_assert!(!is_above || after <= before + SLACK, "{}: {} {}", from, after, before);
        }
    }
}
