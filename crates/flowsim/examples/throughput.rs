//! Flows per second of the workloads that the flow-level network is built for.
//!
//! `cargo run --release -p lightloom-flowsim --example throughput [letter [rounds]]`

#[path = "../benches/workloads/mod.rs"]
mod workloads;

use std::time::Instant;
use workloads::{WORKLOADS, run};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "workload                      flows   events  us/flow  flows/s  links/event  flows/event"
    );
    for (workload, rounds) in WORKLOADS.iter().zip([1000, 200, 10, 3, 2, 20, 20, 1000]) {
        if arguments.first().is_some_and(|letter| !workload.name.starts_with(letter.as_str())) {
            continue;
        }
        let rounds =
            arguments.get(1).map_or(rounds, |text| text.parse().expect("rounds: a number"));
        let begin = Instant::now();
        let outcome = run(workload, rounds);
        let seconds = begin.elapsed().as_secs_f64();
        let statistics = outcome.statistics;
        println!(
            "{:26} {:8} {:8} {:8.3} {:8.0} {:12.1} {:12.1}   end {}",
            workload.name,
            outcome.flows,
            outcome.events,
            seconds * 1e6 / outcome.flows as f64,
            outcome.flows as f64 / seconds,
            statistics.links_touched as f64 / statistics.recomputations as f64,
            statistics.flows_touched as f64 / statistics.recomputations as f64,
            outcome.end.0,
        );
    }
}
