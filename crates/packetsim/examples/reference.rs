//! Completion times beside those of reference simulators, for the files of `../shared/ref` whose
//! names have one of the parts given as arguments: all of one random path per flow, unless given.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{STATISTICS, compare, files};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut parts: Vec<&str> = words.iter().map(String::as_str).collect();
    if parts.is_empty() {
        parts = vec!["ffsim", "roce", "eqds_100G_p1.csv"];
    }
    println!("completion times in us; ours: 5 % to 95 % over 20 seeds, and the median");
    for reference in files(&parts) {
        println!("{}", reference.name);
        for (name, found) in STATISTICS.iter().zip(compare(&reference)) {
            let verdict = if found.is_inside(0.0) {
                "inside".to_owned()
            } else {
                format!("median {:+.1} %", 100.0 * (found.median / found.reference - 1.0))
            };
            println!(
                "  {name:<4} reference {:10.3}  ours {:10.3} to {:10.3}, {:10.3}  {verdict}",
                found.reference, found.low, found.high, found.median
            );
        }
    }
}
