//! Built-in predictors as a run uses them: at decisions, once for all groups.
//!
//! Each group of members has a predictor of its own, which observes the shares of the token copies
//! that each member receives; who sends how many is taken from what was seen last. A micro-batch is
//! a step of the predictor. Circuits are requested for the demand that they are judged by.

use crate::choice::PredictorChoice;
use crate::predictor::LoadPredictor;
use lightloom_decide::{DemandPredictor, Estimate, History, PredictedDemand};
use lightloom_model::Invalid;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Which demands of a history were handed over, so that each is handed over once.
#[derive(Debug, Default)]
pub struct Unseen {
    /// How many of each group and layer.
    handed: BTreeMap<(u32, u16), usize>,
}

impl Unseen {
    /// Hands over what a group has seen, since the last call, of the layers that were to be
    /// predicted so far: layer, index in its order, and token copies, members x members.
    ///
    /// # Errors
    /// The first that `visit` returns.
    pub fn hand_over<E>(
        &mut self,
        history: &dyn History,
        mut visit: impl FnMut(u16, usize, &[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let group = history.group();
        self.handed.entry((group, history.layer())).or_default();
        let mut demand = Vec::new();
        for (&(_, layer), handed) in self.handed.range_mut((group, 0)..=(group, u16::MAX)) {
            let seen = history.seen(layer);
            for index in *handed..seen {
                history.demand_of(layer, index, &mut demand);
                visit(layer, index, &demand)?;
            }
            *handed = seen;
        }
        Ok(())
    }
}

/// What is kept of one group.
struct GroupState {
    predictor: Box<dyn LoadPredictor>,
    members: usize,
    /// Token copies that each member sent in the last all-to-all of a layer.
    sent: BTreeMap<u16, Vec<u64>>,
}

impl GroupState {
    fn new(choice: PredictorChoice, members: usize) -> Result<Self, Invalid> {
        Ok(Self { predictor: choice.build(members)?, members, sent: BTreeMap::new() })
    }

    /// Takes the token copies of an all-to-all, members x members.
    fn observe(&mut self, layer: u16, index: usize, tokens: &[u64]) -> Result<(), Invalid> {
        let rows = || tokens.chunks_exact(self.members);
        let received: Vec<u64> =
            (0..self.members).map(|member| rows().map(|row| row[member]).sum()).collect();
        self.sent.insert(layer, rows().map(|row| row.iter().sum()).collect());
        if received.iter().all(|&tokens| tokens == 0) {
            return Ok(());
        }
        let loads: Vec<f64> = received.iter().map(|&tokens| tokens as f64).collect();
        self.predictor.observe(index as u64, layer.into(), &loads)
    }

    /// Estimates the token copies of one that is to come; nothing if none was seen.
    fn predict(&mut self, layer: u16, index: usize) -> Result<Option<Vec<u64>>, Invalid> {
        let Some(sent) = self.sent.get(&layer) else { return Ok(None) };
        let shares = self.predictor.predict(index as u64, layer.into())?;
        let count = |tokens: u64, share: f64| (tokens as f64 * share).round_ties_even() as u64;
        let row = |&tokens: &u64| shares.iter().map(move |&share| count(tokens, share));
        Ok(Some(sent.iter().flat_map(row).collect()))
    }
}

/// A built-in predictor for every group.
pub struct GroupPredictors {
    choice: PredictorChoice,
    groups: BTreeMap<u32, GroupState>,
    unseen: Unseen,
}

impl GroupPredictors {
    /// Predictors that are made as groups appear.
    pub fn new(choice: PredictorChoice) -> Self {
        Self { choice, groups: BTreeMap::new(), unseen: Unseen::default() }
    }

    fn predict_one(&mut self, history: &dyn History) -> Result<PredictedDemand, Invalid> {
        let Self { choice, groups, unseen } = self;
        let (group, layer) = (history.group(), history.layer());
        unseen.hand_over(history, |layer, index, tokens| {
            let state = match groups.entry(group) {
                Entry::Occupied(kept) => kept.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(GroupState::new(*choice, tokens.len().isqrt())?)
                }
            };
            state.observe(layer, index, tokens)
        })?;
        let state = groups.get_mut(&group);
        let demand = state.map_or(Ok(None), |state| state.predict(layer, history.seen(layer)))?;
        let estimate = demand.map(Estimate::Demand);
        Ok(PredictedDemand { judged: estimate.clone(), requested: estimate })
    }
}

impl DemandPredictor for GroupPredictors {
    fn can_predict(&self, history: &dyn History) -> bool {
        history.has(0)
    }

    fn predict(&mut self, histories: &[&dyn History]) -> Result<Vec<PredictedDemand>, Invalid> {
        histories.iter().map(|history| self.predict_one(*history)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::PredictorName;

    /// Demands per layer, in order.
    struct Past {
        group: u32,
        layer: u16,
        layers: Vec<Vec<Vec<u64>>>,
    }

    impl History for Past {
        fn group(&self) -> u32 {
            self.group
        }

        fn layer(&self) -> u16 {
            self.layer
        }

        fn seen(&self, layer: u16) -> usize {
            self.layers[usize::from(layer)].len()
        }

        fn demand_of(&self, layer: u16, index: usize, demand: &mut Vec<u64>) {
            *demand = self.layers[usize::from(layer)][index].clone();
        }
    }

    fn predictors(name: PredictorName) -> GroupPredictors {
        GroupPredictors::new(PredictorChoice { name, window: 4 })
    }

    fn demand(prediction: &PredictedDemand) -> Option<Vec<u64>> {
        assert_eq!(prediction.judged, prediction.requested);
        match &prediction.judged {
            Some(Estimate::Demand(demand)) => Some(demand.clone()),
            Some(Estimate::Seen(_)) => panic!("an estimate is a demand"),
            None => None,
        }
    }

    #[test]
    fn shares_are_predicted_and_who_sends_how_much_is_what_was_seen_last() {
        // the second all-to-all: members send 30 and 70, and receive a quarter and three quarters
        let layers = vec![vec![vec![5, 5, 5, 5], vec![10, 20, 15, 55]]];
        let past = Past { group: 0, layer: 0, layers: layers.clone() };
        let two = Past { group: 3, layer: 0, layers: vec![vec![vec![0, 8, 0, 0]]] };
        let mut last_step = predictors(PredictorName::LastStep);
        let predicted = last_step.predict(&[&past, &two]).unwrap();
        // 30 * 0.25 = 7.5 and 70 * 0.25 = 17.5, rounded to even, as are 22.5 and 52.5
        assert_eq!(demand(&predicted[0]), Some(vec![8, 22, 18, 52]));
        assert_eq!(demand(&predicted[1]), Some(vec![0, 8, 0, 0]));
    }

    #[test]
    fn every_demand_is_handed_over_once_and_in_order() {
        let mut unseen = Unseen::default();
        let mut past =
            Past { group: 1, layer: 1, layers: vec![vec![vec![1; 4]], vec![vec![2; 4]]] };
        let mut handed = |past: &Past| {
            let mut predictions = Vec::new();
            let mut visit = |layer, index, tokens: &[u64]| {
                predictions.push((layer, index, tokens[0]));
                Ok::<(), ()>(())
            };
            unseen.hand_over(past, &mut visit).unwrap();
            predictions
        };
        // layer 0 was not to be predicted yet
        assert_eq!(handed(&past), [(1, 0, 2)]);
        assert_eq!(handed(&past), []);
        past.layers[1].push(vec![3; 4]);
        past.layer = 0;
        assert_eq!(handed(&past), [(0, 0, 1), (1, 1, 3)]);
    }

    #[test]
    fn a_group_that_is_asked_for_late_has_all_that_was_seen() {
        let layers = vec![vec![vec![1; 4], vec![2; 4], vec![3; 4]]];
        let mut visited = Vec::new();
        let visit = |layer: u16, index: usize, demand: &[u64]| -> Result<(), ()> {
            visited.push((layer, index, demand[0]));
            Ok(())
        };
        Unseen::default().hand_over(&Past { group: 5, layer: 0, layers }, visit).unwrap();
        assert_eq!(visited, [(0, 0, 1), (0, 1, 2), (0, 2, 3)]);
    }

    #[test]
    fn nothing_is_predicted_of_nothing_and_zeros_teach_nothing() {
        let mut ewma = predictors(PredictorName::Ewma);
        let mut past = Past { group: 0, layer: 0, layers: vec![vec![]] };
        assert!(!ewma.can_predict(&past));
        assert_eq!(demand(&ewma.predict(&[&past]).unwrap()[0]), None);
        past.layers[0].push(vec![1, 3, 1, 3]);
        past.layers[0].push(vec![0; 4]);
        assert!(ewma.can_predict(&past));
        assert_eq!(demand(&ewma.predict(&[&past]).unwrap()[0]), Some(vec![0; 4]));
        past.layers[0].push(vec![2, 2, 2, 2]);
        // shares: the plain mean of 1/4 and 1/2, the one of zeros left out
        assert_eq!(demand(&ewma.predict(&[&past]).unwrap()[0]), Some(vec![2, 2, 2, 2]));
    }

    #[test]
    fn a_group_that_is_too_wide_ends_the_run() {
        let past = Past { group: 0, layer: 0, layers: vec![vec![vec![1; 33 * 33]]] };
        let found = predictors(PredictorName::Copilot).predict(&[&past]);
        assert!(found.unwrap_err().0.starts_with("copilot takes at most 32 experts, got 33"));
    }
}
