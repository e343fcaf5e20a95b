//! All-to-alls over packet fabrics and direct circuits.

use super::{NIC, US, carried, compute, line, play, spent};
use crate::network::Network;
use crate::parts::{Eps, Route};
use crate::testing::{
    EP, GBPS, IDLE, WORK, all_to_all, direct, empty_graph, eps, packet, task, with_blocks,
};
use crate::{Options, execute};
use lightloom_kernel::Silent;
use lightloom_model::{
    AllToAll, Amount, Circuit, Duration, NvSwitch, Payload, Rate, StartUp, TableId, TaskGraph,
    TaskKind, WorkerId, WorkerTable,
};

fn one(tokens: &[u32], members: u32) -> TaskGraph {
    let mut graph = with_blocks(empty_graph(1, 1, members), &[tokens]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    graph
}

#[test]
fn one_pair_takes_size_over_rate_plus_latency() {
    let graph = one(&[0, 800_000, 0, 0], 2);
    let outcome = play(&graph, &packet(2));
    assert_eq!(outcome.step.0, 100_000 * NIC + 2 * US);
    assert_eq!(outcome.critical_path[EP.index()], outcome.step.0);
    assert_eq!(carried(&outcome, "ep"), [0, 800_000, 0, 0, 0]);
    // The sender hears of the receiver at once and goes on when its last byte has left.
    assert_eq!(spent(&outcome, 0, EP), 100_000 * NIC + outcome.step.0);
    assert_eq!(spent(&outcome, 0, IDLE), 2 * US);
}

#[test]
fn the_transpose_swaps_the_directions() {
    let mut graph = one(&[0, 800_000, 0, 0], 2);
    if let TaskKind::Collective(collective) = &mut graph.roles[0].tasks[0].kind
        && let Payload::Block { transposed, .. } = &mut collective.payload
    {
        *transposed = true;
    }
    graph.roles[0].tasks.push(compute(7));
    graph.demands[0].counts[1] = 400_000;
    graph.demands[0].counts[2] = 0;
    let outcome = play(&graph, &packet(2));
    assert_eq!(outcome.step.0, 50_000 * NIC + 2 * US + 7);
}

#[test]
fn an_incast_shares_the_receivers_link() {
    let graph = one(&[0, 0, 800_000, 0, 0, 800_000, 0, 0, 0], 3);
    assert_eq!(play(&graph, &packet(3)).step.0, 2 * 100_000 * NIC + 2 * US);
}

#[test]
fn gather_and_scatter_of_the_hierarchical_exchange() {
    // Two of eight GPUs own the NICs: each takes in 3/4 of half of the bytes.
    let network =
        Network { all_to_all: AllToAll::Hierarchical, ..packet(2) }.with(Eps { nics: 2, ..eps(2) });
    let outcome = play(&one(&[0, 800_000, 0, 0], 2), &network);
    let hop = 2 * US + (300_000_u64 * 1000).div_ceil(450);
    assert_eq!(outcome.step.0, hop + 400_000 * NIC + 2 * US + hop);
    assert_eq!(carried(&outcome, "ep"), [1_200_000, 800_000, 0, 0, 0]);
    // The other member gathers as much where it is the one that sends.
    assert_eq!(play(&one(&[0, 0, 800_000, 0], 2), &network).step, outcome.step);
}

#[test]
fn each_member_waits_for_the_last_from_its_own_arrival_on() {
    let mut graph = one(&[0; 16], 4);
    let values = vec![10 * US, 70 * US, 0, 40 * US];
    graph.tables = vec![WorkerTable { name: "times".into(), entries: 1, values }];
    let duration = Amount::Entry { table: TableId(0), entry: 0 };
    graph.roles[0].tasks.insert(0, task(TaskKind::Compute { duration }, WORK));
    let outcome = play(&graph, &packet(4));
    assert_eq!(outcome.straggler_wait, u128::from((60 + 70 + 30) * US));
    assert_eq!(spent(&outcome, 0, EP), (60 + 70 + 30) * US);
    assert_eq!(outcome.step.0, 70 * US);
}

#[test]
fn hierarchical_over_all_nics_of_one_rank_has_nothing_to_gather() {
    let graph = one(&[0, 800_000, 0, 0], 2);
    let network = Network { all_to_all: AllToAll::Hierarchical, ..packet(2) };
    assert_eq!(play(&graph, &network).step, play(&graph, &packet(2)).step);
}

#[test]
fn the_local_part_overlaps() {
    let mut graph = one(&[7_200_000, 800_000, 0, 0], 2);
    // 900 kB per GPU at 450 GB/s after 2 us: as long as the all-to-all, to the picosecond.
    assert_eq!(play(&graph, &packet(2)).step.0, 4 * US);
    graph.demands[0].counts[0] = 14_400_000;
    assert_eq!(play(&graph, &packet(2)).step.0, 6 * US);
}

#[test]
fn a_straggler_delays_only_who_waits_for_it() {
    let mut graph = one(&[0, 800_000, 800_000, 0, 0, 800_000, 800_000, 0, 0], 3);
    let values = vec![0, 50 * US, 0];
    graph.tables = vec![WorkerTable { name: "times".into(), entries: 1, values }];
    let duration = Amount::Entry { table: TableId(0), entry: 0 };
    graph.roles[0].tasks.insert(0, task(TaskKind::Compute { duration }, WORK));
    let outcome = play(&graph, &packet(3));
    // Member 1's flow starts at 50 us and has the links for itself.
    assert_eq!(outcome.step.0, 50 * US + 100_000 * NIC + 2 * US);
    assert_eq!(outcome.critical_path[WORK.index()], 50 * US);
    assert_eq!(outcome.straggler_wait, u128::from(2 * 50 * US));
}

/// Members 0 and 1 get nothing. What they send shares the receiver's link: they wait for it.
#[test]
fn a_member_begins_its_next_one_when_its_own_bytes_have_left() {
    let block = [0, 0, 800_000, 0, 0, 800_000, 0, 0, 0];
    let mut graph = one(&block, 3);
    let first = graph.roles[0].tasks[0];
    graph.roles[0].tasks.push(first);
    let outcome = play(&graph, &packet(3));
    // Were the second to begin at once, all four flows would share the link.
    assert_eq!(outcome.step.0, 2 * (200_000 * NIC) + 2 * US);
    assert_eq!(spent(&outcome, 0, EP), 3 * outcome.step.0 - 2 * 2 * US);
    assert_eq!(outcome.critical_path[EP.index()], outcome.step.0);
}

#[test]
fn ranks_of_a_worker_use_their_own_nics() {
    // Two ranks of four GPUs per member; rank 0 of member 0 sends to rank 1 of member 1.
    let mut graph = one(&[0, 800_000, 0, 0], 2);
    graph.demands[0].ranks_per_member = 2;
    graph.demands[0].rank_counts = vec![0; 16];
    graph.demands[0].rank_counts[3] = 800_000;
    let flat = play(&graph, &packet(2));
    assert_eq!(flat.step.0, 200_000 * NIC + 2 * US);
    // Over NVSwitch to the four GPUs of the rail, chunk by chunk while others are on the network.
    let rail = play(&graph, &Network { all_to_all: AllToAll::Rail, ..packet(2) });
    assert_eq!(rail.step, flat.step);
    assert_eq!(carried(&rail, "ep")[..2], [800_000, 800_000]);
    let mut slow = Network { all_to_all: AllToAll::Rail, ..packet(2) };
    slow.nvswitch = NvSwitch::uniform(Rate(40 * GBPS), Duration(2 * US));
    assert_eq!(play(&graph, &slow).step.0, 2 * US + 200_000 * 10 * NIC);
    let hierarchical = play(&graph, &Network { all_to_all: AllToAll::Hierarchical, ..packet(2) });
    let hop = 2 * US + (87_500_u64 * 1000).div_ceil(450);
    assert_eq!(hierarchical.step.0, hop + 100_000 * NIC + 2 * US + hop);
}

#[test]
fn bytes_for_a_rail_gather_on_its_gpus() {
    // Of four ranks of two GPUs per member, ranks 1 and 2 of member 0 send to rank 0 of member 1:
    // the two GPUs of that rail receive what both send.
    let mut graph = one(&[0, 800_000, 0, 0], 2);
    graph.demands[0].ranks_per_member = 4;
    graph.demands[0].rank_counts = vec![0; 64];
    graph.demands[0].rank_counts[8 + 4] = 400_000;
    graph.demands[0].rank_counts[2 * 8 + 4] = 400_000;
    let rail = play(&graph, &Network { all_to_all: AllToAll::Rail, ..packet(2) });
    assert_eq!(rail.step.0, 400_000 * NIC + 2 * US);
    assert_eq!(carried(&rail, "ep")[..2], [800_000, 800_000]);
    // Over a slow NVSwitch that is what the step waits for: 400 kB into each of them.
    let mut slow = Network { all_to_all: AllToAll::Rail, ..packet(2) };
    slow.nvswitch = NvSwitch::uniform(Rate(40 * GBPS), Duration(2 * US));
    assert_eq!(play(&graph, &slow).step.0, 2 * US + 400_000 * 10 * NIC);
}

#[test]
fn rails_are_joined_above_the_tors() {
    let mut graph = one(&[0, 800_000, 0, 0], 2);
    graph.demands[0].ranks_per_member = 2;
    graph.demands[0].rank_counts = vec![0; 16];
    graph.demands[0].rank_counts[3] = 800_000;
    let rails = Eps { rails: eps(2).nics, ..eps(2) };
    let flat = packet(2).with(rails);
    assert_eq!(play(&graph, &flat).step.0, 200_000 * NIC + 4 * US);
    let rail = Network { all_to_all: AllToAll::Rail, ..flat };
    assert_eq!(play(&graph, &rail).step.0, 200_000 * NIC + 2 * US);
}

/// Two members of two ranks: rank 0 of the first sends 600 kB to each rank of the second, of which
/// 400 kB are of tokens that both want.
fn tokens_for_two_ranks() -> TaskGraph {
    let mut graph = one(&[0, 800_000, 0, 400_000], 2);
    let demand = &mut graph.demands[0];
    demand.ranks_per_member = 2;
    demand.deduplicated = true;
    demand.rank_counts = vec![0; 16];
    demand.rank_counts[2..4].fill(600_000);
    graph
}

#[test]
fn a_token_crosses_the_network_once_along_its_rail() {
    let graph = tokens_for_two_ranks();
    let rail = play(&graph, &Network { all_to_all: AllToAll::Rail, ..packet(2) });
    // 800 kB over the four NICs of its rail; 600 kB on to the four GPUs of the other rank.
    assert_eq!(rail.step.0, 200_000 * NIC + 2 * US);
    assert_eq!(carried(&rail, "ep")[..2], [600_000, 800_000]);
    let flat = play(&graph, &packet(2));
    assert_eq!(flat.step.0, 300_000 * NIC + 2 * US);
    assert_eq!(carried(&flat, "ep")[..2], [0, 1_200_000]);
}

#[test]
fn tokens_come_back_as_they_went() {
    let mut graph = tokens_for_two_ranks();
    let network = Network { all_to_all: AllToAll::Rail, ..packet(2) };
    let there = play(&graph, &network);
    let TaskKind::Collective(collective) = &mut graph.roles[0].tasks[0].kind else { panic!() };
    let Payload::Block { transposed, .. } = &mut collective.payload else { panic!() };
    *transposed = true;
    let back = play(&graph, &network);
    assert_eq!((back.step, carried(&back, "ep")), (there.step, carried(&there, "ep")));
}

#[test]
fn an_all_to_all_begins_after_its_start_up() {
    let start_up = StartUp {
        message: Duration(1),
        all_to_all: Duration(5 * US),
        peer: Duration(US),
        mixed: Duration(30 * US),
    };
    let mut graph = one(&[0, 800_000, 0, 0], 2);
    let network = Network { start_up, ..packet(2) };
    let alone = play(&graph, &packet(2)).step.0;
    assert_eq!(play(&graph, &network).step.0, alone + 6 * US);
    graph.demands[0].ranks_per_member = 2;
    graph.demands[0].rank_counts = vec![0; 16];
    graph.demands[0].rank_counts[3] = 800_000;
    let step = |all_to_all| {
        let with = |start_up| play(&graph, &Network { start_up, all_to_all, ..packet(2) }).step.0;
        with(start_up) - with(StartUp::default())
    };
    // Two peers, one on the rail, one delegate.
    assert_eq!(step(AllToAll::Flat), 37 * US);
    assert_eq!(step(AllToAll::Rail), 36 * US);
    assert_eq!(step(AllToAll::Hierarchical), 6 * US);
}

#[test]
fn relayed_bytes_take_both_links_and_the_relays_delay() {
    let graph = one(&[0, 0, 800_000, 0, 0, 0, 0, 0, 0], 3);
    let outcome = play(&graph, &direct(3, line()));
    let hop = 2 * US + (300_000_u64 * 1000).div_ceil(450);
    assert_eq!(outcome.step.0, hop + 400_000 * NIC + 2 * US + 3 * US + hop);
    assert_eq!(carried(&outcome, "ep")[1..], [0, 0, 800_000, 800_000]);
}

#[test]
fn routes_of_a_pair_share_its_bytes() {
    let mut network = line();
    network.circuits.push(Circuit { a: 0, b: 2, count: 2 });
    network.routes.push(Route { servers: vec![0, 2] });
    let graph = one(&[0, 0, 800_000, 0, 0, 0, 0, 0, 0], 3);
    let outcome = play(&graph, &direct(3, network));
    // Half of the bytes on each way: over the relay they arrive last.
    let hop = 2 * US + (150_000_u64 * 1000).div_ceil(450);
    assert_eq!(outcome.step.0, hop + 200_000 * NIC + 5 * US + hop);
    assert_eq!(carried(&outcome, "ep")[3..], [800_000, 400_000]);
}

#[test]
fn a_route_of_more_circuits_gets_more() {
    let mut network = line();
    network.circuits.push(Circuit { a: 0, b: 2, count: 6 });
    network.routes.push(Route { servers: vec![0, 2] });
    let graph = one(&[0, 0, 800_000, 0, 0, 0, 0, 0, 0], 3);
    let outcome = play(&graph, &direct(3, network));
    // A quarter of the bytes on the route whose narrowest bundle has 2 of 8 circuits: both routes
    // take as long, and each delegate of the relayed part takes in 3/4 of half of it.
    let hop = 2 * US + (75_000_u64 * 1000).div_ceil(450);
    assert_eq!(outcome.step.0, hop + 100_000 * NIC + 5 * US + hop);
    assert_eq!(carried(&outcome, "ep")[3..], [800_000, 200_000]);
}

#[test]
fn all_that_a_server_relays_crosses_its_nvswitch() {
    // From 0 to 2 and back over server 1, whose eight GPUs pass on 5 GB/s each.
    let bytes = 8_000_000_u64;
    let mut network = line();
    network.routes.push(Route { servers: vec![2, 1, 0] });
    let mut slow = direct(3, network);
    slow.nvswitch.all_to_all.gpu_rate = Rate(40 * GBPS);
    let outcome = |cells: [u32; 2]| {
        let mut tokens = [0; 9];
        (tokens[2], tokens[6]) = (cells[0], cells[1]);
        play(&one(&tokens, 3), &slow)
    };
    let (single, both) = (outcome([bytes as u32, 0]), outcome([bytes as u32; 2]));
    // 8 MB at 40 GB/s take 200 us, and as long again for the other direction.
    assert_eq!(both.step.0 - single.step.0, 200 * US);
    let relay = both.links.iter().find(|class| class.name == "relay").expect("relays");
    assert_eq!((relay.links, relay.carried_bytes), (1, 2 * bytes));
    let busy = 400.0 * US as f64 / both.step.0 as f64;
    assert!((relay.max - busy).abs() < 1e-6, "{} {busy}", relay.max);
}

#[test]
fn circuits_of_a_pair_may_be_listed_in_parts() {
    let whole = line();
    let mut parts = line();
    parts.circuits = whole.circuits.iter().map(|one| Circuit { count: 1, ..*one }).collect();
    parts.circuits.extend(whole.circuits.iter().map(|one| Circuit {
        a: one.b,
        b: one.a,
        count: 1,
    }));
    let graph = one(&[0, 5_000_000, 800_000, 0, 0, 0, 0, 0, 0], 3);
    assert_eq!(play(&graph, &direct(3, parts)), play(&graph, &direct(3, whole)));
}

#[test]
fn a_late_member_scatters_what_has_waited_for_it() {
    let network =
        Network { all_to_all: AllToAll::Hierarchical, ..packet(2) }.with(Eps { nics: 2, ..eps(2) });
    let hop = 2 * US + (300_000_u64 * 1000).div_ceil(450);
    let arrival = hop + 400_000 * NIC + 2 * US;
    // The receiver arrives before its bytes, with them, and long after them.
    for late in [0, arrival, 100 * US] {
        let mut graph = one(&[0, 800_000, 0, 0], 2);
        let values = vec![0, late];
        graph.tables = vec![WorkerTable { name: "times".into(), entries: 1, values }];
        let duration = Amount::Entry { table: TableId(0), entry: 0 };
        graph.roles[0].tasks.insert(0, task(TaskKind::Compute { duration }, WORK));
        assert_eq!(play(&graph, &network).step.0, arrival.max(late) + hop);
    }
}

#[test]
fn spans_tell_the_wait_for_the_last_member_from_the_all_to_all() {
    let mut graph = one(&[0, 800_000, 800_000, 0, 0, 800_000, 800_000, 0, 0], 3);
    let values = vec![0, 50 * US, 20 * US];
    graph.tables = vec![WorkerTable { name: "times".into(), entries: 1, values }];
    let duration = Amount::Entry { table: TableId(0), entry: 0 };
    graph.roles[0].tasks.insert(0, task(TaskKind::Compute { duration }, WORK));
    let timeline_workers = (0..3).map(WorkerId).collect();
    let options = Options { timeline_workers, ..Options::default() };
    let outcome = execute(&graph, &packet(3), &options, &mut Silent).expect("a valid graph");
    let line = &outcome.timeline;
    let own = (0..line.worker.len()).filter(|&row| line.category[row] == EP.0);
    let mut waited: Vec<_> = own.map(|row| (line.worker[row], line.waited[row])).collect();
    waited.sort_unstable();
    // Member 1 comes last: what it waits for are its own sends.
    assert_eq!(waited, [(0, 50 * US), (1, 0), (2, 30 * US)]);
    assert_eq!(outcome.straggler_wait, u128::from(80 * US));
    let work = (0..line.worker.len()).filter(|&row| line.category[row] == WORK.0);
    assert!(work.map(|row| line.waited[row]).all(|waited| waited == 0));
}
