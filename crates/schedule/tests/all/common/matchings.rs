//! Every way to match the lines of a small matrix, and the shortest schedule of all.

use std::collections::HashMap;

/// Maximal matchings as lists of cells; more never hurts.
pub fn every_matching(
    left: &[u64],
    lines: usize,
    taken: &mut Vec<usize>,
    found: &mut Vec<Vec<usize>>,
) {
    let free = |cell: usize| {
        left[cell] > 0
            && taken.iter().all(|&t| t / lines != cell / lines && t % lines != cell % lines)
    };
    let open: Vec<usize> = (0..left.len()).filter(|&cell| free(cell)).collect();
    if open.is_empty() {
        found.push(taken.clone());
    }
    // In ascending order, so that each set is made once.
    let last = taken.last().copied();
    for cell in open.into_iter().filter(|&cell| last.is_none_or(|last| cell > last)) {
        taken.push(cell);
        every_matching(left, lines, taken, found);
        taken.pop();
    }
}

/// The least all-stop length, by trying every maximal matching and every hold after each other.
pub fn optimum(left: &[u64], lines: usize, delay: u64, known: &mut HashMap<Vec<u64>, u64>) -> u64 {
    if left.iter().all(|&bytes| bytes == 0) {
        return 0;
    }
    if let Some(&length) = known.get(left) {
        return length;
    }
    let mut matchings = Vec::new();
    every_matching(left, lines, &mut Vec::new(), &mut matchings);
    let mut best = u64::MAX;
    for matching in matchings {
        let longest = matching.iter().map(|&cell| left[cell]).max().unwrap_or(0);
        for hold in 1..=longest {
            let mut after = left.to_vec();
            for &cell in &matching {
                after[cell] -= after[cell].min(hold);
            }
            best = best.min(hold + delay + optimum(&after, lines, delay, known));
        }
    }
    known.insert(left.to_vec(), best);
    best
}
