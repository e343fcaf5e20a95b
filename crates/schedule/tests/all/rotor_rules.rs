//! Rotor schedules that are wrong in one way, shares of relays by hand, and limits.

use lightloom_schedule::rotornet::{
    Cycling, Move, Rotor, RotorQueues, RotorSchedule, check, rotate, rotor_slot,
};

fn rotor(nodes: usize, slot: u64) -> Rotor {
    Rotor {
        nodes,
        switches: 1,
        slot: Some(slot),
        delay: 0,
        held: false,
        relay: false,
        cycling: Cycling::Shared,
    }
}

/// From node to node on behalf of a source, for a destination.
fn hop(slot: u32, [from, to]: [u32; 2], [source, destination]: [u32; 2], bytes: u64) -> Move {
    Move { slot, from, to, source, destination, bytes }
}

/// Slots of the clock, ten bytes each.
fn clocked(slots: u64, largest_line: u64, moves: Vec<Move>) -> RotorSchedule {
    let holds = vec![10; slots as usize];
    RotorSchedule { turns: (0..slots).collect(), holds, moves, length: 10 * slots, largest_line }
}

fn refusal(demand: &[u64], rotor: &Rotor, found: &RotorSchedule) -> String {
    check(demand, rotor, found).unwrap_err().to_string()
}

fn one(nodes: usize, from: usize, to: usize, bytes: u64) -> Vec<u64> {
    let mut demand = vec![0; nodes * nodes];
    demand[from * nodes + to] = bytes;
    demand
}

/// Shifts 1, 2, 3 of four nodes: from 0 over 1 to 3 is one relay, over 1 and 3 to 2 are two.
#[test]
fn bytes_are_relayed_once() {
    let rotor = rotor(4, 10);
    let good = vec![hop(0, [0, 1], [0, 3], 4), hop(1, [1, 3], [0, 3], 4)];
    check(&one(4, 0, 3, 4), &rotor, &clocked(2, 4, good.clone())).unwrap();
    let two = vec![hop(0, [0, 1], [0, 2], 4), hop(1, [1, 3], [0, 2], 4), hop(2, [3, 2], [0, 2], 4)];
    let text = refusal(&one(4, 0, 2, 4), &rotor, &clocked(3, 4, two));
    assert_eq!(text, "node 1 relays bytes that it has not got");
    let mut more = good;
    more[1].bytes = 5;
    let text = refusal(&one(4, 0, 3, 5), &rotor, &clocked(2, 5, more));
    assert_eq!(text, "node 1 relays bytes that it has not got");
}

#[test]
fn slots_follow_the_clock() {
    let (demand, rotor) = (one(3, 0, 1, 4), rotor(3, 10));
    let good = clocked(2, 4, vec![hop(0, [0, 1], [0, 1], 4)]);
    check(&demand, &rotor, &good).unwrap();
    let held = Rotor { held: true, ..rotor };
    for turns in [vec![0, 0], vec![1, 0], vec![0]] {
        let wrong = RotorSchedule { turns, ..good.clone() };
        let text = "slots do not follow each other as switches turn";
        assert_eq!(refusal(&demand, &rotor, &wrong), text);
        assert_eq!(refusal(&demand, &held, &wrong), text);
    }
    // Held slots may be skipped and differ, others may not.
    let skipped = RotorSchedule { turns: vec![0, 2], ..good.clone() };
    let text = "slots do not follow each other as switches turn";
    assert_eq!(refusal(&demand, &rotor, &skipped), text);
    check(&demand, &held, &skipped).unwrap();
    let uneven = RotorSchedule { holds: vec![10, 4], length: 14, ..good.clone() };
    assert_eq!(refusal(&demand, &rotor, &uneven), "slots are not equally long");
    check(&demand, &held, &uneven).unwrap();
    for length in [19, 21] {
        let wrong = RotorSchedule { length, ..good.clone() };
        assert_eq!(refusal(&demand, &rotor, &wrong), format!("slots take 20, not {length}"));
    }
    for largest_line in [3, 5] {
        let wrong = RotorSchedule { largest_line, ..good.clone() };
        let text = format!("the largest line is 4, not {largest_line}");
        assert_eq!(refusal(&demand, &rotor, &wrong), text);
    }
}

#[test]
fn moves_have_room_an_order_and_ends() {
    let (demand, rotor) = (one(3, 0, 1, 4), rotor(3, 10));
    let refused = |moves: Vec<Move>| refusal(&demand, &rotor, &clocked(2, 4, moves));
    let own = hop(0, [0, 1], [0, 1], 4);
    assert_eq!(refused(vec![Move { bytes: 11, ..own }]), "no room from 0 to 1 at turn 0");
    assert_eq!(refused(vec![hop(0, [0, 2], [0, 1], 4)]), "no room from 0 to 2 at turn 0");
    assert_eq!(refused(vec![Move { bytes: 3, ..own }]), "3 of 4 bytes from 0 to 1 arrive");
    assert_eq!(refused(vec![Move { bytes: 5, ..own }]), "5 of 4 bytes from 0 to 1 arrive");
    let late = Move { slot: 2, ..own };
    assert_eq!(refused(vec![own, late]), "moves are not sorted by slot");
    for stranger in [Move { source: 3, ..own }, Move { destination: 3, ..own }] {
        assert!(refused(vec![stranger]).ends_with("is not among 3 nodes"));
    }
}

/// What the slot is unless it is given: the largest entry, or a tenth of the mean of the line.
#[test]
fn slots_are_as_long_as_the_demand_says() {
    let demand = [0, 41, 0, 0, 0, 7, 0, 0, 0];
    let plain = rotate(&demand, &Rotor { slot: None, ..rotor(3, 1) }).unwrap();
    assert_eq!((plain.holds, plain.length), (vec![41], 41));
    let relayed = rotate(&demand, &Rotor { slot: None, relay: true, ..rotor(3, 1) }).unwrap();
    // 41 / (10 x 2), rounded up
    assert_eq!(relayed.holds[0], 3);
    let given = rotate(&demand, &Rotor { relay: true, ..rotor(3, 9) }).unwrap();
    assert_eq!(given.holds[0], 9);
}

/// Node 0 meets 1, which may pass 10 bytes on to each of 2 and 3 in their next slots.
#[test]
fn relays_take_equal_parts_of_what_does_not_fit() {
    let rotor = Rotor { relay: true, ..rotor(4, 10) };
    let relayed = |to_2: u64, to_3: u64| {
        let mut demand = vec![0; 16];
        (demand[2], demand[3]) = (to_2, to_3);
        let mut queues = RotorQueues::new(&demand, 4).unwrap();
        let moves = rotor_slot(&mut queues, &rotor, 10, 0).unwrap().moves;
        let bytes = |end: u32| -> u64 {
            moves.iter().filter(|m| m.destination == end).map(|m| m.bytes).sum()
        };
        [bytes(2), bytes(3)]
    };
    assert_eq!(relayed(30, 30), [5, 5]);
    // 2 bytes beyond their own slot, and the rest of the room for the others
    assert_eq!(relayed(12, 30), [2, 8]);
    assert_eq!(relayed(30, 12), [8, 2]);
    assert_eq!(relayed(10, 10), [0, 0]);
    assert_eq!(relayed(10, 11), [0, 1]);
}

/// A relay's own bytes and those that it stores for a node leave first.
#[test]
fn relays_keep_room_for_what_they_have() {
    let rotor = Rotor { relay: true, ..rotor(4, 10) };
    let mut demand = one(4, 0, 3, 50);
    demand[4 + 3] = 3;
    let mut queues = RotorQueues::new(&demand, 4).unwrap();
    queues.hold(1, 2, 3, 4).unwrap();
    let found = rotor_slot(&mut queues, &rotor, 10, 0).unwrap();
    assert_eq!(found.moves, [hop(0, [0, 1], [0, 3], 10 - 3 - 4)]);
    assert_eq!(queues.waiting(), 57);
    assert_eq!(rotor_slot(&mut queues, &rotor, 10, 0).unwrap().moves, []);
    // When it meets 3, what it stored longest goes first, and its own bytes last.
    let found = rotor_slot(&mut queues, &Rotor { switches: 3, ..rotor }, 10, 0).unwrap();
    let to_3 = found.moves.iter().filter(|m| (m.from, m.to) == (1, 3));
    let sent: Vec<(u32, u64)> = to_3.map(|m| (m.source, m.bytes)).collect();
    assert_eq!(sent, [(2, 4), (0, 3), (1, 3)]);
}

/// Node 1 holds 8 bytes of each of two sources for 3, of which 10 leave in a slot.
#[test]
fn what_is_held_longest_goes_first() {
    let rotor = Rotor { relay: true, ..rotor(4, 10) };
    let mut queues = RotorQueues::new(&[0; 16], 4).unwrap();
    for source in [2, 0] {
        queues.hold(1, source, 3, 8).unwrap();
    }
    for sent in [vec![(2, 8), (0, 2)], vec![(0, 6)]] {
        let moves = rotor_slot(&mut queues, &rotor, 10, 1).unwrap().moves;
        let expected = sent.iter().map(|&(source, bytes)| hop(0, [1, 3], [source, 3], bytes));
        assert_eq!(moves, expected.collect::<Vec<_>>());
    }
    assert_eq!(queues.waiting(), 0);
}

/// Two switches turn in turn: a turn is half of a slot and a delay, rounded up.
#[test]
fn a_staggered_turn_may_be_as_short_as_the_delay() {
    let staggered =
        |delay| Rotor { switches: 2, delay, cycling: Cycling::Staggered, ..rotor(3, 10) };
    let hold = |delay, slot| {
        let mut queues = RotorQueues::new(&[0; 9], 3).unwrap();
        rotor_slot(&mut queues, &staggered(delay), slot, 0).map(|found| found.hold)
    };
    assert_eq!(hold(1, 10), Ok(6));
    assert_eq!(hold(10, 10), Ok(10));
    assert!(hold(12, 10).is_err());
}

#[test]
fn so_many_slots_are_played_and_no_more() {
    let limit = 1 << 16;
    let found = rotate(&[0, limit, 0, 0], &rotor(2, 1)).unwrap();
    assert_eq!((found.holds.len() as u64, found.length), (limit, limit));
    let text = rotate(&[0, limit + 1, 0, 0], &rotor(2, 1)).unwrap_err().to_string();
    assert_eq!(text, "65536 slots of 1 bytes, or 1048576 moves, do not serve this demand");
}

#[test]
fn demand_is_limited_in_size_and_number() {
    let limit = 1 << 53;
    assert_eq!(RotorQueues::new(&[0, limit, 0, 0], 2).unwrap().waiting(), limit);
    assert_eq!(RotorQueues::new(&[limit, 0, 0, limit], 2).unwrap().waiting(), 0);
    let text = RotorQueues::new(&[0, 0, limit + 1, 0], 2).unwrap_err().to_string();
    assert_eq!(text, "9007199254740993 bytes at (1, 0) are beyond 2^53");
    RotorQueues::new(&vec![0; 1 << 20], 1 << 10).unwrap();
    let text = RotorQueues::new(&[], 1_025).unwrap_err().to_string();
    assert_eq!(text, "1025 nodes: at most 1024");
    let late = Rotor { delay: limit, ..rotor(2, 1) };
    let text = rotate(&[0, 1 << 12, 0, 0], &late).unwrap_err().to_string();
    assert_eq!(text, "a length of 36893488147419107328 bytes is beyond 2^64");
    let later = Rotor { delay: limit + 1, ..late };
    let text = rotate(&[0, 5, 0, 0], &later).unwrap_err().to_string();
    assert_eq!(text, "a slot or a delay is beyond 2^53 bytes");
}

#[test]
fn lines_leave_out_what_nodes_send_to_themselves() {
    let found = rotate(&[90, 5, 0, 0, 80, 6, 7, 0, 70], &rotor(3, 10)).unwrap();
    assert_eq!(found.largest_line, 7);
    let received = rotate(&[0, 5, 0, 0, 0, 0, 0, 6, 0], &rotor(3, 10)).unwrap();
    assert_eq!(received.largest_line, 11);
    assert!((received.over_bound(1) - 20.0 / 11.0).abs() < 1e-12);
    assert!((received.over_bound(3) - 60.0 / 11.0).abs() < 1e-12);
}
