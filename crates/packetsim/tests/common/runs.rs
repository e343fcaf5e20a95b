//! Statistics of runs of the reference simulators, from `experiments/packet-validation/runs.csv`,
//! and of ours of the same flows.

use crate::common::{Reference, STATISTICS, simulate, summary};
use crate::scenarios::flows;
use std::sync::atomic::{AtomicUsize, Ordering};

const TABLE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../experiments/packet-validation/runs.csv"
));

/// All runs of one simulator of one scenario.
pub struct Runs {
    /// Which simulator, and what was changed in it.
    pub simulator: &'static str,
    pub transport: &'static str,
    pub scenario: &'static str,
    /// The [`STATISTICS`] of each run, in us.
    pub statistics: Vec<[f64; 4]>,
}

/// Of a part, in the order of the table: `shown`, scenarios at which we looked while we worked on
/// a transport, or `test`.
pub fn runs(part: &str) -> Vec<Runs> {
    let mut found: Vec<Runs> = Vec::new();
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    for cells in lines.map(|line| line.split(',').collect::<Vec<&'static str>>()) {
        let [simulator, transport, scenario, its_part] = [cells[0], cells[1], cells[2], cells[3]];
        if its_part != part {
            continue;
        }
        // Where a statistic is not known, the cell is empty.
        let number = |index: usize| cells[5 + index].parse().unwrap_or(f64::NAN);
        let run = std::array::from_fn(number);
        let is_same = |it: &&mut Runs| {
            (it.simulator, it.transport, it.scenario) == (simulator, transport, scenario)
        };
        match found.iter_mut().find(is_same) {
            Some(it) => it.statistics.push(run),
            None => found.push(Runs { simulator, transport, scenario, statistics: vec![run] }),
        }
    }
    found
}

/// Each statistic's mean over runs.
pub fn means(runs: &[[f64; 4]]) -> [f64; STATISTICS.len()] {
    std::array::from_fn(|index| runs.iter().map(|run| run[index]).sum::<f64>() / runs.len() as f64)
}

impl Runs {
    /// What we make of the same flows, over seeds from 1 on, on all processors.
    pub fn ours(&self, seeds: usize) -> Vec<[f64; 4]> {
        let paths = match self.transport {
            "eqds" => 128,
            "uet-nscc" | "uet-rccc" => 64,
            _ => 1,
        };
        let name = format!("htsim_{}__{}_100G_p{paths}.csv", self.scenario, self.transport);
        let (hosts, flows) = flows(self.scenario);
        let reference = Reference { name, hosts, flows, times: Vec::new() };
        let next = AtomicUsize::new(1);
        let work = || {
            let seeds = std::iter::from_fn(|| {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                (seed <= seeds).then_some(seed as u64)
            });
            seeds.map(|seed| summary(&simulate(&reference, seed))).collect::<Vec<_>>()
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            handles.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect()
        })
    }
}
