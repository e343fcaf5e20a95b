//! Completion time over port bound of `RotorNet`, Helios, X-NEST+ and our own schedules.
//!
//! Prints the tables of `experiments/schedule-methods/systems.md`. The argument is the number of
//! draws.

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use std::path::Path;

use lightloom_model::{Allocator, Rate};
use lightloom_schedule::epochs::Epochs;
use lightloom_schedule::helios::{helios, helios_matchings};
use lightloom_schedule::permutation::{Demand, Method, decompose};
use lightloom_schedule::rotornet::{Cycling, Rotor, check, rotate};
use lightloom_schedule::xnest_plus::{Reading, xnest_plus};
use lightloom_schedule::{EpsRates, Request, allocate, port_bound, route};
use regimes::Random;

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The public matrix, if it is there, then draws of each regime and size.
fn cases(draws: usize) -> Vec<(String, usize, Vec<Vec<u64>>)> {
    let mut cases = Vec::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/mixtral_8x8_token_matrix.txt");
    if let Ok(text) = std::fs::read_to_string(path) {
        let cells = text.split(|c: char| !c.is_ascii_digit()).filter(|cell| !cell.is_empty());
        // Tokens of 12,288 bytes, as Mixtral 8x22B has them.
        let bytes: Vec<u64> =
            cells.map(|cell| 12_288 * cell.parse::<u64>().expect("a number")).collect();
        cases.push(("public".to_owned(), 8, vec![off_diagonal(bytes, 8)]));
    }
    for kind in ["mixtral", "pair", "sparse"] {
        for n in [8, 16, 32] {
            let mut random = Random(SEED);
            let drawn = (0..draws)
                .map(|_| off_diagonal(regimes::demand(kind, n, &mut random), n))
                .collect();
            cases.push((kind.to_owned(), n, drawn));
        }
    }
    cases
}

fn off_diagonal(mut demand: Vec<u64>, n: usize) -> Vec<u64> {
    for node in 0..n {
        demand[node * n + node] = 0;
    }
    demand
}

fn largest_line(demand: &[u64], n: usize) -> u64 {
    let row = |node: usize| demand[node * n..(node + 1) * n].iter().sum::<u64>();
    let column = |node: usize| demand[node..].iter().step_by(n).sum::<u64>();
    (0..n).map(|node| row(node).max(column(node))).max().unwrap_or(0)
}

/// Times over bound: four of `RotorNet`, Helios, two readings of X-NEST+, our own.
fn ratios(demand: &[u64], n: usize, switches: usize, delay_share: f64) -> [f64; 8] {
    let bound = largest_line(demand, n).div_ceil(switches as u64);
    let delay = (bound as f64 * delay_share) as u64;
    // A duty cycle of 90 %; without delay a twentieth of the bound.
    let short = if delay > 0 { 9 * delay } else { bound.div_ceil(20) };
    let rotor = |held: bool, relay: bool| {
        let slot = match (delay, held, relay) {
            (0, _, _) | (_, true, false) => None,
            _ => Some(short),
        };
        let cycling = Cycling::Shared;
        let rotor = Rotor { nodes: n, switches, slot, delay, held, relay, cycling };
        let found = rotate(demand, &rotor).expect("a demand that can be served");
        check(demand, &rotor, &found).expect("every byte arrives");
        found.over_bound(switches)
    };
    let sizes = Epochs { nodes: n, switches, epoch: short, delay };
    let epochs = [
        helios(demand, &sizes),
        xnest_plus(demand, &sizes, Reading::Pairings),
        xnest_plus(demand, &sizes, Reading::Diagonals),
    ];
    let [helios, pairings, diagonals] =
        epochs.map(|run| run.expect("a demand that can be served").over_bound(switches));
    // Each switch takes an equal part of every entry.
    let part: Vec<u64> = demand.iter().map(|bytes| bytes.div_ceil(switches as u64)).collect();
    let own = Demand::new(n, n, &part, delay, false).expect("a demand");
    let own = decompose(&own, Method::Auto, None).length as f64 / bound as f64;
    [
        rotor(false, false),
        rotor(false, true),
        rotor(true, false),
        rotor(true, true),
        helios,
        pairings,
        diagonals,
        own,
    ]
}

/// Fixed circuits, split routing, 6 circuits and 2 EPS NICs: time over port bound.
fn one_shot(demand: &[u64], n: usize) -> [f64; 4] {
    let rate = Rate(400_000_000_000);
    let (ports, eps_rates) = (vec![6; n], EpsRates::Equal(Rate(2 * rate.0)));
    let request = Request::new(demand, &ports, rate, eps_rates, true).unwrap();
    let bound = port_bound(&request);
    // Worth of a pair: what a circuit carries until the bound.
    let room = largest_line(demand, n).div_ceil(8);
    let mut circuits = vec![0_u16; n * n];
    for matching in helios_matchings(demand, n, 6, room).expect("a demand") {
        for (node, &peer) in matching.iter().enumerate().filter(|pair| *pair.1 < n as u32) {
            circuits[node * n + peer as usize] += 1;
        }
    }
    let of = |allocator| allocate(allocator, &request).makespan / bound;
    [
        of(Allocator::Static),
        route(&request, &circuits).makespan / bound,
        of(Allocator::Greedy),
        of(Allocator::Best),
    ]
}

fn print_means<const N: usize>(
    cases: &[(String, usize, Vec<Vec<u64>>)],
    ratios: impl Fn(&[u64], usize) -> [f64; N],
) {
    for (kind, n, draws) in cases {
        let mut sums = [0.0; N];
        for demand in draws {
            for (sum, ratio) in sums.iter_mut().zip(ratios(demand, *n)) {
                *sum += ratio;
            }
        }
        let cells: Vec<String> =
            sums.iter().map(|sum| format!("{:.3}", sum / draws.len() as f64)).collect();
        println!("| {kind} | {n} | {} |", cells.join(" | "));
    }
}

fn main() {
    let draws: usize = std::env::args().nth(1).map_or(10, |text| text.parse().expect("a number"));
    let cases = cases(draws);
    for (switches, delay_share) in [(1, 0.0), (1, 0.005), (4, 0.005)] {
        println!("{switches} switches, a delay of {} % of the bound", 100.0 * delay_share);
        print_means(&cases, |demand, n| ratios(demand, n, switches, delay_share));
    }
    println!("fixed circuits: static, Helios, greedy, best");
    print_means(&cases, one_shot);
}
