//! When to decide, asked by somebody who has the program of a step and no simulator.

use lightloom_decide::{Arrival, Program, Reconfigure, Turn, When};
use lightloom_model::FirstAllToAll;

const LAYERS: u16 = 3;

/// Dispatch and combine of each layer, forward and backward, micro-batch by micro-batch. Nothing is
/// known of the first ones.
struct Step(Vec<Turn>);

impl Step {
    fn new(micro_batches: u16) -> Self {
        let passes = |micro_batch| {
            let forward = (0..LAYERS).flat_map(|layer| [(layer, true), (layer, false)]);
            let backward = (0..LAYERS).rev().flat_map(|layer| [(layer, false), (layer, false)]);
            let turn = move |(layer, is_first)| Turn { layer, micro_batch, is_first };
            forward.chain(backward).map(turn)
        };
        Self((0..micro_batches).flat_map(passes).collect())
    }

    /// Numbers before which a decision is due.
    fn due(&self, policy: Reconfigure) -> Vec<u32> {
        let mut decided = None;
        let known = (0..self.count()).filter(|&number| self.is_foreseen(number));
        known.filter(|&number| when(policy).is_due(self, number, &mut decided)).collect()
    }
}

impl Program for Step {
    fn count(&self) -> u32 {
        self.0.len() as u32
    }

    fn turn(&self, number: u32) -> Turn {
        self.0[number as usize]
    }

    fn is_foreseen(&self, number: u32) -> bool {
        !self.turn(number).is_first
    }
}

fn when(policy: Reconfigure) -> When {
    When { policy, first: FirstAllToAll::Reuse }
}

#[test]
fn a_decision_is_due_before_each_all_to_all_or_once_per_layer_and_pass() {
    let step = Step::new(2);
    let known = [1, 3, 5, 6, 7, 8, 9, 10, 11];
    let both = |first: &[u32]| -> Vec<u32> {
        first.iter().copied().chain(first.iter().map(|number| number + 12)).collect()
    };
    for &policy in Reconfigure::ALL {
        // the backward pass of the last layer follows its forward pass: one run
        let expected: &[u32] =
            if policy == Reconfigure::PerLayer { &[1, 3, 5, 8, 10] } else { &known };
        assert_eq!(step.due(policy), both(expected), "{policy}");
    }
}

#[test]
fn a_decision_looks_as_far_as_its_policy_and_the_step_go() {
    let step = Step::new(2);
    let seen = |policy, next| when(policy).upcoming(&step, next).len();
    for (policy, expected) in [
        (Reconfigure::Never, [1, 1, 1, 1, 1]),
        (Reconfigure::Always, [1, 1, 1, 1, 1]),
        (Reconfigure::PerLayer, [1, 3, 2, 1, 1]),
        // up to the gate of the next micro-batch, or the end
        (Reconfigure::BreakEven, [1, 7, 4, 1, 1]),
        (Reconfigure::Oracle, [16, 16, 16, 13, 1]),
    ] {
        assert_eq!([1, 5, 8, 11, 23].map(|next| seen(policy, next)), expected, "{policy}");
    }
    let alike = Turn { layer: 0, micro_batch: 0, is_first: false };
    let long = Step(vec![alike; 40]);
    let most = Reconfigure::ALL.iter().map(|&policy| when(policy).upcoming(&long, 2).len());
    assert_eq!(most.collect::<Vec<_>>(), [1, 1, 38, 8, 16]);
}

#[test]
fn the_first_all_to_all_waits_only_for_what_depends_on_it() {
    use FirstAllToAll::{Block, Predict, Reuse};
    for &policy in Reconfigure::ALL {
        let arrival =
            |first, is_first, seen: bool| When { policy, first }.arrival(is_first, || seen);
        for first in [Reuse, Block, Predict] {
            assert_eq!(arrival(first, false, true), Arrival::Decided);
        }
        let expected = match policy {
            Reconfigure::Oracle => [Arrival::Decided; 4],
            Reconfigure::Never => {
                [Arrival::Begins, Arrival::Begins, Arrival::Begins, Arrival::Decided]
            }
            _ => [Arrival::Begins, Arrival::Waits, Arrival::Begins, Arrival::Decided],
        };
        let asked = [(Reuse, true), (Block, true), (Predict, false), (Predict, true)];
        assert_eq!(asked.map(|(first, seen)| arrival(first, true, seen)), expected, "{policy}");
        let decides = !matches!(policy, Reconfigure::Never | Reconfigure::Oracle);
        assert_eq!(When { policy, first: Predict }.predicts(), decides);
        assert!(!when(policy).predicts());
    }
}
