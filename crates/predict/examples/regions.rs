//! Times the predictions of a decision: one all-to-all observed and one predicted per region.
//!
//! Prints the predictions per second of the best of several rounds, for 1, 8 and 64 regions.
//!
//! ```text
//! cargo run --release -p lightloom-predict --example regions [NAME MEMBERS]
//! ```

use lightloom_decide::{DemandPredictor, History};
use lightloom_predict::{DEFAULT_WINDOW, GroupPredictors, PredictorChoice, PredictorName};
use std::time::Instant;

/// Rounds that are timed after windows are full.
const ROUNDS: usize = 200;

/// A region that has seen the same two layers many times, with counts that differ by step.
struct Region {
    group: u32,
    layer: u16,
    steps: usize,
    members: usize,
}

impl History for Region {
    fn group(&self) -> u32 {
        self.group
    }

    fn layer(&self) -> u16 {
        self.layer
    }

    fn seen(&self, layer: u16) -> usize {
        // the layer before was passed in this step, too
        self.steps + usize::from(layer < self.layer)
    }

    fn demand_of(&self, layer: u16, index: usize, demand: &mut Vec<u64>) {
        let count = |place: usize| 1000 + (place * 7919 + index * 104_729) as u64 % 997;
        let shift = usize::from(layer) * 31 + self.group as usize;
        demand.clear();
        demand.extend((0..self.members * self.members).map(|place| count(place + shift)));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("ridge", String::as_str);
    let name: PredictorName = name.parse().expect("the name of a predictor");
    let members = arguments.get(1).map_or(8, |text| text.parse().expect("a number of members"));
    for regions in [1_u32, 8, 64] {
        let mut made = GroupPredictors::new(PredictorChoice { name, window: DEFAULT_WINDOW });
        let mut best = f64::INFINITY;
        for step in 1..2 * DEFAULT_WINDOW + ROUNDS {
            for layer in 0..2 {
                let groups: Vec<Region> = (0..regions)
                    .map(|group| Region { group, layer, steps: step, members })
                    .collect();
                let histories: Vec<&dyn History> =
                    groups.iter().map(|one| one as &dyn History).collect();
                let started = Instant::now();
                made.predict(&histories).expect("it predicts");
                let spent = started.elapsed().as_secs_f64();
                if step >= 2 * DEFAULT_WINDOW && layer == 1 {
                    best = best.min(spent);
                }
            }
        }
        println!(
            "{name}, {regions} regions of {members}: {:.0} predictions/s",
            f64::from(regions) / best
        );
    }
}
