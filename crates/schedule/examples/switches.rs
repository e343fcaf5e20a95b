//! Length over bound of schedules over several switches, by regime, size, switches and delay.

use std::time::Instant;

use lightloom_schedule::permutation::{Demand, Method, check_over, decompose_over};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::Random;

/// Delays in parts per 10,000 of the longest line.
const DELAYS: [u64; 4] = [1, 10, 100, 1_000];

fn longest(bytes: &[u64], n: usize) -> u64 {
    let row = |i: usize| bytes[i * n..(i + 1) * n].iter().sum::<u64>();
    let column = |j: usize| (0..n).map(|i| bytes[i * n + j]).sum::<u64>();
    (0..n).map(|line| row(line).max(column(line))).max().unwrap_or(0)
}

/// Mean and largest ratio, and mean time in ms.
fn measure(
    kind: &str,
    n: usize,
    switches: usize,
    part: u64,
    method: Method,
    draws: u32,
) -> [f64; 4] {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut result = [0.0_f64; 4];
    for _ in 0..draws {
        let mut bytes = regimes::demand(kind, n, &mut random);
        (0..n).for_each(|line| bytes[line * n + line] = 0);
        let longest = longest(&bytes, n);
        let delay = longest * part / 10_000;
        let demand = Demand::new(n, n, &bytes, delay, false).expect("valid");
        let start = Instant::now();
        let found = decompose_over(&demand, switches, method, None).expect("valid");
        let took = start.elapsed().as_secs_f64() * 1e3;
        check_over(&demand, &found).expect("valid");
        let of = |bound: f64| found.length as f64 / bound;
        let degree =
            (0..n).map(|row| bytes[row * n..(row + 1) * n].iter().filter(|&&b| b > 0).count());
        let columns = (0..n).map(|c| (0..n).filter(|r| bytes[r * n + c] > 0).count());
        let degree = degree.chain(columns).max().unwrap_or(0) as f64;
        let (s, l, d) = (switches as f64, longest as f64, delay as f64);
        let simple = (l / s + d).max((l + degree * d) / s);
        result[0] += of(found.lower_bound as f64) / f64::from(draws);
        result[1] = result[1].max(of(found.lower_bound as f64));
        result[2] += of(simple) / f64::from(draws);
        result[3] += took / f64::from(draws);
    }
    result
}

/// Arguments: draws, sizes, switches, method.
fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let or = |index: usize, default: &str| given.get(index).cloned().unwrap_or(default.to_owned());
    let numbers = |text: String| -> Vec<usize> {
        text.split(',').map(|word| word.parse().expect("whole numbers with commas")).collect()
    };
    let draws = numbers(or(0, "3"))[0] as u32;
    let method = or(3, "auto").parse().expect("a method");
    let (sizes, counts) = (numbers(or(1, "8,16,32")), numbers(or(2, "2,4,8")));
    for part in DELAYS {
        let mut all = [0.0_f64; 4];
        let mut cells = 0.0;
        for kind in regimes::KINDS {
            for &n in &sizes {
                for &switches in &counts {
                    let found = measure(kind, n, switches, part, method, draws);
                    let [mean, worst, simple, took] = found;
                    let delay = part as f64 / 100.0;
                    println!(
                        "{delay:5.2} % {kind:8} {n:3} lines {switches:2} switches: {mean:.3} \
                         (worst {worst:.3}), {simple:.3} over the simple bound, {took:8.2} ms"
                    );
                    all[0] += mean;
                    all[1] = all[1].max(worst);
                    all[2] += simple;
                    all[3] += took;
                    cells += 1.0;
                }
            }
        }
        let delay = part as f64 / 100.0;
        println!(
            "{delay:5.2} % mean {:.3} (worst {:.3}), {:.3} over the simple bound, {:.2} ms",
            all[0] / cells,
            all[1],
            all[2] / cells,
            all[3] / cells
        );
    }
}
