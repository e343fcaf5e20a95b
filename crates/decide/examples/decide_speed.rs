//! How long a decision takes: regions of 8, 32 and 64 servers, demand that never repeats.
//!
//! `cargo run --release -p lightloom-decide --example decide_speed`, followed by an allocator, a
//! demand, a number of decisions, fibers and a share if these are to be others. Demand is *mixtral*
//! (rows alike), *pair*, *sparse* or *uniform*; where the share is above 0, it differs by as much
//! from one decision to the next. Fibers are *one* (one switch), *duplex* or *crossed*. Under
//! callgrind only `counted` is to be collected: `benches/RESULTS.md`.
//!
//! `decide_speed replay FILE` decides on the cases of a file instead, for
//! `benches/decide_overhead.py`: a region, a policy, a timing, what is held and the upcoming
//! all-to-alls, as JSON. It prints the mean microseconds of a decision, each the least of several
//! turns, and the pairs that they change.

use lightloom_decide::{
    Decider, Decision, Held, NumaNodes, Policy, Reconfigure, Region, SizedRegion, Upcoming,
};
use lightloom_model::{
    Allocator, CircuitRate, Duration, Failures, Fibers, PerServer, Rate, SwitchTiming,
};
use std::time::Instant;

#[path = "../../schedule/tests/all/common/regimes.rs"]
mod regimes;

use regimes::{Random, demand};

/// How often the cases of a file are decided on.
const TURNS: usize = 20;

/// What is collected.
#[inline(never)]
fn counted(decider: &mut Decider, held: &Held, upcoming: &[Upcoming]) -> Decision {
    decider.decide(held, upcoming)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.into());
    let (name, kind, decisions) = (next("greedy"), next("mixtral"), next("200"));
    let (fibers, drift, sizes) = (next("one"), next("0"), next("8,32,64"));
    if name == "replay" {
        return replay(&kind);
    }
    let decisions: usize = decisions.parse().expect("a number of decisions");
    let allocator: Allocator = name.parse().unwrap_or_else(|error| panic!("{error}"));
    let planes = match fibers.as_str() {
        "one" => None,
        "duplex" => Some(Fibers::Duplex),
        _ => Some(Fibers::Crossed),
    };
    let drift: f64 = drift.parse().expect("a share");
    for servers in sizes.split(',').map(|size| size.parse().expect("a number of servers")) {
        for when in [Reconfigure::Always, Reconfigure::BreakEven] {
            let (mut times, changed) =
                run((servers, planes), (allocator, when), (&kind, drift), decisions);
            times.sort_by(f64::total_cmp);
            let at = |part: usize| 1e3 * times[times.len() * part / 100];
            println!(
                "{servers} servers, {kind}, {allocator}, {when}: median {:.3} ms, \
                 99 % within {:.3} ms, {:.2} pairs change, {:.2} of them move",
                at(50),
                at(99),
                changed[0] / decisions as f64,
                changed[1] / decisions as f64,
            );
        }
    }
}

/// Decides on each case of a file, none of which is like another.
fn replay(path: &str) {
    type Cases = (usize, Region, Policy, SwitchTiming, Held, Vec<Upcoming>);
    let text = std::fs::read_to_string(path).expect("a file of cases");
    let (servers, region, policy, timing, held, upcoming): Cases =
        serde_json::from_str(&text).expect("cases");
    let region = SizedRegion::new(servers, region).expect("consistent");
    let mut minimum = vec![f64::INFINITY; upcoming.len()];
    let mut pairs = 0;
    // Other work on the machine only adds; turns after the first one find the processor awake.
    for _ in 0..TURNS {
        let mut decider = Decider::new(region.clone(), policy, timing);
        let mut last = None;
        pairs = 0;
        for (next, minimum) in upcoming.chunks(1).zip(&mut minimum) {
            let started = Instant::now();
            // As a caller in Python does, the decision before it is given up.
            let decision = last.insert(counted(&mut decider, &held, next));
            *minimum = minimum.min(started.elapsed().as_secs_f64());
            pairs += u64::from(decision.pairs);
        }
    }
    println!("{:.3} {pairs}", 1e6 * minimum.iter().sum::<f64>() / minimum.len() as f64);
}

/// Seconds of each decision, and the pairs that all of them change, and move to other NICs.
fn run(
    (servers, planes): (usize, Option<Fibers>),
    (allocator, when): (Allocator, Reconfigure),
    (kind, drift): (&str, f64),
    decisions: usize,
) -> (Vec<f64>, [f64; 2]) {
    let gbps = 1_000_000_000;
    let region = Region {
        ports: PerServer::All(6),
        allowed: None,
        planes,
        numa_nodes: NumaNodes::TWO,
        circuit_rate: CircuitRate::new(Rate(400 * gbps)).expect("above 0"),
        eps_rates: PerServer::All(Rate(800 * gbps)),
        eps_nics: Some(2),
        split: true,
        failures: Failures::default(),
    };
    let policy = Policy { allocator, when, relaying: None };
    let timing = SwitchTiming { fixed: Duration(10_000_000), ..SwitchTiming::default() };
    let region = SizedRegion::new(servers, region).expect("a consistent region");
    let mut decider = Decider::new(region, policy, timing);
    let mut held = decider.start();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut times, mut changed) = (Vec::with_capacity(decisions), [0.0; 2]);
    let mut bytes = demand(kind, servers, &mut random);
    for _ in 0..decisions {
        if drift == 0.0 {
            bytes = demand(kind, servers, &mut random);
        }
        let mut drifted =
            |&old: &u64| (old as f64 * (1.0 + drift * (2.0 * random.uniform() - 1.0))) as u64;
        bytes = bytes.iter().map(&mut drifted).collect();
        let upcoming = [Upcoming::known(bytes.clone(), Duration(5_000_000))];
        let started = Instant::now();
        let decision = counted(&mut decider, &held, &upcoming);
        times.push(started.elapsed().as_secs_f64());
        changed[0] += f64::from(decision.pairs);
        changed[1] += decision.change.moved.len() as f64;
        held = decision.held;
    }
    (times, changed)
}
