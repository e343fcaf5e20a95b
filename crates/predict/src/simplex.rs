//! The nearest vector whose entries are non-negative and sum to one.
//!
//! It is the vector minus a shift, with negative entries cut off. The shift is that of the entries
//! that stay: starting from all of them, those that the shift would cut off are dropped until none
//! is (Michelot, Journal of Optimization Theory and Applications 50, 1986).

/// Projects a vector; `kept` is scratch space.
pub(crate) fn project_simplex(vector: &mut [f64], kept: &mut Vec<f64>) {
    kept.clear();
    kept.extend_from_slice(vector);
    let shift = loop {
        let shift = (kept.iter().sum::<f64>() - 1.0) / kept.len() as f64;
        let before = kept.len();
        kept.retain(|&entry| entry > shift);
        // rounding can drop the last one where all are equal
        if kept.len() == before || kept.is_empty() {
            break shift;
        }
    };
    for entry in vector {
        *entry = (*entry - shift).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The projection by sorting (Duchi et al., ICML 2008).
    fn by_sorting(vector: &[f64]) -> Vec<f64> {
        let mut ordered = vector.to_vec();
        ordered.sort_by(|one, other| other.total_cmp(one));
        let mut sum = -1.0;
        let mut shift = 0.0;
        for (index, &entry) in ordered.iter().enumerate() {
            sum += entry;
            if entry * (index + 1) as f64 > sum {
                shift = sum / (index + 1) as f64;
            }
        }
        vector.iter().map(|entry| (entry - shift).max(0.0)).collect()
    }

    proptest! {
        #[test]
        fn it_is_the_projection_by_sorting(vector in prop::collection::vec(-3.0..3.0_f64, 1..30)) {
            let mut projected = vector.clone();
            project_simplex(&mut projected, &mut Vec::new());
            prop_assert!((projected.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (one, other) in projected.iter().zip(by_sorting(&vector)) {
                prop_assert!((one - other).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn equal_entries_and_points_of_the_simplex_stay_as_they_are() {
        for vector in [vec![1.0], vec![0.0, 1.0, 0.0], vec![1.0 / 3.0; 3], vec![0.1; 10]] {
            let mut projected = vector.clone();
            project_simplex(&mut projected, &mut Vec::new());
            for (one, other) in projected.iter().zip(&vector) {
                assert!((one - other).abs() < 1e-15);
            }
        }
    }
}
