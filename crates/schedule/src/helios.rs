//! Helios (Farrington et al., SIGCOMM 2010): matchings of largest weight, epoch by epoch.
//!
//! Circuits are duplex, so demand is taken symmetrically: a pair is worth the bytes that a circuit
//! would carry in one epoch, both directions together. With several switches the first gets the
//! heaviest matching (Edmonds, 1965), what it would carry is subtracted, and so on.
//!
//! Leaves out packet switches alongside the circuits; `allocation::route` divides demand between
//! held circuits and an EPS.

use crate::demand::{check_square, check_switches};
use crate::epochs::{EpochRun, Epochs, NONE, SwitchStep, check_sizes, keep_in_place, play};
use crate::matching::match_general;
use crate::switches::check_held;
use lightloom_model::Invalid;

/// The matchings of one epoch, heaviest first: partner of each node, [`NONE`] if dark.
///
/// `room` is what a circuit carries in the epoch, per direction.
///
/// # Errors
/// If sizes do not fit or an entry is beyond 2^53 bytes.
pub fn helios_matchings(
    demand: &[u64],
    nodes: usize,
    switches: usize,
    room: u64,
) -> Result<Vec<Vec<u32>>, Invalid> {
    check_square(demand, nodes)?;
    check_switches(switches)?;
    Ok(matchings(demand.to_vec(), nodes, switches, room))
}

/// Serves a demand epoch by epoch: [`helios_step`] with what is left as its estimate, which only a
/// clairvoyant knows.
///
/// # Errors
/// If sizes do not fit, or epochs are so short that 16,384 do not serve the demand.
pub fn helios(demand: &[u64], sizes: &Epochs) -> Result<EpochRun, Invalid> {
    play(demand, sizes, |left, held| helios_step(left, held, sizes, None))
}

/// The matchings of the next period: of largest weight for the estimate, heaviest first, each
/// switch keeping what it holds where that is planned again.
///
/// `held` is empty before the first step. With `hysteresis`, nothing turns unless the circuits
/// would carry that many thousandths more of the estimate in the period. O(switches n^3).
///
/// # Errors
/// If sizes do not fit, an entry is beyond 2^53 bytes, or what is held are no matchings.
pub fn helios_step(
    estimate: &[u64],
    held: &[Vec<u32>],
    sizes: &Epochs,
    hysteresis: Option<u32>,
) -> Result<SwitchStep, Invalid> {
    check_square(estimate, sizes.nodes)?;
    check_sizes(sizes)?;
    check_held(held, sizes)?;
    let wanted = matchings(estimate.to_vec(), sizes.nodes, sizes.switches, sizes.epoch);
    Ok(keep_in_place(held, wanted).if_it_gains(held, estimate, sizes, hysteresis))
}

/// The heaviest matching, then that of what it leaves, and so on; a pair is worth what a circuit
/// carries of it, both directions together.
fn matchings(mut left: Vec<u64>, n: usize, switches: usize, room: u64) -> Vec<Vec<u32>> {
    let mut matchings = Vec::with_capacity(switches);
    for _ in 0..switches {
        let mut weights = vec![0_i64; n * n];
        for a in 0..n {
            for b in (0..n).filter(|&b| b != a) {
                let both = left[a * n + b].min(room) + left[b * n + a].min(room);
                weights[a * n + b] = both.cast_signed();
            }
        }
        let mate = match_general(n, &weights).expect("a symmetric matrix").mate;
        for (node, &peer) in mate.iter().enumerate().filter(|pair| *pair.1 != NONE) {
            let cell = &mut left[node * n + peer as usize];
            *cell = cell.saturating_sub(room);
        }
        matchings.push(mate);
    }
    matchings
}
