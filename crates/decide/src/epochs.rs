//! Circuits among racks, epoch by epoch: from what was measured to what the switches hold next.
//!
//! An [`EpochPolicy`] is a step of `lightloom_schedule` that remembers what its switches hold; an
//! [`EpochDecider`] adds what is expected of the next epoch. Both see an epoch only when it is
//! over: bytes that nodes sent in it, and bytes that still wait, which the counters and queues of
//! racks show. Neither has a clock, so that a controller can run them as a simulation does.

use lightloom_model::{Invalid, by_name, choices};
use lightloom_schedule::epochs::{Epochs, NONE};
use lightloom_schedule::rotornet::{Cycling, Rotor, RotorMatchings};
use lightloom_schedule::steps::{
    DemandEstimate, Estimator, SwitchStep, Turning, helios_step, xnest_step_by,
};
use lightloom_schedule::xnest_plus::{Reading, SwitchRule, sub_matrices};
use serde::Deserialize;
use std::fmt;

/// Epochs without traffic after which nothing is left of an estimate: each takes 1/1,000 at least
/// of what a smoothed one holds, whose whole bytes are rounded down.
const FORGOTTEN: u64 = 1 << 16;

choices! {
    /// How the circuits of racks follow their traffic.
    pub enum CircuitPolicy: "policy" {
        Helios = "helios": "Matchings of largest weight for what is expected",
        XnestPlus = "x-nest-plus": "A few fixed matchings, switches for each as it has traffic",
        RotorNet = "rotornet": "Each matching in turn, whatever the traffic",
    }
}

/// A policy, and all that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct EpochRules {
    /// Which policy.
    #[serde(with = "by_name")]
    pub policy: CircuitPolicy,
    /// How measurements become an estimate.
    #[serde(with = "by_name")]
    pub estimator: Estimator,
    /// Weight of the newest measurement of a smoothed estimate, in thousandths.
    pub weight: u32,
    /// Helios and X-NEST+: thousandths by which circuits must carry more for switches to turn.
    pub hysteresis: Option<u32>,
    /// X-NEST+: how the traffic matrix is split.
    #[serde(with = "by_name")]
    pub reading: Reading,
    /// X-NEST+: how many switches each part gets.
    #[serde(with = "by_name")]
    pub rule: SwitchRule,
    /// X-NEST+: whether one half of the switches turns at a time; `First` begins with the first.
    #[serde(with = "by_name")]
    pub turning: Turning,
    /// RotorNet: which matchings a switch holds, and when it turns.
    #[serde(with = "by_name")]
    pub cycling: Cycling,
    /// RotorNet: the seed by which matchings are drawn, as in Opera; otherwise they are shifts.
    pub seed: Option<u64>,
}

impl EpochRules {
    /// Whether switches turn one after the other, each after a part of an epoch.
    pub fn is_staggered(&self) -> bool {
        self.policy == CircuitPolicy::RotorNet && self.cycling == Cycling::Staggered
    }

    /// Who decides for a set of switches.
    ///
    /// # Errors
    /// If the sizes, or the weight of an estimate, cannot be.
    pub fn decider(&self, sizes: Epochs) -> Result<EpochDecider, Invalid> {
        let policy: Box<dyn EpochPolicy> = match self.policy {
            CircuitPolicy::Helios => {
                Box::new(Heaviest { sizes, hysteresis: self.hysteresis, held: Vec::new() })
            }
            CircuitPolicy::XnestPlus => {
                let (rules, settings) = (*self, Vec::new());
                Box::new(Shared { sizes, rules, settings, turning: self.turning })
            }
            CircuitPolicy::RotorNet => {
                let (rotor, matchings) = (self.rotor(sizes), self.matchings(sizes));
                Box::new(Rotating { rotor, matchings, turn: 0 })
            }
        };
        let estimate = DemandEstimate::new(self.estimator, self.weight)?;
        Ok(EpochDecider { policy, estimate, cells: sizes.nodes * sizes.nodes })
    }

    /// The rotors that `RotorNet` turns.
    pub fn rotor(&self, sizes: Epochs) -> Rotor {
        let Epochs { nodes, switches, epoch, delay } = sizes;
        let (slot, cycling) = (Some(epoch), self.cycling);
        Rotor { nodes, switches, slot, delay, held: false, relay: true, cycling }
    }

    /// The matchings that these pass through.
    pub fn matchings(&self, sizes: Epochs) -> RotorMatchings {
        match self.seed {
            Some(seed) => RotorMatchings::drawn(&self.rotor(sizes), seed),
            None => RotorMatchings::Shifts { nodes: sizes.nodes },
        }
    }
}

/// What a set of switches holds, epoch by epoch.
pub trait EpochPolicy: fmt::Debug {
    /// What the switches hold next, and which of them turn; `expected` is bytes from node to node.
    ///
    /// # Errors
    /// If an entry is beyond 2^53 bytes.
    fn step(&mut self, expected: &[u64]) -> Result<SwitchStep, Invalid>;

    /// Lets so many epochs pass of which nothing is expected.
    fn pass(&mut self, _epochs: u64) {}

    /// Whether what is expected matters.
    fn reads_demand(&self) -> bool {
        true
    }
}

/// A policy and its estimate.
#[derive(Debug)]
pub struct EpochDecider {
    policy: Box<dyn EpochPolicy>,
    estimate: DemandEstimate,
    cells: usize,
}

impl EpochDecider {
    /// What the switches hold next, from bytes that nodes sent to one another in the last epoch and
    /// those that wait. A clairvoyant is told, as what waits, all that it is to know.
    ///
    /// # Errors
    /// If sizes do not fit, or an entry is beyond 2^53 bytes.
    pub fn decide(&mut self, sent: &[u64], waiting: &[u64]) -> Result<SwitchStep, Invalid> {
        let nothing = vec![0; self.cells];
        let estimate = self.estimate.update(sent, &nothing);
        let expected: Vec<u64> = estimate.iter().zip(waiting).map(|(x, y)| x + y).collect();
        self.policy.step(&expected)
    }

    /// Lets so many epochs pass in which nothing is sent and nothing waits.
    pub fn pass(&mut self, epochs: u64) {
        if self.reads_demand() {
            let nothing = vec![0; self.cells];
            for _ in 0..epochs.min(FORGOTTEN) {
                if self.estimate.update(&nothing, &nothing).iter().all(|&bytes| bytes == 0) {
                    break;
                }
            }
        }
        self.policy.pass(epochs);
    }

    /// Whether measurements matter.
    pub fn reads_demand(&self) -> bool {
        self.policy.reads_demand()
    }
}

/// Helios. Before anything is expected, switches hold the first pairings of the circle method.
#[derive(Debug)]
struct Heaviest {
    sizes: Epochs,
    hysteresis: Option<u32>,
    held: Vec<Vec<u32>>,
}

impl EpochPolicy for Heaviest {
    fn step(&mut self, expected: &[u64]) -> Result<SwitchStep, Invalid> {
        let step = if expected.iter().any(|&bytes| bytes > 0) {
            helios_step(expected, &self.held, &self.sizes, self.hysteresis)?
        } else if self.held.is_empty() {
            let pairings = sub_matrices(self.sizes.nodes, Reading::Pairings);
            let alone = vec![NONE; self.sizes.nodes];
            let pairings = pairings.concat().into_iter().cycle();
            let mut matchings: Vec<_> = pairings.take(self.sizes.switches).collect();
            matchings.resize(self.sizes.switches, alone);
            SwitchStep { matchings, turned: vec![true; self.sizes.switches] }
        } else {
            kept(&self.held)
        };
        self.held.clone_from(&step.matchings);
        Ok(step)
    }
}

/// X-NEST+.
#[derive(Debug)]
struct Shared {
    sizes: Epochs,
    rules: EpochRules,
    settings: Vec<(u32, u32)>,
    turning: Turning,
}

impl EpochPolicy for Shared {
    fn step(&mut self, expected: &[u64]) -> Result<SwitchStep, Invalid> {
        if self.sizes.nodes < 2 {
            let (nodes, switches) = (self.sizes.nodes, self.sizes.switches);
            let matchings = vec![vec![NONE; nodes]; switches];
            return Ok(SwitchStep { matchings, turned: vec![false; switches] });
        }
        let EpochRules { reading, rule, hysteresis, .. } = self.rules;
        let turning = (self.turning, rule);
        let mut step =
            xnest_step_by(expected, &self.settings, &self.sizes, reading, turning, hysteresis)?;
        if !self.settings.is_empty() && expected.iter().all(|&bytes| bytes == 0) {
            // Of shares of nothing none is larger than another one.
            let held = xnest_matchings(&self.settings, self.sizes.nodes, reading);
            return Ok(kept(&held));
        }
        self.turning = step.next;
        self.settings = std::mem::take(&mut step.settings);
        Ok(step.switches)
    }
}

/// The matchings of settings that are held.
fn xnest_matchings(settings: &[(u32, u32)], nodes: usize, reading: Reading) -> Vec<Vec<u32>> {
    let parts = sub_matrices(nodes, reading);
    settings.iter().map(|&(part, which)| parts[part as usize][which as usize].clone()).collect()
}

/// `RotorNet`.
#[derive(Debug)]
struct Rotating {
    rotor: Rotor,
    matchings: RotorMatchings,
    turn: u64,
}

impl EpochPolicy for Rotating {
    fn step(&mut self, _expected: &[u64]) -> Result<SwitchStep, Invalid> {
        let nodes = self.rotor.nodes;
        let shifts: Vec<usize> = self.rotor.shifts(self.turn).collect();
        let before: Vec<usize> = self
            .turn
            .checked_sub(1)
            .map(|turn| self.rotor.shifts(turn).collect())
            .unwrap_or_default();
        let turned = (0..shifts.len()).map(|switch| before.get(switch) != Some(&shifts[switch]));
        let turned = turned.collect();
        let peer = |shift: usize, node: usize| self.matchings.peer(shift, node) as u32;
        let matching = |&shift: &usize| (0..nodes).map(|node| peer(shift, node)).collect();
        let matchings = shifts.iter().map(matching).collect();
        self.turn += 1;
        Ok(SwitchStep { matchings, turned })
    }

    fn pass(&mut self, epochs: u64) {
        self.turn += epochs;
    }

    fn reads_demand(&self) -> bool {
        false
    }
}

/// Nothing turns.
fn kept(held: &[Vec<u32>]) -> SwitchStep {
    SwitchStep { matchings: held.to_vec(), turned: vec![false; held.len()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Epochs = Epochs { nodes: 4, switches: 2, epoch: 100, delay: 10 };

    fn rules(policy: CircuitPolicy) -> EpochRules {
        EpochRules {
            policy,
            estimator: Estimator::Last,
            weight: 1_000,
            hysteresis: None,
            reading: Reading::Pairings,
            rule: SwitchRule::Greedy,
            turning: Turning::First,
            cycling: Cycling::Fixed,
            seed: None,
        }
    }

    fn decider(policy: CircuitPolicy) -> EpochDecider {
        rules(policy).decider(SIZES).unwrap()
    }

    /// Bytes from node 0 to another one.
    fn demand(to: usize, bytes: u64) -> Vec<u64> {
        let mut demand = vec![0; 16];
        demand[to] = bytes;
        demand
    }

    #[test]
    fn circuits_follow_what_was_measured_and_stay_where_nothing_is() {
        for policy in [CircuitPolicy::Helios, CircuitPolicy::XnestPlus] {
            let mut decider = decider(policy);
            let nothing = vec![0; 16];
            let first = decider.decide(&nothing, &nothing).unwrap();
            assert_eq!(first.turned, [true, true], "{policy}");
            assert!(first.matchings.iter().flatten().all(|&to| to != NONE), "{policy}");
            for to in [3, 1, 2] {
                let mut last = decider.decide(&demand(to, 500), &nothing).unwrap();
                // One half of the switches turns at a time.
                for _ in 0..2 {
                    last = decider.decide(&demand(to, 500), &nothing).unwrap();
                }
                let joined = last.matchings.iter().filter(|held| held[0] == to as u32).count();
                assert_eq!(joined, 2, "{policy}: both circuits to the only peer");
                let idle = decider.decide(&nothing, &nothing).unwrap();
                assert_eq!((idle.matchings, idle.turned), (last.matchings, vec![false; 2]));
            }
        }
    }

    #[test]
    fn what_waits_counts_as_what_was_sent() {
        let nothing = vec![0; 16];
        for policy in [CircuitPolicy::Helios, CircuitPolicy::XnestPlus] {
            let [mut sent, mut waits] = [policy; 2].map(decider);
            for to in [2, 2, 1] {
                let by_sent = sent.decide(&demand(to, 70), &nothing).unwrap();
                assert_eq!(by_sent, waits.decide(&nothing, &demand(to, 70)).unwrap(), "{policy}");
            }
        }
    }

    #[test]
    fn rotors_go_on_while_nobody_looks() {
        for cycling in [Cycling::Fixed, Cycling::Shared, Cycling::Staggered] {
            let rules = EpochRules { cycling, ..rules(CircuitPolicy::RotorNet) };
            let [mut each, mut later] = [(); 2].map(|()| rules.decider(SIZES).unwrap());
            let steps: Vec<_> = (0..9).map(|_| each.decide(&[0; 16], &[0; 16]).unwrap()).collect();
            later.pass(5);
            assert_eq!(later.decide(&[0; 16], &[0; 16]).unwrap(), steps[5]);
            later.pass(2);
            assert_eq!(later.decide(&[0; 16], &[0; 16]).unwrap(), steps[8]);
            assert!(!later.reads_demand());
        }
    }

    #[test]
    fn an_estimate_is_forgotten_while_nothing_is_sent() {
        let smoothed = EpochRules {
            estimator: Estimator::Smoothed,
            weight: 500,
            ..rules(CircuitPolicy::Helios)
        };
        let mut decider = smoothed.decider(SIZES).unwrap();
        decider.decide(&demand(1, 1 << 40), &[0; 16]).unwrap();
        decider.pass(60);
        let next = decider.decide(&[0; 16], &demand(2, 1)).unwrap();
        assert_eq!(next.matchings[0][0], 2, "nothing is left of 2^40 bytes after 60 halvings");
    }
}
