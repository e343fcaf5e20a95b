//! From a method to its matchings.

use lightloom_model::Invalid;

use super::budget::Budget;
use super::demand::Demand;
use super::schedule::Method;
use super::slots::{Matchings, Slots};
use super::{bvn, critical, fewest, maximal, open_shop, round_robin, threshold};

/// Cells of matchings that a method with a slot per pair may make: 512 MiB.
const MAX_CELLS: usize = 1 << 27;

impl Demand<'_> {
    /// Checks that the slots of a method fit into memory.
    ///
    /// `OpenShop` and `Maximal` make about a slot per pair where all ports stop, each with a cell
    /// per row; these may have 2^27 cells, as 512 lines do that all want each other.
    ///
    /// # Errors
    /// If there may be more.
    pub fn check_size(&self, method: Method) -> Result<(), Invalid> {
        let by_pair = method == Method::Maximal || method == Method::OpenShop && !self.partial;
        let slots = self.bytes.iter().filter(|&&bytes| bytes > 0).count();
        if by_pair && slots * self.rows > MAX_CELLS {
            return Err(Invalid(format!(
                "{}: about {slots} slots, one per pair, of {} rows do not fit into memory; \
                 expected at most {MAX_CELLS} cells",
                method.name(),
                self.rows
            )));
        }
        Ok(())
    }
}

/// What a method other than `Auto` makes of a demand.
pub(super) fn plan_by(demand: &Demand, method: Method) -> Matchings {
    match method {
        Method::Bvn => Matchings::Slots(bvn::decompose(demand)),
        Method::Maximal => Matchings::Slots(maximal::decompose(demand)),
        Method::Threshold => Matchings::Slots(threshold::decompose(demand)),
        Method::OpenShop if demand.partial => {
            Matchings::Transfers(open_shop::transfers(demand, demand.delay))
        }
        Method::OpenShop => {
            Matchings::Slots(Slots::of_transfers(demand.rows, &open_shop::transfers(demand, 0), 0))
        }
        Method::RoundRobin => Matchings::Slots(round_robin::decompose(demand)),
        Method::Greedy => Matchings::Slots(
            critical::greedy(demand, &Budget::unlimited(), |_, _| ()).expect("there is no limit"),
        ),
        Method::Critical => Matchings::Slots(critical::decompose(demand)),
        // Nothing to keep.
        Method::Previous => Matchings::Slots(fewest::decompose(demand)),
        Method::Auto => unreachable!("auto is made of the others"),
    }
}
