//! Demand that is not known yet: what a policy may take it to be.
//!
//! The demand of the first all-to-all of a layer's forward pass is known only at its gate. A
//! [`DemandPredictor`] estimates it from what was seen of the same layer before, once to judge
//! circuits by and once to request circuits for: circuits that were found on the very demand they
//! are judged by look better than they are.

use lightloom_model::Invalid;

/// What was seen of the first all-to-alls of one layer by one group of members, the latest first.
pub trait History {
    /// The group of members.
    fn group(&self) -> u32;

    /// The layer of the model.
    fn layer(&self) -> u16;

    /// Whether one was seen so many before the latest, which is 0.
    fn has(&self, back: usize) -> bool {
        back < self.seen(self.layer())
    }

    /// The demand of the one seen so many before the latest, members x members, in the caller's
    /// unit.
    ///
    /// # Panics
    /// If there was none, see [`Self::has`].
    fn demand(&self, back: usize, demand: &mut Vec<u64>) {
        self.demand_of(self.layer(), self.seen(self.layer()) - 1 - back, demand);
    }

    /// How many first all-to-alls of another layer, or of this one, the group has behind it.
    fn seen(&self, layer: u16) -> usize;

    /// The demand of one of another layer, the first of which is 0, as [`Self::demand`].
    ///
    /// # Panics
    /// If there is none, see [`Self::seen`].
    fn demand_of(&self, layer: u16, index: usize, demand: &mut Vec<u64>);
}

/// An estimate of demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Estimate {
    /// The same as the one seen so many before the latest.
    Seen(usize),
    /// This demand, members x members, in the unit of the history.
    Demand(Vec<u64>),
}

/// What a predictor takes the demand to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PredictedDemand {
    /// To judge circuits by; `None` if too little was seen.
    pub judged: Option<Estimate>,
    /// To request circuits for; `None` if too little was seen.
    pub requested: Option<Estimate>,
}

/// Estimates demand that is not known yet.
pub trait DemandPredictor: Send {
    /// Whether enough was seen for an estimate to judge circuits by.
    fn can_predict(&self, history: &dyn History) -> bool;

    /// One prediction per history; all histories of a decision come at once.
    ///
    /// # Errors
    /// Why there are none: it ends the run.
    fn predict(&mut self, histories: &[&dyn History]) -> Result<Vec<PredictedDemand>, Invalid>;
}

/// The demand repeats: circuits are judged by the last one seen and requested for the last but one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LastSeen;

impl DemandPredictor for LastSeen {
    fn can_predict(&self, history: &dyn History) -> bool {
        history.has(0)
    }

    fn predict(&mut self, histories: &[&dyn History]) -> Result<Vec<PredictedDemand>, Invalid> {
        let seen = |history: &dyn History, back| history.has(back).then_some(back);
        let predict = |history: &&dyn History| PredictedDemand {
            judged: seen(*history, 0).map(Estimate::Seen),
            requested: seen(*history, 1).map(Estimate::Seen),
        };
        Ok(histories.iter().map(predict).collect())
    }
}
