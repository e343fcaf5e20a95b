//! The rows of one EP group at one step: all layers, micro-batches and source ranks.

use lightloom_model::Invalid;
use rayon::prelude::*;
use std::ops::Deref;

use crate::cap::cap;
use crate::fold::{BlockFold, FoldedRows, SummedRows};
use crate::gamma::Gammas;
use crate::multinomial::{Scratch, multinomial};
use crate::stream::{Generator, Stream};

/// Counts that a thread draws before it looks for other work; about a millisecond.
const COUNTS_PER_TASK: usize = 1 << 15;

/// Bits of a source rank in an index; the micro-batch has those above.
const RANK_BITS: u32 = 16;

/// Largest Dirichlet parameter: sums and products of variates stay finite.
const MAX_ALPHA: f64 = 1e100;

/// What to draw; [`Rows::fitting`] draws it.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// EP ranks of the group.
    pub ranks: usize,
    /// Experts of a layer.
    pub experts: usize,
    /// Micro-batches of the step.
    pub micro_batches: usize,
    /// Copies that one rank routes, and the tokens that they are copies of.
    pub copies: u32,
    /// No count exceeds it.
    pub tokens: u32,
    /// Number of the EP group, and of the step.
    pub group: u64,
    /// Number of the step.
    pub step: u64,
    /// Numbers of the MoE layers.
    pub layers: &'a [u64],
    /// For each layer: the span of steps in which shares are held; none draws them anew each time.
    pub spans: Option<&'a [u64]>,
    /// Dirichlet parameters, `(layers, micro_batches or 1, experts)`.
    pub alpha: &'a [f64],
    /// Random stream of the shares, and of the copies too unless shares are held.
    pub shares: Stream,
    /// Random stream of the copies under held shares.
    pub routing: Stream,
}

/// Rows whose sizes fit each other.
#[derive(Debug, Clone, Copy)]
pub struct FittingRows<'a>(Rows<'a>);

impl<'a> Deref for FittingRows<'a> {
    type Target = Rows<'a>;

    fn deref(&self) -> &Rows<'a> {
        &self.0
    }
}

/// Shares that are held for all micro-batches are kept up to this many; about 100 MB.
const MAX_HELD: usize = 1 << 24;

/// Shares of the rows of all layers, `(layers, ranks, experts)`, and their sums.
struct Held {
    shares: Vec<f64>,
    totals: Vec<f64>,
}

/// What the shares of rows are drawn with, and those that all micro-batches have in common.
struct Shares {
    gammas: Vec<Gammas>,
    held: Option<Held>,
}

/// Memory of one thread.
struct Workspace {
    shares: Vec<f64>,
    counts: Vec<u32>,
    scratch: Scratch,
}

impl<'a> Rows<'a> {
    /// The same, once it is known that sizes fit each other.
    ///
    /// # Errors
    /// Names the number that does not fit.
    pub fn fitting(self) -> Result<FittingRows<'a>, Invalid> {
        self.validate().map(|()| FittingRows(self))
    }

    fn validate(&self) -> Result<(), Invalid> {
        let layers = self.layers.len();
        if self.ranks == 0 || self.ranks > 1 << RANK_BITS || self.experts == 0 {
            return Err(Invalid::new("demand needs 1 to 65,536 ranks and at least one expert"));
        }
        if self.micro_batches == 0 || self.micro_batches > 1 << 47 {
            return Err(Invalid::new("demand needs at least one micro-batch"));
        }
        let room = u64::from(self.tokens) * self.experts as u64;
        if self.copies > i32::MAX as u32 || u64::from(self.copies) > room {
            return Err(Invalid::new("more copies than experts can take from these tokens"));
        }
        if self.spans.is_some_and(|spans| spans.len() != layers) {
            return Err(Invalid::new("one span of held shares per layer expected"));
        }
        let [one, all] = [1, self.micro_batches].map(|blocks| layers * blocks * self.experts);
        if self.alpha.len() != one && self.alpha.len() != all {
            return Err(Invalid::new("Dirichlet parameters for 1 or all micro-batches expected"));
        }
        let usable = |row: &[f64]| {
            row.iter().all(|alpha| alpha.is_finite() && *alpha >= 0.0)
                && row.iter().any(|alpha| *alpha > 0.0)
        };
        if !self.alpha.chunks_exact(self.experts).all(usable) {
            return Err(Invalid::new("Dirichlet parameters are finite, not negative, not all 0"));
        }
        if self.alpha.iter().any(|alpha| *alpha > MAX_ALPHA) {
            return Err(Invalid(format!("Dirichlet parameters: expected at most {MAX_ALPHA:e}")));
        }
        Ok(())
    }
}

impl FittingRows<'_> {
    /// Draws all counts into `out`, `(layers, micro_batches, ranks, experts)`.
    pub fn draw(&self, out: &mut [i64]) {
        let block = self.ranks * self.experts;
        let shares = self.shares();
        out.par_chunks_exact_mut(block)
            .enumerate()
            .with_min_len(COUNTS_PER_TASK.div_ceil(block))
            .for_each_init(
                || self.workspace(),
                |workspace, (number, out)| {
                    self.draw_block(number, &shares, workspace, |rank, counts| {
                        let row = &mut out[rank * self.experts..][..self.experts];
                        for (value, count) in row.iter_mut().zip(counts) {
                            *value = i64::from(*count);
                        }
                    });
                },
            );
    }

    /// Draws all counts and folds them as they come; see [`FoldedRows`].
    ///
    /// # Errors
    /// If the members do not divide the ranks, or a count between two members exceeds 32 bits.
    pub fn fold(&self, members: usize, by_rank: bool) -> Result<FoldedRows, Invalid> {
        if members == 0 || !self.ranks.is_multiple_of(members) {
            let ranks = self.ranks;
            return Err(Invalid(format!("{ranks} EP ranks do not fill {members} members")));
        }
        self.check_ranks()?;
        let shares = self.shares();
        let blocks: Vec<FoldedRows> = (0..self.layers.len() * self.micro_batches)
            .into_par_iter()
            .with_min_len(COUNTS_PER_TASK.div_ceil(self.ranks * self.experts))
            .map_init(
                || self.workspace(),
                |workspace, number| {
                    let mut fold = BlockFold::new(self.ranks, self.experts, members, by_rank);
                    self.draw_block(number, &shares, workspace, |rank, counts| {
                        fold.take(rank, counts);
                    });
                    fold.finish()
                },
            )
            .collect::<Result<_, _>>()?;
        Ok(FoldedRows::join(blocks))
    }

    /// Draws all counts and sums them by rank as they come; see [`SummedRows`], here with one block
    /// after the other, all of them 0.
    ///
    /// # Errors
    /// If the ranks do not divide the experts.
    pub fn sum_by_rank(&self, all: &mut SummedRows<'_>) -> Result<(), Invalid> {
        self.check_ranks()?;
        let shares = self.shares();
        let pairs = self.ranks * self.ranks;
        all.copies
            .par_chunks_exact_mut(pairs)
            .zip(all.largest.par_chunks_exact_mut(pairs))
            .zip(all.by_expert.par_chunks_exact_mut(self.experts))
            .enumerate()
            .with_min_len(COUNTS_PER_TASK.div_ceil(self.ranks * self.experts))
            .for_each_init(
                || self.workspace(),
                |workspace, (number, ((copies, largest), by_expert))| {
                    let mut block = SummedRows { copies, largest, by_expert };
                    self.draw_block(number, &shares, workspace, |rank, counts| {
                        block.take(rank, self.ranks, counts);
                    });
                },
            );
        Ok(())
    }

    fn check_ranks(&self) -> Result<(), Invalid> {
        let (ranks, experts) = (self.ranks, self.experts);
        if experts.is_multiple_of(ranks) {
            return Ok(());
        }
        Err(Invalid(format!("{experts} experts do not divide over {ranks} EP ranks")))
    }

    fn shares(&self) -> Shares {
        let gammas: Vec<Gammas> =
            self.alpha.par_chunks_exact(self.experts).map(Gammas::new).collect();
        let rows = self.layers.len() * self.ranks;
        let is_held = self.spans.is_some() && self.micro_batches > 1;
        if !is_held || gammas.len() != self.layers.len() || rows * self.experts > MAX_HELD {
            return Shares { gammas, held: None };
        }
        let mut shares = vec![0.0; rows * self.experts];
        let totals = shares
            .par_chunks_exact_mut(self.experts)
            .enumerate()
            .with_min_len(COUNTS_PER_TASK.div_ceil(self.experts))
            .map_init(
                || Scratch::new(self.experts),
                |scratch, (row, shares)| {
                    let (layer, rank) = (row / self.ranks, row % self.ranks);
                    let (mut rng, _) = self.generators(layer, 0, rank);
                    gammas[layer].draw(
                        shares,
                        &mut scratch.normals,
                        &mut scratch.uniforms,
                        &mut rng,
                    )
                },
            )
            .collect();
        Shares { gammas, held: Some(Held { shares, totals }) }
    }

    fn workspace(&self) -> Workspace {
        Workspace {
            shares: vec![0.0; self.experts],
            counts: vec![0; self.experts],
            scratch: Scratch::new(self.experts),
        }
    }

    /// Draws the rows of one layer and micro-batch and hands each over with its rank.
    fn draw_block(
        &self,
        number: usize,
        of: &Shares,
        workspace: &mut Workspace,
        mut take: impl FnMut(usize, &[u32]),
    ) {
        let Workspace { shares, counts, scratch } = workspace;
        let (layer, micro_batch) = (number / self.micro_batches, number % self.micro_batches);
        let Shares { gammas, held } = of;
        let gammas = &gammas[number * gammas.len() / (self.layers.len() * self.micro_batches)];
        for rank in 0..self.ranks {
            let (mut rng, routing) = self.generators(layer, micro_batch, rank);
            let (shares, total): (&[f64], f64) = if let Some(held) = held {
                let row = layer * self.ranks + rank;
                (&held.shares[row * self.experts..][..self.experts], held.totals[row])
            } else {
                let Scratch { normals, uniforms, .. } = scratch;
                let total = gammas.draw(shares, normals, uniforms, &mut rng);
                (shares, total)
            };
            let rng = &mut routing.unwrap_or(rng);
            multinomial(self.copies, shares, total, counts, scratch, rng);
            if counts.iter().any(|count| *count > self.tokens) {
                cap(counts, self.tokens);
            }
            take(rank, counts);
        }
    }

    /// Generators of a row's shares and, where shares are held, of its copies.
    fn generators(
        &self,
        layer: usize,
        micro_batch: usize,
        rank: usize,
    ) -> (Generator, Option<Generator>) {
        let row = (micro_batch as u64) << RANK_BITS | rank as u64;
        let index = [row, self.layers[layer], self.group, self.step];
        let Some(spans) = self.spans else { return (self.shares.at(index), None) };
        let span = [rank as u64, self.layers[layer], self.group, spans[layer]];
        (self.shares.at(span), Some(self.routing.at(index)))
    }
}
