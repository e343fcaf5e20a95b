//! Hybrid schedules over their bound, by regime, delay and rate of the packet switch.
//!
//! ```text
//! cargo run --release -p lightloom-schedule --example hybrid -- 8,16,32 4
//! ```

use std::time::Instant;

use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    HybridDemand, HybridMethod, PortRates, check_hybrid, schedule_hybrid,
};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let sizes = words.first().map_or("8,16,32,64", String::as_str);
    let draws: u64 = words.get(1).map_or(Ok(2), |word| word.parse()).expect("a number of draws");
    println!("| regime | n | solstice | eclipse | balanced | of the shorter one | ms |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for kind in regimes::KINDS {
        for size in sizes.split(',') {
            let size = size.parse().expect("sizes such as 8,16");
            row(kind, size, draws);
        }
    }
}

/// Means and maxima over delays of 0.1, 1 and 10 % of the longest line and an EPS of 1/10, 1/4 and
/// 1/2 of the circuits' rate.
fn row(kind: &str, n: usize, draws: u64) {
    let mut over = [const { Vec::new() }; 3];
    let (mut relative, mut times) = (Vec::new(), [0.0; 3]);
    for draw in 0..draws {
        let mut random = regimes::Random(0x9E37_79B9_7F4A_7C15 ^ (draw * 7_919 + 1));
        let bytes = regimes::demand(kind, n, &mut random);
        let rows = bytes.chunks_exact(n).map(|row| row.iter().sum::<u64>());
        let columns = (0..n).map(|c| bytes.iter().skip(c).step_by(n).sum::<u64>());
        let longest = rows.chain(columns).max().expect("a line");
        for per_mille in [1, 10, 100] {
            for eps in [10, 25, 50] {
                let rates = PortRates { circuit: Rate(100), eps: Rate(eps) };
                let delay = longest * per_mille / 1_000;
                let demand = HybridDemand::new(n, n, &bytes, delay, rates).expect("it fits");
                let mut lengths = [0.0; 3];
                for (index, &method) in HybridMethod::ALL.iter().enumerate() {
                    let start = Instant::now();
                    let found = schedule_hybrid(&demand, method);
                    times[index] += start.elapsed().as_secs_f64() * 1e3;
                    check_hybrid(&demand, &found).expect("a schedule");
                    over[index].push(found.over_bound());
                    lengths[index] = found.length as f64;
                }
                relative.push(lengths[0] / lengths[1].min(lengths[2]));
            }
        }
    }
    let text = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        format!("{mean:.3} ({:.2})", values.iter().copied().fold(0.0, f64::max))
    };
    let cases = relative.len() as f64;
    let [ours, solstice, eclipse] = over.each_ref().map(|values| text(values));
    let took = times.map(|time| format!("{:.1}", time / cases));
    println!(
        "| {kind} | {n} | {solstice} | {eclipse} | {ours} | {} | {} |",
        text(&relative),
        took.join(" / ")
    );
}
