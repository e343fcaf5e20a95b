//! Programs against closed forms, and against what each of their operations waits for.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::star;
use crate::{
    Action, CircuitSwitching, FlowProgress, FlowSpec, Milestone, PacketFlowId, PacketLinkId,
    PacketScenario, ProgramReport, Programs, Report, TransportName, Wait,
};
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;

const FAST: Rate = Rate(100_000_000_000);
const US: u64 = 1_000_000;
const PACKET: u64 = 4160 * 80;
const ACK: u64 = 64 * 80;

/// What a flow of so many packets takes on an idle star until its receiver has it.
const fn alone(packets: u64) -> u64 {
    2 * US + (packets + 1) * PACKET
}

fn on_star(hosts: u32, flows: Vec<FlowSpec>, programs: Programs) -> PacketScenario {
    let topology = star(hosts, FAST, Duration(US)).unwrap();
    PacketScenario { programs, ..scenario("ideal", topology, flows) }
}

fn send(flow: u32) -> Action {
    Action::Send(PacketFlowId(flow))
}

fn compute(span: u64, unit: Option<u32>) -> Action {
    Action::Compute { span: Duration(span), unit }
}

fn after(operation: u32, milestone: Milestone) -> Wait {
    Wait { operation, milestone }
}

fn received(operation: u32) -> Wait {
    after(operation, Milestone::Received)
}

fn times(times: &[Time]) -> Vec<u64> {
    times.iter().map(|time| time.0).collect()
}

/// When the receiver of each flow had everything.
fn arrivals(scenario: &PacketScenario) -> (Report, Vec<u64>) {
    let (report, outcomes) = play(scenario).unwrap();
    let mut at = vec![u64::MAX; scenario.flows.len()];
    for outcome in outcomes {
        at[outcome.flow.0 as usize] = outcome.received_at.0;
        let begin = report.programs.begins.iter().find(|&&time| time == outcome.start);
        assert!(begin.is_some(), "a flow starts when its operation begins");
    }
    (report, at)
}

/// A host passes on what it has received; before that goes an acknowledgement.
#[test]
fn a_chain_takes_as_long_as_its_links_together() {
    let mut programs = Programs::default();
    for hop in 0..5 {
        let waits = if hop == 0 { vec![] } else { vec![received(hop - 1)] };
        programs.add(send(hop), &waits);
    }
    let flows = (0..5).map(|hop| flow((hop, hop + 1), 40_960)).collect();
    let (report, at) = arrivals(&on_star(6, flows, programs));
    let expected: Vec<u64> = (1..=5).map(|hops| hops * alone(10) + (hops - 1) * ACK).collect();
    assert_eq!(at, expected);
    assert_eq!(report.programs.critical, [0, 1, 2, 3, 4]);
    let begins: Vec<u64> = std::iter::once(0).chain(expected[..4].iter().copied()).collect();
    assert_eq!(times(&report.programs.begins), begins);
    assert_eq!(report.end, Time(expected[4] + 2 * US + 2 * ACK), "with the last acknowledgement");
}

/// `2 (n - 1)` rounds; in each, acknowledgements may go before each packet.
#[test]
fn a_ring_takes_its_rounds_one_after_another() {
    for hosts in [2_u32, 3, 8] {
        let (rounds, packets) = (2 * (hosts - 1), 6);
        let mut programs = Programs::default();
        let mut flows = Vec::new();
        for round in 0..rounds {
            for host in 0..hosts {
                flows.push(flow((host, (host + 1) % hosts), packets * 4096));
                let from = |host: u32| (round - 1) * hosts + host;
                let waits = match round {
                    0 => vec![],
                    _ => vec![received(from((host + hosts - 1) % hosts)), received(from(host))],
                };
                programs.add(send(round * hosts + host), &waits);
            }
        }
        let (_, at) = arrivals(&on_star(hosts, flows, programs));
        let last = *at.iter().max().unwrap();
        let ideal = u64::from(rounds) * alone(packets);
        let bound = ideal + u64::from(rounds) * 2 * (packets + 1) * ACK;
        assert!((ideal..=bound).contains(&last), "{hosts} hosts: {ideal} <= {last} <= {bound}");
    }
}

/// With every round twice as many hosts hold the data.
#[test]
fn a_tree_takes_a_round_for_each_doubling() {
    let (doublings, hosts) = (4, 16);
    let mut programs = Programs::default();
    let mut flows = Vec::new();
    let mut latest = vec![None; hosts as usize];
    for round in 0..doublings {
        for host in 0..1 << round {
            let to = host + (1 << round);
            flows.push(flow((host, to), 8 * 4096));
            let waits: Vec<Wait> = latest[host as usize].into_iter().map(received).collect();
            let operation = programs.add(send(flows.len() as u32 - 1), &waits);
            latest[host as usize] = Some(operation);
            latest[to as usize] = Some(operation);
        }
    }
    let (report, at) = arrivals(&on_star(hosts, flows, programs));
    assert_eq!(at.iter().max(), Some(&(4 * alone(8) + 3 * ACK)));
    assert_eq!(report.programs.critical.len(), 4);
}

#[test]
fn a_unit_computes_one_at_a_time_in_the_order_in_which_it_may() {
    let mut programs = Programs::default();
    let late = programs.add(compute(50, None), &[]);
    programs.add(compute(100, Some(0)), &[]);
    programs.add(compute(30, Some(0)), &[after(late, Milestone::Ended)]);
    programs.add(compute(20, Some(0)), &[]);
    programs.add(compute(10, Some(1)), &[]);
    let (report, _) = play(&on_star(2, vec![], programs)).unwrap();
    let ProgramReport { begins, ends, critical, makespan } = report.programs;
    assert_eq!(times(&begins), [0, 0, 120, 100, 0]);
    assert_eq!(times(&ends), [50, 100, 150, 120, 10]);
    assert_eq!(critical, [1, 3, 2]);
    assert_eq!((report.end, makespan), (Time(150), Time(150)));
}

#[test]
fn milestones_of_a_flow_are_its_begin_its_arrival_and_its_acknowledgement() {
    let mut programs = Programs::default();
    let pause = programs.add(compute(7 * US, None), &[]);
    let first = programs.add(send(0), &[after(pause, Milestone::Received)]);
    for milestone in Milestone::ALL {
        programs.add(compute(1, None), &[after(first, milestone)]);
    }
    let (report, outcomes) = play(&on_star(2, vec![flow((0, 1), 4096)], programs)).unwrap();
    let arrival = 7 * US + alone(1);
    let known = arrival + 2 * US + 2 * ACK;
    assert_eq!(times(&report.programs.begins)[2..], [7 * US, arrival, known]);
    assert_eq!(times(&report.programs.ends), [7 * US, known, 7 * US + 1, arrival + 1, known + 1]);
    assert_eq!((outcomes[0].start, outcomes[0].slowdown), (Time(7 * US), 1.0));
}

#[test]
fn what_no_operation_sends_starts_by_itself() {
    let mut programs = Programs::default();
    programs.add(send(1), &[]);
    let late = FlowSpec { start: Time(3 * US), ..flow((2, 3), 4096) };
    let early = FlowSpec { start: Time(9 * US), ..flow((0, 1), 4096) };
    let (_, outcomes) = play(&on_star(4, vec![late, early], programs)).unwrap();
    let starts: Vec<(u32, u64)> = outcomes.iter().map(|it| (it.flow.0, it.start.0)).collect();
    assert_eq!(starts, [(1, 0), (0, 3 * US)], "an operation begins when it may");
}

/// Computations that last longer than any silence of a network.
#[test]
fn a_long_computation_is_no_silence() {
    let mut programs = Programs::default();
    let second = 1_000_000 * US;
    let before = programs.add(send(0), &[]);
    let middle = programs.add(compute(20 * second, None), &[received(before)]);
    programs.add(send(1), &[after(middle, Milestone::Ended)]);
    let flows = vec![flow((0, 1), 4096), flow((1, 0), 4096)];
    let (report, at) = arrivals(&on_star(2, flows, programs));
    assert_eq!(at, [alone(1), 2 * alone(1) + 20 * second]);
    assert_eq!(report.programs.critical, [0, 1, 2]);
}

#[test]
fn a_run_that_stops_says_how_far_it_came() {
    let mut programs = Programs::default();
    let first = programs.add(send(0), &[]);
    programs.add(compute(5 * US, None), &[received(first)]);
    programs.add(send(1), &[after(1, Milestone::Ended)]);
    let flows = vec![flow((0, 1), 4096), flow((1, 0), 4096)];
    let stopped = PacketScenario { until: Time(alone(1) + 2 * US), ..on_star(2, flows, programs) };
    let (report, outcomes) = play(&stopped).unwrap();
    let never = FlowProgress::NEVER;
    assert_eq!(report.programs.begins, [Time::ZERO, Time(alone(1)), never]);
    assert_eq!(report.programs.ends, [never; 3]);
    assert_eq!((outcomes.len(), report.unfinished.len()), (0, 2));
    assert_eq!(report.programs.critical, [0], "what has arrived last");
}

#[test]
fn flows_that_wait_for_a_stuck_one_are_counted() {
    let mut programs = Programs::default();
    programs.add(send(0), &[]);
    programs.add(send(1), &[received(0)]);
    programs.add(send(2), &[received(1)]);
    let flows = (0..3).map(|hop| flow((hop, hop + 1), 40_960)).collect();
    let stuck = PacketScenario {
        circuits: vec![CircuitSwitching { time: Time(US), link: PacketLinkId(3), dark: true }],
        ..on_star(4, flows, programs)
    };
    let error = play(&stuck).unwrap_err().to_string();
    let end = "1 unfinished: flow 0 from host 0 to host 1 with 0 of 10 packets received; \
               2 that have not started wait for others";
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn what_cannot_be_is_refused() {
    let refuse = |operations: &[(Action, &[Wait])]| {
        let mut programs = Programs::default();
        for (action, waits) in operations {
            programs.add(*action, waits);
        }
        play(&on_star(2, vec![flow((0, 1), 1)], programs)).unwrap_err().to_string()
    };
    assert_eq!(
        refuse(&[(send(0), &[received(1)]), (compute(1, None), &[received(0)])]),
        "2 operations wait for one another, or for those that do, operation 0 among them; \
         expected an order in which they can begin"
    );
    let itself: &[Wait] = &[after(0, Milestone::Begun)];
    assert!(refuse(&[(send(0), itself)]).starts_with("1 operations wait for one another"));
    assert_eq!(refuse(&[(send(1), &[])]), "operation 0 sends flow 1; there are 1 flows, from 0 on");
    assert_eq!(
        refuse(&[(send(0), &[]), (send(0), &[])]),
        "operations 0 and 1 both send flow 0; expected one of them"
    );
    let nobody: &[Wait] = &[received(7)];
    assert_eq!(
        refuse(&[(send(0), nobody)]),
        "operation 0 waits for operation 7; there are 1, from 0 on"
    );
    for wrong in [compute(1, Some(1)), compute(u64::MAX, None)] {
        assert!(refuse(&[(wrong, &[])]).contains("expected at most 2^60 ps"));
    }
}

/// Computations queue up at a unit beyond all times.
#[test]
fn a_unit_that_is_busy_for_ever_overflows_nothing() {
    let mut programs = Programs::default();
    for _ in 0..40 {
        programs.add(compute(1 << 60, Some(0)), &[]);
    }
    let (report, _) = play(&on_star(2, vec![], programs)).unwrap();
    assert_eq!(report.end, Time(1 << 62));
    let ended = report.programs.ends.iter().filter(|&&end| end != FlowProgress::NEVER).count();
    assert_eq!(ended, 4);
}

/// The ends of a flow, if it sends one; its bytes, or picoseconds; others, and their milestones.
type Given = (Option<(u32, u32)>, u64, Vec<(u32, u8)>);

/// Operations that wait for some of those before them.
fn random_programs() -> impl Strategy<Value = Vec<Given>> {
    let wait = (0_u32..1000, 0_u8..3);
    let ends = prop::option::of((0_u32..6, 1_u32..6));
    let operation = (ends, 1_u64..3 * US, prop::collection::vec(wait, 0..4));
    prop::collection::vec(operation, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever the transport does, an operation begins when the last thing that it waits for is
    /// there.
    #[test]
    fn operations_begin_when_the_last_of_their_waits_is_there(
        given in random_programs(), transport in 0..TransportName::ALL.len()
    ) {
        let (mut programs, mut flows, mut sender) = (Programs::default(), Vec::new(), Vec::new());
        let mut waits_of: Vec<Vec<Wait>> = Vec::new();
        for (index, (ends, size, waits)) in given.iter().enumerate() {
            let before = |&(other, milestone): &(u32, u8)| Wait {
                operation: other % index.max(1) as u32,
                milestone: Milestone::ALL[milestone as usize],
            };
            let waits: Vec<Wait> = match index {
                0 => vec![],
                _ => waits.iter().map(before).collect(),
            };
            let action = if let Some((from, step)) = *ends {
                flows.push(flow((from, (from + step) % 6), 1 + *size % 50_000));
                sender.push(index);
                send(flows.len() as u32 - 1)
            } else {
                compute(*size, None)
            };
            programs.add(action, &waits);
            waits_of.push(waits);
        }
        let topology = star(6, FAST, Duration(US)).unwrap();
        let name = TransportName::ALL[transport].name();
        let played = PacketScenario { programs, ..scenario(name, topology, flows) };
        let (report, outcomes) = play(&played).unwrap();
        let ProgramReport { begins, ends, critical, makespan } = report.programs;
        let mut received = ends.clone();
        for outcome in outcomes {
            let operation = sender[outcome.flow.0 as usize];
            received[operation] = outcome.received_at;
            prop_assert_eq!((begins[operation], ends[operation]), (outcome.start, outcome.done_at));
        }
        let reached = |wait: &Wait| {
            [&begins, &received, &ends][wait.milestone as usize][wait.operation as usize]
        };
        for (operation, waits) in waits_of.iter().enumerate() {
            let last = waits.iter().map(reached).max().unwrap_or_default();
            prop_assert_eq!(begins[operation], last);
        }
        let last = *critical.last().unwrap() as usize;
        prop_assert_eq!(received.iter().max(), Some(&makespan));
        prop_assert_eq!(received[last], makespan);
        prop_assert!(waits_of[critical[0] as usize].is_empty());
        for pair in critical.windows(2) {
            let waits = &waits_of[pair[1] as usize];
            let begin = begins[pair[1] as usize];
            let lets = |wait: &Wait| wait.operation == pair[0] && reached(wait) == begin;
            prop_assert!(waits.iter().any(lets));
        }
    }
}
