//! How much of what links could carry they carried.

use super::carrier::Links;
use lightloom_flowsim::LinkId;
use lightloom_model::{Rate, Time};

/// Use of one class of links over the step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkUse {
    /// Class, such as `server_up`.
    pub name: String,
    /// Number of links.
    pub links: usize,
    /// Bytes of finished flows over all of them.
    pub carried_bytes: u64,
    /// Carried bits over what all links could carry in the step.
    pub mean: f64,
    /// The same for the busiest link.
    pub max: f64,
}

impl LinkUse {
    /// Of links whose members were all lit from the start.
    pub fn of_links(name: &str, class: &[LinkId], links: &Links, end: Time) -> Self {
        let carried: Vec<u64> = class.iter().map(|&link| links.carried(link)).collect();
        let rates: Vec<Rate> = class.iter().map(|&link| links.full_rate(link)).collect();
        Self::new(name, &carried, &rates, end)
    }

    /// From what each link carried and its rate.
    pub fn new(name: &str, carried: &[u64], rates: &[Rate], end: Time) -> Self {
        let seconds = end.as_seconds();
        let capacity = |rate: &Rate| rate.0 as f64 / 8.0 * seconds;
        let share = |bytes: f64, limit: f64| if limit > 0.0 { bytes / limit } else { 0.0 };
        let total: u64 = carried.iter().sum();
        let mean = share(total as f64, rates.iter().map(capacity).sum());
        let max = carried
            .iter()
            .zip(rates)
            .map(|(&bytes, rate)| share(bytes as f64, capacity(rate)))
            .fold(0.0, f64::max);
        Self { name: name.to_string(), links: carried.len(), carried_bytes: total, mean, max }
    }
}
