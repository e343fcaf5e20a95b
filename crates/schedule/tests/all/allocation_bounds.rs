//! The line bound where it is attained: a single server sends, or receives, and no other competes.

use crate::common::cases::{BITS, Case, Random, brute_force};
use lightloom_model::Allocator;
use lightloom_schedule::{allocate, line_bound};

/// Server 0 and its peers, all of equal ports; circuits join server 0 only.
fn star(n: usize, ports: u32, sends: bool, random: &mut Random) -> Case {
    let mut case = Case::new(n, vec![0; n * n], ports);
    for cell in 0..n * n {
        let (row, column) = (cell / n, cell % n);
        case.allowed[cell] = (row == 0) != (column == 0);
        if (if sends { row } else { column }) == 0 && row != column {
            case.demand[cell] = (1e8 * random.uniform().powi(4)) as u64;
        }
    }
    case
}

#[test]
fn a_single_busy_line_attains_its_bound() {
    let mut random = Random(53);
    for draw in 0..1_200 {
        let (n, ports) = (3 + draw % 4, 1 + draw as u32 / 4 % 6);
        let mut case = star(n, ports, draw % 2 == 0, &mut random);
        case.eps = [2 * BITS, BITS / 3, BITS / 50, 0][draw / 24 % 4];
        let (exact, bound) = (brute_force(&case), line_bound(&case.request()));
        let is_equal = bound.to_bits() == exact.to_bits() || (bound / exact - 1.0).abs() < 1e-9;
        assert!(is_equal, "draw {draw}, {n} servers, {ports} ports: {bound} s, exact {exact} s");
        let best = allocate(Allocator::Best, &case.request()).makespan;
        assert!(!exact.is_finite() || best <= exact * 1.005, "draw {draw}: {best} s, {exact} s");
    }
}

/// Without an EPS and without split each pair must have circuits, and branching decides how many.
#[test]
fn every_pair_has_circuits_where_there_is_no_eps() {
    let mut random = Random(59);
    for draw in 0..60 {
        let mut case = Case::random(4, 3 + draw % 3, draw % 2 == 0, &mut random);
        case.eps = 0;
        let exact = brute_force(&case);
        for allocator in [Allocator::Parametric, Allocator::Best] {
            let found = allocate(allocator, &case.request());
            assert!(found.makespan.is_finite() && found.eps_bytes.iter().all(|&bytes| bytes == 0));
            let gap = found.makespan / exact - 1.0;
            assert!(gap.abs() < 1e-8, "draw {draw}, {allocator}: {gap:.5}");
        }
    }
}
