//! What holds for rows of any size: copies are conserved, row by row and however they are folded.

use lightloom_demand::{FittingRows, Rows, Stream};
use proptest::prelude::*;

/// Sizes and parameters of some rows.
#[derive(Clone, Debug)]
struct Sizes {
    ranks: usize,
    experts: usize,
    micro_batches: usize,
    copies: u32,
    tokens: u32,
    layers: Vec<u64>,
    spans: Option<Vec<u64>>,
    alpha: Vec<f64>,
    seed: u64,
}

impl Sizes {
    fn rows(&self) -> Rows<'_> {
        Rows {
            ranks: self.ranks,
            experts: self.experts,
            micro_batches: self.micro_batches,
            copies: self.copies,
            tokens: self.tokens,
            group: self.seed % 5,
            step: self.seed % 7,
            layers: &self.layers,
            spans: self.spans.as_deref(),
            alpha: &self.alpha,
            shares: Stream { key: [self.seed, 1] },
            routing: Stream { key: [self.seed, 2] },
        }
    }

    fn fitting(&self) -> FittingRows<'_> {
        self.rows().fitting().expect("sizes that fit")
    }

    fn draw(&self) -> Vec<i64> {
        let rows = self.fitting();
        let blocks = self.layers.len() * self.micro_batches;
        let mut out = vec![-1; blocks * self.ranks * self.experts];
        rows.draw(&mut out);
        out
    }
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let counts = (1..7_usize, 1..5_usize, 1..5_usize, 1..4_usize, 0..3_000_u32, 0..400_u32);
    (counts, any::<bool>(), any::<bool>(), any::<u64>()).prop_flat_map(
        |((ranks, per_rank, micro_batches, layers, copies, slack), each, held, seed)| {
            let experts = ranks * per_rank;
            let blocks = if each { layers * micro_batches } else { layers };
            let row = prop::collection::vec(prop_oneof![Just(0.0), 0.01..20.0_f64], experts)
                .prop_filter("some expert", |row| row.iter().any(|&alpha| alpha > 0.0));
            prop::collection::vec(row, blocks).prop_map(move |alpha| Sizes {
                ranks,
                experts,
                micro_batches,
                copies,
                tokens: copies.div_ceil(experts as u32) + slack,
                layers: (0..layers as u64).map(|layer| layer * 3 + seed % 2).collect(),
                spans: held.then(|| vec![seed % 3; layers]),
                alpha: alpha.concat(),
                seed,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_row_has_all_copies_and_no_expert_too_many(sizes in sizes()) {
        for row in sizes.draw().chunks(sizes.experts) {
            prop_assert_eq!(row.iter().sum::<i64>(), i64::from(sizes.copies));
            prop_assert!(row.iter().all(|&count| (0..=i64::from(sizes.tokens)).contains(&count)));
        }
    }

    /// An expert of parameter 0 gets copies only where the others are full.
    #[test]
    fn experts_without_a_share_get_nothing(mut sizes in sizes()) {
        sizes.tokens = sizes.copies;
        let blocks = sizes.layers.len() * sizes.micro_batches;
        for (place, &count) in sizes.draw().iter().enumerate() {
            let block = place / (sizes.ranks * sizes.experts);
            let row = block * (sizes.alpha.len() / sizes.experts) / blocks;
            let alpha = sizes.alpha[row * sizes.experts + place % sizes.experts];
            prop_assert!(alpha > 0.0 || count == 0, "{}", place);
        }
    }

    #[test]
    fn folding_conserves_copies(sizes in sizes(), divisor in 1..7_usize) {
        let members = (1..=divisor).rev().find(|&one| sizes.ranks.is_multiple_of(one));
        let members = members.expect("one divides all");
        let folded = sizes.fitting().fold(members, true).expect("members that fit");
        let total = |values: &[u32]| values.iter().map(|&count| u64::from(count)).sum::<u64>();
        let blocks = sizes.layers.len() * sizes.micro_batches;
        let all = (blocks * sizes.ranks) as u64 * u64::from(sizes.copies);
        prop_assert_eq!(total(&folded.tokens) + folded.stayed, all);
        prop_assert_eq!(total(&folded.rank_tokens), total(&folded.tokens));
        prop_assert_eq!(folded.received.iter().sum::<i64>() as u64, all);
        // What a rank sends to itself is in no matrix.
        for (place, &count) in folded.rank_tokens.iter().enumerate() {
            let (from, to) = (place / sizes.ranks % sizes.ranks, place % sizes.ranks);
            prop_assert!(from != to || count == 0);
        }
        // One member has all that did not stay.
        let one = sizes.fitting().fold(1, false).expect("one member");
        prop_assert_eq!(total(&one.tokens), total(&folded.tokens));
        prop_assert_eq!((one.stayed, &one.received), (folded.stayed, &folded.received));
    }
}

/// Copies go to experts in proportion to their parameters, on the mean over many rows.
#[test]
fn mean_shares_are_those_of_the_parameters() {
    let alpha: Vec<f64> = (0..8).map(|expert| f64::from(expert) + 0.5).collect();
    let sizes = Sizes {
        ranks: 8,
        experts: 8,
        micro_batches: 500,
        copies: 1_000,
        tokens: 1_000,
        layers: vec![0],
        spans: None,
        alpha: alpha.clone(),
        seed: 2_026,
    };
    let mut sums = [0_i64; 8];
    for row in sizes.draw().chunks(8) {
        sums.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
    }
    let (all, total) = (4_000_000.0, alpha.iter().sum::<f64>());
    for (sum, alpha) in sums.iter().zip(&alpha) {
        let (share, mean) = (*sum as f64 / all, alpha / total);
        // A Dirichlet share has the variance of a Beta; 4,000 rows, five standard deviations.
        let deviation = (mean * (1.0 - mean) / (total + 1.0) / 4_000.0).sqrt();
        assert!((share - mean).abs() < 5.0 * deviation + 1e-4, "{share} {mean}");
    }
}
