//! Rotor slots by hand and followed one by one: what each circuit sends, and what it relays.

use crate::common::square::{Square, square};
use lightloom_schedule::rotornet::{Cycling, Move, Rotor, RotorSchedule, check, rotate};
use proptest::prelude::*;

fn rotor(nodes: usize, switches: usize, slot: u64) -> Rotor {
    Rotor {
        nodes,
        switches,
        slot: Some(slot),
        delay: 0,
        held: false,
        relay: false,
        cycling: Cycling::Shared,
    }
}

fn run(square: &Square, rotor: &Rotor) -> RotorSchedule {
    let found = rotate(&square.demand, rotor).unwrap();
    check(&square.demand, rotor, &found).unwrap();
    found
}

fn moves_of(found: &RotorSchedule, slot: usize) -> impl Iterator<Item = &Move> {
    found.moves.iter().filter(move |m| m.slot as usize == slot)
}

/// Slots without relays, by the definition: pair by pair, when its last byte has gone.
fn last_turn(square: &Square, rotor: &Rotor) -> u64 {
    let n = square.n;
    let mut last = 0;
    for (cell, &bytes) in square.demand.iter().enumerate().filter(|cell| *cell.1 > 0) {
        let shift = (cell % n + n - cell / n) % n;
        let mut left = bytes;
        for turn in 0_u64.. {
            let circuits = rotor.shifts(turn).filter(|&other| other == shift).count() as u64;
            left = left.saturating_sub(circuits * rotor.slot.unwrap());
            if left == 0 {
                last = last.max(turn + 1);
                break;
            }
        }
    }
    last
}

/// What is left for every pair before each slot, own bytes of the source only.
struct Replay {
    n: usize,
    own: Vec<u64>,
    stored: Vec<u64>,
}

impl Replay {
    fn new(square: &Square) -> Self {
        let own = square.demand.clone();
        Self { n: square.n, own, stored: vec![0; square.n * square.n] }
    }

    /// Takes a slot's moves; deliveries before arrivals, as relayed bytes wait for the next slot.
    fn take(&mut self, found: &RotorSchedule, slot: usize) {
        for m in moves_of(found, slot) {
            if m.from == m.source {
                self.own[(m.source as usize) * self.n + m.destination as usize] -= m.bytes;
            } else {
                self.stored[m.from as usize * self.n + m.destination as usize] -= m.bytes;
            }
        }
        for m in moves_of(found, slot).filter(|m| m.to != m.destination) {
            self.stored[m.to as usize * self.n + m.destination as usize] += m.bytes;
        }
    }
}

#[test]
fn two_nodes_have_one_shift() {
    let demand = Square { n: 2, demand: vec![0, 25, 13, 0] };
    let found = run(&demand, &rotor(2, 1, 10));
    assert_eq!((found.turns.as_slice(), found.length), (&[0, 1, 2][..], 30));
    let sent: Vec<(u32, u32, u64)> =
        found.moves.iter().map(|m| (m.slot, m.from, m.bytes)).collect();
    assert_eq!(sent, [(0, 0, 10), (0, 1, 10), (1, 0, 10), (1, 1, 3), (2, 0, 5)]);
}

/// Shift 1 then shift 2: from 0 to 2 goes in the second slot, from 0 to 1 in the first and third.
#[test]
fn three_nodes_take_turns() {
    let demand = Square { n: 3, demand: vec![0, 12, 4, 0, 0, 0, 0, 0, 0] };
    let found = run(&demand, &rotor(3, 1, 10));
    let sent: Vec<(u32, u32, u64)> = found.moves.iter().map(|m| (m.slot, m.to, m.bytes)).collect();
    assert_eq!(sent, [(0, 1, 10), (1, 2, 4), (2, 1, 2)]);
    assert_eq!(found.length, 30);
    // Held slots end with their busiest circuit, and a turn without one is skipped.
    let held = run(&demand, &Rotor { held: true, ..rotor(3, 1, 12) });
    assert_eq!((held.turns.as_slice(), held.holds.as_slice()), (&[0, 1][..], &[12, 4][..]));
    let skips = run(&Square::one(3, 0, 2, 7), &Rotor { held: true, delay: 5, ..rotor(3, 1, 7) });
    assert_eq!((skips.turns.as_slice(), skips.length), (&[1][..], 12));
}

#[test]
fn as_many_switches_as_shifts_meet_everyone_in_every_slot() {
    for n in 2..7 {
        let found = run(&Square::equal(n, 70), &rotor(n, n - 1, 10));
        assert_eq!((found.turns.len(), found.length), (7, 70), "{n} nodes");
        for slot in 0..7 {
            assert_eq!(moves_of(&found, slot).count(), n * (n - 1));
        }
    }
}

#[test]
fn every_cycle_meets_every_shift_equally_often() {
    for nodes in 2..8_usize {
        for switches in 1..7_usize {
            let rotor = rotor(nodes, switches, 1);
            let mut met = vec![0; nodes];
            for turn in 0..(nodes - 1) as u64 {
                rotor.shifts(turn).for_each(|shift| met[shift] += 1);
            }
            assert_eq!(met[0], 0, "nobody meets itself");
            assert!(met[1..].iter().all(|&count| count == switches), "{nodes} {switches} {met:?}");
        }
    }
}

/// From 0 to 1 with the other nodes idle: in a cycle one slot is direct, and every other one takes
/// a slot of bytes to a relay that delivers them when it meets 1.
#[test]
fn idle_relays_carry_all_that_they_can() {
    for n in [3, 4, 5, 6] {
        let bytes = 200 * (n as u64 - 1) * 10;
        let demand = Square::one(n, 0, 1, bytes);
        let relayed = run(&demand, &Rotor { relay: true, ..rotor(n, 1, 10) });
        let direct = run(&demand, &rotor(n, 1, 10));
        let cycles = bytes / 10;
        assert_eq!(direct.length, (cycles - 1) * (n as u64 - 1) * 10 + 10);
        // No circuit of the source is ever idle until the last cycles.
        let bound = bytes;
        let slack = 3 * (n as u64 - 1) * 10;
        assert!((bound..=bound + slack).contains(&relayed.length), "{n}: {}", relayed.length);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn slots_without_relays_are_as_many_as_the_slowest_pair_needs(
        square in square(6, 60),
        switches in 1..4_usize,
        slot in 1..25_u64,
        delay in 0..9_u64,
    ) {
        let rotor = Rotor { delay, ..rotor(square.n, switches, slot) };
        let found = run(&square, &rotor);
        let turns = last_turn(&square, &rotor);
        prop_assert_eq!(found.turns.len() as u64, turns);
        prop_assert_eq!(found.length, turns * (slot + delay));
        prop_assert_eq!(found.largest_line, square.largest_line());
    }

    /// A slot moves no more than its circuits carry, whatever they carry.
    #[test]
    fn each_slot_does_bounded_work(
        square in square(6, 200),
        switches in 1..4_usize,
        slot in 1..25_u64,
        held in any::<bool>(),
        relay in any::<bool>(),
    ) {
        let found = run(&square, &Rotor { held, relay, ..rotor(square.n, switches, slot) });
        let mut delivered = 0;
        for (index, &hold) in found.holds.iter().enumerate() {
            prop_assert!(hold <= slot);
            let moved: u64 = moves_of(&found, index).map(|m| m.bytes).sum();
            prop_assert!(moved <= hold * (switches * square.n) as u64);
            for node in 0..square.n as u32 {
                let own = moves_of(&found, index).filter(|m| m.from == node);
                let sent: u64 = own.map(|m| m.bytes).sum();
                prop_assert!(sent <= hold * switches as u64, "node {node} sends {sent}");
            }
            let arrived = moves_of(&found, index).filter(|m| m.to == m.destination);
            delivered += arrived.map(|m| m.bytes).sum::<u64>();
        }
        prop_assert_eq!(delivered, square.sum());
    }

    /// What the far end wants goes first, and only bytes beyond the next own slot go over relays,
    /// to nodes that can deliver them in one slot.
    #[test]
    fn relays_never_take_more_than_their_spare_room(square in square(6, 400), slot in 1..30_u64) {
        let rotor = Rotor { relay: true, ..rotor(square.n, 1, slot) };
        let found = run(&square, &rotor);
        let mut state = Replay::new(&square);
        let n = square.n;
        for index in 0..found.holds.len() {
            let mut before = Replay { n, own: state.own.clone(), stored: state.stored.clone() };
            state.take(&found, index);
            // After the deliveries of this slot, before its offers.
            for m in moves_of(&found, index).filter(|m| m.to == m.destination) {
                let cell = m.destination as usize;
                if m.from == m.source {
                    before.own[m.from as usize * n + cell] -= m.bytes;
                } else {
                    before.stored[m.from as usize * n + cell] -= m.bytes;
                }
            }
            for m in moves_of(&found, index).filter(|m| m.to != m.destination) {
                let end = m.destination as usize;
                let excess = before.own[m.from as usize * n + end].saturating_sub(slot);
                prop_assert!(m.bytes <= excess, "{m:?} of {excess} that do not fit");
                // Everything that the relay has for this end leaves in its next slot.
                let waiting = state.stored[m.to as usize * n + end];
                prop_assert!(waiting <= slot, "{waiting} bytes wait at {} for {end}", m.to);
                let hop: u64 = moves_of(&found, index)
                    .filter(|other| (other.from, other.to) == (m.from, m.to))
                    .map(|other| other.bytes)
                    .sum();
                prop_assert!(hop <= slot);
            }
        }
        prop_assert!(state.own.iter().chain(&state.stored).all(|&bytes| bytes == 0));
    }

    /// A circuit that has bytes for its far end is full or empties them.
    #[test]
    fn deliveries_come_before_anything_else(square in square(5, 300), slot in 1..30_u64) {
        let rotor = Rotor { relay: true, ..rotor(square.n, 1, slot) };
        let found = run(&square, &rotor);
        let (mut state, n) = (Replay::new(&square), square.n);
        for (index, &turn) in found.turns.iter().enumerate() {
            let shift = rotor.shifts(turn).next().unwrap();
            for from in 0..n {
                let to = (from + shift) % n;
                let waiting = state.own[from * n + to] + state.stored[from * n + to];
                let direct: u64 = moves_of(&found, index)
                    .filter(|m| m.from as usize == from && m.to == m.destination)
                    .map(|m| m.bytes)
                    .sum();
                prop_assert_eq!(direct, waiting.min(slot), "slot {} from {}", index, from);
            }
            state.take(&found, index);
        }
    }

    #[test]
    fn relayed_bytes_take_two_hops_and_no_more(square in square(6, 300), slot in 1..30_u64) {
        let found = run(&square, &Rotor { relay: true, ..rotor(square.n, 1, slot) });
        let moved: u64 = found.moves.iter().map(|m| m.bytes).sum();
        prop_assert_eq!(moved, square.sum() + found.relayed());
        let second: u64 = found.moves.iter().filter(|m| m.from != m.source).map(|m| m.bytes).sum();
        prop_assert_eq!(second, found.relayed());
        for m in &found.moves {
            prop_assert!(m.source != m.destination && m.from != m.destination);
            prop_assert!(m.from == m.source || m.to == m.destination);
        }
    }

    /// Shifts look the same from every node, so that turning their names turns the moves.
    #[test]
    fn turned_nodes_have_turned_moves(
        square in square(6, 200),
        by in 1..6_usize,
        slot in 1..30_u64,
        held in any::<bool>(),
    ) {
        let rotor = Rotor { held, ..rotor(square.n, 1, slot) };
        let (one, other) = (run(&square, &rotor), run(&square.turned(by), &rotor));
        prop_assert_eq!((&one.turns, &one.holds), (&other.turns, &other.holds));
        let n = square.n as u32;
        let called = |node: u32| (node + by as u32) % n;
        let key = |m: &Move| (m.slot, m.from, m.to, m.bytes);
        let mut turned: Vec<_> = one.moves.iter()
            .map(|m| (m.slot, called(m.from), called(m.to), m.bytes)).collect();
        let mut moves: Vec<_> = other.moves.iter().map(key).collect();
        turned.sort_unstable();
        moves.sort_unstable();
        prop_assert_eq!(turned, moves);
    }

    /// All bytes and slots are multiples alike: the same turns, that many times as long.
    #[test]
    fn scaled_bytes_and_slots_scale_the_length(
        square in square(6, 100),
        slot in 1..30_u64,
        delay in 0..20_u64,
        factor in 2..9_u64,
        held in any::<bool>(),
    ) {
        let small = Rotor { held, delay, ..rotor(square.n, 1, slot) };
        let large = Rotor { slot: Some(factor * slot), delay: factor * delay, ..small };
        let (one, other) = (run(&square, &small), run(&square.times(factor), &large));
        prop_assert_eq!(&one.turns, &other.turns);
        prop_assert_eq!(factor * one.length, other.length);
        prop_assert!((one.over_bound(1) - other.over_bound(1)).abs() < 1e-12);
    }

    /// Without relays slots ignore the demand: a longer delay is paid once per slot, more bytes
    /// never end sooner.
    #[test]
    fn delays_and_bytes_only_add(square in square(6, 100), slot in 1..30_u64, cell in 0..36_usize) {
        let plain = rotor(square.n, 1, slot);
        let found = run(&square, &plain);
        let mut before = found.length;
        for delay in [1, 7, 50] {
            let late = run(&square, &Rotor { delay, ..plain });
            prop_assert_eq!(late.length, found.length + delay * found.holds.len() as u64);
            prop_assert!(late.length >= before);
            before = late.length;
        }
        let (n, mut more) = (square.n, square.clone());
        let cell = cell % (n * n);
        if cell / n != cell % n {
            more.demand[cell] += 40;
            for held in [false, true] {
                let rotor = Rotor { held, ..plain };
                prop_assert!(run(&more, &rotor).length >= run(&square, &rotor).length);
            }
        }
    }

    /// Held slots are those of the fixed round robin, cut where nothing is left to send.
    #[test]
    fn held_slots_are_never_longer(square in square(6, 100), slot in 1..30_u64) {
        let fixed = run(&square, &rotor(square.n, 1, slot));
        let held = run(&square, &Rotor { held: true, ..rotor(square.n, 1, slot) });
        prop_assert!(held.length <= fixed.length);
        prop_assert!(held.turns.len() <= fixed.turns.len());
        for (index, &hold) in held.holds.iter().enumerate() {
            let longest = moves_of(&held, index).map(|m| m.bytes).max();
            prop_assert_eq!(longest, Some(hold), "slot {}", index);
        }
        // Slots that last as long as their longest transfer: one per shift that anyone needs.
        let whole = run(&square, &Rotor { held: true, slot: None, ..rotor(square.n, 1, 1) });
        let n = square.n;
        let entry = |s: usize| (0..n).map(|i| square.demand[i * n + (i + s) % n]).max().unwrap();
        prop_assert_eq!(whole.length, (1..n).map(entry).sum::<u64>());
        prop_assert_eq!(whole.holds.len(), (1..n).filter(|&s| entry(s) > 0).count());
    }

    /// A switch more never makes a fixed round robin longer where it divides the shifts.
    #[test]
    fn all_shifts_at_once_are_a_mesh(square in square(6, 100), slot in 1..30_u64) {
        let mesh = run(&square, &rotor(square.n, square.n - 1, slot));
        let largest = square.demand.iter().max().unwrap();
        prop_assert_eq!(mesh.length, largest.div_ceil(slot) * slot);
        prop_assert!(mesh.length <= run(&square, &rotor(square.n, 1, slot)).length);
        prop_assert!(mesh.over_bound(square.n - 1) >= 1.0);
    }
}
