//! Circuits that are planned anew from what is left, epoch by epoch.
//!
//! In every epoch each switch holds one matching. A switch whose matching stays carries bytes for
//! the whole epoch, one that turns loses the delay. Bytes are the unit of time: what a circuit
//! carries meanwhile. Bytes take one hop; switches turn at the same time.

use crate::demand::{check_square, length_of};
use lightloom_model::Invalid;

/// No partner.
pub const NONE: u32 = u32::MAX;

/// Longest epoch and delay.
const MAX_TIME: u64 = 1 << 53;

/// Maximum number of epochs of a result.
const MAX_EPOCHS: usize = 1 << 20;

/// Sizes that all planners share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    /// Number of nodes (top-of-rack switches, or servers).
    pub nodes: usize,
    /// Circuit switches; each node has a port at each.
    pub switches: usize,
    /// Bytes that a circuit carries in an epoch after a reconfiguration.
    pub epoch: u64,
    /// Bytes that it could carry while its switch turns.
    pub delay: u64,
}

/// What happened until the last byte was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochRun {
    /// Peer that each node sends to over each switch, [`NONE`] if dark: epoch x switch x node.
    pub matchings: Vec<Vec<Vec<u32>>>,
    /// How often a switch was set, the first time included.
    pub turned: u64,
    /// Bytes that one circuit could carry until the end.
    pub length: u64,
    /// The most bytes that a node sends or receives.
    pub largest_line: u64,
}

impl EpochRun {
    /// Length over what no schedule beats: the largest line over all ports of its node.
    pub fn over_bound(&self, switches: usize) -> f64 {
        match self.largest_line {
            0 => 1.0,
            line => self.length as f64 * switches as f64 / line as f64,
        }
    }
}

/// Plays epochs until nothing is left. `plan` gets what is left (without the diagonal) and returns
/// the matching of each switch.
pub(crate) fn play(
    demand: &[u64],
    sizes: &Epochs,
    mut plan: impl FnMut(&[u64]) -> Vec<Vec<u32>>,
) -> Result<EpochRun, Invalid> {
    let n = sizes.nodes;
    let lines = check_square(demand, n)?;
    let longest = sizes.epoch.max(sizes.delay);
    if sizes.switches == 0 || sizes.epoch == 0 || longest > MAX_TIME {
        return Err(Invalid::new("there must be a switch, and epochs of 1 to 2^53 bytes"));
    }
    let too_many = || {
        let text = format!("{MAX_EPOCHS} epochs of {} bytes do not serve this demand", sizes.epoch);
        Invalid(text)
    };
    // What the busiest line sends in an epoch at most.
    let share = sizes.switches as u128 * u128::from(sizes.epoch + sizes.delay);
    if u128::from(lines.largest) > share * MAX_EPOCHS as u128 {
        return Err(too_many());
    }
    let mut left = demand.to_vec();
    for node in 0..n {
        left[node * n + node] = 0;
    }
    let mut run = EpochRun { matchings: vec![], turned: 0, length: 0, largest_line: lines.largest };
    let mut length = 0;
    let mut before: Vec<Vec<u32>> = vec![vec![]; sizes.switches];
    while left.iter().any(|&bytes| bytes > 0) {
        let wanted = plan(&left);
        let (matchings, turns) = keep_in_place(&before, wanted);
        run.turned += turns.iter().map(|&turn| u64::from(turn)).sum::<u64>();
        let mut end = 0;
        for (matching, turn) in matchings.iter().zip(turns) {
            let (start, room) =
                if turn { (sizes.delay, sizes.epoch) } else { (0, sizes.epoch + sizes.delay) };
            end = end.max(start + serve(&mut left, matching, room));
        }
        let last = left.iter().all(|&bytes| bytes == 0);
        length += u128::from(if last { end } else { sizes.epoch + sizes.delay });
        run.matchings.push(matchings.clone());
        before = matchings;
        if run.matchings.len() > MAX_EPOCHS {
            return Err(too_many());
        }
    }
    run.length = length_of(std::iter::once(length))?;
    Ok(run)
}

/// Sends over the circuits of a switch; returns the most bytes over one of them.
fn serve(left: &mut [u64], matching: &[u32], room: u64) -> u64 {
    let n = matching.len();
    let mut longest = 0;
    for (from, &to) in matching.iter().enumerate().filter(|pair| *pair.1 != NONE) {
        let cell = &mut left[from * n + to as usize];
        let bytes = room.min(*cell);
        *cell -= bytes;
        longest = longest.max(bytes);
    }
    longest
}

/// Gives matchings to switches so that those which are there already stay where they are; says
/// which switches turn.
fn keep_in_place(before: &[Vec<u32>], wanted: Vec<Vec<u32>>) -> (Vec<Vec<u32>>, Vec<bool>) {
    let mut open: Vec<Option<Vec<u32>>> = wanted.into_iter().map(Some).collect();
    let mut placed: Vec<Option<Vec<u32>>> = before
        .iter()
        .map(|old| open.iter_mut().find(|new| new.as_ref() == Some(old)).and_then(Option::take))
        .collect();
    let turns = placed.iter().map(Option::is_none).collect();
    let mut rest = open.into_iter().flatten();
    for place in &mut placed {
        if place.is_none() {
            *place = rest.next();
        }
    }
    (placed.into_iter().map(|matching| matching.expect("one per switch")).collect(), turns)
}
