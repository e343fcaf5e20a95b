//! Whether it pays to turn switches.

use lightloom_model::Invalid;

use crate::epochs::{Epochs, NONE, SwitchStep};

impl SwitchStep {
    /// Nothing turns.
    pub(crate) fn keep(held: &[Vec<u32>]) -> Self {
        Self { matchings: held.to_vec(), turned: vec![false; held.len()] }
    }

    /// Bytes of an estimate that the circuits carry in an epoch.
    pub(crate) fn carried(&self, estimate: &[u64], sizes: &Epochs) -> u64 {
        let mut left = estimate.to_vec();
        let mut sum = 0;
        for (matching, &turned) in self.matchings.iter().zip(&self.turned) {
            let room = sizes.epoch + if turned { 0 } else { sizes.delay };
            for (from, &to) in matching.iter().enumerate().filter(|pair| *pair.1 != NONE) {
                let cell = &mut left[from * sizes.nodes + to as usize];
                let bytes = room.min(*cell);
                *cell -= bytes;
                sum += bytes;
            }
        }
        sum
    }

    /// This step, unless what is held carries nearly as much: with `hysteresis` thousandths more it
    /// would not be worth it. Without hysteresis, or with nothing held, always this step.
    pub(crate) fn if_it_gains(
        self,
        held: &[Vec<u32>],
        estimate: &[u64],
        sizes: &Epochs,
        hysteresis: Option<u32>,
    ) -> Self {
        let Some(hysteresis) = hysteresis.filter(|_| !held.is_empty()) else { return self };
        let keep = Self::keep(held);
        let before = u128::from(keep.carried(estimate, sizes));
        let after = u128::from(self.carried(estimate, sizes));
        if after * 1_000 > before * (1_000 + u128::from(hysteresis)) { self } else { keep }
    }
}

/// Checks the sizes of a step, and that what is held are matchings of its switches, if anything is.
pub(crate) fn check_held(held: &[Vec<u32>], sizes: &Epochs) -> Result<(), Invalid> {
    let n = sizes.nodes;
    if !held.is_empty() && held.len() != sizes.switches {
        let text = format!("{} matchings held for {} switches", held.len(), sizes.switches);
        return Err(Invalid(text));
    }
    for (switch, matching) in held.iter().enumerate() {
        let mut taken = vec![false; n];
        let fits = |&to: &u32| {
            to == NONE || ((to as usize) < n && !std::mem::replace(&mut taken[to as usize], true))
        };
        if matching.len() != n || !matching.iter().all(fits) {
            return Err(Invalid(format!("switch {switch} holds no matching of {n} nodes")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epochs::keep_in_place;

    #[test]
    fn matchings_stay_at_their_switches_in_whatever_order_they_are_planned() {
        let (one, two, three) = (vec![1, 0], vec![NONE, 0], vec![1, NONE]);
        let held = [one.clone(), two.clone(), two.clone()];
        let step = keep_in_place(&held, vec![two.clone(), three.clone(), one.clone()]);
        assert_eq!(step.matchings, [one.clone(), two.clone(), three.clone()]);
        assert_eq!(step.turned, [false, false, true]);
        let first = keep_in_place(&[], vec![two.clone(), one.clone()]);
        assert_eq!((first.matchings, first.turned), (vec![two, one], vec![true, true]));
    }

    #[test]
    fn a_switch_that_turns_carries_an_epoch_and_one_that_stays_the_delay_too() {
        let sizes = Epochs { nodes: 2, switches: 2, epoch: 10, delay: 3 };
        let step =
            SwitchStep { matchings: vec![vec![1, 0], vec![1, NONE]], turned: vec![true, false] };
        assert_eq!(step.carried(&[0, 100, 4, 0], &sizes), 10 + 4 + 13);
        assert_eq!(step.carried(&[0, 12, 4, 0], &sizes), 12 + 4);
        assert_eq!(
            SwitchStep::keep(&step.matchings).carried(&[0, 100, 40, 0], &sizes),
            13 + 13 + 13
        );
    }

    /// 20 bytes on new circuits against 16 on those held: 25 % more.
    #[test]
    fn hysteresis_is_the_gain_from_which_on_switches_turn() {
        let sizes = Epochs { nodes: 3, switches: 1, epoch: 20, delay: 4 };
        let held = vec![vec![1, NONE, NONE]];
        let estimate = [0, 16, 20, 0, 0, 0, 0, 0, 0];
        let next = SwitchStep { matchings: vec![vec![2, NONE, NONE]], turned: vec![true] };
        let decided =
            |hysteresis| next.clone().if_it_gains(&held, &estimate, &sizes, hysteresis).turned[0];
        assert_eq!([None, Some(0), Some(249), Some(250)].map(decided), [true, true, true, false]);
        assert!(next.clone().if_it_gains(&[], &estimate, &sizes, Some(9_999)).turned[0]);
    }
}
