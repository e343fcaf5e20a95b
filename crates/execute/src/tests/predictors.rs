//! Demand that is predicted by a user's part instead of the built-in one.

use super::{US, compute, pairs};
use crate::network::Network;
use crate::testing::{all_to_all, empty_graph, mixnet, ocs_when, with_blocks, with_first};
use crate::{Options, Outcome, Plugins, TransferModel, execute, execute_as};
use lightloom_decide::{
    DemandPredictor, Estimate, History, LastSeen, PredictedDemand, Reconfigure, Requested,
};
use lightloom_kernel::Silent;
use lightloom_model::{FirstAllToAll, Invalid, Payload, Task, TaskGraph, TaskKind};

/// Three micro-batches through one layer, each with routing of its own.
fn graph() -> TaskGraph {
    let blocks = [1, 2, 3].map(|other| pairs(4, &[(0, other)], 60_000_000));
    let blocks: Vec<&[u32]> = blocks.iter().map(Vec::as_slice).collect();
    let mut graph = with_blocks(empty_graph(1, 1, 4), &blocks);
    for number in 0..3 {
        for transposed in [false, true] {
            let mut task = all_to_all(number, !transposed);
            let TaskKind::Collective(collective) = &mut task.kind else { unreachable!() };
            if let Payload::Block { transposed: flag, .. } = &mut collective.payload {
                *flag = transposed;
            }
            let place = Task { layer: 0, micro_batch: number as u16, ..task };
            graph.roles[0].tasks.extend([compute(100_000 * US), place]);
        }
    }
    graph
}

fn network() -> Network {
    let ocs = ocs_when(4, Reconfigure::BreakEven);
    with_first(mixnet(4).with(ocs), FirstAllToAll::Predict)
}

fn run(predictor: &mut dyn DemandPredictor) -> Result<Outcome, String> {
    let (graph, network) = (graph(), network());
    let options = Options { record_decisions: true, ..Options::default() };
    let plugins = Plugins { predictor: Some(predictor), ..Plugins::default() };
    execute_as(TransferModel::Flows, &graph, &network, &options, &mut Silent, plugins)
        .map_err(|error| error.to_string())
}

/// Says the same of everything, once anything was seen or even before.
#[derive(Default)]
struct Oracle {
    before: bool,
    prediction: PredictedDemand,
    /// Histories of each call.
    calls: Vec<usize>,
}

impl DemandPredictor for Oracle {
    fn can_predict(&self, history: &dyn History) -> bool {
        self.before || history.has(0)
    }

    fn predict(&mut self, histories: &[&dyn History]) -> Result<Vec<PredictedDemand>, Invalid> {
        self.calls.push(histories.len());
        if histories.iter().any(|history| history.layer() != 0 || history.group() != 0) {
            return Err(Invalid::new("another layer"));
        }
        Ok(vec![self.prediction.clone(); histories.len()])
    }
}

#[test]
fn the_last_one_seen_is_the_built_in_prediction() {
    let options = Options { record_decisions: true, ..Options::default() };
    let built_in = execute(&graph(), &network(), &options, &mut Silent).unwrap();
    assert_eq!(run(&mut LastSeen), Ok(built_in));
    let seen = PredictedDemand { judged: Some(Estimate::Seen(0)), requested: None };
    let mut other = Oracle { prediction: seen, ..Oracle::default() };
    let outcome = run(&mut other).unwrap();
    let nothing = |record: &crate::DecisionRecord| {
        record.upcoming.iter().any(|next| next.requested == Requested::Nothing)
    };
    assert!(outcome.decisions.records.iter().any(nothing));
    assert!(!other.calls.is_empty());
}

#[test]
fn predicted_tokens_are_demand_and_its_transpose() {
    let mut tokens = vec![0_u64; 16];
    tokens[2] = 1_000;
    let both = Some(Estimate::Demand(tokens.clone()));
    let prediction = PredictedDemand { judged: both.clone(), requested: both };
    let mut oracle = Oracle { before: true, prediction, ..Oracle::default() };
    let outcome = run(&mut oracle).unwrap();
    let first = &outcome.decisions.records[0];
    assert_eq!((first.upcoming[0].demand[2], first.upcoming[1].demand[8]), (1_000, 1_000));
    assert_eq!(first.upcoming[0].requested, Requested::Other(tokens));
}

#[test]
fn predictions_that_cannot_be_used_end_the_run() {
    let refusal = |judged| {
        let prediction = PredictedDemand { judged: Some(judged), requested: None };
        run(&mut Oracle { prediction, ..Oracle::default() }).unwrap_err()
    };
    let start = "predictor: layer 0 of group 0 cannot be predicted by";
    assert_eq!(refusal(Estimate::Seen(7)), format!("{start} 7 before the latest"));
    let short = Estimate::Demand(vec![1; 4]);
    assert_eq!(refusal(short), format!("{start} 4 entries for 4 members"));
}

/// Returns no predictions.
struct Silence;

impl DemandPredictor for Silence {
    fn can_predict(&self, _: &dyn History) -> bool {
        true
    }

    fn predict(&mut self, _: &[&dyn History]) -> Result<Vec<PredictedDemand>, Invalid> {
        Ok(Vec::new())
    }
}

#[test]
fn a_prediction_per_history_is_expected() {
    let text = run(&mut Silence).unwrap_err();
    assert!(text.starts_with("predictor: 0 predictions for "), "{text}");
}
