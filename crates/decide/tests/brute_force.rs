//! Decisions at sizes at which every set of circuits can be tried.

mod worlds;

use lightloom_decide::{
    Decider, Held, Policy, Reconfigure, Region, Upcoming, Why, plan_time, switch_time,
};
use lightloom_model::{Allocator, Duration, Fibers, PerServer, Rate, SwitchTiming};
use lightloom_schedule::makespans;
use proptest::prelude::*;
use worlds::{GBPS, US, made, policy, ports_of, region, time, upcoming};

/// Every symmetric set of circuits within the ports.
fn every_set(ports: &[u32]) -> Vec<Vec<u16>> {
    let n = ports.len();
    let pairs: Vec<(usize, usize)> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
    let mut found = vec![vec![0_u16; n * n]];
    for (a, b) in pairs {
        let mut more = Vec::new();
        for circuits in &found {
            let used = |server: usize| {
                circuits[server * n..(server + 1) * n].iter().map(|&c| u32::from(c)).sum::<u32>()
            };
            let room = (ports[a] - used(a)).min(ports[b] - used(b));
            for count in 1..=room {
                let mut next = circuits.clone();
                (next[a * n + b], next[b * n + a]) = (count as u16, count as u16);
                more.push(next);
            }
        }
        found.append(&mut more);
    }
    found
}

/// A small region, its policy and timing, and what is upcoming.
#[derive(Debug, Clone)]
struct Small {
    region: Region,
    timing: SwitchTiming,
    upcoming: Vec<Upcoming>,
}

impl Small {
    fn decider(&self, when: Reconfigure, allocator: Allocator) -> Decider {
        let policy = Policy { allocator, ..policy(when) };
        made(self.region.clone(), policy, self.timing).expect("a consistent region")
    }

    /// Seconds of one set of circuits from the start to the end, with the switch to them.
    fn seconds(&self, decider: &Decider, held: &Held, circuits: &[u16]) -> f64 {
        let delay = switch_time(&self.timing, &held.circuits, circuits);
        let exposed = Duration(delay.0.saturating_sub(self.upcoming[0].hidden.0));
        time(decider, circuits, &self.upcoming) + exposed.as_seconds()
    }
}

fn small(all_to_alls: usize) -> impl Strategy<Value = Small> {
    let ports = prop::collection::vec(0..3_u16, 2..=4);
    let eps = prop::sample::select(vec![0, 100 * GBPS, 800 * GBPS]);
    let delays = (0..600 * US, 0..40 * US, 0..400 * US);
    let flags = (any::<bool>(), any::<bool>());
    let hidden = prop::collection::vec(0..400 * US, all_to_alls);
    (ports, eps, delays, flags, hidden, any::<u64>()).prop_map(
        |(ports, eps, (fixed, per_pair, first), (keep, split), mut hidden, seed)| {
            let n = ports.len();
            hidden[0] = first;
            Small {
                region: Region {
                    ports: PerServer::Each(ports),
                    split,
                    eps_rates: PerServer::All(Rate(eps)),
                    ..region(n, 1)
                },
                timing: SwitchTiming {
                    fixed: Duration(fixed),
                    per_pair: Duration(per_pair),
                    keep_unchanged: keep,
                    ..SwitchTiming::default()
                },
                upcoming: upcoming(n, &hidden, seed),
            }
        },
    )
}

fn close(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits() || (one - other).abs() <= 1e-9 * one.abs()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Among every set of circuits there is, the one that ends first.
    #[test]
    fn the_best_of_all_circuits_is_taken(small in small(1)) {
        let sets = every_set(&ports_of(&small.region));
        let mut decider = small.decider(Reconfigure::BreakEven, Allocator::Best);
        let held = decider.start();
        let decision = decider.decide_among(&held, &small.upcoming, &sets).expect("usable");
        let taken = small.seconds(&decider, &held, &decision.held.circuits);
        for circuits in &sets {
            let other = small.seconds(&decider, &held, circuits);
            prop_assert!(taken <= other || close(taken, other), "{:?}", circuits);
        }
        let hold = time(&decider, &held.circuits, &small.upcoming);
        prop_assert_eq!(decision.pairs > 0, matches!(decision.why, Why::Pays { .. }));
        if decision.pairs == 0 {
            prop_assert_eq!(decision.saved.to_bits(), 0);
        } else {
            let new = time(&decider, &decision.held.circuits, &small.upcoming);
            prop_assert!(close(decision.saved, hold - new), "{} {}", decision.saved, hold - new);
        }
    }

    /// No set of circuits beats the bound, and none pays where it was said that none could.
    #[test]
    fn what_cannot_pay_is_right(small in small(2)) {
        let mut decider = small.decider(Reconfigure::BreakEven, Allocator::Greedy);
        let held = decider.start();
        let decision = decider.decide(&held, &small.upcoming);
        let hold = time(&decider, &held.circuits, &small.upcoming);
        for circuits in every_set(&ports_of(&small.region)) {
            let found = makespans(&decider.request(&decision.demand, None), &[&circuits])[0];
            prop_assert!(found >= decision.bound * (1.0 - 1e-12));
            if let Why::CannotPay { saved, exposed } = decision.why {
                let after = small.seconds(&decider, &held, &circuits);
                prop_assert!(after >= hold || close(after, hold));
                let gain = hold - time(&decider, &circuits, &small.upcoming);
                prop_assert!(gain.is_nan() || gain <= saved * (1.0 + 1e-9) + 1e-15);
                prop_assert!(saved <= exposed);
            }
        }
    }

    /// The circuits that `best` proposes are the fastest: at this size it tries all.
    #[test]
    fn following_the_best_allocator_is_the_least_makespan(small in small(1)) {
        let mut decider = small.decider(Reconfigure::Always, Allocator::Best);
        let held = decider.start();
        let decision = decider.decide(&held, &small.upcoming);
        let best = every_set(&ports_of(&small.region))
            .iter()
            .map(|circuits| time(&decider, circuits, &small.upcoming))
            .fold(f64::INFINITY, f64::min);
        let found = decision.makespan;
        prop_assert!(close(found, best), "{} {}", found, best);
    }

    /// What a decision claims to save is the difference between the best plans with and without it.
    #[test]
    fn what_is_saved_is_the_difference_of_the_best_plans(small in small(2)) {
        let mut decider = small.decider(Reconfigure::BreakEven, Allocator::Best);
        let held = decider.start();
        let sets = every_set(&ports_of(&small.region));
        let proposals: Vec<Vec<u16>> = sets.iter().rev().take(5).cloned().collect();
        let decision = decider.decide_among(&held, &small.upcoming, &proposals).expect("usable");
        let Why::Pays { hold, switch, exposed, .. } = decision.why else { return Ok(()) };
        let request = decider.request(&small.upcoming[0].demand, None);
        let length = |first: Option<usize>, second: Option<usize>| {
            let (held, next, timing) = (&held.circuits, &small.upcoming, &small.timing);
            plan_time(&request, held, next, &proposals, &[first, second], timing)
        };
        let states: Vec<Option<usize>> =
            std::iter::once(None).chain((0..proposals.len()).map(Some)).collect();
        let best = |first: Option<usize>| {
            states.iter().map(|&second| length(first, second)).fold(f64::INFINITY, f64::min)
        };
        let with = proposals.iter().position(|other| *other == decision.held.circuits);
        prop_assert!(close(best(None), hold), "{} {}", best(None), hold);
        prop_assert!(close(best(with), switch + exposed), "{} {}", best(with), switch + exposed);
        prop_assert!(close(decision.saved, hold - switch));
    }

    /// What a policy that follows its allocator saves, by all-to-all; it may be negative.
    #[test]
    fn following_saves_what_the_times_say(small in small(3), per_layer in any::<bool>()) {
        let when = if per_layer { Reconfigure::PerLayer } else { Reconfigure::Always };
        let mut decider = small.decider(when, Allocator::Paper);
        let held = decider.start();
        let decision = decider.decide(&held, &small.upcoming);
        let before = time(&decider, &held.circuits, &small.upcoming);
        let after = time(&decider, &decision.held.circuits, &small.upcoming);
        match decision.why {
            Why::Follows { hold, switch, exposed } => {
                prop_assert!(close(hold, before) && close(switch, after));
                let late = decision.ready_after.0.saturating_sub(small.upcoming[0].hidden.0);
                prop_assert!(close(exposed, Duration(late).as_seconds()));
                if after.is_finite() {
                    prop_assert!(close(decision.saved, before - after)
                        || (decision.saved - (before - after)).abs() < 1e-12);
                }
            }
            why => {
                prop_assert_eq!(why, Why::SameProposed);
                prop_assert_eq!((decision.pairs, decision.saved.to_bits()), (0, 0));
            }
        }
    }

    /// On planes, as many of the proposed circuits as any assignment to planes can build.
    #[test]
    fn planes_build_all_that_can_be_built(
        chosen in any::<prop::sample::Index>(),
        servers in 2..5_usize,
        planes in 1..4_u32,
    ) {
        let region = Region { planes: Some(Fibers::Duplex), ..region(servers, planes as u16) };
        let sets = every_set(&ports_of(&region));
        let circuits = chosen.get(&sets).clone();
        let best = max_on_planes(&circuits, servers, planes as usize);
        let wanted: usize = circuits.iter().map(|&count| usize::from(count)).sum::<usize>() / 2;
        let policy = policy(Reconfigure::BreakEven);
        let decider = made(region, policy, SwitchTiming::default()).expect("consistent");
        match decider.hold(circuits) {
            Ok(held) => {
                prop_assert_eq!((best, held.nics.len()), (wanted, wanted));
                decider.check(&held).expect("what was made");
            }
            Err(error) => {
                prop_assert!(best < wanted, "{best} of {wanted}");
                prop_assert_eq!(error.to_string(), "the circuits held cannot be put on planes");
            }
        }
    }
}

/// The largest number of circuits that planes can take, each a matching of the servers.
fn max_on_planes(circuits: &[u16], servers: usize, planes: usize) -> usize {
    let mut list = Vec::new();
    for a in 0..servers {
        for b in a + 1..servers {
            list.extend(vec![(a, b); usize::from(circuits[a * servers + b])]);
        }
    }
    place(&list, &mut vec![vec![false; servers]; planes])
}

/// The same of the circuits left, on planes of which some servers are taken.
fn place(list: &[(usize, usize)], taken: &mut [Vec<bool>]) -> usize {
    let Some((&(a, b), rest)) = list.split_first() else { return 0 };
    let mut best = place(rest, taken);
    for plane in 0..taken.len() {
        if taken[plane][a] || taken[plane][b] {
            continue;
        }
        (taken[plane][a], taken[plane][b]) = (true, true);
        best = best.max(1 + place(rest, taken));
        (taken[plane][a], taken[plane][b]) = (false, false);
    }
    best
}
