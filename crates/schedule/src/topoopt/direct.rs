//! Direct circuits for the phases whose pairs all find ports, so that busiest circuits are least.
//!
//! A phase whose heaviest pair has `k` circuits needs `ceil(k bytes / largest bytes)` for each
//! other pair. Every phase begins with one circuit per pair; then a phase gains those circuits that
//! save most per port, until no phase can have more.

use super::links::Links;
use super::matching::PairDemand;
use super::request::TopoRequest;

/// Steps of a circuit of the heaviest pair.
const STEPS: u32 = 4;

/// Circuits of the heaviest pair that are tried.
const MAX_LEVEL: u32 = 64;

/// A phase with its pairs.
struct Phase {
    /// Index of each pair among all, and its bytes over those of the heaviest.
    pairs: Vec<(usize, f64)>,
    largest: f64,
    /// Circuits of the heaviest pair, in steps; 0 if the pairs do not all find ports.
    level: u32,
}

impl Phase {
    /// Circuits that a pair needs so that it is as busy as the heaviest at most.
    fn need(share: f64, level: u32) -> u32 {
        // Less a rounding error, which must not cost a circuit.
        let circuits = share * f64::from(level) / f64::from(STEPS);
        if level == 0 { 0 } else { ((circuits - 1e-9).ceil() as u32).max(1) }
    }

    fn busiest(&self, level: u32) -> f64 {
        self.largest * f64::from(STEPS) / f64::from(level)
    }
}

/// Joins pairs, as far as ports go; the demand that is left counts per circuit.
pub(super) fn join(request: &TopoRequest, links: &mut Links) {
    let (ends, mut phases) = phases(request);
    let mut by_ports: Vec<usize> = (0..phases.len()).collect();
    by_ports.sort_by_key(|&phase| phases[phase].pairs.len());
    for phase in by_ports {
        phases[phase].level = STEPS;
        if ports(&ends, &phases, links).is_none() {
            phases[phase].level = 0;
        }
    }
    while let Some((phase, level)) = best_step(&ends, &mut phases, request.degree, links) {
        phases[phase].level = level;
    }
    for (&(a, b), count) in ends.iter().zip(needs(ends.len(), &phases)) {
        for _ in 0..count {
            links.add(a, b);
        }
    }
}

/// All undirected pairs, and the phases.
fn phases(request: &TopoRequest) -> (Vec<(u32, u32)>, Vec<Phase>) {
    let mut kinds = request.phases.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let demand_of = |kind: u32| -> Vec<(u32, u32, u64)> {
        let all = request.demand.iter().zip(request.phases);
        all.filter(|(_, phase)| **phase == kind).map(|(entry, _)| *entry).collect()
    };
    let demands: Vec<PairDemand> = if kinds.is_empty() {
        vec![PairDemand::of_rest(request.demand)]
    } else {
        kinds.into_iter().map(|kind| PairDemand::of_rest(&demand_of(kind))).collect()
    };
    let all = demands.iter().flat_map(|demand| &demand.pairs);
    let mut ends: Vec<(u32, u32)> = all.map(|pair| (pair.0, pair.1)).collect();
    ends.sort_unstable();
    ends.dedup();
    let place = |a, b| ends.binary_search(&(a, b)).expect("a pair of a phase");
    let phase = |demand: &PairDemand| {
        let largest = demand.pairs.iter().map(|pair| pair.2).fold(0.0, f64::max);
        let pairs = demand.pairs.iter().map(|&(a, b, bytes)| (place(a, b), bytes / largest));
        Phase { pairs: pairs.collect(), largest, level: 0 }
    };
    let phases = demands.iter().filter(|demand| !demand.pairs.is_empty()).map(phase).collect();
    (ends, phases)
}

/// Circuits of each pair: as many as the phase wants that wants most.
fn needs(pairs: usize, phases: &[Phase]) -> Vec<u32> {
    let mut needs = vec![0; pairs];
    for phase in phases {
        for &(pair, share) in &phase.pairs {
            needs[pair] = Phase::need(share, phase.level).max(needs[pair]);
        }
    }
    needs
}

/// Ports that all pairs take, if they find them.
fn ports(ends: &[(u32, u32)], phases: &[Phase], links: &Links) -> Option<u32> {
    let mut used = vec![0; links.servers()];
    for (&(a, b), count) in ends.iter().zip(needs(ends.len(), phases)) {
        used[a as usize] += count;
        used[b as usize] += count;
    }
    let fits = (0..).zip(&used).all(|(server, &used)| used <= links.free(server));
    fits.then(|| used.iter().sum())
}

/// The phase and its level that save most per port.
fn best_step(
    ends: &[(u32, u32)],
    phases: &mut [Phase],
    degree: u32,
    links: &Links,
) -> Option<(usize, u32)> {
    let before = ports(ends, phases, links).expect("levels that were found to fit");
    let mut best: Option<(f64, usize, u32)> = None;
    for index in 0..phases.len() {
        let now = phases[index].level;
        if now == 0 {
            continue;
        }
        for level in now + 1..=STEPS * degree.min(MAX_LEVEL) {
            phases[index].level = level;
            let Some(after) = ports(ends, phases, links) else { break };
            let saved = phases[index].busiest(now) - phases[index].busiest(level);
            let rate = saved / f64::from(after - before).max(0.5);
            if best.is_none_or(|(highest, ..)| rate > highest) {
                best = Some((rate, index, level));
            }
        }
        phases[index].level = now;
    }
    best.map(|(_, phase, level)| (phase, level))
}
