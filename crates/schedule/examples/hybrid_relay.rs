//! What relaying saves of hybrid schedules, by regime, size, delay and rate of the packet switch.
//!
//! ```text
//! cargo run --release -p lightloom-schedule --example hybrid_relay -- 8,16,32 2
//! ```

use std::time::Instant;

use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    HybridBudget, HybridDemand, HybridMethod, PortRates, check_hybrid, relay_hybrid,
    schedule_hybrid,
};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let sizes = words.first().map_or("8,16,32", String::as_str);
    let draws: u64 = words.get(1).map_or(Ok(2), |word| word.parse()).expect("a number of draws");
    println!(
        "| regime | n | delay | balanced | ratio | smallest | slots | over bound | Eclipse | ms |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for kind in regimes::KINDS {
        for size in sizes.split(',') {
            let size = size.parse().expect("sizes such as 8,16");
            for per_mille in [1, 10, 100] {
                row(kind, size, per_mille, draws);
            }
        }
    }
}

/// Means over an EPS of 1/10, 1/4 and 1/2 of the circuits' rate: slots and lengths without and with
/// relaying, and Eclipse with it, over balanced with it.
fn row(kind: &str, n: usize, per_mille: u64, draws: u64) {
    let mut sums = [0.0; 7];
    let (mut smallest, mut count) = (f64::INFINITY, 0.0);
    for draw in 0..draws {
        let mut random = regimes::Random(0x9E37_79B9_7F4A_7C15 ^ (draw * 7_919 + 1));
        let bytes = regimes::demand(kind, n, &mut random);
        let rows = bytes.chunks_exact(n).map(|row| row.iter().sum::<u64>());
        let columns = (0..n).map(|c| bytes.iter().skip(c).step_by(n).sum::<u64>());
        let longest = rows.chain(columns).max().expect("a line");
        for eps in [10, 25, 50] {
            let rates = PortRates { circuit: Rate(100), eps: Rate(eps) };
            let delay = longest * per_mille / 1_000;
            let demand = HybridDemand::new(n, n, &bytes, delay, rates).expect("it fits");
            let relayed = |method| {
                let plain = schedule_hybrid(&demand, method);
                let start = Instant::now();
                let found = relay_hybrid(&demand, plain.clone(), &HybridBudget::USUAL);
                let found = found.expect("a square demand");
                check_hybrid(&demand, &found).expect("a schedule");
                (plain, found, start.elapsed().as_secs_f64() * 1e3)
            };
            let (plain, found, took) = relayed(HybridMethod::Balanced);
            let (_, eclipse, _) = relayed(HybridMethod::Eclipse);
            let ratio = found.length as f64 / plain.length as f64;
            let values = [
                plain.over_bound(),
                ratio,
                plain.slots.len() as f64,
                found.slots.len() as f64,
                found.over_bound(),
                eclipse.length as f64 / found.length as f64,
                took,
            ];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            smallest = smallest.min(ratio);
            count += 1.0;
        }
    }
    let [over, ratio, slots, fewer, relayed, eclipse, took] = sums.map(|sum| sum / count);
    let delay = per_mille as f64 / 10.0;
    println!(
        "| {kind} | {n} | {delay} % | {over:.3} | {ratio:.3} | {smallest:.3} | {slots:.1} to \
         {fewer:.1} | {relayed:.3} | {eclipse:.3} | {took:.0} |"
    );
}
