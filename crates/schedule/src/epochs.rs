//! Circuits that are planned anew from what is left, epoch by epoch.
//!
//! In every epoch each switch holds one matching. A switch whose matching stays carries bytes for
//! the whole epoch, one that turns loses the delay. Bytes are the unit of time: what a circuit
//! carries meanwhile. Bytes take one hop; switches turn at the same time.

use crate::demand::{check_square, check_switches, length_of};
use lightloom_model::Invalid;
use serde::Deserialize;

/// No partner.
pub const NONE: u32 = u32::MAX;

/// Longest epoch and delay.
const MAX_TIME: u64 = 1 << 53;

/// Maximum number of epochs of a result; each takes a plan.
const MAX_EPOCHS: usize = 1 << 14;

/// Sizes that all planners share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epochs {
    /// Number of nodes (top-of-rack switches, or servers), which the demand says.
    #[serde(skip)]
    pub nodes: usize,
    /// Circuit switches; each node has a port at each.
    pub switches: usize,
    /// Bytes that a circuit carries in an epoch after a reconfiguration.
    #[serde(rename = "epoch_bytes")]
    pub epoch: u64,
    /// Bytes that it could carry while its switch turns.
    #[serde(rename = "delay_bytes")]
    pub delay: u64,
}

/// What the switches hold next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchStep {
    /// Peer that each node sends to over each switch, [`NONE`] if dark.
    pub matchings: Vec<Vec<u32>>,
    /// Which switches turn, and so carry nothing for a delay.
    pub turned: Vec<bool>,
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

/// Checks that there is a switch and an epoch.
pub(crate) fn check_sizes(sizes: &Epochs) -> Result<(), Invalid> {
    if sizes.switches == 0 || sizes.epoch == 0 || sizes.epoch.max(sizes.delay) > MAX_TIME {
        return Err(Invalid::new("there must be a switch, and epochs of 1 to 2^53 bytes"));
    }
    check_switches(sizes.switches)
}

/// Plays epochs until nothing is left. `step` gets what is left (without the diagonal) and what is
/// held (nothing at first), and returns what the switches hold next.
pub(crate) fn play(
    demand: &[u64],
    sizes: &Epochs,
    mut step: impl FnMut(&[u64], &[Vec<u32>]) -> Result<SwitchStep, Invalid>,
) -> Result<EpochRun, Invalid> {
    let n = sizes.nodes;
    let lines = check_square(demand, n)?;
    check_sizes(sizes)?;
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
    let mut held: Vec<Vec<u32>> = Vec::new();
    while left.iter().any(|&bytes| bytes > 0) {
        let SwitchStep { matchings, turned } = step(&left, &held)?;
        run.turned += turned.iter().map(|&turn| u64::from(turn)).sum::<u64>();
        let mut end = 0;
        for (matching, turn) in matchings.iter().zip(turned) {
            let (start, room) =
                if turn { (sizes.delay, sizes.epoch) } else { (0, sizes.epoch + sizes.delay) };
            end = end.max(start + serve(&mut left, matching, room));
        }
        let last = left.iter().all(|&bytes| bytes == 0);
        length += u128::from(if last { end } else { sizes.epoch + sizes.delay });
        run.matchings.push(matchings.clone());
        held = matchings;
        if run.matchings.len() > MAX_EPOCHS {
            return Err(too_many());
        }
    }
    run.length = length_of(std::iter::once(length))?;
    Ok(run)
}

/// Sends over the circuits of a switch; returns the most bytes over one of them.
pub(crate) fn serve(left: &mut [u64], matching: &[u32], room: u64) -> u64 {
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

/// Gives matchings to switches so that those which are there already stay where they are.
pub(crate) fn keep_in_place(held: &[Vec<u32>], wanted: Vec<Vec<u32>>) -> SwitchStep {
    let mut open: Vec<Option<Vec<u32>>> = wanted.into_iter().map(Some).collect();
    let mut placed: Vec<Option<Vec<u32>>> = held
        .iter()
        .map(|old| open.iter_mut().find(|new| new.as_ref() == Some(old)).and_then(Option::take))
        .collect();
    placed.resize(open.len(), None);
    let turned = placed.iter().map(Option::is_none).collect();
    let mut rest = open.into_iter().flatten();
    for place in &mut placed {
        if place.is_none() {
            *place = rest.next();
        }
    }
    let matchings = placed.into_iter().map(|matching| matching.expect("one per switch")).collect();
    SwitchStep { matchings, turned }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(nodes: usize, switches: usize) -> Epochs {
        Epochs { nodes, switches, epoch: 10, delay: 2 }
    }

    /// A step that puts a plan in place.
    fn planned(
        mut plan: impl FnMut(&[u64]) -> Vec<Vec<u32>>,
    ) -> impl FnMut(&[u64], &[Vec<u32>]) -> Result<SwitchStep, Invalid> {
        move |left, held| Ok(keep_in_place(held, plan(left)))
    }

    /// A circuit that stays loses the delay once: 25 bytes are 10, 12 and 3.
    #[test]
    fn a_switch_that_stays_sends_during_the_delay_too() {
        let run = play(&[0, 25, 0, 0], &sizes(2, 1), planned(|_| vec![vec![1, NONE]])).unwrap();
        assert_eq!((run.matchings.len(), run.turned, run.length), (3, 1, 12 + 12 + 3));
        assert!((run.over_bound(1) - 27.0 / 25.0).abs() < 1e-12);
    }

    /// The same with a matching that alternates: 10 bytes an epoch, half of them for either pair.
    #[test]
    fn a_switch_that_turns_loses_the_delay_every_time() {
        let mut turn = 0;
        let plan = |_: &[u64]| {
            turn += 1;
            vec![if turn % 2 == 1 { vec![1, NONE, NONE] } else { vec![2, NONE, NONE] }]
        };
        let run = play(&[0, 15, 15, 0, 0, 0, 0, 0, 0], &sizes(3, 1), planned(plan)).unwrap();
        assert_eq!((run.matchings.len(), run.turned, run.length), (4, 4, 3 * 12 + 2 + 5));
    }

    #[test]
    fn what_cannot_be_played_is_refused() {
        let never = |_: &[u64], _: &[Vec<u32>]| unreachable!("nothing to plan");
        let text = |demand: &[u64], sizes| play(demand, &sizes, never).unwrap_err().to_string();
        let needs = "there must be a switch, and epochs of 1 to 2^53 bytes";
        assert_eq!(text(&[0; 4], sizes(2, 0)), needs);
        assert_eq!(text(&[0; 4], Epochs { epoch: 0, ..sizes(2, 1) }), needs);
        assert_eq!(text(&[0; 4], Epochs { delay: MAX_TIME + 1, ..sizes(2, 1) }), needs);
        let long = [0, 12 * (1 << 20) + 1, 0, 0];
        assert_eq!(text(&long, sizes(2, 1)), "16384 epochs of 10 bytes do not serve this demand");
        let idle = play(&[5, 0, 0, 5], &sizes(2, 1), never).unwrap();
        assert_eq!((idle.length, idle.turned, idle.matchings.len()), (0, 0, 0));
    }

    proptest! {
        /// Replayed from the matchings alone: an epoch is over when its time is, the last one
        /// with its last byte, and no epoch begins after that.
        #[test]
        fn a_run_can_be_replayed_from_its_matchings(
            (nodes, demand) in (2..6_usize).prop_flat_map(|nodes| {
                (Just(nodes), prop::collection::vec(0..60_u64, nodes * nodes))
            }),
            switches in 1..4_usize,
            first in 0..7_usize,
            pace in 1..4_usize,
        ) {
            let sizes = sizes(nodes, switches);
            let mut epoch = first;
            let run = play(&demand, &sizes, planned(|_: &[u64]| {
                epoch += 1;
                let shift = |switch: usize| 1 + (epoch / pace + switch) % (nodes - 1);
                let to = |node: usize, shift: usize| ((node + shift) % nodes) as u32;
                (0..switches).map(|s| (0..nodes).map(|node| to(node, shift(s))).collect()).collect()
            }))
            .unwrap();
            let mut left: Vec<u64> = (0..nodes * nodes)
                .map(|cell| if cell / nodes == cell % nodes { 0 } else { demand[cell] })
                .collect();
            let (mut turned, mut length, mut last) = (0, 0, 0);
            for (index, matchings) in run.matchings.iter().enumerate() {
                prop_assert!(left.iter().any(|&bytes| bytes > 0), "an epoch for nothing");
                last = 0;
                for (switch, matching) in matchings.iter().enumerate() {
                    let turns = index == 0 || run.matchings[index - 1][switch] != *matching;
                    turned += u64::from(turns);
                    let start = if turns { sizes.delay } else { 0 };
                    for (node, &to) in matching.iter().enumerate() {
                        let cell = &mut left[node * nodes + to as usize];
                        let sent = (*cell).min(sizes.epoch + sizes.delay - start);
                        *cell -= sent;
                        last = last.max(start + sent);
                    }
                }
                length += sizes.epoch + sizes.delay;
            }
            prop_assert!(left.iter().all(|&bytes| bytes == 0));
            let spare = if run.matchings.is_empty() { 0 } else { sizes.epoch + sizes.delay - last };
            prop_assert_eq!((run.turned, run.length), (turned, length - spare));
            prop_assert!(run.over_bound(switches) >= 1.0);
        }
    }
}
