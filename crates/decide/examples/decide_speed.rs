//! How long a decision takes: regions of 8, 32 and 64 servers, skewed demand that never repeats.
//!
//! `cargo run --release -p lightloom-decide --example decide_speed [ALLOCATOR]`

use lightloom_decide::{Decider, Region, Upcoming};
use lightloom_model::{
    Allocator, Duration, Failures, FirstAllToAll, Policy, Rate, Reconfigure, SwitchTiming,
};
use lightloom_schedule::relay::RelayCost;
use std::time::Instant;

const DECISIONS: usize = 200;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "greedy".into());
    let allocator: Allocator = name.parse().unwrap_or_else(|error| panic!("{error}"));
    for servers in [8, 32, 64] {
        for when in [Reconfigure::Always, Reconfigure::BreakEven] {
            let mut times = run(servers, allocator, when);
            times.sort_by(f64::total_cmp);
            let at = |part: usize| 1e3 * times[times.len() * part / 100];
            println!(
                "{servers} servers, {allocator}, {when}: median {:.3} ms, 99 % within {:.3} ms",
                at(50),
                at(99)
            );
        }
    }
}

/// Seconds of each decision.
fn run(servers: usize, allocator: Allocator, when: Reconfigure) -> Vec<f64> {
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
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut times = Vec::with_capacity(DECISIONS);
    for _ in 0..DECISIONS {
        let demand = (0..servers * servers).map(|_| (1e8 * draw().powi(4)) as u64).collect();
        let upcoming = [Upcoming::known(demand, Duration(5_000_000))];
        let started = Instant::now();
        let decision = decider.decide(&held, &upcoming);
        times.push(started.elapsed().as_secs_f64());
        held = decision.held;
    }
    times
}
