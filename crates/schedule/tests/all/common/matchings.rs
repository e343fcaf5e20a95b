//! Every way to match the lines of a small matrix.

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
