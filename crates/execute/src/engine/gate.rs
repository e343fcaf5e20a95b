//! When the members of an all-to-all may begin.

use crate::critical_path::CriticalPath;
use lightloom_model::Time;

/// When the members of an all-to-all may begin.
#[derive(Debug, Clone, Default)]
pub(crate) enum Gate {
    /// Not known until the previous all-to-all is over.
    #[default]
    Undecided,
    /// A decision waits until nobody uses the circuits.
    Pending,
    /// To be decided when all members have arrived.
    AllArrived,
    /// From `ready` on.
    Open(Opening),
}

/// Since when an all-to-all may begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opening {
    /// When the decision was taken.
    pub from: Time,
    /// When the circuits are up.
    pub ready: Time,
    /// What led to the decision.
    pub path: CriticalPath,
}

impl Gate {
    /// Open from the start.
    pub(super) fn free() -> Self {
        Self::Open(Opening::default())
    }

    /// Whether members begin as they arrive.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

/// What is known of a group whose all-to-alls use circuits.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupState {
    /// All-to-alls that are over, from the first on.
    pub over: u32,
    /// Those that were over before an earlier one.
    early: Vec<u32>,
    /// What was decided for the next one before anybody reached it.
    pub gate: Option<Gate>,
    /// Per layer: the first of the all-to-alls that the last decision was for.
    pub decided: Option<u32>,
}

impl GroupState {
    /// Notes that an all-to-all of the group is over.
    pub(super) fn finish(&mut self, number: u32) {
        self.early.push(number);
        while let Some(place) = self.early.iter().position(|&early| early == self.over) {
            self.early.swap_remove(place);
            self.over += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_to_alls_that_overtake_are_counted_in_order() {
        let mut group = GroupState::default();
        let over = [1, 0, 3, 4, 2].map(|number| {
            group.finish(number);
            group.over
        });
        assert_eq!(over, [0, 2, 2, 2, 5]);
    }

    proptest! {
        /// In whatever order they end: those are over before which none is missing.
        #[test]
        fn as_many_are_over_as_have_ended_without_a_gap(
            order in Just((0..9_u32).collect::<Vec<u32>>()).prop_shuffle(),
        ) {
            let mut group = GroupState::default();
            for count in 1..=order.len() {
                group.finish(order[count - 1]);
                let ended = &order[..count];
                let expected = (0..9).find(|number| !ended.contains(number)).unwrap_or(9);
                prop_assert_eq!(group.over, expected);
            }
        }
    }
}
