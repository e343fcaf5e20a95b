//! Relaying against exact optima: linear programs of tiny worlds, solved by the simplex method.

use crate::common::relay_worlds::{BITS, BYTES_PER_S, World, world};
use lightloom_model::Rate;
use lightloom_schedule::relay::{RelayVerdict, Via, dual_bound, relay, relay_as, verify};
use proptest::prelude::*;

const ROUNDING: f64 = 1e-7;

/// What rounding to whole bytes may add where a transfer has at least a megabyte.
const WHOLE_BYTES: f64 = 1e-4;

fn any_path(_: Via) -> bool {
    true
}

fn one_hop_only(via: Via) -> bool {
    !via.kind.is_relayed()
}

/// Bytes over one circuit that the best routing needs.
fn optimum(world: &World) -> f64 {
    world.exact(any_path).expect("every pair has a path").seconds * BYTES_PER_S
}

fn close(found: f64, expected: f64, part: f64) -> bool {
    (found - expected).abs() <= part * expected.max(f64::MIN_POSITIVE)
}

#[track_caller]
fn assert_optimum(world: &World, circuits: f64) {
    let exact = optimum(world);
    assert!(close(exact, circuits, ROUNDING), "the linear program: {exact}, by hand {circuits}");
    let found = relay(&world.request());
    let reached = found.makespan * BYTES_PER_S;
    assert!(reached >= exact * (1.0 - ROUNDING), "{reached} is below {exact}");
    assert!(reached <= 1.02 * exact, "{reached} is far above {exact}");
    assert!(found.lower_bound * BYTES_PER_S <= exact * (1.0 + ROUNDING));
}

/// All joined to all, without an EPS: the direct circuit and one path over each other server.
#[test]
fn one_hot_pair_of_a_clique_uses_every_other_server() {
    for n in 3..7_usize {
        let mut world = World::new(n, 0.0).send(0, 1, 60_000_000);
        for a in 0..n {
            for b in 0..a {
                world = world.join(a, b, 1);
            }
        }
        assert_optimum(&world, 60e6 / (n - 1) as f64);
    }
}

/// The slower of the two hops limits what a relay passes on.
#[test]
fn a_relay_is_as_fast_as_its_slower_hop() {
    for (first, second) in [(1_u16, 3_u16), (3, 1), (2, 2)] {
        let chain = World::new(3, 0.0).join(0, 1, first).join(1, 2, second);
        let slower = f64::from(first.min(second));
        assert_optimum(&chain.send(0, 2, 30_000_000), 30e6 / slower);
    }
}

/// Circuits to the hub only, whose EPS takes what the circuits bring: one circuit in, then half of
/// one out, and the EPS of the source itself for the rest.
#[test]
fn a_hub_passes_on_over_the_eps_what_its_own_port_carries() {
    let world = World::new(3, 0.5).join(0, 1, 1).send(0, 2, 90_000_000);
    // The destination receives over its EPS port alone, however the bytes get there.
    assert_optimum(&world, 180e6);
    let mut wide = world.clone();
    wide.eps[2] = Rate(2 * BITS);
    // Half a circuit straight, half over the hub.
    assert_optimum(&wide, 90e6);
    let found = relay(&wide.request());
    assert!((44_000_000..46_000_000).contains(&found.relayed_bytes()));
}

/// The mirror image: the source sends over its EPS port alone, the hub has circuits onwards.
#[test]
fn a_hub_passes_on_over_circuits_what_came_over_the_eps() {
    let mut world = World::new(3, 0.5).join(1, 2, 1).send(0, 2, 90_000_000);
    world.eps[0] = Rate(2 * BITS);
    assert_optimum(&world, 90e6);
    let found = relay(&world.request());
    assert!((44_000_000..46_000_000).contains(&found.relayed_bytes()));
}

#[test]
fn staging_is_a_resource_of_the_relay_like_any_other() {
    for (part, relayed) in [(8_u64, 0.125), (2, 0.5), (1, 1.0)] {
        let mut world = World::new(3, 0.0).join(0, 1, 1).join(1, 2, 1).join(0, 2, 1);
        world.cost.staging_rate = Some(Rate(BITS / part));
        // One circuit straight, and over the third server what it can stage.
        assert_optimum(&world.send(0, 1, 72_000_000), 72e6 / (1.0 + relayed));
    }
}

/// Both directions of a duplex circuit are there at once: what comes back costs nothing.
#[test]
fn the_return_direction_is_free() {
    let world = World::new(3, 0.0).join(0, 1, 1).join(1, 2, 1);
    let forth = world.clone().send(0, 2, 40_000_000);
    assert_optimum(&forth, 40e6);
    assert_optimum(&forth.send(2, 0, 40_000_000), 40e6);
}

/// Two transfers over one relay share its circuits.
#[test]
fn transfers_over_one_circuit_add_up() {
    let star = World::new(4, 0.0).join(0, 1, 1).join(0, 2, 1).join(0, 3, 1);
    let two = star.send(1, 2, 25_000_000).send(3, 2, 10_000_000).send(0, 2, 5_000_000);
    assert_optimum(&two, 40e6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn the_bound_never_exceeds_the_optimum_nor_the_optimum_the_routing(world in world(5)) {
        let found = relay(&world.request());
        let Some(exact) = world.exact(any_path) else {
            prop_assert!(found.makespan.is_infinite() || world.pairs().is_empty());
            return Ok(());
        };
        prop_assert!(found.lower_bound <= exact.seconds * (1.0 + ROUNDING),
            "bound {} optimum {}", found.lower_bound, exact.seconds);
        prop_assert!(found.with_relays >= exact.seconds * (1.0 - WHOLE_BYTES));
        prop_assert!(found.makespan >= exact.seconds * (1.0 - WHOLE_BYTES));
        prop_assert!(found.makespan <= 1.1 * exact.seconds,
            "{} of {}", found.makespan, exact.seconds);
    }

    /// Strong duality: the prices of the linear program prove all of its optimum.
    #[test]
    fn the_duals_of_the_linear_program_prove_its_optimum(world in world(5)) {
        let Some(exact) = world.exact(any_path) else { return Ok(()) };
        let bound = dual_bound(&world.request(), &exact.prices);
        prop_assert!(close(bound, exact.seconds, 1e-6), "{bound} for {}", exact.seconds);
    }

    #[test]
    fn one_hop_is_the_best_division_without_relays(world in world(5)) {
        let found = relay(&world.request());
        match world.exact(one_hop_only) {
            None => prop_assert!(found.one_hop.is_infinite() || world.pairs().is_empty()),
            Some(exact) => prop_assert!(close(found.one_hop, exact.seconds, WHOLE_BYTES),
                "{} for {}", found.one_hop, exact.seconds),
        }
    }

    #[test]
    fn the_optimal_division_is_taken_as_it_is(world in world(5)) {
        let Some(exact) = world.exact(any_path) else { return Ok(()) };
        let found = relay_as(&world.request(), &exact.parts, exact.seconds).unwrap();
        let expected = exact.seconds.min(found.one_hop);
        prop_assert!(close(found.makespan, expected, WHOLE_BYTES),
            "{} for {expected}", found.makespan);
        prop_assert_eq!(found.lower_bound.to_bits(), exact.seconds.to_bits());
        let loads = verify(&world.request(), &found.paths).unwrap();
        prop_assert_eq!(loads.makespan.to_bits(), found.makespan.to_bits());
    }

    /// Where the optimum is clearly below one hop, relaying pays; where it is not below, nobody
    /// relays.
    #[test]
    fn the_verdict_is_that_of_the_optimum(world in world(5)) {
        let Some(exact) = world.exact(any_path) else { return Ok(()) };
        let found = relay(&world.request());
        if exact.seconds < 0.85 * found.one_hop {
            prop_assert_eq!(found.verdict, RelayVerdict::Pays);
        }
        if exact.seconds > found.one_hop * (1.0 - ROUNDING) && found.verdict == RelayVerdict::Pays {
            // Only whole bytes can have made one hop slower than its optimum.
            prop_assert!(found.makespan >= found.one_hop * (1.0 - WHOLE_BYTES));
        }
    }

    /// Bounds of any prices: the unit of a price cancels out, bytes and rates scale the bound.
    #[test]
    fn dual_bounds_scale_with_bytes_and_rates(world in world(5), times in 2..9_u64) {
        let Some(exact) = world.exact(any_path) else { return Ok(()) };
        let bound = dual_bound(&world.request(), &exact.prices);
        let scaled: Vec<f64> = exact.price.iter().map(|price| 7.5 * price).collect();
        let unit = world.prices(&scaled);
        prop_assert!(close(dual_bound(&world.request(), &unit), bound, 1e-9));
        let mut larger = world.clone();
        larger.demand.iter_mut().for_each(|bytes| *bytes *= times);
        let grown = dual_bound(&larger.request(), &exact.prices);
        prop_assert!(close(grown, times as f64 * bound, 1e-9));
        let mut faster = world.clone();
        faster.circuit_rate.0 *= times;
        faster.eps.iter_mut().for_each(|rate| rate.0 *= times);
        if let Some(rate) = &mut faster.cost.staging_rate {
            rate.0 *= times;
        }
        let sooner = dual_bound(&faster.request(), &exact.prices);
        prop_assert!(close(sooner, bound / times as f64, 1e-9));
    }

    /// Turned round, every path runs backwards over the other direction of its circuits.
    #[test]
    fn transposed_demand_has_the_transposed_proof(world in world(5)) {
        let Some(exact) = world.exact(any_path) else { return Ok(()) };
        let n = world.n;
        let (arcs, servers) = exact.price.split_at(n * n);
        let mut turned: Vec<f64> =
            (0..n * n).map(|cell| arcs[cell % n * n + cell / n]).collect();
        turned.extend([&servers[n..2 * n], &servers[..n], &servers[2 * n..]].concat());
        let turned = world.prices(&turned);
        let bound = dual_bound(&world.transposed().request(), &turned);
        prop_assert!(close(bound, exact.seconds, 1e-6), "{bound} for {}", exact.seconds);
        let found = relay(&world.transposed().request());
        prop_assert!(found.makespan <= 1.1 * exact.seconds, "{}", found.makespan / exact.seconds);
    }

    #[test]
    fn extra_demand_never_lowers_a_bound(world in world(5), cell in 0..25_usize) {
        let Some(exact) = world.exact(any_path) else { return Ok(()) };
        let mut busier = world.clone();
        let cell = cell % (world.n * world.n);
        busier.demand[cell] += 5_000_000;
        let bound = dual_bound(&busier.request(), &exact.prices);
        prop_assert!(bound >= exact.seconds * (1.0 - 1e-6));
        let Some(more) = busier.exact(any_path) else { return Ok(()) };
        let found = relay(&busier.request());
        prop_assert!(found.makespan >= exact.seconds * (1.0 - WHOLE_BYTES));
        prop_assert!(found.lower_bound <= more.seconds * (1.0 + ROUNDING));
    }

    /// However servers are called, the result is as close to the same optimum.
    #[test]
    fn other_names_have_the_same_optimum(world in world(5), shift in 1..5_usize) {
        let Some(exact) = world.exact(any_path) else { return Ok(()) };
        let order: Vec<usize> = (0..world.n).map(|i| (i + shift) % world.n).collect();
        let found = relay(&world.renamed(&order).request());
        prop_assert!(found.makespan <= 1.1 * exact.seconds);
        prop_assert!(found.makespan >= exact.seconds * (1.0 - WHOLE_BYTES));
        prop_assert!(found.lower_bound <= exact.seconds * (1.0 + ROUNDING));
    }
}
