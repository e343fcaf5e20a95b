//! The event queue against the standard binary heap, holding 10,000 events of bursty times.

use criterion::{Criterion, criterion_group, criterion_main};
use lightloom_kernel::EventQueue;
use lightloom_model::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

const HELD: u64 = 10_000;

/// Gaps between events: a quarter at the same instant, the others spread over three decades.
fn gap(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let draw = *state >> 33;
    if draw.trailing_zeros() >= 2 { 0 } else { draw % 1_000 * (1 + draw % 7 * 150) }
}

fn hold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hold 10000 events");
    group.bench_function("EventQueue", |bencher| {
        let mut queue = EventQueue::new();
        let mut state = 1;
        for id in 0..HELD {
            queue.push(Time(gap(&mut state)), 0, id);
        }
        bencher.iter(|| {
            let event = queue.pop().expect("never empty");
            queue.push(Time(event.time.0 + gap(&mut state)), 0, black_box(event.payload));
        });
    });
    group.bench_function("BinaryHeap", |bencher| {
        let mut queue = BinaryHeap::new();
        let mut state = 1;
        let mut sequence = 0u64;
        for id in 0..HELD {
            queue.push(Reverse((gap(&mut state), 0u8, sequence, id)));
            sequence += 1;
        }
        bencher.iter(|| {
            let Reverse((time, _, _, id)) = queue.pop().expect("never empty");
            queue.push(Reverse((time + gap(&mut state), 0, sequence, black_box(id))));
            sequence += 1;
        });
    });
    group.finish();
}

criterion_group!(benches, hold);
criterion_main!(benches);
