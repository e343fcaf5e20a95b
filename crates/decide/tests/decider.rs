//! What holds for every decision: ports, failures, NICs that stay, changes that add up, time.

mod worlds;

use lightloom_decide::{
    Case, Change, CircuitAllocator, Decider, Decision, Held, Policy, Reconfigure, Region,
    Requested, Upcoming, Why, decide_all, switched_pairs,
};
use lightloom_model::{Duration, Failures, Fibers, Invalid, PerServer, SwitchTiming};
use lightloom_schedule::{NicCircuit, Request};
use proptest::prelude::*;
use std::collections::HashSet;
use worlds::{US, World, made, policy, ports_of, region, time, upcoming, works, world};

/// Everything that must hold between what was held and what was decided.
fn check(world: &World, before: &Held, decision: &Decision) -> Result<(), TestCaseError> {
    let (held, change) = (&decision.held, &decision.change);
    world.decider().check(held).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert!(held.nics.iter().all(|circuit| works(&world.region, circuit)));
    let set = |circuits: &[NicCircuit]| circuits.iter().copied().collect::<HashSet<_>>();
    let (old, new) = (set(&before.nics), set(&held.nics));
    let lost = set(&change.lost);
    prop_assert!(lost.iter().all(|circuit| !works(&world.region, circuit)));
    let mut left: HashSet<NicCircuit> = set(&change.keep);
    left.extend(&change.delete);
    left.extend(change.moved.iter().map(|(from, _)| *from));
    left.extend(&lost);
    prop_assert_eq!(&left, &old);
    let mut made: HashSet<NicCircuit> = set(&change.keep);
    made.extend(&change.create);
    made.extend(change.moved.iter().map(|(_, to)| *to));
    prop_assert_eq!(&made, &new);
    prop_assert_eq!(decision.ready_after, world.timing.for_pairs(decision.pairs));
    prop_assert_eq!(decision.pairs, change.pairs(world.timing.keep_unchanged));
    if world.region.planes.is_none() {
        prop_assert!(change.moved.is_empty(), "one switch joins any two NICs");
        if lost.is_empty() {
            let pairs = switched_pairs(&world.timing, &before.circuits, &held.circuits);
            prop_assert_eq!(decision.pairs, pairs);
        }
    }
    prop_assert!(decision.makespan >= decision.bound * (1.0 - 1e-9));
    prop_assert!(decision.why.to_string().ends_with('.'));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_carried_is_the_demand(world in world()) {
        let mut decider = world.decider();
        let (held, n) = (decider.start(), decider.region().servers());
        for next in &world.upcoming {
            let mut left = next.demand.clone();
            for path in decider.carry(&held, &next.demand) {
                prop_assert!(path.bytes > 0);
                prop_assert_eq!(path.relay.is_some(), path.kind.is_relayed());
                left[path.source as usize * n + path.destination as usize] -= path.bytes;
            }
            let remote = left.iter().enumerate().filter(|(cell, _)| cell / n != cell % n);
            prop_assert_eq!(remote.map(|(_, &bytes)| bytes).max().unwrap_or(0), 0);
        }
    }

    #[test]
    fn decisions_are_sound(world in world()) {
        let mut decider = world.decider();
        let mut held = decider.start();
        for round in 0..2 {
            let decision = decider.decide(&held, &world.upcoming);
            check(&world, &held, &decision)?;
            if world.policy.when == Reconfigure::Never {
                prop_assert_eq!(decision.why, Why::Never);
                prop_assert_eq!(&decision.held, &held);
            }
            // Another decider, without a past, decides alike.
            let again = world.decider().with_cache_bytes(0).decide(&held, &world.upcoming);
            prop_assert_eq!(&again, &decision, "round {}", round);
            held = decision.held;
        }
    }

    #[test]
    fn values_survive_being_stored(world in world()) {
        let mut decider = world.decider();
        let held = decider.start();
        let decision = decider.decide(&held, &world.upcoming);
        let text = serde_json::to_string(&(&world.region, &held, &world.upcoming, &decision));
        let text = text.expect("plain values");
        let back: (Region, Held, Vec<Upcoming>, Decision) =
            serde_json::from_str(&text).expect("what was written");
        prop_assert_eq!(&back.0, &world.region);
        prop_assert_eq!(&back.1, &held);
        prop_assert_eq!(&back.2, &world.upcoming);
        prop_assert_eq!(&back.3, &decision);
        prop_assert_eq!(serde_json::to_string(&back).expect("plain values"), text);
    }

    #[test]
    fn break_even_is_never_worse_than_hold(world in world()) {
        let world = World { policy: policy(Reconfigure::BreakEven), ..world };
        let mut decider = world.decider();
        let held = decider.start();
        let decision = decider.decide(&held, &world.upcoming);
        let hold = time(&decider, &held.circuits, &world.upcoming);
        match decision.why {
            Why::Pays { hold: with_held, switch, exposed, pairs } => {
                prop_assert!(switch + exposed < with_held && with_held <= hold * (1.0 + 1e-9));
                prop_assert_eq!(pairs, decision.pairs);
                let hidden = world.upcoming[0].hidden.0;
                let late = Duration(decision.ready_after.0.saturating_sub(hidden));
                prop_assert!((late.as_seconds() - exposed).abs() < 1e-12);
            }
            Why::DoesNotPay { hold: with_held, switch, exposed, .. } => {
                prop_assert!(switch + exposed >= with_held);
                prop_assert_eq!(decision.pairs, 0);
            }
            Why::CannotPay { .. } | Why::NoProposal { .. } => prop_assert_eq!(decision.pairs, 0),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn circuits_on_nics_that_fail_are_lost(world in world(), nic in 0..5_u32) {
        let mut healthy = world.clone();
        healthy.region.failures = Failures::default();
        let mut decider = healthy.decider();
        let held = decider.decide(&decider.start(), &world.upcoming).held;
        let mut broken = healthy.clone();
        broken.region.failures.nics = vec![(1, nic % ports_of(&world.region)[1])];
        let decision = broken.decider().decide(&held, &world.upcoming);
        check(&broken, &held, &decision)?;
        let failed = held.nics.iter().filter(|circuit| !works(&broken.region, circuit)).count();
        prop_assert_eq!(decision.change.lost.len(), failed);
    }

    #[test]
    fn regions_decided_together_decide_as_alone(one in world(), other in world()) {
        let (mut first, mut second) = (one.decider(), other.decider());
        let (held, there) = (first.start(), second.start());
        let alone = [
            first.clone().decide_by(&held, &one.upcoming, &mut Pairs::default()),
            second.clone().decide_by(&there, &other.upcoming, &mut Pairs::default()),
        ];
        let mut both = Pairs::default();
        let found = decide_all(
            &mut [
                Case { decider: &mut first, held: &held, upcoming: &one.upcoming },
                Case { decider: &mut second, held: &there, upcoming: &other.upcoming },
            ],
            Some(&mut both),
        );
        let [Ok(one), Ok(other)] = alone else { panic!("pairs fit any ports") };
        prop_assert_eq!(found, Ok(vec![one, other]));
        prop_assert!(both.0 <= 1, "one call for all requests");
    }
}

/// One circuit between servers 2 k and 2 k + 1, where both have a port.
#[derive(Default)]
struct Pairs(u32);

impl CircuitAllocator for Pairs {
    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        self.0 += 1;
        let circuits = |request: &Request| {
            let n = request.servers();
            let mut circuits = vec![0; n * n];
            for a in (0..n - 1).step_by(2) {
                let joined = u16::from(request.ports()[a] > 0 && request.ports()[a + 1] > 0);
                circuits[a * n + a + 1] = joined;
                circuits[(a + 1) * n + a] = joined;
            }
            circuits
        };
        Ok(requests.iter().map(circuits).collect())
    }
}

/// Proposes the same, whatever the requests.
struct Fixed(Vec<Vec<u16>>);

impl CircuitAllocator for Fixed {
    fn allocate(&mut self, _: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        Ok(self.0.clone())
    }
}

#[test]
fn proposals_are_checked() {
    let mut decider =
        made(region(2, 2), policy(Reconfigure::Always), SwitchTiming::default()).unwrap();
    let held = decider.start();
    let next = [Upcoming::known(vec![0, 1, 1, 0], Duration::ZERO)];
    let mut refusal = |given: Vec<Vec<u16>>| {
        decider.decide_by(&held, &next, &mut Fixed(given)).unwrap_err().to_string()
    };
    assert_eq!(refusal(vec![]), "allocator: 0 proposals for 1 requests");
    let text = "allocator: server 0 has 2 ports but 3 circuits";
    assert_eq!(refusal(vec![vec![0, 3, 3, 0]]), text);
}

#[test]
fn a_change_tells_moves_from_new_circuits() {
    let circuit = |a: (u32, u32), b: (u32, u32)| NicCircuit {
        a: lightloom_schedule::NicEnd { server: a.0, nic: a.1 },
        b: lightloom_schedule::NicEnd { server: b.0, nic: b.1 },
    };
    let stays = circuit((0, 0), (1, 0));
    let (from, to) = (circuit((0, 1), (2, 1)), circuit((0, 2), (2, 2)));
    let (gone, new) = (circuit((1, 1), (2, 0)), circuit((1, 1), (3, 1)));
    let change = Change::between(&[stays, from, gone], &[stays, to, new]);
    assert_eq!(
        (change.keep.as_slice(), change.moved.as_slice()),
        (&[stays][..], &[(from, to)][..])
    );
    assert_eq!((change.delete.as_slice(), change.create.as_slice()), (&[gone][..], &[new][..]));
    assert_eq!((change.pairs(true), change.pairs(false)), (2, 3));
    assert_eq!(Change::between(&[stays], &[stays]).pairs(false), 0);
}

#[test]
fn nothing_upcoming_holds() {
    let mut decider =
        made(region(4, 2), policy(Reconfigure::BreakEven), SwitchTiming::default()).unwrap();
    let held = decider.start();
    let decision = decider.decide(&held, &[]);
    assert_eq!((decision.why, decision.pairs, &decision.held), (Why::NothingUpcoming, 0, &held));
}

#[test]
fn too_little_seen_requests_nothing() {
    let mut decider =
        made(region(4, 2), policy(Reconfigure::BreakEven), SwitchTiming::default()).unwrap();
    let held = decider.start();
    let mut next = upcoming(4, &[0], 7);
    assert!(matches!(decider.decide(&held, &next).why, Why::Pays { .. }));
    next[0].requested = Requested::Nothing;
    assert!(matches!(decider.decide(&held, &next).why, Why::NoProposal { .. }));
    next[0].requested = Requested::Other(next[0].demand.clone());
    assert!(matches!(decider.decide(&held, &next).why, Why::Pays { .. }));
}

#[test]
fn reasons_are_plain_sentences() {
    let (hold, switch, exposed) = (1.5e-3, 1e-3, 2e-4);
    let pays = Why::Pays { hold, switch, exposed, pairs: 4 }.to_string();
    assert_eq!(
        pays,
        "Switched: the upcoming all-to-alls take 1.5 ms with the circuits held and 1 ms after a \
         switch that exposes 200 us and changes 4 pairs."
    );
    let never = Why::NoProposal { hold: f64::INFINITY }.to_string();
    assert!(never.contains("take forever"), "{never}");
}

#[test]
fn a_region_that_is_not_consistent_is_refused() {
    let refusal = |region: Region| {
        let decider = made(region, policy(Reconfigure::Always), SwitchTiming::default());
        decider.map(|_| ()).unwrap_err().to_string()
    };
    let broken = Failures { planes: vec![4], ..Failures::default() };
    let text = refusal(Region { failures: broken, ..region(2, 4) });
    assert_eq!(text, "failed plane: 4, expected 0 to 3");
    let text = refusal(Region {
        ports: PerServer::Each(vec![2, 4]),
        planes: Some(Fibers::Duplex),
        ..region(2, 4)
    });
    assert!(text.starts_with("a server has 2 ports, another 4: planes expect one NIC"), "{text}");
    let text = refusal(Region { eps_rates: PerServer::Each(vec![]), ..region(2, 4) });
    assert_eq!(text, "eps_gbps: expected one number or 2, got 0");
}

/// A decider of eight servers whose circuits break even with relays.
fn relaying(seed: u64, fixed: u64, hidden: u64) -> (Decider, Vec<Upcoming>) {
    let policy = worlds::relaying(Reconfigure::BreakEven);
    let timing = SwitchTiming { fixed: Duration(fixed), ..SwitchTiming::default() };
    let decider = made(region(8, 2), policy, timing).expect("a consistent region");
    (decider, upcoming(8, &[hidden, 0], seed))
}

/// Seconds of the upcoming all-to-alls over some circuits and relays.
fn relayed_time(decider: &mut Decider, circuits: &[u16], upcoming: &[Upcoming]) -> f64 {
    let mut time = |next: &Upcoming| {
        let found = decider.relay(circuits, &next.demand).expect("servers relay");
        found.makespan + found.latency
    };
    upcoming.iter().map(&mut time).sum()
}

/// With relays a switch pays by relayed times, and only if it saves more than it exposes.
#[test]
fn relays_are_compared_with_what_a_switch_exposes() {
    let (mut switched, mut kept_for_delay, mut kept) = (0, 0, 0);
    for seed in 1..60 {
        for fixed in [0, 100 * US, 400 * US, 1_000 * US] {
            let (mut decider, upcoming) = relaying(seed, fixed, 0);
            let held = decider.start();
            let decision = decider.decide(&held, &upcoming);
            let with_held = relayed_time(&mut decider, &held.circuits, &upcoming);
            match decision.why {
                Why::Pays { .. } => {
                    let taken = decision.held.circuits.clone();
                    let with_new = relayed_time(&mut decider, &taken, &upcoming);
                    let exposed = decision.ready_after.as_seconds();
                    assert!(with_new + exposed < with_held, "seed {seed}, {fixed} ps");
                    switched += 1;
                }
                Why::RelayingSuffices { hold, switch, exposed } => {
                    assert!((hold - with_held).abs() <= 1e-12 * hold);
                    assert!(switch + exposed >= hold, "seed {seed}, {fixed} ps");
                    assert!((exposed - Duration(fixed).as_seconds()).abs() < 1e-15);
                    assert_eq!(decision.pairs, 0);
                    kept += 1;
                    kept_for_delay += u32::from(switch < hold);
                }
                _ => assert_eq!(decision.pairs, 0),
            }
        }
    }
    let counts = format!("{switched} switched, {kept} kept, {kept_for_delay} for the delay");
    assert!(switched > 0 && kept > kept_for_delay && kept_for_delay > 0, "{counts}");
}

/// What is hidden costs nothing with relays either.
#[test]
fn a_hidden_switch_is_compared_without_its_delay() {
    for seed in 1..60 {
        let (mut decider, upcoming) = relaying(seed, 400 * US, 400 * US);
        let held = decider.start();
        let decision = decider.decide(&held, &upcoming);
        if let Why::RelayingSuffices { hold, switch, exposed } = decision.why {
            assert_eq!((exposed.to_bits(), switch >= hold), (0, true), "seed {seed}");
        }
    }
}

/// A decision for a layer is one for all of its all-to-alls together.
#[test]
fn circuits_are_requested_for_all_that_is_upcoming() {
    for when in [Reconfigure::Always, Reconfigure::PerLayer] {
        let timing = SwitchTiming::default();
        let mut decider = made(region(3, 1), policy(when), timing).unwrap();
        // Server 0 sends to 1 at first, but more to 2 in all.
        let first = vec![0, 500_000, 400_000, 0, 0, 0, 0, 0, 0];
        let second = vec![0, 0, 400_000, 0, 0, 0, 0, 0, 0];
        let upcoming = [first, second].map(|demand| Upcoming::known(demand, Duration(0)));
        let held = decider.hold(vec![0; 9]).unwrap();
        let decision = decider.decide(&held, &upcoming);
        assert_eq!(decision.demand, [0, 500_000, 800_000, 0, 0, 0, 0, 0, 0], "{when}");
        assert_eq!(decision.held.circuits[2], 1, "{when}");
    }
}

/// The largest number of circuits between two servers.
fn diameter(circuits: &[u16], servers: usize) -> usize {
    let from = |start: usize| {
        let mut distance = vec![usize::MAX; servers];
        distance[start] = 0;
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(here) = queue.pop_front() {
            for there in 0..servers {
                if circuits[here * servers + there] > 0 && distance[there] == usize::MAX {
                    distance[there] = distance[here] + 1;
                    queue.push_back(there);
                }
            }
        }
        distance.into_iter().max().unwrap_or(0)
    };
    (0..servers).map(from).max().unwrap_or(0)
}

/// Where servers relay, circuits begin with strides that leave few hops between any two.
#[test]
fn a_start_for_relays_has_few_hops() {
    let start = |policy: Policy| {
        let decider = made(region(32, 4), policy, SwitchTiming::default()).unwrap();
        decider.start().circuits
    };
    // Strides 1 and 2, against strides that grow geometrically.
    assert_eq!(diameter(&start(policy(Reconfigure::BreakEven)), 32), 8);
    assert!(diameter(&start(worlds::relaying(Reconfigure::BreakEven)), 32) <= 6);
}
