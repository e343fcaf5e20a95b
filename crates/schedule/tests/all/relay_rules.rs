//! Relaying by hand: sizes, whole bytes, memory, ties, and where the search for circuits ends.

use crate::common::cases::{Case, Random};
use crate::common::relay_worlds::{BITS, BYTES_PER_S, World};
use lightloom_model::{Duration, Invalid, Rate};
use lightloom_schedule::relay::{
    DualPrices, Origin, PathKind, PathShare, RelayCost, RelayPath, RelayRequest, RelayVerdict,
    Relayed, RelayedAllocation, Via, allocate_relayed, dual_bound, expander, relay, relay_as,
    verify,
};
use lightloom_schedule::{EpsRates, Request};
use proptest::prelude::*;

fn triangle() -> World {
    World::new(3, 0.0).join(0, 1, 1).join(1, 2, 1).join(0, 2, 1)
}

fn part(from: u32, to: u32, kind: PathKind, relay: u32, bytes: f64) -> PathShare {
    PathShare { from, to, via: Via { kind, relay }, bytes }
}

/// Bytes from 0 to 1 over the circuit and over server 2.
fn divided(direct: f64, relayed: f64) -> [PathShare; 2] {
    [part(0, 1, PathKind::Circuit, 0, direct), part(0, 1, PathKind::CircuitCircuit, 2, relayed)]
}

fn bytes_of(found: &Relayed) -> Vec<(u32, Option<u32>, u64)> {
    found.paths.iter().map(|path| (path.source, path.relay, path.bytes)).collect()
}

fn refusal(request: Result<RelayRequest, Invalid>) -> String {
    request.unwrap_err().to_string()
}

#[test]
fn a_region_has_a_thousand_and_twenty_four_servers() {
    let dark = |n: usize| {
        let (demand, circuits) = (vec![0; n * n], vec![0; n * n]);
        let eps_rates = EpsRates::Equal(Rate(0));
        RelayRequest::new(&demand, &circuits, Rate(BITS), eps_rates, RelayCost::default())
            .map(|request| request.servers())
    };
    assert_eq!(dark(1_024), Ok(1_024));
    assert_eq!(dark(1_025).unwrap_err().to_string(), "1025 servers in one region, at most 1024");
}

#[test]
fn every_part_of_a_request_is_looked_at() {
    let world = triangle();
    for count in [2, 4] {
        let world = World { eps: vec![Rate(BITS); count], ..world.clone() };
        let text = format!("eps_rates has {count} entries, expected 3");
        assert_eq!(refusal(world.checked()), text);
    }
    let wrong = World { circuits: vec![0, 1, 1, 1, 0, 1, 1, 0, 0], ..world.clone() };
    assert_eq!(refusal(wrong.checked()), "circuits are duplex: expected a symmetric matrix");
    let cost = RelayCost { staging_rate: Some(Rate(0)), ..world.cost };
    let wrong = World { cost, ..world.clone() };
    assert_eq!(refusal(wrong.checked()), "staging_rate must be above 0 b/s");
    let mut large = World { demand: vec![0; 9], ..world };
    large.demand[1] = 1 << 63;
    large.request();
    large.demand[2] = 1;
    let text = "9223372036854775809 bytes of demand, at most 9223372036854775808";
    assert_eq!(refusal(large.checked()), text);
}

#[test]
fn prices_below_0_or_of_unlike_sizes_cannot_be_made() {
    let text = |servers: [&[f64]; 3]| DualPrices::new(&[0.0; 9], servers).unwrap_err().to_string();
    let (none, below) = ([0.0; 3], [0.0, -1.0, 0.0]);
    assert_eq!(text([&none, &below, &none]), "prices: expected finite numbers from 0 on");
    assert_eq!(text([&none, &none, &[0.0; 4]]), "prices: expected 3 x 3 and 3 x 3");
}

#[test]
#[should_panic(expected = "prices of as many servers")]
fn prices_of_other_regions_prove_nothing() {
    let prices = DualPrices::new(&[0.0; 4], [&[0.0; 2]; 3]).unwrap();
    dual_bound(&triangle().request(), &prices);
}

/// Nobody relays for itself: bytes from 0 to 2 never turn round at either end.
#[test]
fn the_ends_of_a_pair_are_no_relays() {
    let world = World::new(3, 1.0).join(0, 2, 1).send(0, 2, 10);
    let path =
        |kind, relay| RelayPath { source: 0, destination: 2, kind, relay: Some(relay), bytes: 10 };
    for kind in [PathKind::CircuitEps, PathKind::EpsCircuit, PathKind::CircuitCircuit] {
        for end in [0, 2] {
            let text = verify(&world.request(), &[path(kind, end)]).unwrap_err().to_string();
            assert_eq!(text, format!("a path from 0 to 2 has a wrong relay: Some({end})"));
        }
    }
    let itself = RelayPath { source: 1, destination: 1, bytes: 0, ..path(PathKind::Eps, 0) };
    let itself = RelayPath { relay: None, ..itself };
    let text = verify(&world.request(), &[itself]).unwrap_err().to_string();
    assert_eq!(text, "no path leads from 1 to 1");
}

/// 20.5 and 80.5 of 101 bytes are 20 and 80, and the byte that is left goes with the 80.
#[test]
fn what_rounding_leaves_goes_the_largest_path() {
    let world = triangle().send(0, 1, 101);
    let found = relay_as(&world.request(), &divided(20.5, 80.5), 0.0).unwrap();
    assert_eq!(bytes_of(&found), [(0, None, 20), (0, Some(2), 81)]);
    let found = relay_as(&world.request(), &divided(80.5, 20.5), 0.0).unwrap();
    assert_eq!(bytes_of(&found), [(0, None, 81), (0, Some(2), 20)]);
}

#[test]
fn parts_beyond_the_demand_are_cut() {
    let world = triangle().send(0, 1, 101);
    let found = relay_as(&world.request(), &divided(60.0, 60.0), 0.0).unwrap();
    assert_eq!(bytes_of(&found), [(0, None, 60), (0, Some(2), 41)]);
}

/// Each pair of a byte goes one path whole, however it was divided.
#[test]
fn a_byte_is_not_divided() {
    let world = triangle().send(0, 1, 1).send(2, 1, 1).send(1, 0, 1);
    let mut parts = divided(0.5, 0.5).to_vec();
    parts.push(part(1, 0, PathKind::Circuit, 0, 0.25));
    parts.push(part(2, 1, PathKind::Circuit, 0, 0.25));
    let found = relay_as(&world.request(), &parts, 0.0).unwrap();
    assert_eq!(bytes_of(&found), [(0, None, 1), (1, None, 1), (2, None, 1)]);
}

/// A relay of 60 + 1 bytes that may hold 30 keeps 30 / 61 of each, rounded down: 29 and none.
#[test]
fn memory_is_divided_by_bytes_and_the_rest_goes_one_hop() {
    let mut world = World::new(4, 0.0).join(0, 1, 1).join(1, 2, 1).join(0, 2, 1);
    world = world.join(1, 3, 1).join(2, 3, 1).send(0, 1, 80).send(3, 1, 1);
    world.cost.memory_limit = Some(30);
    let mut parts = divided(20.0, 60.0).to_vec();
    parts.push(part(3, 1, PathKind::CircuitCircuit, 2, 1.0));
    let found = relay_as(&world.request(), &parts, 0.0).unwrap();
    assert_eq!(bytes_of(&found), [(0, None, 51), (0, Some(2), 29), (3, None, 1)]);
}

/// A byte that the limit still admits stays where it is.
#[test]
fn memory_that_suffices_moves_nothing() {
    let mut world = triangle().send(0, 1, 80);
    for (limit, relayed) in [(40, 40), (39, 39), (41, 40)] {
        world.cost.memory_limit = Some(limit);
        let found = relay_as(&world.request(), &divided(40.0, 40.0), 0.0).unwrap();
        assert_eq!(found.relayed_bytes(), relayed);
    }
}

/// Half of 100 bytes are relayed, so 50 bytes of time are gained: a chunk of 50 costs as much.
#[test]
fn a_latency_as_large_as_the_gain_does_not_pay() {
    let mut world = triangle().send(0, 1, 100);
    for (chunk_bytes, expected) in [
        (49, RelayVerdict::Pays),
        (50, RelayVerdict::LatencyExceedsGain),
        (51, RelayVerdict::LatencyExceedsGain),
    ] {
        world.cost.chunk_bytes = chunk_bytes;
        let found = relay_as(&world.request(), &divided(50.0, 50.0), 0.0).unwrap();
        assert_eq!(found.verdict, expected, "{chunk_bytes}");
        let late = (50 + chunk_bytes) as f64 * 8.0 / BITS as f64;
        assert!((found.with_relays - late).abs() < 1e-18);
    }
    world.cost.chunk_bytes = 0;
    let all_relayed = relay_as(&world.request(), &divided(0.0, 100.0), 0.0).unwrap();
    assert_eq!(all_relayed.verdict, RelayVerdict::NoFaster);
}

/// Relay 1 has eight circuits on either side, relay 2 one. Without a limit 1 would take 8 bytes of
/// 10; where it may hold 40 of 100 MB, 2 takes as much as the direct circuit does.
#[test]
fn relays_with_free_memory_take_what_others_cannot_hold() {
    let mut world = World::new(4, 0.0).join(0, 3, 1).join(0, 1, 8).join(1, 3, 8);
    world = world.join(0, 2, 1).join(2, 3, 1).send(0, 3, 100_000_000);
    let free = relay(&world.request()).makespan * BYTES_PER_S;
    assert!((10e6 * 0.999..10.2e6).contains(&free), "{free}");
    world.cost.memory_limit = Some(40_000_000);
    let found = relay(&world.request()).makespan * BYTES_PER_S;
    assert!((30e6 * 0.999..36e6).contains(&found), "{found}");
}

/// What is received bounds a routing as what is sent does.
#[test]
fn the_busiest_end_is_the_bound() {
    let star = |n: usize| (1..n).fold(World::new(n, 1.0), |world, leaf| world.join(0, leaf, 1));
    let gather = (1..5).fold(star(5), |world, leaf| world.send(leaf, 0, 10_000_000));
    for world in [gather.clone(), gather.transposed()] {
        let bound = relay(&world.request()).lower_bound * BYTES_PER_S;
        // 40 MB over four circuits and as much EPS as one
        assert!((bound / 8e6 - 1.0).abs() < 1e-9, "{bound}");
    }
}

fn looked_for(request: &Request, cost: RelayCost, evaluations: u32) -> (f64, RelayedAllocation) {
    let found = allocate_relayed(request, cost, evaluations).unwrap();
    (found.routing.makespan + found.routing.latency, found)
}

/// What is held needs `larger` bytes over one circuit, the same circuits the other way `smaller`.
fn held_against(smaller: u64, larger: u64) -> Origin {
    let mut demand = [0; 9];
    (demand[1], demand[2]) = (smaller, larger);
    let held = [0, 2, 1, 2, 0, 0, 1, 0, 0];
    let apart = [false, true, true, true, false, false, true, false, false];
    let request = Request::new(&demand, &[3, 2, 2], Rate(BITS), EpsRates::Equal(Rate(0)), true)
        .and_then(|request| request.with_allowed(Some(&apart))?.with_previous(Some(&held)))
        .unwrap();
    let (_, found) = looked_for(&request, RelayCost::default(), 0);
    assert_eq!(found.circuits[2] == 1, found.origin == Origin::Held);
    found.origin
}

#[test]
fn circuits_move_for_a_thousandth_of_the_time_and_no_less() {
    assert_eq!(held_against(99_950_000, 100_000_000), Origin::Held);
    assert_ne!(held_against(99_000_000, 100_000_000), Origin::Held);
}

/// One port cannot serve three peers without an EPS: no circuits are better than others.
#[test]
fn a_search_that_gains_nothing_ends() {
    let mut case = Case::new(6, vec![0; 36], 1);
    case.eps = 0;
    case.demand[1..4].fill(1_000_000);
    let (time, found) = looked_for(&case.request(), RelayCost::default(), 10_000);
    assert!(time.is_infinite());
    assert!(found.evaluations < 100, "{} looks", found.evaluations);
}

#[test]
fn evaluations_count_candidates_and_no_more_swaps_than_allowed() {
    let case = Case::random(8, 2, true, &mut Random(3));
    let (_, none) = looked_for(&case.request(), RelayCost::default(), 0);
    let (_, few) = looked_for(&case.request(), RelayCost::default(), 3);
    assert!(none.evaluations >= 1 && none.origin != Origin::Search);
    assert!(few.evaluations <= none.evaluations + 3);
}

/// Strides grow by the ports that most servers have; whoever has fewer drops out.
#[test]
fn the_expander_goes_by_the_largest_number_of_ports() {
    let mut case = Case::new(16, vec![0; 256], 4);
    case.ports[15] = 2;
    let circuits = expander(&case.request());
    // sqrt(16 / 2) is about 3
    assert_eq!((circuits[1], circuits[3], circuits[2]), (1, 1, 0));
}

#[test]
fn two_servers_use_all_their_ports_for_each_other() {
    for ports in 1..5 {
        let case = Case::new(2, vec![0; 4], ports);
        assert_eq!(expander(&case.request()), [0, ports as u16, ports as u16, 0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Latency is time like any other: with it no candidate is better than what is taken.
    #[test]
    fn late_relays_do_not_hide_better_circuits(seed in 1..u64::MAX, microseconds in 1..2_000_u64) {
        let case = Case::random(6, 2, true, &mut Random(seed));
        let latency = Duration(microseconds * 1_000_000);
        let cost = RelayCost { relay_delay: latency, ..RelayCost::default() };
        let round = expander(&case.request());
        let held = case.request().with_previous(Some(&round)).unwrap();
        let (time, _) = looked_for(&held, cost, 0);
        let world = World {
            n: 6,
            demand: case.demand.clone(),
            circuits: round.clone(),
            circuit_rate: Rate(BITS),
            eps: vec![Rate(case.eps); 6],
            cost,
        };
        let there = relay(&world.request());
        prop_assert!(time <= (there.makespan + there.latency) * (1.0 + 1e-9));
    }

    /// Relays divide pairs anyway, so whether one hop may divide them does not matter.
    #[test]
    fn relays_divide_pairs_that_one_hop_must_not(seed in 1..u64::MAX, n in 3..8_usize) {
        let case = Case::random(n, 2, true, &mut Random(seed));
        let whole = case.divided(false);
        let one = allocate_relayed(&case.request(), RelayCost::default(), 4);
        prop_assert_eq!(one, allocate_relayed(&whole.request(), RelayCost::default(), 4));
    }
}
