//! Rows depend on their index alone: on no order, batch or number of threads.

use lightloom_demand::{FoldedRows, Rows, Stream, SummedRows};

const LAYERS: [u64; 3] = [7, 2, 1 << 47];

/// Uneven Dirichlet parameters, `(layers, blocks, 12)`.
fn alpha(layers: usize, blocks: usize) -> Vec<f64> {
    (0..layers * blocks * 12).map(|i| 0.1 + (i * 7 % 11) as f64).collect()
}

fn rows<'a>(layers: &'a [u64], alpha: &'a [f64], spans: Option<&'a [u64]>) -> Rows<'a> {
    Rows {
        ranks: 4,
        experts: 12,
        micro_batches: 5,
        copies: 3000,
        tokens: 1000,
        group: 3,
        step: 9,
        layers,
        spans,
        alpha,
        shares: Stream { key: [1, 2] },
        routing: Stream { key: [3, 4] },
    }
}

fn draw(rows: &Rows) -> Vec<i64> {
    let rows = rows.fitting().expect("sizes that fit");
    let size = rows.layers.len() * rows.micro_batches * rows.ranks * rows.experts;
    let mut out = vec![-1; size];
    rows.draw(&mut out);
    out
}

fn with_threads(threads: usize, rows: &Rows) -> Vec<i64> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| draw(rows))
}

#[test]
fn copies_are_conserved_and_capped() {
    let alpha = alpha(3, 1);
    let rows = Rows { tokens: 250, ..rows(&LAYERS, &alpha, None) };
    for row in draw(&rows).chunks(12) {
        assert_eq!(row.iter().sum::<i64>(), 3000);
        assert_eq!(row, [250; 12]);
    }
    let rows = Rows { tokens: 400, ..rows };
    let counts = draw(&rows);
    assert!(counts.chunks(12).all(|row| row.iter().sum::<i64>() == 3000));
    assert_eq!(counts.iter().max(), Some(&400));
    assert!(counts.iter().all(|count| *count >= 0));
}

#[test]
fn threads_change_nothing() {
    let alpha = alpha(3, 1);
    // more blocks than one task takes
    let many = Rows { micro_batches: 500, ranks: 12, ..rows(&LAYERS, &alpha, None) };
    let one = with_threads(1, &many);
    assert_eq!(with_threads(2, &many), one);
    assert_eq!(with_threads(7, &many), one);
}

#[test]
fn batches_change_nothing() {
    for (blocks, spans) in [(1, None), (5, None), (1, Some([4, 5, 6]))] {
        let alpha = alpha(3, blocks);
        let whole = draw(&rows(&LAYERS, &alpha, spans.as_ref().map(|spans| &spans[..])));
        for layer in 0..3 {
            let part = layer..=layer;
            let spans = spans.as_ref().map(|spans| &spans[part.clone()]);
            let own = &alpha[layer * blocks * 12..][..blocks * 12];
            let alone = draw(&rows(&LAYERS[part], own, spans));
            assert_eq!(alone, whole[layer * 240..][..240]);
        }
    }
}

#[test]
fn every_index_counts() {
    let alpha = vec![1.0; 36];
    let base = draw(&rows(&LAYERS, &alpha, None));
    let mut blocks: Vec<&[i64]> = base.chunks(12).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 60, "a row is drawn twice");
    let plain = || rows(&LAYERS, &alpha, None);
    for other in [
        Rows { group: 4, ..plain() },
        Rows { step: 10, ..plain() },
        Rows { shares: Stream { key: [1, 3] }, ..plain() },
    ] {
        assert!(draw(&other).iter().zip(&base).filter(|(one, two)| one == two).count() < 100);
    }
}

#[test]
fn held_shares_stay_over_steps_and_micro_batches() {
    let alpha = vec![1.0; 36];
    let rows = Rows {
        copies: 100_000_000,
        tokens: 100_000_000,
        ..rows(&LAYERS, &alpha, Some(&[1, 1, 1]))
    };
    let (first, next) = (draw(&rows), draw(&Rows { step: 10, ..rows }));
    // copies differ by their multinomial noise, 1e-4 of them; shares of others would by 0.1
    for layer in 0..3 {
        for row in 0..20 {
            let [held, same, later] = [(&first, row % 4), (&first, row), (&next, row)]
                .map(|(counts, row)| &counts[layer * 240 + row * 12..][..12]);
            for expert in 0..12 {
                assert!((same[expert] - held[expert]).abs() < 60_000);
                assert!((later[expert] - held[expert]).abs() < 60_000);
            }
        }
    }
    assert_ne!(first, next);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let alpha = alpha(3, 1);
    let plain = || rows(&LAYERS, &alpha, None);
    let text = |rows: Rows| rows.fitting().expect_err("a problem").0;
    assert!(text(Rows { ranks: 0, ..plain() }).contains("ranks"));
    assert!(text(Rows { micro_batches: 0, ..plain() }).contains("micro-batch"));
    assert!(text(Rows { copies: 12_001, ..plain() }).contains("more copies"));
    assert!(text(Rows { spans: Some(&[1]), ..plain() }).contains("span"));
    assert!(text(Rows { alpha: &alpha[1..], ..plain() }).contains("1 or all micro-batches"));
    assert!(text(Rows { alpha: &[0.0; 36], ..plain() }).contains("not all 0"));
    assert!(text(Rows { alpha: &[f64::NAN; 36], ..plain() }).contains("finite"));
}

/// Sums of counts, the plain way.
fn folded(rows: &Rows, members: usize) -> FoldedRows {
    let (ranks, per_rank) = (rows.ranks, rows.experts / rows.ranks);
    let blocks = rows.layers.len() * rows.micro_batches;
    let mut sums = FoldedRows {
        tokens: vec![0; blocks * members * members],
        rank_tokens: vec![0; blocks * ranks * ranks],
        received: vec![0; blocks * ranks],
        stayed: 0,
    };
    for (place, count) in draw(rows).into_iter().enumerate() {
        let (row, to) = (place / rows.experts, place % rows.experts / per_rank);
        let (block, from) = (row / ranks, row % ranks);
        sums.received[block * ranks + to] += count;
        if from == to {
            sums.stayed += count as u64;
            continue;
        }
        sums.rank_tokens[row * ranks + to] += count as u32;
        let [from, to] = [from, to].map(|rank| rank * members / ranks);
        sums.tokens[(block * members + from) * members + to] += count as u32;
    }
    sums
}

#[test]
fn folding_sums_the_counts() {
    let alpha = alpha(3, 5);
    let rows = rows(&LAYERS, &alpha, None);
    for members in [1, 2, 4] {
        let sums = folded(&rows, members);
        let rows = rows.fitting().expect("sizes that fit");
        assert_eq!(rows.fold(members, true).expect("members that fit"), sums);
        let without = FoldedRows { rank_tokens: Vec::new(), ..sums };
        assert_eq!(rows.fold(members, false).expect("members that fit"), without);
    }
}

#[test]
fn sums_by_rank_are_those_of_the_counts() {
    let alpha = alpha(3, 5);
    let rows = rows(&LAYERS, &alpha, None);
    let (ranks, experts, per_rank) = (rows.ranks, rows.experts, rows.experts / rows.ranks);
    let blocks = rows.layers.len() * rows.micro_batches;
    let zeros = || vec![0_u32; blocks * ranks * ranks];
    let (mut copies, mut largest, mut by_expert) = (zeros(), zeros(), vec![0; blocks * experts]);
    let mut sums =
        SummedRows { copies: &mut copies, largest: &mut largest, by_expert: &mut by_expert };
    let rows = rows.fitting().expect("sizes that fit");
    rows.sum_by_rank(&mut sums).expect("ranks that divide the experts");
    let (mut all, mut highest, mut computed) = (zeros(), zeros(), vec![0; blocks * experts]);
    for (place, count) in draw(&rows).into_iter().enumerate() {
        let (row, expert) = (place / experts, place % experts);
        let pair = row * ranks + expert / per_rank;
        all[pair] += count as u32;
        highest[pair] = highest[pair].max(count as u32);
        computed[row / ranks * experts + expert] += count;
    }
    assert_eq!((copies, largest, by_expert), (all, highest, computed));
}

#[test]
fn folds_that_do_not_fit_are_refused() {
    let alpha = vec![1.0; 36];
    let plain = || rows(&LAYERS, &alpha, None);
    let text = |rows: Rows, members| {
        rows.fitting().expect("sizes that fit").fold(members, false).expect_err("a problem").0
    };
    assert!(text(plain(), 0).contains("do not fill 0 members"));
    assert!(text(plain(), 3).contains("4 EP ranks do not fill 3 members"));
    assert!(text(Rows { ranks: 5, ..plain() }, 5).contains("12 experts do not divide over 5"));
    let maximum = i32::MAX as u32;
    let large = Rows { copies: maximum, tokens: maximum, ..plain() };
    assert!(text(large, 1).contains("exceed 32 bits"));
}
