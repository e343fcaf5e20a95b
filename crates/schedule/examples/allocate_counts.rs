//! One allocator on synthetic demand, to count instructions under callgrind.
//!
//! Arguments: allocator, servers, demand, routing (`split` or `whole`), and what is there before:
//! `none`, `same` (the result to the same demand) or `drift` (the result to demand of which each
//! pair differs by up to 5 %). Only `counted` is to be collected: `benches/RESULTS.md`.

use std::hint::black_box;

use lightloom_model::{Allocator, Rate};
use lightloom_schedule::{Allocation, EpsRates, Request, allocate};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::{Random, demand};

const DRAWS: usize = 10;

/// What is collected.
#[inline(never)]
fn counted(allocator: Allocator, request: &Request) -> Allocation {
    allocate(allocator, request)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [allocator, servers, kind, routing, before] = arguments.as_slice() else {
        panic!("expected: allocator servers demand split|whole none|same|drift");
    };
    let allocator: Allocator = allocator.parse().expect("an allocator");
    let n: usize = servers.parse().expect("a number of servers");
    let rate = Rate(400_000_000_000);
    let ports = vec![6; n];
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..DRAWS {
        let demand = demand(kind, n, &mut random);
        let request = Request::new(
            &demand,
            &ports,
            rate,
            EpsRates::Equal(Rate(2 * rate.0)),
            routing == "split",
        )
        .unwrap();
        let mut drift = |bytes: &u64| (*bytes as f64 * (0.95 + 0.1 * random.uniform())) as u64;
        let old: Vec<u64> = demand.iter().map(&mut drift).collect();
        let previous = match before.as_str() {
            "none" => None,
            "same" => Some(allocate(allocator, &request).circuits),
            _ => Some(allocate(allocator, &request.with_demand(&old).unwrap()).circuits),
        };
        let request = request.with_previous(previous.as_deref()).unwrap();
        black_box(counted(allocator, black_box(&request)));
    }
}
