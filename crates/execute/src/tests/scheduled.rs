//! Circuits that follow the clock.

use super::{NIC, US, compute, play, receive, refuse, send};
use crate::network::{Network, NetworkPart, PartConfig, Setting};
use crate::parts::{Eps, ScheduledCircuits, Slot};
use crate::testing::{GBPS, all_to_all, empty_graph, eps, packet, with_blocks};
use crate::{
    ExecuteError, Extent, Options, Outcome, PacketTransport, PhaseBook, PhaseChoice, Plugins,
    TransferModel, execute_as,
};
use lightloom_kernel::Silent;
use lightloom_model::{AllToAll, Circuit, Duration, Invalid, Rate, TaskGraph, Time};
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;

const DARK: u64 = 10 * US;
const HOLD: u64 = 100 * US;

fn slot(pairs: &[(u32, u32)], dark: u64, hold: u64) -> Slot {
    let circuits = pairs.iter().map(|&(a, b)| Circuit { a, b, count: 1 }).collect();
    Slot { circuits, dark: Duration(dark), hold: Duration(hold) }
}

fn circuits(slots: Vec<Slot>) -> ScheduledCircuits {
    let (nic_rate, link_delay) = (Rate(400 * GBPS), Duration(US));
    ScheduledCircuits { nic_rate, link_delay, slots, min_bytes: 0 }
}

/// All matchings of four servers, one after the other.
fn rotor() -> ScheduledCircuits {
    let matchings = [[(0, 1), (2, 3)], [(0, 2), (3, 1)], [(3, 0), (1, 2)]];
    circuits(matchings.map(|pairs| slot(&pairs, DARK, HOLD)).to_vec())
}

/// Nothing but circuits.
fn alone(circuits: ScheduledCircuits) -> Network {
    let all_to_all = AllToAll::Hierarchical;
    Network { parts: Vec::new(), all_to_all, ..packet(4) }.with(circuits)
}

/// Seven NICs of each server on a packet fabric below the circuits, for smaller transfers.
fn hybrid(min_bytes: u64) -> Network {
    let network = Network { all_to_all: AllToAll::Hierarchical, ..packet(4) };
    network.with(Eps { nics: 7, ..eps(4) }).with(ScheduledCircuits { min_bytes, ..rotor() })
}

/// Server 0 sends to another one from some time on.
fn one_send(to: u32, start: u64, bytes: u64) -> TaskGraph {
    let mut graph = empty_graph(4, 1, 1);
    graph.roles[0].tasks = vec![compute(start), send(to, 0, bytes)];
    graph.roles[to as usize].tasks = vec![receive(0, 0)];
    graph
}

/// When circuits that are lit in a slot of a schedule have been lit for so long from a time on,
/// counted picosecond interval by interval.
fn lit_for(slots: &[Slot], slot: usize, start: u64, mut needed: u64) -> u64 {
    let mut at = 0;
    loop {
        for (index, Slot { dark, hold, .. }) in slots.iter().enumerate() {
            let (begin, end) = (at + dark.0, at + dark.0 + hold.0);
            let from = begin.max(start);
            if index == slot && from < end {
                if needed <= end - from {
                    return from + needed;
                }
                needed -= end - from;
            }
            at = end;
        }
    }
}

/// Bytes of pipeline sends over the packet fabric and over scheduled circuits.
fn carried(outcome: &Outcome) -> (u64, u64) {
    let columns = &outcome.ledger.columns;
    let column = |name| columns.iter().position(|&column| column == name).expect("a column");
    let bytes = super::carried(outcome, "pp");
    (bytes[column("eps")], bytes[column("scheduled")])
}

fn packets(graph: &TaskGraph, network: &Network, name: &str) -> Outcome {
    let options = PacketTransport::new(name, network.extent()).expect("a transport");
    let model = TransferModel::Packets(&options);
    execute_as(model, graph, network, &Options::default(), &mut Silent, Plugins::default())
        .expect("a valid step")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_transfer_takes_the_lit_time_of_its_pair(
        times in prop::collection::vec((0..20 * US, 1..50 * US), 1..5),
        slot_index in 0_usize..5,
        start in 0..500 * US,
        bytes in 1_u64..10_000_000,
    ) {
        let used = slot_index % times.len();
        let matching = |index: usize| if index == used { vec![(1, 0)] } else { vec![(2, 3)] };
        let slots: Vec<Slot> = times
            .iter()
            .enumerate()
            .map(|(index, &(dark, hold))| slot(&matching(index), dark, hold))
            .collect();
        let expected = lit_for(&slots, used, start, bytes * NIC) + US;
        let outcome = play(&one_send(1, start, bytes), &alone(circuits(slots)));
        // A picosecond of rounding each time that the circuits go dark.
        let periods = expected / times.iter().map(|(dark, hold)| dark + hold).sum::<u64>() + 2;
        prop_assert!(outcome.step.0.abs_diff(expected) <= periods);
        prop_assert_eq!(carried(&outcome), (0, bytes));
    }
}

/// The clock does not care when a step begins: later by a period is later by a period.
#[test]
fn a_period_later_everything_is_a_period_later() {
    let period = 3 * (DARK + HOLD);
    let run = |start| play(&one_send(3, start, 7_000_000), &alone(rotor())).step.0;
    for start in [0, 5 * US, 200 * US] {
        assert_eq!(run(start + 1000 * period), run(start) + 1000 * period);
    }
}

/// Circuits of a second fabric along with the first.
#[derive(Debug, Clone)]
struct Second(ScheduledCircuits);

impl PartConfig for Second {
    fn name(&self) -> &'static str {
        "second"
    }

    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        self.0.validate(network, below)
    }

    fn extent(&self, network: &Network, below: Duration) -> Extent {
        self.0.extent(network, below)
    }

    fn follows_clock(&self) -> bool {
        self.0.follows_clock()
    }

    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        self.0.build(setting)
    }
}

/// Circuits that change often and circuits that change rarely, of other servers.
#[test]
fn parts_follow_clocks_of_their_own() {
    let often = circuits(vec![slot(&[(0, 1)], DARK, HOLD)]);
    let rarely = circuits(vec![slot(&[(2, 3)], DARK, 50 * HOLD)]);
    let expected = play(&one_send(1, 0, 7_000_000), &alone(often.clone())).step;
    // 140 us of sending, in two slots.
    assert!(expected.0.abs_diff(2 * DARK + 7_000_000 * NIC + US) <= 2);
    for [first, second] in [[&often, &rarely], [&rarely, &often]] {
        let both = alone(first.clone()).with(Second(second.clone()));
        assert_eq!(play(&one_send(1, 0, 7_000_000), &both).step, expected);
    }
}

#[test]
fn both_directions_of_a_circuit_carry_at_once() {
    let mut graph = empty_graph(2, 1, 1);
    for (stage, other) in [(0, 1), (1, 0)] {
        graph.roles[stage].tasks = vec![send(other, 0, 1_000_000), receive(other, 0)];
    }
    let outcome = play(&graph, &alone(rotor()));
    assert_eq!(outcome.step.0, DARK + 1_000_000 * NIC + US);
}

#[test]
fn parallel_circuits_are_as_much_faster() {
    let mut wide = rotor();
    for slot in &mut wide.slots {
        slot.circuits.iter_mut().for_each(|circuit| circuit.count = 5);
    }
    let graph = one_send(2, 0, 5_000_000);
    let begin = 2 * DARK + HOLD;
    assert_eq!(play(&graph, &alone(wide.clone())).step.0, begin + 1_000_000 * NIC + US);
    let whole = 5 * 100 * 4096;
    let outcome = packets(&one_send(2, 0, whole), &alone(wide), "ideal");
    assert_eq!(outcome.step.0, begin + 100 * 4160 * NIC + US);
}

#[test]
fn circuits_that_follow_each_other_without_a_dark_time_stay_lit() {
    // The pair is joined in two slots in a row, by one circuit and by two.
    let mut second = slot(&[(0, 1)], 0, HOLD);
    second.circuits.push(Circuit { a: 1, b: 0, count: 1 });
    let slots = vec![slot(&[(0, 1)], 0, HOLD), second];
    let bytes = (HOLD + 2 * 30 * US) / NIC;
    let outcome = play(&one_send(1, 0, bytes), &alone(circuits(slots)));
    assert_eq!(outcome.step.0, HOLD + 30 * US + US);
}

#[test]
fn packets_wait_for_their_slot_as_well() {
    // As many packets as begin before the circuits go dark; the others wait a period.
    let fit = HOLD.div_ceil(4160 * NIC);
    let graph = one_send(1, 0, (fit + 50) * 4096);
    for name in ["ideal", "roce"] {
        let outcome = packets(&graph, &alone(rotor()), name);
        let second = 3 * (DARK + HOLD) + DARK;
        assert_eq!(outcome.step.0, second + 50 * 4160 * NIC + US, "{name}");
        assert_eq!(carried(&outcome), (0, (fit + 50) * 4096));
    }
    for name in ["dctcp", "ndp", "eqds"] {
        let outcome = packets(&one_send(1, 0, 100 * 4096), &alone(rotor()), name);
        let ideal = DARK + 100 * 4096 * NIC + US;
        assert!((ideal..2 * ideal).contains(&outcome.step.0), "{name}: {}", outcome.step.0);
    }
}

#[test]
fn small_transfers_take_the_packet_fabric() {
    let small = play(&one_send(3, 0, 699_999), &hybrid(700_000));
    assert_eq!(carried(&small), (699_999, 0));
    assert!(small.step.0.abs_diff(699_999 * NIC / 7 + 2 * US) <= 1);
    let large = play(&one_send(3, 0, 700_000), &hybrid(700_000));
    assert_eq!(carried(&large), (0, 700_000));
    assert_eq!(large.step, play(&one_send(3, 0, 700_000), &alone(rotor())).step);
}

#[test]
fn pairs_that_no_slot_joins_take_the_packet_fabric_or_none() {
    let slots = vec![slot(&[(0, 1)], DARK, HOLD)];
    let graph = one_send(2, 0, 7_000_000);
    let network = Network { all_to_all: AllToAll::Hierarchical, ..packet(4) };
    let outcome = play(&graph, &network.with(circuits(slots.clone())));
    assert_eq!(carried(&outcome), (7_000_000, 0));
    let text = refuse(&graph, &alone(circuits(slots)));
    assert!(
        text.starts_with("no route from server 0 to server 2, which a pipeline send"),
        "{text}"
    );
}

#[test]
fn an_all_to_all_is_done_after_the_slot_of_its_last_pair() {
    let bytes = 1_000_000;
    let tokens: Vec<u32> = (0..16).map(|cell| if cell % 5 == 0 { 0 } else { bytes }).collect();
    let mut graph = with_blocks(empty_graph(1, 1, 4), &[&tokens]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let outcome = play(&graph, &alone(rotor()));
    // Gathering is over when the first slot is lit; a delegate scatters 7/8 of what it receives.
    let scatter = 2 * US + (u64::from(bytes) * 7 / 8 * 1000).div_ceil(450);
    let last = 2 * (DARK + HOLD) + DARK + u64::from(bytes) * NIC + US;
    assert_eq!(outcome.step.0, last + scatter);
    let used = outcome.links.iter().find(|used| used.name == "scheduled").expect("circuits");
    assert_eq!((used.links, used.carried_bytes), (12, 12 * u64::from(bytes)));
    // Pairs of the last slot had circuits until the end of the step, the others for all of theirs.
    let busy = (u64::from(bytes) * NIC) as f64;
    let lit = (outcome.step.0 - 2 * (DARK + HOLD) - DARK) as f64;
    assert!((used.max - busy / lit).abs() < 1e-9);
    let mean = 3.0 * busy / (2.0 * HOLD as f64 + lit);
    assert!((used.mean - mean).abs() < 1e-9, "{} {mean}", used.mean);
}

#[test]
fn phases_cannot_stand_for_circuits_that_change_by_the_clock() {
    let network = alone(rotor());
    let options = PacketTransport::new("ideal", network.extent()).unwrap();
    let error = PhaseBook::new(&network, &options, PhaseChoice::All).unwrap_err().to_string();
    let text = "the circuits of scheduled change by the clock, whatever a phase finds of them: \
                simulate the whole step as packets";
    assert_eq!(error, text);
}

#[test]
fn schedules_must_be_schedules() {
    let refusal = |circuits| refuse(&empty_graph(4, 1, 1), &alone(circuits));
    let none = circuits(Vec::new());
    assert_eq!(refusal(none), "scheduled circuits need at least one slot");
    let short = circuits(vec![slot(&[(0, 1)], DARK, 0)]);
    assert_eq!(refusal(short), "slot 0 has no hold time");
    let outside = circuits(vec![slot(&[(0, 1)], 0, 1), slot(&[(0, 4)], 0, 1)]);
    assert_eq!(refusal(outside), "slot 1: circuit 0 - 4 is no pair");
    let itself = circuits(vec![slot(&[(2, 2)], 0, 1)]);
    assert_eq!(refusal(itself), "slot 0: circuit 2 - 2 is no pair");
    let slow = ScheduledCircuits { nic_rate: Rate(0), ..rotor() };
    assert_eq!(refusal(slow), "scheduled.nic_rate must be above 0 b/s");
    let nowhere = ScheduledCircuits { min_bytes: 1, ..rotor() };
    let text = "scheduled.min_bytes: there is no packet fabric that could carry smaller transfers";
    assert_eq!(refusal(nowhere), text);
    let by_rank = Network { all_to_all: AllToAll::Flat, ..alone(rotor()) };
    let text = "circuits join servers, not ranks: use the hierarchical all-to-all";
    assert_eq!(refuse(&empty_graph(4, 1, 1), &by_rank), text);
}

#[test]
fn packets_that_begin_in_the_dark_take_circuits_that_every_slot_has() {
    // Two circuits in the first slot and five in the second, which comes much later.
    let mut slots = vec![slot(&[(0, 1)], DARK, HOLD), slot(&[(0, 1)], DARK, HOLD)];
    slots[0].circuits[0].count = 2;
    slots[1].circuits[0].count = 5;
    let network = alone(circuits(slots));
    let bytes = 2 * 50 * 4096;
    let outcome = packets(&one_send(1, 0, bytes), &network, "ideal");
    assert_eq!(outcome.step.0, DARK + 50 * 4160 * NIC + US);
    // While five are lit, five are taken.
    let start = 2 * DARK + HOLD;
    let outcome = packets(&one_send(1, start, 5 * 50 * 4096), &network, "ideal");
    assert_eq!(outcome.step.0, start + 50 * 4160 * NIC + US);
}

/// A second message over circuits that are lit shares them from its start on.
#[test]
fn messages_that_begin_in_a_slot_share_its_circuits() {
    let bytes = |time: u64| time / NIC;
    let mut graph = empty_graph(2, 1, 1);
    let sends = [send(1, 0, bytes(50 * US)), compute(DARK + 20 * US), send(1, 1, bytes(30 * US))];
    graph.roles[0].tasks = sends.to_vec();
    graph.roles[1].tasks = vec![receive(0, 0), receive(0, 1)];
    // One alone for 20 us, both for 60 us at half of the rate.
    assert_eq!(play(&graph, &alone(rotor())).step.0, DARK + 80 * US + US);
    // Begun before the circuits are lit, the second one shares them from the first bit on.
    graph.roles[0].tasks[1] = compute(DARK / 2);
    assert_eq!(play(&graph, &alone(rotor())).step.0, DARK + 80 * US + US);
    // Begun after them, it has what is left of the slot, and the rest a period later.
    graph.roles[0].tasks[1] = compute(DARK + 90 * US);
    let later = 3 * (DARK + HOLD) + DARK + 20 * US + US;
    assert_eq!(play(&graph, &alone(rotor())).step.0, later);
}

/// 4,096 TB take 82,000 s of light, and as many millions of changes.
#[test]
fn a_run_that_waits_for_the_clock_alone_can_be_stopped() {
    struct Impatient(u32);
    impl lightloom_kernel::Observer for Impatient {
        fn progress(&mut self, _: Time, _: u64) -> ControlFlow<()> {
            self.0 += 1;
            if self.0 < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    let (graph, network) = (one_send(1, 0, 1 << 52), alone(rotor()));
    let (options, plugins) = (Options::default(), Plugins::default());
    let stopped =
        execute_as(TransferModel::Flows, &graph, &network, &options, &mut Impatient(0), plugins);
    assert!(matches!(stopped, Err(crate::ExecuteError::Interrupted(_))), "{stopped:?}");
}
