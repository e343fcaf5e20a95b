//! From a method to its matchings.

use super::demand::Demand;
use super::schedule::Method;
use super::slots::{Plan, Slots};
use super::{bvn, critical, maximal, open_shop, round_robin, threshold};

/// What a method other than `Auto` makes of a demand.
pub(super) fn plan_by(demand: &Demand, method: Method) -> Plan {
    match method {
        Method::Bvn => Plan::Slots(bvn::decompose(demand)),
        Method::Maximal => Plan::Slots(maximal::decompose(demand)),
        Method::Threshold => Plan::Slots(threshold::decompose(demand)),
        Method::OpenShop if demand.partial => {
            Plan::Transfers(open_shop::transfers(demand, demand.delay))
        }
        Method::OpenShop => {
            Plan::Slots(Slots::of_transfers(demand.rows, &open_shop::transfers(demand, 0), 0))
        }
        Method::RoundRobin => Plan::Slots(round_robin::decompose(demand)),
        Method::Critical => Plan::Slots(critical::decompose(demand)),
        Method::Auto => unreachable!("auto is made of the others"),
    }
}
