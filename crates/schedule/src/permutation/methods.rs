//! From a method to its matchings.

use super::budget::Budget;
use super::demand::Demand;
use super::schedule::Method;
use super::slots::{Matchings, Slots};
use super::{bvn, critical, maximal, open_shop, round_robin, threshold};

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
            critical::greedy(demand, &Budget::unlimited()).expect("there is no limit"),
        ),
        Method::Critical => Matchings::Slots(critical::decompose(demand)),
        Method::Auto => unreachable!("auto is made of the others"),
    }
}
