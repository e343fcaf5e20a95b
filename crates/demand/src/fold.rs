//! Sums counts per expert into counts per member or per rank, block by block, as they are drawn.
//!
//! A block is one layer and micro-batch. A member is the part of an EP group on one server:
//! consecutive ranks. Expert `e` lives on rank `e / (experts / ranks)`. Copies to the own rank move
//! no bytes and are in no matrix.

use lightloom_model::Invalid;

/// Counts of all blocks, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoldedRows {
    /// `(blocks, members, members)`; the diagonal counts copies between different ranks.
    pub tokens: Vec<u32>,
    /// `(blocks, ranks, ranks)` with an empty diagonal, if asked for.
    pub rank_tokens: Vec<u32>,
    /// Copies that each rank's experts compute, its own included, `(blocks, ranks)`.
    pub received: Vec<i64>,
    /// Copies whose expert is on their own rank.
    pub stayed: u64,
}

impl FoldedRows {
    /// Strings blocks together.
    pub(crate) fn join(blocks: Vec<Self>) -> Self {
        let mut all = Self::default();
        for block in blocks {
            all.tokens.extend(block.tokens);
            all.rank_tokens.extend(block.rank_tokens);
            all.received.extend(block.received);
            all.stayed += block.stayed;
        }
        all
    }
}

/// The sums of one block while its rows come in.
pub(crate) struct BlockFold {
    ranks: usize,
    experts_per_rank: usize,
    ranks_per_member: usize,
    tokens: Vec<u64>,
    by_rank: bool,
    folded: FoldedRows,
}

impl BlockFold {
    pub(crate) fn new(ranks: usize, experts: usize, members: usize, by_rank: bool) -> Self {
        Self {
            ranks,
            experts_per_rank: experts / ranks,
            ranks_per_member: ranks / members,
            tokens: vec![0; members * members],
            by_rank,
            folded: FoldedRows { received: vec![0; ranks], ..FoldedRows::default() },
        }
    }

    /// Takes the row of a rank; rows come in the order of ranks.
    pub(crate) fn take(&mut self, rank: usize, counts: &[u32]) {
        let members = self.ranks / self.ranks_per_member;
        let row = &mut self.tokens[rank / self.ranks_per_member * members..][..members];
        for (to, counts) in counts.chunks_exact(self.experts_per_rank).enumerate() {
            let sum: u32 = counts.iter().sum();
            self.folded.received[to] += i64::from(sum);
            let sent = if to == rank { 0 } else { sum };
            self.folded.stayed += u64::from(sum - sent);
            row[to / self.ranks_per_member] += u64::from(sent);
            if self.by_rank {
                self.folded.rank_tokens.push(sent);
            }
        }
    }

    pub(crate) fn finish(self) -> Result<FoldedRows, Invalid> {
        let narrow = |count: u64| {
            u32::try_from(count).map_err(|_| {
                Invalid(format!(
                    "{count} token copies between two members exceed 32 bits; use a smaller \
                     micro-batch"
                ))
            })
        };
        let tokens = self.tokens.into_iter().map(narrow).collect::<Result<_, _>>()?;
        Ok(FoldedRows { tokens, ..self.folded })
    }
}

/// What is kept of one block for tokens that are sent once, however many of their experts are
/// there: sums by rank, their own included.
#[derive(Debug)]
pub struct SummedRows<'a> {
    /// Copies from rank to rank, `(ranks, ranks)`.
    pub copies: &'a mut [u32],
    /// Copies among them for the expert with the largest number, `(ranks, ranks)`.
    pub largest: &'a mut [u32],
    /// Copies that each expert computes.
    pub by_expert: &'a mut [i64],
}

impl SummedRows<'_> {
    /// Takes the row of a rank; what is kept of others begins as 0.
    pub(crate) fn take(&mut self, rank: usize, ranks: usize, counts: &[u32]) {
        let row = rank * ranks..(rank + 1) * ranks;
        let kept = self.copies[row.clone()].iter_mut().zip(&mut self.largest[row]);
        for ((copies, largest), counts) in kept.zip(counts.chunks_exact(counts.len() / ranks)) {
            *copies = counts.iter().sum();
            *largest = counts.iter().copied().max().unwrap_or(0);
        }
        for (all, count) in self.by_expert.iter_mut().zip(counts) {
            *all += i64::from(*count);
        }
    }
}
