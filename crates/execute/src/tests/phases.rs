//! Collectives that are stretched to what they take as packets.

use super::{US, compute, one_ring, play, receive, ring, send, wait};
use crate::network::Network;
use crate::parts::Eps;
use crate::testing::{all_to_all, empty_graph, eps, family, packet, with_blocks};
use crate::{
    Options, Outcome, PacketTransport, PhaseBook, PhaseChoice, PhaseCount, Plugins, Repeats,
    TransferModel, execute_as,
};
use lightloom_kernel::Silent;
use lightloom_model::{CollectiveKind, Rate, TaskGraph, WorkerId};

fn options(name: &str) -> PacketTransport {
    let options = PacketTransport::new(name, packet(1).extent()).expect("a transport");
    // Closed forms are of flows that begin at any time.
    PacketTransport { repeats: Repeats::InOneNetwork, ..options }
}

fn run(model: TransferModel, graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options { share_equal_work: true, ..Options::default() };
    execute_as(model, graph, network, &options, &mut Silent, Plugins::default())
        .expect("a valid step")
}

/// The step with each distinct phase simulated once.
fn substituted(graph: &TaskGraph, network: &Network, name: &str) -> (Outcome, PhaseBook) {
    let mut book = PhaseBook::new(network, &options(name), PhaseChoice::All).unwrap();
    run(TransferModel::Phases(&mut book), graph, network);
    book.simulate(&mut Silent).unwrap();
    let outcome = run(TransferModel::Phases(&mut book), graph, network);
    assert_eq!(book.pending(), (0, 0));
    (outcome, book)
}

fn whole(graph: &TaskGraph, network: &Network, name: &str) -> Outcome {
    run(TransferModel::Packets(&options(name)), graph, network)
}

/// Two servers per ToR, three ToRs, uplinks for half of the NICs.
fn oversubscribed() -> Network {
    let eps = Eps {
        servers_per_tor: 2,
        servers_per_pod: 6,
        tor_uplink: Some(Rate(8 * 400_000_000_000)),
        ..eps(6)
    };
    packet(6).with(eps)
}

fn uneven(members: usize, scale: u32) -> Vec<u32> {
    let bytes = |cell: usize| scale * (1 + (cell * 7 % 5) as u32);
    (0..members * members)
        .map(|cell| if cell.is_multiple_of(members + 1) { 0 } else { bytes(cell) })
        .collect()
}

/// What rounding sizes to bytes may change: a byte of each of so many transfers on one NIC.
fn rounding(transfers: u64) -> u64 {
    transfers * 20 + 1
}

fn of_all_to_alls(book: &PhaseBook) -> PhaseCount {
    let found = book.counts().find(|(name, _)| *name == "ep");
    *found.expect("a purpose of every graph here").1
}

#[test]
fn where_phases_do_not_overlap_nothing_is_lost() {
    // Three all-to-alls, of which two are equal, with compute of equal length between.
    let (first, second) = (uneven(6, 100_000), uneven(6, 30_000));
    let mut graph = with_blocks(empty_graph(1, 1, 6), &[&first, &second]);
    let between = compute(1000 * US);
    graph.roles[0].tasks =
        vec![all_to_all(0, true), between, all_to_all(1, true), between, all_to_all(0, true)];
    for (name, network) in
        [("ideal", packet(6)), ("roce", oversubscribed()), ("dctcp", oversubscribed())]
    {
        // Servers are released one by one, so they begin again at the same time only if they wait
        // for one another: the compute is long enough for the last to be first.
        let flows = play(&graph, &network);
        let (found, book) = substituted(&graph, &network, name);
        assert_eq!(
            (of_all_to_alls(&book).distinct, of_all_to_alls(&book).simulated),
            (2, 2),
            "{name}"
        );
        assert!(found.step > flows.step, "{name}");
        assert_eq!(found.ledger, flows.ledger, "the ledger counts bytes, not what stands for them");
        assert_eq!(found.links[0].carried_bytes, flows.links[0].carried_bytes);
    }
    for (name, network) in
        [("ideal", packet(6)), ("roce", oversubscribed()), ("dctcp", oversubscribed())]
    {
        let mut alone = graph.clone();
        alone.roles[0].tasks.truncate(1);
        let (found, _) = substituted(&alone, &network, name);
        let exact = whole(&alone, &network, name);
        let error = found.step.0.abs_diff(exact.step.0);
        assert!(error <= rounding(5), "{name}: {error} ps of {}", exact.step.0);
    }
}

#[test]
fn sends_and_rings_are_phases_too() {
    let mut graph = empty_graph(2, 1, 3);
    graph.families.push(one_ring(3));
    let reduce = ring(CollectiveKind::AllReduce, 1, 3_000_000, 0);
    graph.roles[0].tasks = vec![reduce, wait(1), send(1, 7, 2_000_000)];
    graph.roles[1].tasks = vec![receive(0, 7)];
    for name in ["ideal", "dctcp"] {
        let (found, book) = substituted(&graph, &packet(6), name);
        let exact = whole(&graph, &packet(6), name);
        // The ring is one phase; three sends from server to server of one ToR are one, too.
        let distinct: Vec<u64> = book.counts().map(|(_, count)| count.distinct).collect();
        assert_eq!(distinct, [0, 0, 1, 1], "{name}");
        let error = found.step.0.abs_diff(exact.step.0);
        assert!(error <= 2 * rounding(8), "{name}: {error} ps of {}", exact.step.0);
        assert!(found.step > play(&graph, &packet(6)).step);
    }
}

#[test]
fn equal_phases_are_simulated_once_wherever_they_are() {
    // Three groups of two servers; ToRs of two servers each, pods of four.
    let eps = Eps { servers_per_tor: 2, servers_per_pod: 4, ..eps(6) };
    let network = packet(6).with(eps);
    let groups = |servers: &[u32]| {
        let mut graph = with_blocks(empty_graph(1, 3, 2), &[&[0, 400_000, 200_000, 0]]);
        graph.worker_server = servers.to_vec();
        graph.roles[0].tasks = vec![all_to_all(0, true)];
        graph
    };
    let distinct = |servers: &[u32]| {
        let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::All).unwrap();
        run(TransferModel::Phases(&mut book), &groups(servers), &network);
        of_all_to_alls(&book).distinct
    };
    // All under their own ToRs; one across ToRs; one across ToRs and two across pods.
    assert_eq!(distinct(&[0, 1, 2, 3, 4, 5]), 1);
    assert_eq!(distinct(&[0, 1, 5, 4, 3, 2]), 1);
    assert_eq!(distinct(&[0, 2, 1, 3, 4, 5]), 2);
    assert_eq!(distinct(&[0, 2, 1, 4, 3, 5]), 2);
    // What is equal takes as long wherever it is: each group alone, as packets of the whole.
    let alone = |servers: [u32; 2]| {
        let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 400_000, 200_000, 0]]);
        graph.worker_server = servers.to_vec();
        graph.roles[0].tasks = vec![all_to_all(0, true)];
        whole(&graph, &network, "ideal").step
    };
    assert_eq!(alone([0, 1]), alone([4, 5]));
    assert_eq!(alone([0, 1]), alone([3, 2]));
    assert_ne!(alone([0, 1]), alone([0, 2]));
}

#[test]
fn where_phases_overlap_the_error_is_what_their_queues_add() {
    // Two groups across the same two ToRs: their flows meet on the uplinks.
    let tokens = uneven(3, 300_000);
    let mut graph = with_blocks(empty_graph(1, 2, 3), &[&tokens]);
    graph.worker_server = vec![0, 2, 4, 1, 3, 5];
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let network = oversubscribed();
    for name in ["roce", "dctcp"] {
        let (found, _) = substituted(&graph, &network, name);
        let exact = whole(&graph, &network, name);
        let error = found.step.0 as f64 / exact.step.0 as f64 - 1.0;
        println!("{name}: {error:+.4}");
        assert!(found.step.0.abs_diff(exact.step.0) > rounding(100), "{name}: {error}");
        assert!(error.abs() < 0.8, "{name}: {error}");
        assert_eq!(found.ledger, exact.ledger);
    }
}

#[test]
fn a_sample_stands_for_the_rest() {
    let matrices: Vec<Vec<u32>> = (1..=8).map(|scale| uneven(4, 20_000 * scale)).collect();
    let blocks: Vec<&[u32]> = matrices.iter().map(Vec::as_slice).collect();
    let mut graph = with_blocks(empty_graph(1, 1, 4), &blocks);
    graph.roles[0].tasks = (0..8).map(|block| all_to_all(block, true)).collect();
    let network = packet(4);
    let mut book =
        PhaseBook::new(&network, &options("ideal"), PhaseChoice::AtMost(3.try_into().unwrap()))
            .unwrap();
    let flows = run(TransferModel::Phases(&mut book), &graph, &network);
    let (pending, hops) = book.pending();
    assert_eq!((pending, of_all_to_alls(&book).distinct), (3, 8));
    assert!(hops > 0 && hops < book.all_hops());
    book.simulate(&mut Silent).unwrap();
    let sampled = run(TransferModel::Phases(&mut book), &graph, &network);
    let count = of_all_to_alls(&book);
    assert_eq!((count.simulated, book.pending().0), (3, 0), "a sample is drawn once");
    assert!(count.minimum <= count.mean() && count.mean() <= count.maximum);
    let (all, _) = substituted(&graph, &network, "ideal");
    let error = sampled.step.0 as f64 / all.step.0 as f64 - 1.0;
    assert!(error.abs() < 0.02 && sampled.step > flows.step, "{error}");
}

#[test]
fn purposes_that_are_not_chosen_stay_flows() {
    let matrix = uneven(4, 20_000);
    let mut graph = with_blocks(empty_graph(1, 1, 4), &[&matrix]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let network = packet(4);
    let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::All).unwrap();
    book.choose(vec!["pp".into(), "dp".into()]);
    let flows = run(TransferModel::Phases(&mut book), &graph, &network);
    assert_eq!((book.pending().0, of_all_to_alls(&book).distinct), (0, 1));
    book.simulate(&mut Silent).unwrap();
    assert_eq!(run(TransferModel::Phases(&mut book), &graph, &network).step, flows.step);
}

#[test]
fn predictions_are_near_what_is_simulated() {
    let tokens = uneven(6, 500_000);
    let mut graph = with_blocks(empty_graph(1, 1, 6), &[&tokens]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let network = oversubscribed();
    let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::All).unwrap();
    run(TransferModel::Phases(&mut book), &graph, &network);
    let (_, predicted) = book.pending();
    let mut seen = 0;
    let mut watch = |_, done| {
        seen = done;
        std::ops::ControlFlow::Continue(())
    };
    book.simulate(&mut watch).unwrap();
    let hops = of_all_to_alls(&book).packet_hops;
    assert!(hops.abs_diff(predicted) < predicted / 20, "{hops} instead of {predicted}");
    assert!(seen <= predicted);
    assert_eq!(book.all_hops(), predicted);
}

#[test]
fn what_was_simulated_stays_known_after_an_interrupt() {
    let (first, second) = (uneven(4, 400_000), uneven(4, 300_000));
    let mut graph = with_blocks(empty_graph(1, 1, 4), &[&first, &second]);
    graph.roles[0].tasks = vec![all_to_all(0, true), all_to_all(1, true)];
    let network = packet(4);
    let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::All).unwrap();
    run(TransferModel::Phases(&mut book), &graph, &network);
    let mut calls = 0;
    let mut stop = |_, _| {
        calls += 1;
        if calls > 1 {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    };
    let stopped = book.simulate(&mut stop);
    assert!(matches!(stopped, Err(crate::ExecuteError::Interrupted(_))), "{stopped:?}");
    assert_eq!((of_all_to_alls(&book).simulated, book.pending().0), (1, 1));
    book.simulate(&mut Silent).unwrap();
    assert_eq!(of_all_to_alls(&book).simulated, 2);
}

#[test]
fn phases_that_are_counted_alone_stay_flows() {
    let graph = all_to_alls(&[uneven(4, 20_000), uneven(4, 90_000)], &[0, 1, 1]);
    let network = packet(4);
    let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::Counted).unwrap();
    let counted = run(TransferModel::Phases(&mut book), &graph, &network);
    assert_eq!((book.pending(), of_all_to_alls(&book).distinct), ((0, 0), 2));
    assert_eq!(counted.step, play(&graph, &network).step);
    assert_eq!(book.all_hops(), book_of(&graph, &network).all_hops());
}

/// The phases of some all-to-alls, after their simulation.
fn book_of(graph: &TaskGraph, network: &Network) -> PhaseBook {
    let mut book = PhaseBook::new(network, &options("ideal"), PhaseChoice::All).unwrap();
    run(TransferModel::Phases(&mut book), graph, network);
    book.simulate(&mut Silent).unwrap();
    book
}

fn all_to_alls(matrices: &[Vec<u32>], order: &[u32]) -> TaskGraph {
    let blocks: Vec<&[u32]> = matrices.iter().map(Vec::as_slice).collect();
    let mut graph = with_blocks(empty_graph(1, 1, 4), &blocks);
    graph.roles[0].tasks = order.iter().map(|&block| all_to_all(block, true)).collect();
    graph
}

#[test]
fn the_mean_stretch_is_that_of_all_bytes_together() {
    // Packets of a small phase are mostly latency, so that it is stretched more.
    let matrices = [uneven(4, 2_000), uneven(4, 900_000), uneven(4, 40_000)];
    let network = packet(4);
    let alone: Vec<PhaseCount> = (0..3)
        .map(|block| of_all_to_alls(&book_of(&all_to_alls(&matrices, &[block]), &network)))
        .collect();
    let together = of_all_to_alls(&book_of(&all_to_alls(&matrices, &[0, 1, 2]), &network));
    let bytes = |count: &PhaseCount| count.simulated_bytes as f64;
    let weighted: f64 = alone.iter().map(|count| count.mean() * bytes(count)).sum();
    let total: f64 = alone.iter().map(bytes).sum();
    assert!((together.mean() - weighted / total).abs() < 1e-9);
    assert!(alone[0].mean() > alone[2].mean() && alone[2].mean() > alone[1].mean());
    for count in &alone {
        assert!(count.minimum.to_bits() == count.maximum.to_bits() && count.minimum > 1.0);
        assert!((count.mean() - count.minimum).abs() < 1e-12);
    }
    assert_eq!(together.minimum.to_bits(), alone[1].minimum.to_bits());
    assert_eq!(together.maximum.to_bits(), alone[0].maximum.to_bits());
    assert_eq!(together.packet_hops, alone.iter().map(|count| count.packet_hops).sum::<u64>());
}

#[test]
fn a_whole_step_is_as_many_packet_hops_as_its_phases_again_and_again() {
    let matrices = [uneven(4, 20_000), uneven(4, 90_000)];
    let network = packet(4);
    let hops = |order: &[u32]| book_of(&all_to_alls(&matrices, order), &network).all_hops();
    let [first, second] = [hops(&[0]), hops(&[1])];
    assert!(first > 0 && second > first);
    assert_eq!(hops(&[0, 1, 1, 0, 0]), 3 * first + 2 * second);
}

/// The same bytes over paths of other lengths are other phases.
#[test]
fn phases_of_other_latencies_are_not_equal() {
    let graph = |servers: [u32; 4]| {
        let mut graph = with_blocks(empty_graph(1, 2, 2), &[&[0, 400_000, 0, 0]]);
        graph.worker_server = servers.to_vec();
        graph.roles[0].tasks = vec![all_to_all(0, true)];
        graph
    };
    let eps = Eps { servers_per_tor: 1, servers_per_pod: 2, ..eps(8) };
    let network = packet(8).with(eps);
    let distinct = |servers| {
        let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::All).unwrap();
        run(TransferModel::Phases(&mut book), &graph(servers), &network);
        of_all_to_alls(&book).distinct
    };
    // Two pairs each within a pod; one within and one between pods; both between.
    assert_eq!(distinct([0, 1, 2, 3]), 1);
    assert_eq!(distinct([0, 1, 2, 4]), 2);
    assert_eq!(distinct([0, 5, 2, 4]), 1);
}

/// Two chains send the same bytes from one server to another, but the pieces of one of them cross
/// an edge inside a server first: of its steps fewer take the latency of the network.
#[test]
fn chains_with_edges_inside_servers_are_other_phases() {
    let mut graph = empty_graph(1, 5, 1);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 0, 1, 2, 3];
    graph.families.push(family("dp", &[3, 2]));
    graph.families[1].workers = [1, 0, 2, 3, 4].map(WorkerId).to_vec();
    graph.roles[0].tasks = vec![ring(CollectiveKind::Broadcast, 1, 400_000, 0), wait(1)];
    let network = packet(4);
    let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::All).unwrap();
    run(TransferModel::Phases(&mut book), &graph, &network);
    let distinct: Vec<u64> = book.counts().map(|(_, count)| count.distinct).collect();
    assert_eq!(distinct.iter().sum::<u64>(), 2, "{distinct:?}");
}

#[test]
fn what_is_met_after_a_sample_was_drawn_is_not_simulated() {
    let matrices = [uneven(4, 20_000), uneven(4, 90_000)];
    let network = packet(4);
    let [first, second] = [0, 1].map(|block| all_to_alls(&matrices, &[block]));
    let five = PhaseChoice::AtMost(5.try_into().unwrap());
    for (choice, pending) in [(five, 0), (PhaseChoice::All, 1)] {
        let mut book = PhaseBook::new(&network, &options("ideal"), choice).unwrap();
        run(TransferModel::Phases(&mut book), &first, &network);
        assert_eq!(book.pending().0, 1);
        book.simulate(&mut Silent).unwrap();
        run(TransferModel::Phases(&mut book), &second, &network);
        assert_eq!((book.pending().0, of_all_to_alls(&book).distinct), (pending, 2));
    }
}

/// A whole step simulates a phase once at least, and as often as it is met at most; the next step
/// begins with nothing known.
#[test]
fn what_whole_steps_simulate_is_guessed_between_once_and_each_time() {
    let matrices = [uneven(4, 20_000), uneven(4, 90_000)];
    let network = packet(4);
    let hops = |steps: &[&[u32]]| {
        let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::Counted).unwrap();
        for order in steps {
            run(TransferModel::Phases(&mut book), &all_to_alls(&matrices, order), &network);
        }
        book.placed_hops()
    };
    let [first, second] = [hops(&[&[0]]), hops(&[&[1]])];
    assert!(first > 0 && second > first);
    assert!(hops(&[&[0, 1]]).abs_diff(first + second) <= 1);
    assert!(hops(&[&[0, 0, 0, 0]]).abs_diff(2 * first) <= 1);
    assert!(hops(&[&[0, 1], &[0, 1], &[1]]).abs_diff(2 * first + 3 * second) <= 1);
    let between = ((first + second) as f64 * (first + 3 * second) as f64).sqrt();
    assert!((hops(&[&[0, 1, 1, 1]]) as f64 - between).abs() < 1.0);
}

/// Transfers of a ring share no link: it is taken to be simulated once in each step.
#[test]
fn rings_that_repeat_are_guessed_once() {
    let hops = |times| {
        let mut graph = empty_graph(1, 4, 1);
        graph.families.push(family("dp", &[4]));
        graph.families[1].workers = [0, 1, 2, 3].map(WorkerId).to_vec();
        let one = |at| [ring(CollectiveKind::Broadcast, at, 400_000, 0), wait(at)];
        graph.roles[0].tasks = (1..=times).flat_map(one).collect();
        let network = packet(4);
        let mut book = PhaseBook::new(&network, &options("ideal"), PhaseChoice::Counted).unwrap();
        run(TransferModel::Phases(&mut book), &graph, &network);
        (book.all_hops(), book.placed_hops())
    };
    let [(all, once), (twice, again)] = [1, 2].map(hops);
    assert!(once > 0 && twice == 2 * all);
    assert_eq!(again, once);
}
