//! Demand that arrives period by period, under a controller that sees what it has measured.

use lightloom_model::Invalid;

use super::estimate::DemandEstimate;
use crate::demand::check_square;
use crate::epochs::{Epochs, SwitchStep, check_sizes, serve};

/// What became of demand that arrived over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverTime {
    /// Bytes that wait after each period.
    pub backlog: Vec<u64>,
    /// Bytes that circuits carried in each period.
    pub carried: Vec<u64>,
    /// How often a switch was set, the first time included.
    pub turned: u64,
}

/// Plays the periods: before each, `step` gets the estimate and what is held. The estimate counts
/// what waits as well, which a controller can measure. A period lasts an epoch and a delay.
///
/// # Errors
/// If sizes do not fit, or `step` fails.
pub fn serve_over_time(
    arrivals: &[&[u64]],
    sizes: &Epochs,
    mut estimate: DemandEstimate,
    mut step: impl FnMut(&[u64], &[Vec<u32>]) -> Result<SwitchStep, Invalid>,
) -> Result<OverTime, Invalid> {
    check_sizes(sizes)?;
    let n = sizes.nodes;
    let mut waiting = vec![0_u64; n * n];
    let mut measured = vec![0_u64; n * n];
    let mut held: Vec<Vec<u32>> = Vec::new();
    let mut run = OverTime { backlog: vec![], carried: vec![], turned: 0 };
    for arrived in arrivals {
        check_square(arrived, n)?;
        let expected = estimate.update(&measured, arrived);
        let wanted: Vec<u64> = expected.iter().zip(&waiting).map(|(x, y)| x + y).collect();
        let next = step(&wanted, &held)?;
        measured.copy_from_slice(arrived);
        for cell in (0..n * n).filter(|cell| cell / n != cell % n) {
            waiting[cell] += arrived[cell];
        }
        let before: u64 = waiting.iter().sum();
        for (matching, &turned) in next.matchings.iter().zip(&next.turned) {
            serve(&mut waiting, matching, sizes.epoch + if turned { 0 } else { sizes.delay });
            run.turned += u64::from(turned);
        }
        let after: u64 = waiting.iter().sum();
        run.backlog.push(after);
        run.carried.push(before - after);
        held = next.matchings;
    }
    Ok(run)
}
