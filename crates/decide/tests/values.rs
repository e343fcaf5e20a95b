//! The values around a decision: reasons, changes, regions, predictions; what they say and refuse.

mod worlds;

use lightloom_decide::{
    Case, Change, CircuitAllocator, Compared, Decider, DemandPredictor, Estimate, Held, History,
    LastSeen, Policy, PredictedDemand, Reconfigure, Region, SizedRegion, Upcoming, Why, decide_all,
    switched_pairs,
};
use lightloom_model::{
    Allocator, CircuitRate, Duration, Failures, Fibers, Invalid, Pairs, PerServer, Rate,
    SwitchTiming,
};
use lightloom_schedule::{NicCircuit, NicEnd, Request};
use proptest::prelude::*;
use std::collections::BTreeSet;
use worlds::{GBPS, US, made, policy, ports_of, region, upcoming};

fn nic_circuits() -> impl Strategy<Value = Vec<NicCircuit>> {
    let end = |servers: std::ops::Range<u32>| (servers, 0..3_u32);
    prop::collection::btree_set((end(0..3), end(3..5)), 0..9).prop_map(|set| {
        let made = |((a, x), (b, y))| NicCircuit {
            a: NicEnd { server: a, nic: x },
            b: NicEnd { server: b, nic: y },
        };
        set.into_iter().map(made).collect()
    })
}

proptest! {
    /// By sets: what is new, what is gone, what stays; and as many moves as servers match.
    #[test]
    fn a_change_is_the_difference_of_two_sets(from in nic_circuits(), to in nic_circuits()) {
        let change = Change::between(&from, &to);
        let [old, new] = [&from, &to].map(|list| list.iter().copied().collect::<BTreeSet<_>>());
        let keep: Vec<NicCircuit> = old.intersection(&new).copied().collect();
        prop_assert_eq!(&change.keep, &keep);
        let mut gone: Vec<NicCircuit> = change.delete.clone();
        gone.extend(change.moved.iter().map(|(from, _)| *from));
        gone.sort_unstable();
        prop_assert_eq!(gone, old.difference(&new).copied().collect::<Vec<_>>());
        let mut made: Vec<NicCircuit> = change.create.clone();
        made.extend(change.moved.iter().map(|(_, to)| *to));
        made.sort_unstable();
        prop_assert_eq!(made, new.difference(&old).copied().collect::<Vec<_>>());
        let servers = |circuit: &NicCircuit| (circuit.a.server, circuit.b.server);
        prop_assert!(change.moved.iter().all(|(from, to)| servers(from) == servers(to)));
        // What is left on both sides joins other servers: no move was missed.
        let left: BTreeSet<_> = change.delete.iter().map(servers).collect();
        prop_assert!(change.create.iter().all(|circuit| !left.contains(&servers(circuit))));
        prop_assert!(change.create.is_sorted() && change.delete.is_sorted());
        prop_assert_eq!(change.is_empty(), from == to);
        let back = Change::between(&to, &from);
        prop_assert_eq!((&back.create, &back.delete), (&change.delete, &change.create));
        prop_assert_eq!(back.pairs(true), change.pairs(true));
        prop_assert_eq!(change.pairs(true) == 0, from == to);
        let all = if from == to { 0 } else { change.pairs(true) + keep.len() as u32 };
        prop_assert_eq!(change.pairs(false), all);
    }

    /// Every pair that changes, or all of the larger set.
    #[test]
    fn pairs_that_are_switched_are_those_that_differ(
        from in prop::collection::vec(0..3_u16, 6), to in prop::collection::vec(0..3_u16, 6),
        keep_unchanged in any::<bool>(),
    ) {
        let square = |upper: &[u16]| {
            let mut found = vec![0_u16; 16];
            let mut next = upper.iter();
            for a in 0..4 {
                for b in a + 1..4 {
                    let &count = next.next().expect("six pairs");
                    (found[a * 4 + b], found[b * 4 + a]) = (count, count);
                }
            }
            found
        };
        let timing = SwitchTiming { keep_unchanged, ..SwitchTiming::default() };
        let found = switched_pairs(&timing, &square(&from), &square(&to));
        let more: u16 = from.iter().zip(&to).map(|(old, new)| new.saturating_sub(*old)).sum();
        let less: u16 = from.iter().zip(&to).map(|(old, new)| old.saturating_sub(*new)).sum();
        let all = from.iter().sum::<u16>().max(to.iter().sum());
        let expected = if from == to { 0 } else if keep_unchanged { more.max(less) } else { all };
        prop_assert_eq!(found, u32::from(expected));
    }
}

/// Every reason, what it is called and what it says.
#[test]
fn every_reason_has_a_name_a_sentence_and_its_numbers() {
    let (hold, switch, exposed, pairs) = (2.0, 3e-6, 4e-9, 5);
    let of = |hold, switch, exposed, pairs| Compared { hold, switch, exposed, pairs };
    let all = of(Some(hold), Some(switch), Some(exposed), Some(pairs));
    let times = Compared { pairs: None, ..all };
    let compared = "take 2 s with the circuits held and 3 us after a switch that exposes 4 ns";
    let none = Compared::default();
    let table = [
        (Why::Never, "never", "Held: the policy never changes circuits.".into(), none),
        (Why::NothingUpcoming, "nothing-upcoming", "Held: no all-to-all is upcoming.".into(), none),
        (
            Why::SameProposed,
            "same-proposed",
            "Held: the allocator proposed the circuits that are held.".into(),
            none,
        ),
        (
            Why::Follows { hold, switch, exposed },
            "follows",
            format!(
                "Switched, as the policy always follows the allocator: the upcoming all-to-alls \
                 {compared}."
            ),
            times,
        ),
        (
            Why::CannotPay { saved: 1.25e-3, exposed },
            "cannot-pay",
            "Held: no circuits could save the upcoming all-to-alls more than 1.25 ms, but any \
             switch exposes 4 ns."
                .into(),
            Compared { exposed: Some(exposed), ..none },
        ),
        (
            Why::NoProposal { hold },
            "no-proposal",
            "Held: the upcoming all-to-alls take 2 s, and no other circuits were proposed.".into(),
            of(Some(hold), Some(f64::INFINITY), Some(0.0), Some(0)),
        ),
        (
            Why::Pays { hold, switch, exposed, pairs },
            "pays",
            format!("Switched: the upcoming all-to-alls {compared} and changes 5 pairs."),
            all,
        ),
        (
            Why::DoesNotPay { hold, switch, exposed, pairs },
            "does-not-pay",
            format!("Held: the upcoming all-to-alls {compared} and would change 5 pairs."),
            all,
        ),
        (
            Why::RelayingSuffices { hold, switch, exposed },
            "relaying-suffices",
            format!("Held: with relays the upcoming all-to-alls {compared}."),
            times,
        ),
    ];
    for (why, name, sentence, numbers) in table {
        assert_eq!((why.name(), why.to_string(), why.compared()), (name, sentence, numbers));
        // Its name is that of the stored form, which comes back as it was.
        let stored = serde_json::to_string(&why).unwrap();
        assert!(stored.contains(&format!("\"{name}\"")), "{stored}");
        assert_eq!(serde_json::from_str::<Why>(&stored).unwrap(), why);
    }
}

#[test]
fn times_that_never_end_survive_being_stored() {
    let (hold, exposed) = (f64::INFINITY, 0.0);
    for why in [
        Why::NoProposal { hold },
        Why::Pays { hold, switch: 1.0, exposed, pairs: 1 },
        Why::DoesNotPay { hold, switch: hold, exposed, pairs: 1 },
        Why::Follows { hold, switch: hold, exposed },
    ] {
        let stored = serde_json::to_string(&why).unwrap();
        assert_eq!(serde_json::from_str::<Why>(&stored).unwrap(), why, "{stored}");
        assert!(why.to_string().contains("forever"));
    }
}

/// Demand that nothing can carry takes forever, and saves nothing: it does not become a decision.
#[test]
fn demand_without_a_path_saves_nothing() {
    for when in Reconfigure::ALL.iter().copied() {
        let region = Region {
            eps_rates: PerServer::All(Rate(0)),
            ports: PerServer::Each(vec![1, 1, 0]),
            ..region(3, 1)
        };
        let timing = SwitchTiming { fixed: Duration(US), ..SwitchTiming::default() };
        let mut decider = made(region, policy(when), timing).unwrap();
        let next = [Upcoming::known(vec![0, 1, 9, 0, 0, 9, 9, 9, 0], Duration::ZERO)];
        let held = decider.hold(vec![0; 9]).unwrap();
        let decision = decider.decide(&held, &next);
        assert_eq!(decision.saved.to_bits(), 0, "{when}: {}", decision.why);
        assert!(decision.makespan.is_infinite() && decision.bound.is_infinite());
        assert!(!decision.why.to_string().contains("NaN"), "{}", decision.why);
        if matches!(when, Reconfigure::BreakEven | Reconfigure::Oracle) {
            assert_eq!(decision.pairs, 0, "{when}");
        }
    }
}

#[test]
fn regions_that_are_not_consistent_are_refused() {
    let sized = |region: Region| SizedRegion::new(ports_of(&region).len(), region);
    let refusal = |region: Region| sized(region).map_err(|Invalid(text)| text).unwrap_err();
    let plain = || region(2, 3);
    let made = sized(plain()).unwrap();
    assert_eq!((made.servers(), made.width()), (2, 3));
    let text = SizedRegion::new(4097, Region { ports: PerServer::All(3), ..plain() }).unwrap_err();
    assert_eq!(text.to_string(), "4097 servers in one region, at most 4096");
    let text = refusal(Region { eps_rates: PerServer::Each(vec![Rate(1)]), ..plain() });
    assert_eq!(text, "eps_gbps: expected one number or 2, got 1");
    let eps_nics = Failures { eps_nics: vec![(1, 0)], ..Failures::default() };
    for unknown in [None, Some(0)] {
        let region = Region { eps_nics: unknown, failures: eps_nics.clone(), ..plain() };
        let text = "eps_nics: EPS NICs have failed, expected how many a server has";
        assert_eq!(refusal(region), text);
    }
    assert!(CircuitRate::new(Rate(0)).is_err());
    let wide = Region { planes: Some(Fibers::Duplex), ..region(2, 4097) };
    assert_eq!(refusal(wide), "4097 planes, at most 4096");
    // A server without any port is outside all switches.
    let outside =
        Region { ports: PerServer::Each(vec![3, 0]), planes: Some(Fibers::Crossed), ..plain() };
    assert!(sized(outside).is_ok());
    let three = Pairs::new(3, vec![true; 9], "allowed").unwrap();
    assert!(refusal(Region { allowed: Some(three), ..plain() }).contains("allowed"));
    let one_way = vec![true, true, false, true];
    assert!(Pairs::new(2, one_way, "allowed").is_err());
    // Half of its EPS rate is left to a server that has lost one of two NICs.
    let half = Region { failures: eps_nics, ..plain() };
    assert_eq!(sized(half).unwrap().working_eps_rates(), [Rate(800 * GBPS), Rate(400 * GBPS)]);
    let none =
        Region { ports: PerServer::Each(vec![]), eps_rates: PerServer::Each(vec![]), ..plain() };
    assert_eq!(sized(none).unwrap().width(), 0);
}

/// Without servers there is nothing to decide, and no reason to refuse.
#[test]
fn an_empty_region_decides() {
    let empty = Region {
        ports: PerServer::Each(vec![]),
        eps_rates: PerServer::Each(vec![]),
        ..region(1, 1)
    };
    for when in Reconfigure::ALL.iter().copied() {
        let policy = policy(when);
        let mut decider = made(empty.clone(), policy, SwitchTiming::default()).unwrap();
        let next = [Upcoming::known(vec![], Duration::ZERO)];
        let decision = decider.decide(&decider.start(), &next);
        assert_eq!((decision.pairs, decision.makespan.to_bits()), (0, 0));
    }
}

#[test]
fn circuits_are_held_only_within_the_ports_that_work() {
    let failures = Failures { nics: vec![(0, 1)], ..Failures::default() };
    let region = Region { failures, ..region(3, 2) };
    let made = made(region, policy(Reconfigure::Always), SwitchTiming::default());
    let mut decider = made.unwrap();
    let refusal = |circuits: Vec<u16>| decider.hold(circuits).map_err(|Invalid(text)| text);
    let text = refusal(vec![0, 1, 1, 1, 0, 0, 1, 0, 0]).unwrap_err();
    assert_eq!(text, "server 0 has 1 ports but 2 circuits");
    let text = refusal(vec![0, 1, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(text, "1 circuits from 0 to 1 but 0 back: expected a symmetric matrix");
    let text = refusal(vec![0; 4]).unwrap_err();
    assert_eq!(text, "circuits have 4 entries, expected 3 x 3");
    let held = decider.hold(vec![0, 1, 0, 1, 0, 1, 0, 1, 0]).unwrap();
    assert!(held.nics.iter().all(|circuit| (circuit.a.server, circuit.a.nic) != (0, 1)));
    // Nor are circuits compared that could not be built.
    let next = [Upcoming::known(vec![1; 9], Duration::ZERO)];
    let Invalid(text) = decider.decide_among(&held, &next, &[vec![2; 9]]).unwrap_err();
    assert_eq!(text, "servers 0 and 0 may not have circuits");
    let nothing = decider.decide_among(&held, &[], &[]).unwrap();
    assert_eq!((nothing.why, nothing.pairs), (Why::NothingUpcoming, 0));
}

/// The start is a circulant: each server joined with the nearest, as often as it has ports.
#[test]
fn the_start_joins_the_nearest_servers() {
    let timing = SwitchTiming::default();
    let decider = made(region(6, 2), policy(Reconfigure::Always), timing).unwrap();
    let held = decider.start();
    for a in 0..6 {
        for b in 0..6 {
            let near = (a + 1) % 6 == b || (b + 1) % 6 == a;
            assert_eq!(held.circuits[a * 6 + b], u16::from(near), "{a} {b}");
        }
    }
    assert_eq!((held.nics.len(), held.chosen), (6, Allocator::Static));
    decider.check(&held).unwrap();
}

/// Demand over the circuits that are held and the EPS: closed form of two servers.
#[test]
fn demand_is_divided_in_proportion_to_the_rates() {
    let timing = SwitchTiming::default();
    let mut decider = made(region(2, 2), policy(Reconfigure::Always), timing).unwrap();
    let held = decider.hold(vec![0, 2, 2, 0]).unwrap();
    // Two circuits of 400 Gb/s, and 800 Gb/s of EPS: half each.
    let found = decider.route(&held, &[0, 800_000_000, 0, 0]);
    assert_eq!(found.eps_bytes, [0, 400_000_000, 0, 0]);
    assert!((found.makespan - 4e-3).abs() < 1e-9);
    assert!(decider.relay(&held.circuits, &[0, 1, 0, 0]).is_none(), "the policy does not relay");
}

/// The time that a decision states with relays is that of the routing that is used later.
#[test]
fn a_relaying_decision_states_relayed_times() {
    for seed in 1..20 {
        let policy = worlds::relaying(Reconfigure::Always);
        let timing = SwitchTiming { fixed: Duration(US), ..SwitchTiming::default() };
        let mut decider = made(region(6, 2), policy, timing).unwrap();
        let next = upcoming(6, &[0], seed);
        let held = decider.start();
        let decision = decider.decide(&held, &next);
        let used = decider.relay(&decision.held.circuits, &decision.demand).unwrap();
        assert_eq!((used.makespan + used.latency).to_bits(), decision.makespan.to_bits());
        // Relays never make it later than one hop, but for bytes that are not divided.
        let one_hop = decider.route(&decision.held, &decision.demand).makespan;
        assert!(decision.makespan <= one_hop + 1e-9, "seed {seed}");
        if let Why::RelayingSuffices { hold, switch, exposed } = decision.why {
            assert!(hold <= switch && exposed.to_bits() == 0, "a policy that follows has no delay");
            assert_eq!(decision.held, held);
        }
    }
}

/// Counts calls and requests, and proposes nothing.
#[derive(Default)]
struct Counting(Vec<usize>);

impl CircuitAllocator for Counting {
    fn key(&self) -> Option<u64> {
        Some(1)
    }

    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        self.0.push(requests.len());
        Ok(requests.iter().map(|request| vec![0; request.servers() * request.servers()]).collect())
    }
}

struct Refusing;

impl CircuitAllocator for Refusing {
    fn allocate(&mut self, _: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        Err(Invalid::new("no license"))
    }
}

/// Joins servers 0 and 1 by so many circuits.
struct Joining(u16, Option<u64>);

impl CircuitAllocator for Joining {
    fn key(&self) -> Option<u64> {
        self.1
    }

    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        let mut circuits = vec![0; 16];
        (circuits[1], circuits[4]) = (self.0, self.0);
        Ok(vec![circuits; requests.len()])
    }
}

/// The results of equal requests are one allocator's: another that asks the same decider gets its
/// own, be it the policy's or a user's, with a key or without one.
#[test]
fn no_allocator_is_given_the_circuits_of_another() {
    let policy = policy(Reconfigure::Always);
    let mut decider = made(region(4, 2), policy, SwitchTiming::default()).unwrap();
    let held = decider.start();
    let next = upcoming(4, &[0], 3);
    let built_in = decider.decide(&held, &next);
    for (count, key) in [(1, Some(1)), (2, Some(2)), (1, None), (2, None), (1, Some(1))] {
        for _ in 0..2 {
            let own = decider.decide_by(&held, &next, &mut Joining(count, key)).unwrap();
            assert_eq!((own.held.circuits[1], own.held.nics.len()), (count, count as usize));
        }
    }
    assert_eq!(decider.decide(&held, &next), built_in);
    let before = decider.allocations();
    assert_eq!(decider.decide(&held, &next), built_in);
    assert_eq!(decider.allocations(), (before.0 + 1, before.1 + 1), "its own are kept");
}

#[test]
fn an_allocator_gets_the_requests_that_nothing_serves() {
    let decider =
        |when: Reconfigure| made(region(4, 2), policy(when), SwitchTiming::default()).unwrap();
    let (mut one, mut two) = (decider(Reconfigure::BreakEven), decider(Reconfigure::Always));
    let mut never = decider(Reconfigure::Never);
    let held = one.start();
    // Different demand, then its transpose: two demands and their sum.
    let next: Vec<Upcoming> = [3, 5, 5].iter().flat_map(|&seed| upcoming(4, &[0], seed)).collect();
    let mut calls = Counting::default();
    let mut all = |one: &mut Decider, two: &mut Decider, never: &mut Decider| {
        let mut cases = [one, two, never].map(|decider| Case {
            decider,
            held: &held,
            upcoming: next.as_slice(),
        });
        decide_all(&mut cases, Some(&mut calls)).unwrap();
    };
    all(&mut one, &mut two, &mut never);
    // Equal requests come from the cache, so that there is no second call.
    all(&mut one, &mut two, &mut never);
    assert_eq!(calls.0, [3 + 1]);
    assert_eq!((one.allocations(), two.allocations()), ((6, 3), (2, 1)));
    assert_eq!(never.allocations(), (0, 0));
    let mut uncached = decider(Reconfigure::Always).with_cache_bytes(0);
    for _ in 0..2 {
        uncached.decide(&held, &next);
    }
    assert_eq!(uncached.allocations(), (2, 0));
    let refused = two.clone().with_cache_bytes(0).decide_by(&held, &next, &mut Refusing);
    assert_eq!(refused.unwrap_err(), Invalid::new("allocator: no license"));
    assert_eq!(never.decide_by(&held, &next, &mut Refusing).unwrap().why, Why::Never);
}

/// A layer of one group, of which so many all-to-alls were seen.
struct Seen(Vec<Vec<u64>>);

impl History for Seen {
    fn group(&self) -> u32 {
        0
    }

    fn layer(&self) -> u16 {
        2
    }

    fn seen(&self, layer: u16) -> usize {
        if layer == self.layer() { self.0.len() } else { 0 }
    }

    fn demand_of(&self, _: u16, index: usize, demand: &mut Vec<u64>) {
        demand.clone_from(&self.0[index]);
    }
}

#[test]
fn the_last_one_seen_is_judged_and_the_last_but_one_requested() {
    let history = |count: u64| Seen((0..count).map(|one| vec![one]).collect());
    let (none, one, many) = (history(0), history(1), history(5));
    let mut predictor = LastSeen;
    assert!(!predictor.can_predict(&none) && predictor.can_predict(&one));
    let found = predictor.predict(&[&none, &one, &many]).unwrap();
    let judged = Some(Estimate::Seen(0));
    assert_eq!(
        found,
        [
            PredictedDemand::default(),
            PredictedDemand { judged: judged.clone(), requested: None },
            PredictedDemand { judged, requested: Some(Estimate::Seen(1)) },
        ]
    );
    // The latest is 0.
    let mut demand = vec![9, 9, 9];
    many.demand(0, &mut demand);
    assert_eq!(demand, [4]);
    many.demand(4, &mut demand);
    assert_eq!((demand, many.has(4), many.has(5)), (vec![0], true, false));
}

#[test]
fn what_a_decider_was_made_of_can_be_read() {
    let timing = SwitchTiming { fixed: Duration(7), ..SwitchTiming::default() };
    let decider = made(region(2, 1), policy(Reconfigure::Oracle), timing).unwrap();
    assert_eq!(decider.region().record(), &region(2, 1));
    assert_eq!((decider.policy(), decider.timing()), (&policy(Reconfigure::Oracle), &timing));
    let held = Held::default();
    assert_eq!((held.circuits.len(), held.chosen), (0, Allocator::Static));
}

/// Ports that have failed count for nothing: sixteen servers of which four ports each work cannot
/// all be joined, so that circuits of relaying servers begin as with four.
#[test]
fn the_start_counts_ports_that_work() {
    let start = |ports: u16, planes: Vec<u32>| {
        let failures = Failures { planes, ..Failures::default() };
        let policy = worlds::relaying(Reconfigure::BreakEven);
        let region = Region { failures, ..region(16, ports) };
        made(region, policy, SwitchTiming::default()).unwrap().start().circuits
    };
    assert!(start(16, (4..16).collect()) == start(4, vec![]));
    assert!(start(16, vec![]) != start(4, vec![]));
}

/// Where others are no faster, an allocator keeps what is held.
#[test]
fn requests_start_from_what_is_held() {
    // A ring through 0, 2, 1 and 3; the demand is the same between any two.
    let ring = vec![0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0];
    let demand: Vec<u64> = (0..16).map(|cell| if cell % 5 == 0 { 0 } else { 1_000_000 }).collect();
    for allocator in [Allocator::Greedy, Allocator::Parametric, Allocator::Best] {
        let policy = Policy { allocator, ..policy(Reconfigure::Always) };
        let region = region(4, 2);
        let mut decider = made(region, policy, SwitchTiming::default()).unwrap();
        let next = [Upcoming::known(demand.clone(), Duration::ZERO)];
        let held = decider.hold(ring.clone()).unwrap();
        assert_eq!(decider.decide(&held, &next).why, Why::SameProposed, "{allocator}");
        let none = decider.hold(vec![0; 16]).unwrap();
        assert_ne!(decider.decide(&none, &next).held.circuits, ring, "{allocator}");
    }
}
