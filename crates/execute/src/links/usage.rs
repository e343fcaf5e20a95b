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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-12
    }

    #[test]
    fn bothis_of_what_all_links_could_carry_until_the_end() {
        // Half a second at 8 and 24 Gb/s: 500 MB and 1.5 GB.
        let (carried, rates) =
            ([100_000_000, 900_000_000], [8, 24].map(|gbps| Rate(gbps * 1_000_000_000)));
        let both = LinkUse::new("both", &carried, &rates, Time(500_000_000_000));
        assert_eq!((both.name.as_str(), both.links), ("both", 2));
        assert_eq!(both.carried_bytes, 1_000_000_000);
        assert!(near(both.mean, 0.5) && near(both.max, 0.6), "{both:?}");
        // Twice as long, half as much.
        let longer = LinkUse::new("both", &carried, &rates, Time(1_000_000_000_000));
        assert!(near(longer.mean, both.mean / 2.0) && near(longer.max, both.max / 2.0));
    }

    #[test]
    fn links_that_can_carry_nothing_are_not_used() {
        let dark = LinkUse::new("dark", &[0, 0], &[Rate(0); 2], Time(7));
        assert!(near(dark.mean, 0.0) && near(dark.max, 0.0) && dark.links == 2);
        let none = LinkUse::new("none", &[], &[], Time(7));
        assert!(near(none.mean, 0.0) && none.carried_bytes == 0);
        let early = LinkUse::new("early", &[0], &[Rate(1)], Time::ZERO);
        assert!(near(early.max, 0.0));
    }

    proptest! {
        /// The maximum is one of the links', the mean is between the minimum and the maximum, and
        /// neither depends on the order of links.
        #[test]
        fn the_mean_is_between_the_minimum_and_the_maximum(
            links in prop::collection::vec((0_u64..1000, 1_u64..1000), 1..8),
        ) {
            let carried: Vec<u64> = links.iter().map(|link| link.0).collect();
            let rates: Vec<Rate> = links.iter().map(|link| Rate(8 * link.1)).collect();
            let used = LinkUse::new("up", &carried, &rates, Time(1_000_000_000_000));
            let shares = links.iter().map(|&(bytes, rate)| bytes as f64 / rate as f64);
            let (low, high) = (shares.clone().fold(f64::MAX, f64::min), shares.fold(0.0, f64::max));
            prop_assert!((used.max - high).abs() <= 1e-12 * high);
            prop_assert!(used.mean >= low * (1.0 - 1e-12) && used.mean <= high * (1.0 + 1e-12));
            let reversed = |values: &[u64]| values.iter().rev().copied().collect::<Vec<u64>>();
            let rates: Vec<Rate> = rates.into_iter().rev().collect();
            let other = LinkUse::new("up", &reversed(&carried), &rates, Time(1_000_000_000_000));
            prop_assert_eq!(other.max.to_bits(), used.max.to_bits());
            prop_assert_eq!(other.carried_bytes, used.carried_bytes);
        }
    }
}
