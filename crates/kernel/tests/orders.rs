//! The three orders of events against one another and against plain models.

use lightloom_kernel::{Agenda, Due, EventQueue, IndexedQueue, PREVIEW, SourceEvent};
use lightloom_model::{Duration, Time};
use proptest::prelude::*;
use std::collections::BTreeSet;

const FOREVER: Time = Time(u64::MAX);

/// All that is due, with times.
fn drain<T: Copy + Ord>(agenda: &mut Agenda<T>) -> Vec<(u64, Due<T>)> {
    std::iter::from_fn(|| agenda.pop(FOREVER)).map(|(time, due)| (time.0, due)).collect()
}

#[test]
fn an_agenda_keeps_events_beyond_its_horizon_and_brings_them_in_time() {
    let mut agenda: Agenda<&str> = Agenda::new(300, Duration(1_000));
    let times = [5, 999, 1_001, 70_000, 3, 1_000_000_000_000, 70_001];
    for (source, time) in times.into_iter().enumerate() {
        agenda.schedule(source as u32, Time(time));
    }
    agenda.set_timer(Time(70_000), "timer");
    let expected = [
        (3, Due::Source(4)),
        (5, Due::Source(0)),
        (999, Due::Source(1)),
        (1_001, Due::Source(2)),
        (70_000, Due::Timer("timer")),
        (70_000, Due::Source(3)),
        (70_001, Due::Source(6)),
        (1_000_000_000_000, Due::Source(5)),
    ];
    // What lies beyond the horizon waits in one heap with the timers.
    assert_eq!(drain(&mut agenda), expected);
    assert!(agenda.is_empty());
}

#[test]
fn an_agenda_pops_nothing_beyond_the_limit() {
    let mut agenda: Agenda<u8> = Agenda::new(4, Duration(100));
    assert_eq!(agenda.pop(FOREVER), None);
    agenda.schedule(1, Time(50));
    agenda.set_timer(Time(60), 9);
    assert_eq!(agenda.pop(Time(49)), None);
    assert_eq!(agenda.pop(Time(50)), Some((Time(50), Due::Source(1))));
    assert_eq!(agenda.pop(Time(59)), None);
    assert!(!agenda.is_empty());
    // An earlier event scheduled after a vain look is found.
    agenda.schedule(1, Time(55));
    assert_eq!(agenda.pop(Time(59)), Some((Time(55), Due::Source(1))));
    assert_eq!(agenda.pop(Time(60)), Some((Time(60), Due::Timer(9))));
    assert!(agenda.is_empty());
}

#[test]
fn limits_and_timers_hold_where_many_sources_are_due() {
    let mut agenda: Agenda<u8> = Agenda::new(64, Duration(10_000));
    for source in 0..64 {
        agenda.schedule(source, Time(100 + u64::from(source)));
    }
    assert_eq!(agenda.pop(Time(99)), None);
    assert_eq!(agenda.pop(FOREVER), Some((Time(100), Due::Source(0))));
    assert!(agenda.upcoming().is_some());
    assert_eq!(agenda.pop(Time(100)), None);
    for source in 1..40 {
        let time = Time(100 + u64::from(source));
        // A timer goes before a source of the same time, and after those of earlier times.
        agenda.set_timer(time, source as u8);
        assert_eq!(agenda.pop(time), Some((time, Due::Timer(source as u8))));
        assert_eq!(agenda.pop(time), Some((time, Due::Source(source))));
        assert_eq!(agenda.pop(time), None);
    }
}

#[test]
fn the_horizon_of_an_agenda_moves_along_with_its_timers() {
    let mut agenda: Agenda<u8> = Agenda::new(8, Duration(1_000));
    for late in [0, 1 << 30, 1 << 45] {
        agenda.set_timer(Time(late), 1);
        assert_eq!(agenda.pop(FOREVER), Some((Time(late), Due::Timer(1))));
        // Within the horizon of now a timer goes first; beyond it would be in order of scheduling.
        let soon = Time(late + 500);
        agenda.schedule(3, soon);
        agenda.set_timer(soon, 2);
        assert_eq!(drain(&mut agenda), [(soon.0, Due::Timer(2)), (soon.0, Due::Source(3))]);
    }
}

#[test]
fn an_agenda_shows_what_it_will_pop() {
    // Of few sources nothing is shown.
    let mut agenda: Agenda<u8> = Agenda::new(4096, Duration(10_000));
    for source in 0..64_u32 {
        agenda.schedule(source, Time(u64::from(source * 37 % 64) * 100 + 1));
    }
    let mut shown = 0;
    while !agenda.is_empty() {
        let Some((time, Due::Source(source))) = agenda.pop(FOREVER) else { panic!("a source") };
        // What follows is known after the first pop, as long as there is enough.
        if let Some(&upcoming) = agenda.upcoming() {
            shown += 1;
            assert!(upcoming.is_sorted_by_key(|event| event.time));
            assert!(upcoming[0].time >= time);
            let mut copy = agenda.clone();
            for event in upcoming {
                assert_eq!(copy.pop(FOREVER), Some((event.time, Due::Source(event.source))));
            }
        }
        assert_eq!(time.0, u64::from(source * 37 % 64) * 100 + 1);
    }
    assert!(shown > 64 - 2 * PREVIEW, "shown {shown} times");
}

#[test]
fn the_order_of_sources_at_one_time_is_not_that_of_scheduling() {
    // More than a chunk of a bucket holds, of which some have new sources.
    let order = |step: u32, sources: &[u32]| {
        let mut agenda: Agenda<u8> = Agenda::new(100, Duration(1_000));
        for source in (0..100).map(|index| index * step % 100) {
            if sources.contains(&source) {
                agenda.schedule(source, Time(500));
            }
        }
        drain(&mut agenda).into_iter().map(|(_, due)| due).collect::<Vec<_>>()
    };
    let all: Vec<u32> = (0..100).collect();
    let expected = order(1, &all);
    assert_eq!(expected.len(), 100);
    assert_eq!(order(7, &all), expected);
    let (low, high) = all.split_at(30);
    let (low, mut high) = (order(3, low), order(9, high));
    for due in expected {
        // Either half has its events in the order of the whole.
        assert!(if low.contains(&due) { true } else { high.remove(0) == due });
    }
}

#[test]
fn a_source_may_schedule_at_the_time_that_is_processed() {
    let mut agenda: Agenda<u8> = Agenda::new(10, Duration(1_000));
    agenda.schedule(0, Time(100));
    agenda.schedule(1, Time(100));
    let Some((Time(100), Due::Source(first))) = agenda.pop(FOREVER) else { panic!("a source") };
    agenda.schedule(first, Time(100));
    agenda.schedule(2, Time(101));
    assert_eq!(agenda.pop(FOREVER), Some((Time(100), Due::Source(first))));
    assert_eq!(agenda.pop(FOREVER), Some((Time(100), Due::Source(1 - first))));
    assert_eq!(agenda.pop(FOREVER), Some((Time(101), Due::Source(2))));
}

#[test]
fn timers_and_sources_survive_a_long_gap() {
    let mut agenda: Agenda<u32> = Agenda::new(8, Duration(50));
    let mut now = 0;
    for round in 0..200_u32 {
        // Gaps from far below to far above the horizon.
        now += 1 << (round % 40);
        // Whether the source is in the wheel or in the heap, behind it.
        agenda.set_timer(Time(now), round);
        agenda.schedule(round % 8, Time(now));
        assert_eq!(agenda.pop(FOREVER), Some((Time(now), Due::Timer(round))));
        assert_eq!(agenda.pop(FOREVER), Some((Time(now), Due::Source(round % 8))));
        assert!(agenda.is_empty());
    }
}

#[test]
fn pending_events_are_those_of_sources() {
    let mut agenda: Agenda<u8> = Agenda::new(300, Duration(1_000));
    for (source, time) in [(0, 10), (1, 900), (2, 5_000_000), (3, 11)] {
        agenda.schedule(source, Time(time));
    }
    agenda.set_timer(Time(1), 1);
    assert_eq!(agenda.pop(Time(1)), Some((Time(1), Due::Timer(1))));
    assert_eq!(agenda.pop(Time(10)), Some((Time(10), Due::Source(0))));
    let pending: BTreeSet<(u64, u32)> =
        agenda.pending().map(|SourceEvent { time, source }| (time.0, source)).collect();
    assert_eq!(pending, BTreeSet::from([(11, 3), (900, 1), (5_000_000, 2)]));
}

#[test]
fn an_event_queue_is_first_in_first_out_among_equals() {
    let mut queue = EventQueue::new();
    assert!(queue.is_empty() && queue.pop().is_none() && queue.peek().is_none());
    for index in 0..1_000_u32 {
        assert_eq!(queue.push(Time(7), 3, index), u64::from(index));
    }
    assert_eq!((queue.len(), queue.peek()), (1_000, Some((Time(7), 3))));
    let mut all: Vec<u32> = queue.iter().map(|(_, &index)| index).collect();
    all.sort_unstable();
    assert_eq!(all, (0..1_000).collect::<Vec<_>>());
    for index in 0..1_000 {
        let event = queue.pop().unwrap();
        assert_eq!((event.payload, event.sequence), (index, u64::from(index)));
    }
    // The numbers go on after the queue was empty.
    assert_eq!(queue.push(Time(1), 0, 0), 1_000);
}

#[test]
fn priorities_use_their_whole_range() {
    let mut queue = EventQueue::new();
    for priority in [255, 0, 128, 1, 254] {
        queue.push(Time(u64::MAX), priority, priority);
    }
    let order: Vec<u8> = std::iter::from_fn(|| queue.pop()).map(|event| event.payload).collect();
    assert_eq!(order, [0, 1, 128, 254, 255]);
}

#[test]
fn an_indexed_queue_breaks_ties_by_index_whatever_was_set_when() {
    let mut queue = IndexedQueue::new();
    for index in [9, 2, 30, 4] {
        queue.set(index, Time(50));
    }
    queue.set(2, Time(70));
    queue.set(2, Time(50));
    let mut order = Vec::new();
    while let Some((time, index)) = queue.peek() {
        assert_eq!(time, Time(50));
        order.push(index);
        queue.remove(index);
    }
    assert_eq!(order, [2, 4, 9, 30]);
    assert_eq!(queue.time_of(1_000), None);
}

#[derive(Debug, Clone)]
enum Step {
    Push { later: u64, priority: u8 },
    Pop { later: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u64..50, 0u8..3).prop_map(|(later, priority)| Step::Push { later, priority }),
        2 => (0u64..60).prop_map(|later| Step::Pop { later }),
    ]
}

proptest! {
    /// An event queue pops what an ordered set would.
    #[test]
    fn an_event_queue_agrees_with_a_set(steps in prop::collection::vec(step(), 0..300)) {
        let mut queue = EventQueue::new();
        let mut waiting = BTreeSet::new();
        let (mut now, mut pushed) = (0, 0);
        for step in steps {
            match step {
                Step::Push { later, priority } => {
                    queue.push(Time(now + later), priority, pushed);
                    waiting.insert((now + later, priority, pushed));
                    pushed += 1;
                }
                Step::Pop { later } => {
                    let limit = now + later;
                    let expected = waiting.first().copied().filter(|key| key.0 <= limit);
                    let event = queue.pop_until(Time(limit));
                    let found = event.map(|event| (event.time.0, event.priority, event.payload));
                    prop_assert_eq!(found, expected);
                    if let Some(key) = expected {
                        waiting.remove(&key);
                        now = key.0;
                    }
                }
            }
            prop_assert_eq!(queue.len(), waiting.len());
        }
    }

    /// With distinct times, agenda, heap and indexed heap have one order.
    #[test]
    fn all_orders_agree_on_distinct_times(
        times in prop::collection::hash_set(0u64..1 << 40, 1..200),
        horizon in 1u64..1 << 30,
        others in prop::sample::select(vec![0, 4096]),
    ) {
        let times: Vec<u64> = times.into_iter().collect();
        let mut agenda: Agenda<u8> = Agenda::new(times.len() + others, Duration(horizon));
        let mut queue = EventQueue::new();
        let mut indexed = IndexedQueue::new();
        for (index, &time) in times.iter().enumerate() {
            agenda.schedule(index as u32, Time(time));
            queue.push(Time(time), 0, index as u32);
            indexed.set(index as u32, Time(time));
        }
        while let Some((time, due)) = agenda.pop(FOREVER) {
            let event = queue.pop().unwrap();
            prop_assert_eq!((time, due), (event.time, Due::Source(event.payload)));
            prop_assert_eq!(indexed.peek(), Some((time, event.payload)));
            indexed.remove(event.payload);
        }
        prop_assert!(queue.is_empty() && indexed.is_empty());
    }
}
