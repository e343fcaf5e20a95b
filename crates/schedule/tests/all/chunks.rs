//! Chunks with release times and deadlines: closed forms, every schedule of tiny cases, replays.

use std::collections::HashMap;

use crate::common::regimes::{self, Random};
use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    Chunk, ChunkDemand, ChunkMethod, ChunkSchedule, HybridBudget, HybridDemand, HybridMethod,
    PortRates, check_chunks, schedule_chunks, schedule_hybrid,
};
use proptest::prelude::*;

fn rates(circuit: u64, eps: u64) -> PortRates {
    PortRates { circuit: Rate(circuit), eps: Rate(eps) }
}

fn chunk([row, column]: [u32; 2], bytes: u64, release: u64) -> Chunk {
    Chunk { row, column, bytes, release, deadline: None }
}

fn demand(n: usize, chunks: &[Chunk], delay: u64, rates: PortRates) -> ChunkDemand<'_> {
    ChunkDemand::new(n, n, chunks, delay, rates).expect("valid")
}

fn run(demand: &ChunkDemand, method: ChunkMethod) -> ChunkSchedule {
    let found = schedule_chunks(demand, method, &HybridBudget::USUAL);
    check_chunks(demand, &found).unwrap_or_else(|error| panic!("{method:?}: {error}"));
    assert_eq!(found.method, method);
    found
}

fn pipelined(demand: &ChunkDemand) -> ChunkSchedule {
    run(demand, ChunkMethod::Pipelined)
}

/// The smallest lateness that any schedule of whole bytes over circuits of two lines has.
struct Every<'a> {
    chunks: &'a [Chunk],
    delay: u64,
    known: HashMap<(Vec<u64>, usize, u64), i64>,
}

impl Every<'_> {
    fn best(chunks: &[Chunk], delay: u64) -> i64 {
        let left = chunks.iter().map(|chunk| chunk.bytes).collect();
        Every { chunks, delay, known: HashMap::new() }.from(left, 2, 0)
    }

    /// Circuits join equal lines (0), unlike ones (1), or none yet (2).
    fn from(&mut self, left: Vec<u64>, joined: usize, now: u64) -> i64 {
        if left.iter().all(|&bytes| bytes == 0) {
            return i64::MIN;
        }
        if now > NEVER {
            return i64::MAX;
        }
        if let Some(&known) = self.known.get(&(left.clone(), joined, now)) {
            return known;
        }
        let mut best = i64::MAX;
        if joined < 2 {
            let mut after = left.clone();
            let mut late = i64::MIN;
            for row in 0..2 {
                let column = if joined == 0 { row } else { 1 - row };
                let here = |&index: &usize| {
                    let one = &self.chunks[index];
                    (one.row, one.column) == (row, column) && one.release <= now && after[index] > 0
                };
                // The first deadline first is as good as any order of a pair.
                let first = (0..self.chunks.len()).filter(here);
                if let Some(first) = first.min_by_key(|&index| self.chunks[index].deadline) {
                    after[first] -= 1;
                    if after[first] == 0 {
                        let due = self.chunks[first].deadline.unwrap_or(0);
                        late = late.max((now + 1).cast_signed() - due.cast_signed());
                    }
                }
            }
            let is_worth = after != left || self.chunks.iter().any(|one| one.release > now);
            if is_worth {
                best = best.min(late.max(self.from(after, joined, now + 1)));
            }
        }
        for other in (0..2).filter(|&other| other != joined) {
            best = best.min(self.from(left.clone(), other, now + self.delay));
        }
        self.known.insert((left, joined, now), best);
        best
    }
}

/// Later than any schedule of these cases needs.
const NEVER: u64 = 40;

fn small(random: &mut Random, with_deadlines: bool) -> (Vec<Chunk>, u64) {
    let mut whole = |below: f64| (random.uniform() * below) as u64;
    let chunks = (0..2 + whole(3.0)).map(|_| Chunk {
        row: whole(2.0) as u32,
        column: whole(2.0) as u32,
        bytes: 1 + whole(3.0),
        release: whole(7.0),
        deadline: with_deadlines.then(|| 2 + whole(10.0)),
    });
    let chunks = chunks.collect();
    (chunks, 1 + whole(3.0))
}

#[test]
fn every_schedule_of_two_lines_is_hardly_shorter() {
    let mut random = Random(41);
    let (mut sum, mut cases) = (0.0, 0.0);
    for _ in 0..150 {
        let (chunks, delay) = small(&mut random, false);
        let best = Every::best(&chunks, delay);
        let found = pipelined(&demand(2, &chunks, delay, rates(1, 0)));
        let length = found.length.cast_signed();
        assert!(found.lower_bound.cast_signed() <= best, "{chunks:?}, delay {delay}: {best}");
        assert!(length >= best, "{chunks:?}, delay {delay}: {length} beats all of {best}");
        // A single chunk later never lets all end sooner, and packets never make it longer.
        let mut later = chunks.clone();
        later[0].release += 2;
        assert!(Every::best(&later, delay) >= best, "{chunks:?}, delay {delay}");
        let bound = demand(2, &chunks, delay, rates(1, 1)).lower_bound();
        assert!(bound <= found.lower_bound);
        sum += found.length as f64 / best as f64;
        cases += 1.0;
    }
    let mean = sum / cases;
    assert!(mean < 1.02, "{mean}");
}

#[test]
fn every_schedule_of_two_lines_is_hardly_less_late() {
    let mut random = Random(43);
    let mut worse = 0;
    for _ in 0..150 {
        let (chunks, delay) = small(&mut random, true);
        let best = Every::best(&chunks, delay);
        let found = pipelined(&demand(2, &chunks, delay, rates(1, 0)));
        let (late, bound) = (found.lateness.expect("deadlines"), found.lateness_bound);
        assert!(bound.expect("deadlines") <= best, "{chunks:?}, delay {delay}: {best}");
        assert!(late >= best, "{chunks:?}, delay {delay}: {late} beats all of {best}");
        worse += late - best;
    }
    // In bytes, over 150 cases.
    assert!(worse < 40, "{worse}");
}

#[test]
fn a_chunk_that_comes_later_is_sent_when_it_comes() {
    // The crossbar has turned by then, without an EPS and with one.
    let one = [chunk([0, 1], 100, 500)];
    assert_eq!(pipelined(&demand(2, &one, 40, rates(10, 0))).length, 600);
    assert_eq!(pipelined(&demand(2, &one, 40, rates(10, 10))).length, 550);
    // Little that comes before changes nothing.
    let two = [chunk([0, 1], 10, 0), chunk([0, 1], 100, 500)];
    let found = pipelined(&demand(2, &two, 40, rates(10, 0)));
    assert_eq!((found.length, found.lower_bound), (600, 600));
    // It has not, if it comes before.
    let early = [chunk([0, 1], 100, 10)];
    let found = pipelined(&demand(2, &early, 40, rates(10, 0)));
    assert_eq!((found.length, found.lower_bound, found.over_bound()), (140, 140, 1.0));
}

#[test]
fn circuits_stay_for_chunks_that_follow() {
    // One pair, 4 chunks of 100 bytes every 150: one slot, that ends 100 after the last release.
    let chunks: Vec<Chunk> = (1..5).map(|index| chunk([0, 1], 100, index * 150)).collect();
    let demand = demand(2, &chunks, 30, rates(10, 0));
    let found = pipelined(&demand);
    assert_eq!((found.length, found.ends.as_slice()), (700, &[250, 400, 550, 700][..]));
    assert_eq!(run(&demand, ChunkMethod::Together).length, 600 + 30 + 400);
    // In order, a turn before each: 180 to 280, then 310 and 410, 480, 580, 630 and 730.
    assert_eq!(run(&demand, ChunkMethod::InOrder).length, 730);
}

#[test]
fn the_first_deadline_comes_first() {
    let late = Chunk { deadline: Some(1_000), ..chunk([0, 1], 300, 0) };
    let soon = Chunk { deadline: Some(150), ..chunk([0, 1], 100, 20) };
    let chunks = [late, soon];
    let found = pipelined(&demand(2, &chunks, 20, rates(10, 0)));
    // 20 to 120, then 120 to 420.
    assert_eq!(found.ends, [420, 120]);
    assert_eq!((found.lateness, found.lateness_bound), (Some(-30), Some(-30)));
}

/// What is due before takes the time of what is due later: 200 bytes by 150.
#[test]
fn earlier_deadlines_make_later_ones_late() {
    let due = |deadline| Chunk { deadline: Some(deadline), ..chunk([0, 1], 100, 0) };
    let chunks = [due(100), due(150)];
    let found = pipelined(&demand(2, &chunks, 0, rates(10, 0)));
    assert_eq!((found.lateness, found.lateness_bound), (Some(50), Some(50)));
}

#[test]
fn nothing_to_send_takes_no_time() {
    for chunks in [&[][..], &[chunk([0, 0], 0, 70)]] {
        for &method in ChunkMethod::ALL {
            let found = run(&demand(3, chunks, 5, rates(10, 1)), method);
            assert_eq!((found.length, found.lateness, found.over_bound()), (0, None, 1.0));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let text = |chunks: &[Chunk], rates| ChunkDemand::new(2, 2, chunks, 1, rates).unwrap_err().0;
    let outside = text(&[chunk([0, 2], 1, 0)], rates(1, 0));
    assert_eq!(outside, "chunk 0: no pair 0, 2 in 2 x 2");
    let late = text(&[chunk([0, 1], 1, 1 << 60)], rates(1, 0));
    assert_eq!(late, "chunk 0: a time of more than 2^53 bytes");
    assert!(text(&[chunk([0, 1], 1 << 60, 0)], rates(1, 0)).contains("expected at most 2^53"));
    assert!(text(&[chunk([0, 1], 1, 0)], rates(0, 1)).ends_with("not comparable"));
}

/// One true schedule, and every part of it changed.
#[test]
fn wrong_schedules_are_seen() {
    let chunks = [
        chunk([0, 1], 100, 0),
        Chunk { deadline: Some(300), ..chunk([0, 1], 60, 200) },
        chunk([0, 0], 12, 0),
    ];
    let demand = demand(2, &chunks, 10, rates(10, 1));
    let right = pipelined(&demand);
    let refused = |change: &dyn Fn(&mut ChunkSchedule)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        check_chunks(&demand, &wrong).expect_err("it is wrong").0
    };
    let circuit = right.transfers.iter().position(|one| one.slot.is_some()).expect("a circuit");
    let packets = right.transfers.iter().position(|one| one.slot.is_none()).expect("packets");
    let newest = right.transfers.iter().position(|one| one.chunk == 1).expect("chunk 1");
    assert!(refused(&|s| s.transfers[newest].start = 100).contains("released at 200"));
    assert!(refused(&|s| s.transfers[circuit].bytes += 1).contains("of chunk"));
    assert!(refused(&|s| s.transfers.retain(|one| one.slot.is_some())).contains("are sent"));
    assert!(refused(&|s| s.transfers[packets].end -= 10).contains("as packets from"));
    assert!(refused(&|s| s.transfers[circuit].slot = Some(9)).contains("no slot 9"));
    assert!(refused(&|s| s.transfers[circuit].chunk = 9).contains("no chunk 9"));
    assert!(refused(&|s| s.slots.matchings[0] = -1).contains("does not join"));
    assert!(refused(&|s| s.slots.matchings[0] = 2).contains("column 2 is not free"));
    let twice = &|s: &mut ChunkSchedule| s.slots.matchings[1] = s.slots.matchings[0];
    assert!(refused(twice).contains("column 1 is not free"));
    assert!(refused(&|s| s.slots.holds[0] -= 1).contains("not within slot 0"));
    assert!(refused(&|s| s.starts[0] = 3).contains("slot 0 of"));
    assert!(refused(&|s| s.starts.clear()).contains("0 starts"));
    assert!(refused(&|s| s.length -= 1).contains("it says"));
    assert!(refused(&|s| s.lateness = None).contains("late None"));
    assert!(refused(&|s| s.ends[1] += 1).contains("chunk 1 does not end"));
    assert!(refused(&|s| s.lower_bound += 1).contains("other bounds"));
}

/// Two chunks of a pair, one after the other: 10 to 60 and 60 to 110.
#[test]
fn a_circuit_carries_one_chunk_at_a_time() {
    let chunks = [chunk([0, 1], 50, 0), chunk([0, 1], 50, 0)];
    let demand = demand(2, &chunks, 10, rates(10, 0));
    let mut found = pipelined(&demand);
    assert_eq!((found.length, found.slots.holds.as_slice()), (110, &[100][..]));
    let second = found.transfers.iter().position(|one| one.start == 60).expect("the second");
    found.transfers[second].start -= 20;
    let error = check_chunks(&demand, &found).expect_err("both are sent from 40 to 60").0;
    assert!(error.contains("more than a circuit carries"), "{error}");
}

/// Circuits would come much too late; packets take 10 times as long as these would.
#[test]
fn packets_carry_first_what_is_due_first() {
    let due = |deadline, one| Chunk { deadline: Some(deadline), ..one };
    let late = |chunks: &[Chunk]| pipelined(&demand(2, chunks, 50_000, rates(10, 1))).lateness;
    // 10 bytes by 100, then 90 by 1,000.
    let both = [due(1_000, chunk([0, 1], 90, 0)), due(100, chunk([0, 1], 10, 0))];
    assert_eq!(late(&both), Some(0));
    // What is released at 100 and due at 200 does not wait for what is sent, nor that for it.
    let urgent = [due(1_000, chunk([0, 1], 90, 0)), due(200, chunk([0, 1], 10, 100))];
    assert_eq!(late(&urgent), Some(0));
}

/// Demand of a regime in chunks that are released over a time, with or without deadlines.
fn divided(kind: &str, n: usize, count: u64, over: u64, deadlines: bool, seed: u64) -> Vec<Chunk> {
    let mut random = Random(seed * 7_919 + 1);
    let bytes = regimes::demand(kind, n, &mut random);
    let cells = (0..n * n).flat_map(|cell| (0..count).map(move |index| (cell, index)));
    let one = |(cell, index): (usize, u64)| Chunk {
        deadline: deadlines.then_some(over * index / count),
        ..chunk([(cell / n) as u32, (cell % n) as u32], bytes[cell] / count, over * index / count)
    };
    cells.map(one).collect()
}

/// The table of `benches/RESULTS.md` in small.
#[test]
fn pipelined_is_ahead_of_the_usual_ones_in_every_regime() {
    for kind in regimes::KINDS {
        let mut over = [const { Vec::new() }; 3];
        for (seed, compute) in [(1, 100_000_000), (2, 400_000_000)] {
            let chunks = divided(kind, 8, 4, compute, false, seed);
            for (delay, eps) in [(400_000, 0), (4_000_000, 10), (40_000_000, 25)] {
                let demand = demand(8, &chunks, delay, rates(100, eps));
                for (index, &method) in ChunkMethod::ALL.iter().enumerate() {
                    over[index].push(run(&demand, method).over_bound());
                }
            }
        }
        let mean = over.each_ref().map(|all| all.iter().sum::<f64>() / all.len() as f64);
        let worst = over.each_ref().map(|all| all.iter().copied().fold(0.0, f64::max));
        assert!(mean[0] < 1.12 && worst[0] < 1.35, "{kind}: {mean:?} {worst:?}");
        assert!(mean[0] < mean[1] && mean[0] < mean[2], "{kind}: {mean:?}");
        assert!(worst[0] < worst[1] && worst[0] < worst[2], "{kind}: {worst:?}");
    }
}

/// Whether every slot is held until its last byte is sent, and no longer.
fn ends_with_its_last_byte(found: &ChunkSchedule) -> bool {
    (0..found.starts.len()).all(|slot| {
        let own = found.transfers.iter().filter(|one| one.slot == Some(slot as u32));
        let last = own.map(|one| one.end).max();
        last == Some(found.starts[slot] + found.slots.holds[slot])
    })
}

fn some_chunks() -> impl Strategy<Value = (usize, Vec<Chunk>)> {
    (1..6_usize).prop_flat_map(|n| {
        let line = 0..n as u32;
        let one =
            (line.clone(), line, 0..50_000_u64, 0..40_000_u64, prop::option::of(0..60_000_u64));
        let chunk = one.prop_map(|(row, column, bytes, release, deadline)| Chunk {
            row,
            column,
            bytes,
            release,
            deadline,
        });
        prop::collection::vec(chunk, 1..24).prop_map(move |chunks| (n, chunks))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn schedules_can_be_replayed_and_ours_is_never_behind(
        (n, chunks) in some_chunks(),
        delay in 0..9_000_u64,
        eps in 0..7_u64,
    ) {
        let demand = demand(n, &chunks, delay, rates(6, eps));
        let found: Vec<ChunkSchedule> =
            ChunkMethod::ALL.iter().map(|&method| run(&demand, method)).collect();
        for one in &found {
            prop_assert!(ends_with_its_last_byte(one), "{:?}: {one:?}", one.method);
        }
        for other in &found[1..] {
            let key = |found: &ChunkSchedule| (found.lateness, found.length);
            prop_assert!(key(&found[0]) <= key(other), "{:?}", other.method);
        }
        prop_assert!(found[0].lateness_bound <= found[0].lateness);
    }

    /// Without releases chunks are a hybrid demand.
    #[test]
    fn released_at_once_it_is_no_longer_than_balanced(
        (n, mut chunks) in some_chunks(),
        delay in 0..9_000_u64,
        eps in 1..7_u64,
    ) {
        let mut bytes = vec![0; n * n];
        for one in &mut chunks {
            (one.release, one.deadline) = (0, None);
            bytes[one.row as usize * n + one.column as usize] += one.bytes;
        }
        let whole = HybridDemand::new(n, n, &bytes, delay, rates(6, eps)).expect("valid");
        let balanced = schedule_hybrid(&whole, HybridMethod::Balanced);
        let found = pipelined(&demand(n, &chunks, delay, rates(6, eps)));
        prop_assert!(found.length <= balanced.length, "{} {}", found.length, balanced.length);
        prop_assert_eq!(found.lower_bound, balanced.lower_bound);
    }

    /// Names of lines, the order of chunks and the unit of bytes and times change no bound; later
    /// releases and earlier deadlines never lower it.
    #[test]
    fn bounds_follow_the_demand(
        (n, chunks) in some_chunks(),
        delay in 0..9_000_u64,
        eps in 0..7_u64,
        factor in 2..9_u64,
        index in 0..24_usize,
    ) {
        let of = |chunks: &[Chunk], delay: u64| {
            let demand = demand(n, chunks, delay, rates(6, eps));
            (demand.lower_bound(), demand.lateness_bound())
        };
        let known = of(&chunks, delay);
        let renamed = |one: &Chunk| Chunk {
            row: n as u32 - 1 - one.row,
            column: (one.column + 1) % n as u32,
            ..*one
        };
        let others: Vec<Chunk> = chunks.iter().rev().map(renamed).collect();
        prop_assert_eq!(of(&others, delay), known);
        let times = |one: &Chunk| Chunk {
            bytes: factor * one.bytes,
            release: factor * one.release,
            deadline: one.deadline.map(|deadline| factor * deadline),
            ..*one
        };
        let scaled: Vec<Chunk> = chunks.iter().map(times).collect();
        // In whole bytes, rounded up.
        let scaled = of(&scaled, factor * delay);
        prop_assert_eq!(scaled.0.div_ceil(factor), known.0);
        let mut later = chunks.clone();
        let place = index % later.len();
        later[place].release += 5_000;
        let found = of(&later, delay);
        // Of up to 16 distinct times all are looked at.
        if chunks.len() < 16 {
            prop_assert!(found.0 >= known.0 && found.1 >= known.1, "{found:?} {known:?}");
        }
    }
}
