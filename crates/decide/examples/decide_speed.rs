//! How long a decision takes: regions of 8, 32 and 64 servers, demand that never repeats.
//!
//! `cargo run --release -p lightloom-decide --example decide_speed`, followed by an allocator, a
//! demand and a number of decisions if these are to be others. Demand is *mixtral* (rows alike),
//! *pair*, *sparse* or *uniform*. Under callgrind only `counted` is to be collected:
//! `benches/RESULTS.md`.
//!
//! `decide_speed replay FILE` decides on the cases of a file instead, for
//! `benches/decide_overhead.py`: a region, a policy, a timing, what is held and the upcoming
//! all-to-alls, as JSON. It prints the microseconds that a tenth of them stays below, and the pairs
//! that they change.

use lightloom_decide::{Decider, Decision, Held, Region, Upcoming};
use lightloom_model::{
    Allocator, Duration, Failures, FirstAllToAll, Policy, Rate, Reconfigure, SwitchTiming,
};
use lightloom_schedule::relay::RelayCost;
use std::time::Instant;

#[path = "../../schedule/tests/all/common/regimes.rs"]
mod regimes;

use regimes::{Random, demand};

/// What is collected.
#[inline(never)]
fn counted(decider: &mut Decider, held: &Held, upcoming: &[Upcoming]) -> Decision {
    decider.decide(held, upcoming)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.into());
    let (name, kind, decisions) = (next("greedy"), next("mixtral"), next("200"));
    if name == "replay" {
        return replay(&kind);
    }
    let decisions: usize = decisions.parse().expect("a number of decisions");
    let allocator: Allocator = name.parse().unwrap_or_else(|error| panic!("{error}"));
    for servers in [8, 32, 64] {
        for when in [Reconfigure::Always, Reconfigure::BreakEven] {
            let mut times = run(servers, (allocator, when), (&kind, decisions));
            times.sort_by(f64::total_cmp);
            let at = |part: usize| 1e3 * times[times.len() * part / 100];
            println!(
                "{servers} servers, {kind}, {allocator}, {when}: median {:.3} ms, \
                 99 % within {:.3} ms",
                at(50),
                at(99)
            );
        }
    }
}

/// Decides on each case of a file, none of which is like another.
fn replay(path: &str) {
    type Cases = (Region, Policy, SwitchTiming, Held, Vec<Upcoming>);
    let text = std::fs::read_to_string(path).expect("a file of cases");
    let (region, policy, timing, held, upcoming): Cases =
        serde_json::from_str(&text).expect("cases");
    let (mut lowest, mut changed) = (f64::INFINITY, 0);
    // Turns after the first one find the processor awake.
    for _ in 0..5 {
        let mut decider = Decider::new(region.clone(), policy, timing).expect("consistent");
        let (mut times, mut pairs) = (Vec::with_capacity(upcoming.len()), 0);
        for next in upcoming.chunks(1) {
            let started = Instant::now();
            let decision = counted(&mut decider, &held, next);
            times.push(started.elapsed().as_secs_f64());
            pairs += u64::from(decision.pairs);
        }
        times.sort_by(f64::total_cmp);
        lowest = lowest.min(times[times.len() / 10]);
        changed = pairs;
    }
    println!("{:.3} {changed}", 1e6 * lowest);
}

/// Seconds of each decision.
fn run(
    servers: usize,
    (allocator, when): (Allocator, Reconfigure),
    (kind, decisions): (&str, usize),
) -> Vec<f64> {
    let gbps = 1_000_000_000;
    let region = Region {
        ports: vec![6; servers],
        allowed: None,
        planes: None,
        numa_nodes: 2,
        circuit_rate: Rate(400 * gbps),
        eps_rates: vec![Rate(800 * gbps); servers],
        eps_nics: 2,
        relay_cost: RelayCost::default(),
        failures: Failures::default(),
    };
    let policy =
        Policy { allocator, when, first: FirstAllToAll::Reuse, split: true, relaying: false };
    let timing = SwitchTiming { fixed: Duration(10_000_000), ..SwitchTiming::default() };
    let mut decider = Decider::new(region, policy, timing).expect("a consistent region");
    let mut held = decider.start();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut times = Vec::with_capacity(decisions);
    for _ in 0..decisions {
        let demand = demand(kind, servers, &mut random);
        let upcoming = [Upcoming::known(demand, Duration(5_000_000))];
        let started = Instant::now();
        let decision = counted(&mut decider, &held, &upcoming);
        times.push(started.elapsed().as_secs_f64());
        held = decision.held;
    }
    times
}
