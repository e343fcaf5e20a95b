//! Rules between two decisions: other units of time, other labels, parts that failed against parts
//! that were never there, a decider with a past against one without.

mod worlds;

use lightloom_decide::{Decision, Held, Policy, Reconfigure, Region, SizedRegion, Upcoming, Why};
use lightloom_model::{
    CircuitRate, Duration, Failures, Fibers, Pairs, PerServer, Rate, SwitchTiming,
};
use lightloom_schedule::relay::RelayCost;
use proptest::prelude::*;
use worlds::common::{Random, permuted};
use worlds::{GBPS, US, World, made, policy, ports_of, region, upcoming, world};

/// Every time that a decision states, in seconds.
fn times(decision: &Decision) -> Vec<f64> {
    let compared = decision.why.compared();
    let mut found =
        vec![decision.makespan, decision.bound, decision.saved, decision.ready_after.as_seconds()];
    found.extend([compared.hold, compared.switch, compared.exposed].into_iter().flatten());
    if let Why::CannotPay { saved, .. } = decision.why {
        found.push(saved);
    }
    found
}

/// The same world with every rate doubled and every delay halved.
fn faster(world: &World) -> World {
    let mut found = world.clone();
    let region = &mut found.region;
    let circuit_rate = region.circuit_rate.rate().0 * 2;
    region.circuit_rate = CircuitRate::new(Rate(circuit_rate)).expect("above 0");
    let PerServer::Each(rates) = &mut region.eps_rates else { panic!("a rate of each server") };
    for rate in rates {
        rate.0 *= 2;
    }
    for time in [&mut found.timing.fixed, &mut found.timing.per_pair] {
        time.0 /= 2;
    }
    found.upcoming.iter_mut().for_each(|next| next.hidden.0 /= 2);
    found
}

/// The same world with delays that can be halved.
fn even(mut world: World) -> World {
    world.timing.fixed.0 *= 2;
    world.upcoming.iter_mut().for_each(|next| next.hidden.0 *= 2);
    world
}

/// The same region without the parts that have failed, where one switch joins any two ports.
fn without(region: &Region) -> Region {
    let sized = SizedRegion::new(ports_of(region).len(), region.clone()).expect("consistent");
    Region {
        ports: PerServer::Each(sized.working_ports().iter().map(|&count| count as u16).collect()),
        eps_rates: PerServer::Each(sized.working_eps_rates()),
        failures: Failures::default(),
        ..region.clone()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn twice_the_rate_and_half_the_delay_is_the_same_in_half_the_time(world in world()) {
        let mut slow = even(world);
        slow.policy.relaying = None;
        let fast = faster(&slow);
        let held = slow.decider().start();
        let (one, two) = (
            slow.decider().decide(&held, &slow.upcoming),
            fast.decider().decide(&held, &fast.upcoming),
        );
        prop_assert_eq!(&one.held, &two.held);
        prop_assert_eq!(&one.change, &two.change);
        prop_assert_eq!(one.why.name(), two.why.name());
        for (slow, fast) in times(&one).into_iter().zip(times(&two)) {
            // Halving is exact.
            prop_assert_eq!((slow / 2.0).to_bits(), fast.to_bits(), "{} {}", slow, fast);
        }
    }

    #[test]
    fn failed_parts_are_as_if_they_were_never_there(world in world(), server in 0..6_u32) {
        let mut failed = world.clone();
        failed.region.planes = None;
        if server < ports_of(&failed.region).len() as u32 {
            failed.region.failures.servers.push(server);
        }
        let mut absent = failed.clone();
        absent.region = without(&failed.region);
        // NICs keep their indices, so that only circuits can be compared.
        let (one, two) = (failed.decider().start(), absent.decider().start());
        prop_assert_eq!(&one.circuits, &two.circuits);
        let one = failed.decider().decide(&one, &world.upcoming);
        let two = absent.decider().decide(&two, &world.upcoming);
        prop_assert_eq!(&one.held.circuits, &two.held.circuits);
        prop_assert_eq!((one.pairs, one.why), (two.pairs, two.why));
        prop_assert_eq!((one.makespan, one.bound, one.saved), (two.makespan, two.bound, two.saved));
        if server < ports_of(&failed.region).len() as u32 {
            let row = &one.held.circuits[server as usize * ports_of(&failed.region).len()..];
            prop_assert!(row[..ports_of(&failed.region).len()].iter().all(|&count| count == 0));
        }
    }

    #[test]
    fn relabelled_servers_compare_alike(
        case in worlds::common::case(5), seed in any::<u64>(), fixed in 0..1_000 * US,
    ) {
        let n = case.servers;
        let (other, order) = permuted(&case, seed);
        let decide = |case: &worlds::common::Case, there: &dyn Fn(usize, usize) -> usize| {
            let region = Region {
                ports: PerServer::Each(case.ports.iter().map(|&count| count as u16).collect()),
                allowed: Some(Pairs::new(n, case.allowed.clone(), "allowed").expect("symmetric")),
                eps_rates: PerServer::All(Rate(case.eps)),
                split: case.split,
                ..region(n, 1)
            };
            let timing = SwitchTiming { fixed: Duration(fixed), ..SwitchTiming::default() };
            let policy = policy(Reconfigure::BreakEven);
            let mut decider = made(region, policy, timing).expect("a consistent region");
            // Proposals of the first labels, carried over.
            let proposals: Vec<Vec<u16>> = proposals(&case.ports, &case.allowed, there);
            let held = decider.hold(vec![0; n * n]).expect("no circuits");
            let next = [Upcoming::known(case.demand.clone(), Duration::ZERO)];
            decider.decide_among(&held, &next, &proposals).expect("circuits within the ports")
        };
        let place = |a: usize, b: usize| order[a] * n + order[b];
        let same: Vec<usize> = (0..n).collect();
        let mut back = vec![0; n];
        order.iter().zip(&same).for_each(|(&to, &from)| back[to] = from);
        let one = decide(&case, &|a, b| a * n + b);
        let two = decide(&other, &|a, b| back[a] * n + back[b]);
        prop_assert_eq!(one.pairs, two.pairs);
        for a in 0..n {
            for b in 0..n {
                prop_assert_eq!(one.held.circuits[a * n + b], two.held.circuits[place(a, b)]);
            }
        }
        let close = |one: f64, two: f64| one.to_bits() == two.to_bits()
            || (one - two).abs() <= 1e-9 * one.abs();
        for (one, two) in times(&one).into_iter().zip(times(&two)) {
            prop_assert!(close(one, two), "{} {}", one, two);
        }
    }

    /// What is held goes through text between decisions, and every decision has a decider of its
    /// own; against one decider that takes everything and has small caches.
    #[test]
    fn stored_state_continues_alike(world in world(), seed in any::<u64>()) {
        let mut lasting = world.decider().with_cache_bytes(2_000);
        let (mut held, mut stored) = (lasting.start(), text(&world.decider().start()));
        for round in 0..4 {
            let servers = ports_of(&world.region).len();
            let next = upcoming(servers, &[round * US, 0], seed ^ (round / 2));
            let restored: Held = serde_json::from_str(&stored).expect("what was written");
            let parts = text(&(&world.region, &world.policy, &world.timing));
            let (region, policy, timing) = serde_json::from_str(&parts).expect("what was written");
            let mut fresh = made(region, policy, timing).expect("a consistent region");
            let (one, two) = (lasting.decide(&held, &next), fresh.decide(&restored, &next));
            prop_assert_eq!(&one, &two, "round {}", round);
            (held, stored) = (one.held, text(&two.held));
        }
    }

    /// Nothing of one decision shows in the next: not its demand, its proposals or its routing.
    #[test]
    fn a_decider_with_a_past_decides_as_one_without(world in world(), seed in any::<u64>()) {
        let n = ports_of(&world.region).len();
        let mut busy = world.decider();
        let start = busy.start();
        for round in 0..3 {
            // Other work: more all-to-alls, none, given circuits, a route.
            let other = upcoming(n, &[0, US, 2 * US][..round as usize], seed ^ round);
            let elsewhere = busy.decide(&start, &other).held;
            busy.decide_among(&elsewhere, &world.upcoming, std::slice::from_ref(&start.circuits))
                .expect("circuits that were held");
            busy.relay(&elsewhere.circuits, &world.upcoming[0].demand);
            let found = busy.decide(&start, &world.upcoming);
            prop_assert_eq!(found, world.decider().decide(&start, &world.upcoming));
        }
    }

    /// A part that fails and returns leaves no trace.
    #[test]
    fn a_repaired_region_decides_as_before(world in world()) {
        let mut healthy = world.clone();
        healthy.region.failures = Failures::default();
        let held = healthy.decider().start();
        let before = healthy.decider().decide(&held, &world.upcoming);
        world.decider().decide(&held, &world.upcoming);
        prop_assert_eq!(healthy.decider().decide(&held, &world.upcoming), before);
    }
}

fn text<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain values")
}

/// One circuit of each allowed pair in turn, and a pair of two where there are ports for it.
fn proposals(
    ports: &[u32],
    allowed: &[bool],
    first_labels: &dyn Fn(usize, usize) -> usize,
) -> Vec<Vec<u16>> {
    let n = ports.len();
    // In the order of the first labels, so that ties break alike.
    let mut pairs: Vec<(usize, usize, usize)> = (0..n)
        .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
        .map(|(a, b)| (first_labels(a, b).min(first_labels(b, a)), a, b))
        .collect();
    pairs.sort_unstable();
    let mut found = Vec::new();
    for (_, a, b) in pairs {
        let limit = ports[a].min(ports[b]).min(2);
        if !allowed[a * n + b] || limit == 0 {
            continue;
        }
        let mut circuits = vec![0; n * n];
        (circuits[a * n + b], circuits[b * n + a]) = (limit as u16, limit as u16);
        found.push(circuits);
    }
    found
}

/// With relays as well, where what relaying costs is scaled along.
#[test]
fn relays_scale_with_time() {
    for seed in 1..30 {
        let cost = |factor: u64| RelayCost {
            staging_rate: Some(Rate(1_600 * GBPS * factor)),
            relay_delay: Duration(40 * US / factor),
            chunk_bytes: 1_000_000,
            memory_limit: None,
        };
        let slow = World {
            region: region(6, 2),
            policy: Policy { relaying: Some(cost(1)), ..policy(Reconfigure::BreakEven) },
            timing: SwitchTiming { fixed: Duration(200 * US), ..SwitchTiming::default() },
            upcoming: upcoming(6, &[20 * US], seed),
        };
        let mut fast = faster(&slow);
        fast.policy.relaying = Some(cost(2));
        let held = slow.decider().start();
        let one = slow.decider().decide(&held, &slow.upcoming);
        let two = fast.decider().decide(&held, &fast.upcoming);
        assert_eq!((&one.held, one.why.name()), (&two.held, two.why.name()), "seed {seed}");
        for (slow, fast) in times(&one).into_iter().zip(times(&two)) {
            assert!((slow / 2.0 - fast).abs() <= 1e-9 * fast, "seed {seed}: {slow} {fast}");
        }
    }
}

/// Held circuits that suit the demand are not given up for equal ones, however often it is decided.
#[test]
fn a_decision_that_is_repeated_changes_nothing() {
    let mut settled = 0;
    for seed in 1..40 {
        for planes in [None, Some(Fibers::Duplex), Some(Fibers::Crossed)] {
            let world = World {
                region: Region { planes, ..region(6, 4) },
                policy: policy(Reconfigure::BreakEven),
                timing: SwitchTiming { fixed: Duration(10 * US), ..SwitchTiming::default() },
                upcoming: upcoming(6, &[0], seed),
            };
            let mut decider = world.decider();
            let first = decider.decide(&decider.start(), &world.upcoming);
            let mut held = first.held;
            // Circuits found from others may be better still: as long as they pay, time falls.
            let mut last = f64::INFINITY;
            for _ in 0..10 {
                let decision = decider.decide(&held, &world.upcoming);
                if decision.pairs == 0 {
                    assert_eq!(decision.held.nics, held.nics);
                    settled += 1;
                    break;
                }
                assert!(decision.makespan < last && decision.saved > 10e-6);
                (held, last) = (decision.held, decision.makespan);
            }
        }
    }
    assert_eq!(settled, 117, "all settle");
}

/// Two demands in turn: circuits follow only where each change pays for itself.
#[test]
fn a_delay_keeps_circuits_from_going_to_and_fro() {
    // 50 MB take 1 ms over one circuit and 500 us over two.
    let pairs = |pairs: [(usize, usize); 2]| {
        let mut demand = vec![0; 16];
        for (a, b) in pairs {
            (demand[a * 4 + b], demand[b * 4 + a]) = (50_000_000, 50_000_000);
        }
        demand
    };
    let turns = [pairs([(0, 1), (2, 3)]), pairs([(0, 3), (1, 2)])];
    let changes = |delay: u64| {
        let timing = SwitchTiming { fixed: Duration(delay * US), ..SwitchTiming::default() };
        let region = Region { eps_rates: PerServer::All(Rate(0)), ..region(4, 2) };
        let mut decider = made(region, policy(Reconfigure::BreakEven), timing).unwrap();
        let mut held = decider.start();
        let mut changes = 0;
        for turn in 0..6 {
            let next = [Upcoming::known(turns[turn % 2].clone(), Duration::ZERO)];
            let decision = decider.decide(&held, &next);
            changes += u32::from(decision.pairs > 0);
            held = decision.held;
        }
        changes
    };
    // The ring that it starts with serves either in 1 ms; what suits one leaves the other no path.
    assert_eq!(changes(499), 6);
    assert_eq!(changes(500), 0);
    assert_eq!(changes(5_000), 0);
}

/// More time to hide behind never makes the upcoming all-to-alls end later.
#[test]
fn more_to_hide_behind_never_costs() {
    let mut random = Random(3);
    for seed in 1..60 {
        let mut last = f64::INFINITY;
        let fixed = (random.uniform() * 800.0) as u64 * US;
        for hidden in [0, 100, 200, 400, 800] {
            let world = World {
                region: region(5, 2),
                policy: policy(Reconfigure::BreakEven),
                timing: SwitchTiming { fixed: Duration(fixed), ..SwitchTiming::default() },
                upcoming: upcoming(5, &[hidden * US], seed),
            };
            let mut decider = world.decider();
            let decision = decider.decide(&decider.start(), &world.upcoming);
            let late = decision.ready_after.0.saturating_sub(hidden * US);
            let time = decision.makespan + Duration(late).as_seconds();
            assert!(time <= last * (1.0 + 1e-9), "seed {seed}, {hidden} us");
            last = time;
        }
    }
}
