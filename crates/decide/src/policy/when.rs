//! When to decide over the program of a step, and what of it a decision looks at.

use super::circuit_policy::{Ahead, Foresight};
use super::table::Reconfigure;
use crate::predictor::{DemandPredictor, History};
use lightloom_model::FirstAllToAll;
use std::ops::Range;

/// Where an all-to-all stands in the program of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The layer of the model.
    pub layer: u16,
    /// The micro-batch.
    pub micro_batch: u16,
    /// Whether it is the first of the layer's forward pass, whose demand is known only at its gate.
    pub is_first: bool,
}

/// The all-to-alls of a step, numbered in the order in which a group of workers reaches them.
pub trait Program {
    /// How many there are.
    fn count(&self) -> u32;

    /// Where one stands.
    fn turn(&self, number: u32) -> Turn;

    /// Whether something is known of one before it is reached: its demand, or enough for a
    /// prediction; see [`When::is_foreseen`].
    fn is_foreseen(&self, number: u32) -> bool;
}

/// What an all-to-all does that its first member reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It begins with the circuits that are held.
    Begins,
    /// It waits until all members have arrived, and is decided then.
    Waits,
    /// It takes what was, or is, decided when the all-to-all before is over.
    Decided,
}

/// When circuits are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    /// How circuits follow the demand.
    pub policy: Reconfigure,
    /// What the first all-to-all of a forward pass does.
    pub first: FirstAllToAll,
}

impl When {
    /// What the next all-to-all does once it is reached.
    pub fn arrival(self, is_first: bool, is_foreseen: impl FnOnce() -> bool) -> Arrival {
        let foresight = self.policy.policy().foresight();
        if !is_first || foresight == Foresight::Known {
            return Arrival::Decided;
        }
        match self.first {
            FirstAllToAll::Predict if is_foreseen() => Arrival::Decided,
            // nothing depends on the demand that only the last member completes
            FirstAllToAll::Block if foresight != Foresight::Unused => Arrival::Waits,
            _ => Arrival::Begins,
        }
    }

    /// Whether first all-to-alls are decided on what was seen before.
    pub fn predicts(self) -> bool {
        let foresight = self.policy.policy().foresight();
        foresight == Foresight::Predicted && self.first == FirstAllToAll::Predict
    }

    /// Whether something is known of the first all-to-all of a forward pass before it is reached,
    /// given what was seen of its layer; of any other one it always is.
    pub fn is_foreseen(self, seen: &dyn History, predictor: &dyn DemandPredictor) -> bool {
        let predicts = self.first == FirstAllToAll::Predict;
        match self.policy.policy().foresight() {
            Foresight::Known => true,
            // in the order of a policy that predicts by what was seen
            Foresight::Unused => predicts && seen.has(0),
            Foresight::Predicted => predicts && predictor.can_predict(seen),
        }
    }

    /// The upcoming all-to-alls that a decision starts from, of which `next` is the first; at least
    /// that one.
    pub fn upcoming(self, program: &impl Program, next: u32) -> Range<u32> {
        let left = program.count() - next;
        // no further than the limit: a whole step may be foreseen
        let count = match self.policy.policy().ahead() {
            Ahead::All(limit) => left.min(limit),
            Ahead::Foreseen(limit) => {
                let later = next + 1..next + left.min(limit);
                1 + later.take_while(|&number| program.is_foreseen(number)).count() as u32
            }
            Ahead::Layer => {
                let first = first_of_layer(program, next);
                let same = |&number: &u32| is_of_layer(program, first, number);
                (next..program.count()).take_while(same).count() as u32
            }
        };
        next..next + count
    }

    /// Whether a decision is due before an all-to-all, given the one before which the last decision
    /// was; it becomes this one then.
    pub fn is_due(self, program: &impl Program, next: u32, decided: &mut Option<u32>) -> bool {
        if self.policy.policy().ahead() != Ahead::Layer {
            return true;
        }
        let first = Some(first_of_layer(program, next));
        std::mem::replace(decided, first) != first
    }
}

/// Where the run of all-to-alls of one layer and micro-batch began that this one is of. It begins
/// anew with each first all-to-all of a forward pass.
fn first_of_layer(program: &impl Program, next: u32) -> u32 {
    let mut start = next;
    while start > 0 && is_of_layer(program, start - 1, start) {
        start -= 1;
    }
    start
}

/// Whether an all-to-all belongs to the run that another, before it or the same, is of.
fn is_of_layer(program: &impl Program, first: u32, number: u32) -> bool {
    let (one, other) = (program.turn(first), program.turn(number));
    let same = one.layer == other.layer && one.micro_batch == other.micro_batch;
    first == number || (same && !other.is_first)
}
