//! Regions whatever their servers are called, and what is added up over groups and decisions.

use super::{US, compute, pairs, play};
use crate::network::Network;
use crate::parts::{Eps, Ocs, RelayChunk};
use crate::testing::{
    all_to_all, decided, empty_graph, eps, mixnet, ocs, ocs_when, with_blocks, with_first,
};
use crate::{DecisionRecord, Options, Outcome, execute};
use lightloom_decide::Reconfigure;
use lightloom_kernel::Silent;
use lightloom_model::{
    Amount, Duration, FirstAllToAll, Payload, SwitchTiming, TableId, TaskGraph, TaskKind, WorkerId,
    WorkerTable,
};
use proptest::prelude::*;

const MS: u64 = 1000 * US;
const CHUNK: RelayChunk = RelayChunk { bytes: 50_000, latency: Duration(10 * US) };

fn recorded(graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options {
        record_decisions: true,
        timeline_workers: vec![WorkerId(0)],
        ..Options::default()
    };
    execute(graph, network, &options, &mut Silent).expect("a valid graph")
}

fn switching(servers: u32, when: Reconfigure, timing: SwitchTiming) -> Network {
    mixnet(servers).with(Ocs { timing, ..ocs_when(servers as usize, when) })
}

fn fixed(delay: u64) -> SwitchTiming {
    SwitchTiming { fixed: Duration(delay), ..SwitchTiming::default() }
}

/// One group: all-to-alls of these blocks with compute between them.
fn alternating(members: u32, blocks: &[Vec<u32>], order: &[u32], between: u64) -> TaskGraph {
    let blocks: Vec<&[u32]> = blocks.iter().map(Vec::as_slice).collect();
    let mut graph = with_blocks(empty_graph(1, 1, members), &blocks);
    let tasks = order.iter().enumerate();
    let tasks = tasks.flat_map(|(place, &block)| [compute(between), all_to_all(block, place == 0)]);
    graph.roles[0].tasks = tasks.collect();
    graph
}

fn three_matchings() -> [Vec<u32>; 3] {
    let bytes = 60_000_000;
    [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]].map(|ends| pairs(4, &ends, bytes))
}

#[test]
fn statistics_add_up_what_was_decided() {
    let graph = alternating(4, &three_matchings(), &[0, 1, 2, 1, 1, 0, 2], 2 * MS);
    for when in [Reconfigure::Always, Reconfigure::BreakEven, Reconfigure::Oracle] {
        let timing = SwitchTiming { per_pair: Duration(100 * US), ..fixed(MS) };
        let outcome = recorded(&graph, &switching(4, when, timing));
        let records = &outcome.decisions.records;
        let changes: Vec<&DecisionRecord> =
            records.iter().filter(|record| record.decision.pairs > 0).collect();
        let found = outcome.circuits;
        assert!(changes.len() > 1 && records.len() > changes.len(), "{when}");
        assert_eq!(found.decisions, records.len() as u64);
        assert_eq!(found.reconfigurations, changes.len() as u64);
        let changed = changes.iter().map(|record| u64::from(record.decision.pairs)).sum::<u64>();
        assert_eq!(found.pairs_changed, changed);
        assert_eq!(found.delay.0, changes.len() as u64 * MS + changed * 100 * US);
        let sum = |part: fn(&DecisionRecord) -> f64| records.iter().map(part).sum::<f64>();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b;
        assert!(close(found.makespan_s, sum(|record| record.decision.makespan)), "{when}");
        assert!(close(found.bound_s, sum(|record| record.decision.bound)), "{when}");
        let saved = changes.iter().map(|record| record.decision.saved).sum::<f64>();
        assert!(close(found.saved_s, saved) && found.bound_s <= found.makespan_s, "{when}");
    }
}

#[test]
fn decisions_start_from_the_circuits_of_the_one_before() {
    let graph = alternating(4, &three_matchings(), &[0, 1, 2, 0, 1], 40 * MS);
    let outcome = recorded(&graph, &switching(4, Reconfigure::Always, fixed(25 * MS)));
    let records = &outcome.decisions.records;
    assert_eq!(records.len(), 4);
    for (before, after) in records.iter().zip(&records[1..]) {
        assert_eq!(after.held, before.decision.held);
        assert!(after.time >= before.time + before.decision.ready_after);
    }
}

/// Three groups on the same servers, two of which wait for the first one's switch and name the
/// servers in other orders.
#[test]
fn groups_that_share_servers_add_their_demand() {
    let orders = [[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]];
    let of_group = |group: u32| -> Vec<u32> {
        let bytes = |cell: u32| if cell.is_multiple_of(5) { 0 } else { cell * 1_000_000 };
        (0..16).map(|cell| bytes(cell) * (1 + group)).collect()
    };
    let mut graph = with_blocks(empty_graph(1, 3, 4), &[&[0; 16]]);
    graph.gpus_per_worker = 2;
    graph.worker_server = orders.concat();
    let first = pairs(4, &[(0, 1), (2, 3)], 60_000_000);
    graph.demands[0].counts = [first, of_group(1), of_group(2)].concat();
    graph.roles[0].tasks = vec![compute(100 * MS), all_to_all(0, false)];
    let outcome = recorded(&graph, &switching(4, Reconfigure::Always, fixed(25 * MS)));
    let mut expected = vec![0; 16];
    for group in [1, 2] {
        for (cell, bytes) in of_group(group).into_iter().enumerate() {
            let place = |member: usize| orders[group as usize][member] as usize;
            expected[4 * place(cell / 4) + place(cell % 4)] += u64::from(bytes);
        }
    }
    let found: Vec<&Vec<u64>> =
        outcome.decisions.records.iter().map(|record| &record.decision.demand).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(*found[1], expected);
}

#[test]
fn circuits_that_never_change_are_not_waited_for() {
    // One of the members is late, so that the others would wait for it where they block.
    let mut graph = alternating(4, &three_matchings(), &[0, 1, 2], 10 * MS);
    let values = vec![0, 0, 0, 30 * MS];
    graph.tables = vec![WorkerTable { name: "times".into(), entries: 1, values }];
    let duration = Amount::Entry { table: TableId(0), entry: 0 };
    graph.roles[0].tasks[0].kind = TaskKind::Compute { duration };
    let never = switching(4, Reconfigure::Never, fixed(MS));
    let reuse = play(&graph, &never);
    let block = play(&graph, &with_first(never, FirstAllToAll::Block));
    assert_eq!(reuse, block);
    assert_eq!(reuse.circuits.reconfigurations, 0);
}

fn demand(members: usize) -> impl Strategy<Value = Vec<u32>> {
    let cell = prop_oneof![1 => Just(0_u32), 3 => 100_000_u32..60_000_000];
    prop::collection::vec(cell, members * members)
}

/// Demand of members in another order.
fn reordered(tokens: &[u32], order: &[usize]) -> Vec<u32> {
    let size = order.len();
    (0..size * size).map(|cell| tokens[order[cell / size] * size + order[cell % size]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A group may name its servers in any order: the same bytes between the same servers.
    #[test]
    fn the_order_of_members_does_not_matter(
        blocks in prop::array::uniform2(demand(4)),
        order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(),
        relaying in any::<bool>(),
    ) {
        let base = ocs_when(4, Reconfigure::Always);
        let base = Ocs { ports: 3, timing: fixed(MS), ..base };
        let network = mixnet(4).with(Ocs { relaying: relaying.then_some(CHUNK), ..base });
        let graph = alternating(4, &blocks, &[0, 1, 0], 2 * MS);
        let renamed = blocks.map(|block| reordered(&block, &order));
        let mut other = alternating(4, &renamed, &[0, 1, 0], 2 * MS);
        other.worker_server = order.iter().map(|&server| server as u32).collect();
        let (one, other) = (recorded(&graph, &network), recorded(&other, &network));
        prop_assert_eq!(&one.decisions, &other.decisions);
        prop_assert_eq!(&one.ledger, &other.ledger);
        prop_assert!(one.step.0.abs_diff(other.step.0) < 100, "{:?} {:?}", one.step, other.step);
        for (a, b) in one.links.iter().zip(&other.links) {
            prop_assert_eq!((&a.name, a.carried_bytes), (&b.name, b.carried_bytes));
        }
    }

    /// Other servers of the network, on which nobody is, change no decision and no time.
    #[test]
    fn it_does_not_matter_where_a_region_begins(
        block in demand(3), first in 1_u32..5, relaying in any::<bool>(),
    ) {
        let network = |servers: u32| {
            let base = Ocs { ports: 2, timing: fixed(MS), ..ocs(servers as usize) };
            mixnet(servers).with(Ocs { relaying: relaying.then_some(CHUNK), ..base })
        };
        let graph = alternating(3, &[block], &[0, 0], 2 * MS);
        let mut later = graph.clone();
        later.worker_server = (first..first + 3).collect();
        let (one, other) = (recorded(&graph, &network(3)), recorded(&later, &network(8)));
        prop_assert_eq!(&one.decisions.records, &other.decisions.records);
        prop_assert_eq!((one.step, &one.ledger), (other.step, &other.ledger));
        let of_circuits = |outcome: &Outcome| -> Vec<(String, u64, usize)> {
            let links = outcome.links.iter().filter(|link| !link.name.starts_with("server"));
            links.map(|link| (link.name.clone(), link.carried_bytes, link.links)).collect()
        };
        prop_assert_eq!(of_circuits(&one), of_circuits(&other));
    }
}

#[test]
fn relays_take_the_longer_delay_twice() {
    let base = Ocs { ports: 2, ..ocs(3) };
    let network = |chunk, link_delay| {
        let fabric = Eps { nics: 2, link_delay: Duration(link_delay), ..eps(3) };
        mixnet(3).with(fabric).with(Ocs { relaying: chunk, ..base.clone() })
    };
    // A chunk takes 1 us on the wire, 0.014 across the switch, and 10 until it is noticed.
    let chunk = 50_000 * 20 + (50_000_u64 * 8 * 1000).div_ceil(28_800) + 10 * US;
    for (link_delay, longest) in [(0, US), (US, 6 * US)] {
        let extent = network(Some(CHUNK), link_delay).extent();
        assert!(extent.delay.0.abs_diff(2 * longest + chunk) <= 1, "{:?}", extent.delay);
        let direct = network(None, link_delay).extent();
        assert_eq!(direct.delay.0, longest);
        assert_eq!(decided(&network(None, link_delay)).circuit_delay.0, US);
    }
}

#[test]
fn a_transposed_all_to_all_is_decided_for_as_such() {
    let mut block = vec![0; 16];
    (block[1], block[14]) = (60_000_000, 20_000_000);
    let mut graph = alternating(4, &[block], &[0, 0], 10 * MS);
    let TaskKind::Collective(back) = &mut graph.roles[0].tasks[3].kind else { unreachable!() };
    let Payload::Block { transposed, .. } = &mut back.payload else { unreachable!() };
    *transposed = true;
    let outcome = recorded(&graph, &switching(4, Reconfigure::Always, fixed(0)));
    let demand = &outcome.decisions.records[0].decision.demand;
    assert_eq!((demand[4], demand[11], demand[1]), (60_000_000, 20_000_000, 0));
}
