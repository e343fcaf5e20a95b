//! Progressive filling of a whole network from scratch: slow, plain, and written apart from the
//! crate, to check it against.

/// Max-min fair rates of flows with these `paths` (lists of link indices) over `capacity`.
///
/// All rates grow together from zero; when a link is full, its flows stop growing.
pub fn progressive_filling(capacity: &[f64], paths: &[&[usize]]) -> Vec<f64> {
    let mut rates = vec![f64::NAN; paths.len()];
    let mut left = capacity.to_vec();
    let mut growing: Vec<usize> = vec![0; capacity.len()];
    for path in paths {
        for &link in *path {
            growing[link] += 1;
        }
    }
    let mut open = paths.len();
    while open > 0 {
        let share = |link: usize| left[link].max(0.0) / growing[link] as f64;
        let full = (0..capacity.len()).filter(|&link| growing[link] > 0);
        let full = full.min_by(|&a, &b| share(a).total_cmp(&share(b))).expect("flows have links");
        let level = share(full);
        for (flow, path) in paths.iter().enumerate() {
            if rates[flow].is_nan() && path.contains(&full) {
                rates[flow] = level;
                open -= 1;
                for &link in *path {
                    left[link] -= level;
                    growing[link] -= 1;
                }
            }
        }
    }
    rates
}

/// Whether two numbers agree to 1e-9.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}
