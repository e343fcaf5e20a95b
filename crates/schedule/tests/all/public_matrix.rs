//! The one public Mixtral routing matrix, against the ratios that prototypes measured on it.

use std::path::Path;

use lightloom_model::{Allocator, Rate};
use lightloom_schedule::permutation::{Demand, Method, check, decompose};
use lightloom_schedule::{Allocation, EpsRates, Request, allocate, port_bound};

fn public_matrix() -> Option<Vec<u64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/mixtral_8x8_token_matrix.txt");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: ../shared/data/mixtral_8x8_token_matrix.txt is not there");
        return None;
    };
    let cells = text.split(|c: char| !c.is_ascii_digit()).filter(|cell| !cell.is_empty());
    Some(cells.map(|cell| cell.parse().expect("a number")).collect())
}

fn on_matrix(demand: &[u64], allocator: Allocator, split: bool) -> (Allocation, f64) {
    let rate = Rate(400_000_000_000);
    let request =
        Request::new(demand, &[6; 8], rate, EpsRates::Equal(Rate(2 * rate.0)), split).unwrap();
    let allocation = allocate(allocator, &request);
    let ratio = allocation.makespan / port_bound(&request);
    (allocation, ratio)
}

fn circuits(allocation: &Allocation) -> u32 {
    allocation.circuits.iter().map(|&count| u32::from(count)).sum::<u32>() / 2
}

#[test]
fn the_ratios_to_the_port_bound_come_out() {
    let Some(demand) = public_matrix() else { return };
    let expected = [
        (Allocator::Paper, false, 1.95, 0.005),
        (Allocator::Paper, true, 1.95, 0.005),
        (Allocator::Reference, false, 1.284, 0.0005),
        (Allocator::Reference, true, 1.000, 0.0005),
        (Allocator::Static, false, 1.284, 0.0005),
        (Allocator::Static, true, 1.002, 0.0005),
        (Allocator::Best, true, 1.000, 1e-12),
    ];
    for (allocator, split, ratio, tolerance) in expected {
        let (_, found) = on_matrix(&demand, allocator, split);
        assert!((found - ratio).abs() <= tolerance, "{allocator:?} split {split}: {found}");
    }
    assert!(on_matrix(&demand, Allocator::Best, false).1 <= 1.2841);
}

#[test]
fn as_printed_algorithm_1_opens_6_circuits_and_the_reference_24() {
    let Some(demand) = public_matrix() else { return };
    assert_eq!(circuits(&on_matrix(&demand, Allocator::Paper, false).0), 6);
    assert_eq!(circuits(&on_matrix(&demand, Allocator::Reference, false).0), 24);
    assert_eq!(circuits(&on_matrix(&demand, Allocator::Static, false).0), 24);
}

/// Rows that are nearly alike: cyclic shifts of what leaves the servers cannot be beaten, whatever
/// the delay.
#[test]
fn round_robin_is_optimal() {
    let Some(mut bytes) = public_matrix() else { return };
    bytes.iter_mut().step_by(9).for_each(|stays| *stays = 0);
    for delay in [0, 1, 1_000, 100_000] {
        let demand = Demand::new(8, 8, &bytes, delay, false).unwrap();
        let found = decompose(&demand, Method::RoundRobin, None);
        check(&demand, &found).unwrap();
        assert_eq!(found.length, found.lower_bound, "delay {delay}");
        assert_eq!(found.plan.configurations(), 7);
    }
}
