//! Routings followed path by path: bytes, capacities, memory, verdicts, and what changes nothing.

use crate::common::relay_worlds::{BITS, BYTES_PER_S, World, world};
use lightloom_model::{Duration, Rate};
use lightloom_schedule::EpsRates;
use lightloom_schedule::relay::{
    Loads, PathKind, PathShare, RelayCost, RelayPath, RelayRequest, RelayVerdict, Relayed, Via,
    relay, relay_as, verify,
};
use proptest::prelude::*;

const ROUNDING: f64 = 1e-9;

/// A triangle of single circuits without an EPS.
fn triangle() -> World {
    World::new(3, 0.0).join(0, 1, 1).join(1, 2, 1).join(0, 2, 1)
}

fn sum_of(world: &World, paths: &[RelayPath]) -> Vec<u64> {
    let mut carried = vec![0; world.n * world.n];
    for path in paths {
        carried[path.source as usize * world.n + path.destination as usize] += path.bytes;
    }
    carried
}

/// Without what servers send to themselves.
fn wanted(world: &World) -> Vec<u64> {
    let mut demand = world.demand.clone();
    for server in 0..world.n {
        demand[server * world.n + server] = 0;
    }
    demand
}

fn flat(loads: &Loads) -> Vec<u64> {
    [&loads.arcs[..], &loads.eps_out, &loads.eps_in, &loads.staging].concat()
}

fn routable(world: &World) -> bool {
    world.pairs().into_iter().all(|pair| !world.vias(pair).is_empty())
}

fn times(world: &World, factor: u64) -> World {
    let demand = world.demand.iter().map(|bytes| bytes * factor).collect();
    World { demand, ..world.clone() }
}

fn faster(world: &World, factor: u64) -> World {
    let mut other = world.clone();
    other.circuit_rate.0 *= factor;
    other.eps.iter_mut().for_each(|rate| rate.0 *= factor);
    if let Some(rate) = &mut other.cost.staging_rate {
        rate.0 *= factor;
    }
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn every_byte_takes_a_path_that_is_there_once(world in world(6)) {
        let found = relay(&world.request());
        prop_assert_eq!(sum_of(&world, &found.paths), wanted(&world));
        prop_assert!(found.paths.windows(2).all(|pair| pair[0] < pair[1]), "sorted, none twice");
        prop_assert!(found.paths.iter().all(|path| path.bytes > 0));
        if !routable(&world) {
            prop_assert!(found.makespan.is_infinite());
            return Ok(());
        }
        for path in &found.paths {
            let via = Via { kind: path.kind, relay: path.relay.unwrap_or(0) };
            let there = world.vias([path.source as usize, path.destination as usize]);
            prop_assert!(there.contains(&via), "{:?} of {:?}", path, there);
        }
    }

    /// No capacity is exceeded in the time stated, and some resource needs all of it.
    #[test]
    fn the_makespan_is_that_of_the_busiest_resource(world in world(6)) {
        let found = relay(&world.request());
        if !found.makespan.is_finite() {
            return Ok(());
        }
        let loads = world.loads(&found.paths);
        for (resource, &bytes) in loads.iter().enumerate() {
            let room = world.capacity(resource) * found.makespan;
            prop_assert!(bytes == 0 || bytes as f64 <= room * (1.0 + ROUNDING));
        }
        let seconds = world.seconds(&loads);
        prop_assert!((seconds - found.makespan).abs() <= ROUNDING * seconds);
        let checked = verify(&world.request(), &found.paths).unwrap();
        prop_assert_eq!(flat(&checked), loads);
    }

    /// Factors of 2 change no digit of a mantissa, so that not a byte moves.
    #[test]
    fn twice_the_rate_is_half_the_time_over_the_same_paths(world in world(6), power in 1..4_u32) {
        let (slow, fast) = (relay(&world.request()), relay(&faster(&world, 1 << power).request()));
        prop_assert_eq!(&fast.paths, &slow.paths);
        prop_assert_eq!(fast.verdict, slow.verdict);
        let factor = f64::from(1_u32 << power);
        prop_assert_eq!((fast.makespan * factor).to_bits(), slow.makespan.to_bits());
        prop_assert_eq!((fast.one_hop * factor).to_bits(), slow.one_hop.to_bits());
        prop_assert_eq!((fast.lower_bound * factor).to_bits(), slow.lower_bound.to_bits());
    }

    /// One hop is exact but for whole bytes; the descent ends within half a percent of its end.
    #[test]
    fn twice_the_bytes_take_twice_the_time(world in world(6)) {
        let (once, twice) = (relay(&world.request()), relay(&times(&world, 2).request()));
        if once.makespan > 0.0 && once.makespan.is_finite() {
            let ratio = twice.makespan / (2.0 * once.makespan);
            prop_assert!((ratio - 1.0).abs() < 0.005, "{ratio}");
            if once.one_hop.is_finite() {
                prop_assert!((twice.one_hop / once.one_hop - 2.0).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn one_rate_for_all_is_that_rate_for_each(world in world(6)) {
        let World { demand, circuits, circuit_rate, cost, .. } = &world;
        let equal = World { eps: vec![world.eps[0]; world.n], ..world.clone() };
        let rates = EpsRates::Equal(world.eps[0]);
        let once = RelayRequest::new(demand, circuits, *circuit_rate, rates, *cost).unwrap();
        prop_assert_eq!(relay(&once), relay(&equal.request()));
    }

    #[test]
    fn bytes_of_a_server_to_itself_change_nothing(world in world(5), bytes in 1..1_u64 << 40) {
        let mut other = world.clone();
        for server in 0..world.n {
            other.demand[server * world.n + server] = bytes;
        }
        prop_assert_eq!(relay(&other.request()), relay(&world.request()));
    }

    #[test]
    fn servers_without_ports_change_nothing(world in world(5)) {
        let n = world.n;
        let mut larger = World::new(n + 1, 0.0);
        for a in 0..n {
            larger.eps[a] = world.eps[a];
            for b in 0..n {
                larger.demand[a * (n + 1) + b] = world.demand[a * n + b];
                larger.circuits[a * (n + 1) + b] = world.circuits[a * n + b];
            }
        }
        larger.cost = world.cost;
        let (one, other) = (relay(&world.request()), relay(&larger.request()));
        prop_assert_eq!(one.paths, other.paths);
        prop_assert_eq!(one.makespan.to_bits(), other.makespan.to_bits());
    }

    #[test]
    fn no_relay_holds_more_than_its_memory(world in world(6), limit in 0..100_000_000_u64) {
        let mut tight = world.clone();
        tight.cost.memory_limit = Some(limit);
        let found = relay(&tight.request());
        let loads = world.loads(&found.paths);
        let staging = &loads[world.n * world.n + 2 * world.n..];
        prop_assert!(staging.iter().all(|&bytes| bytes <= limit), "{:?} of {}", staging, limit);
        prop_assert_eq!(sum_of(&world, &found.paths), wanted(&world));
        prop_assert!(found.makespan <= found.one_hop);
        if limit == 0 && found.one_hop.is_finite() {
            prop_assert!((found.makespan - found.one_hop).abs() <= ROUNDING * found.one_hop);
        }
    }

    /// Whatever a relay costs, the verdict is the comparison that it states.
    #[test]
    fn verdicts_compare_both_times(world in world(6), nanoseconds in 0..3_000_000_u64) {
        let mut slow = world.clone();
        slow.cost.relay_delay = Duration(nanoseconds * 1_000);
        slow.cost.chunk_bytes = 250_000;
        let found = relay(&slow.request());
        let latency = slow.cost.latency(slow.circuit_rate);
        let time = found.with_relays - latency;
        let expected = if found.with_relays < found.one_hop {
            RelayVerdict::Pays
        } else if time >= found.one_hop - 1e-12 {
            RelayVerdict::NoFaster
        } else {
            RelayVerdict::LatencyExceedsGain
        };
        prop_assert_eq!(found.verdict, expected, "{:?}", &found);
        let relays = found.verdict == RelayVerdict::Pays;
        prop_assert_eq!(found.latency > 0.0, relays && latency > 0.0);
        if relays {
            prop_assert!(found.makespan + found.latency < found.one_hop);
        } else {
            prop_assert!(found.makespan.to_bits() == found.one_hop.to_bits());
            prop_assert_eq!(found.relayed_bytes(), 0);
        }
    }

    /// Any division, rounded or not, is checked against loads that are added up from scratch.
    #[test]
    fn any_division_is_made_whole(
        world in world(5),
        seed in prop::collection::vec(0.01..1.0_f64, 60),
    ) {
        if !routable(&world) {
            return Ok(());
        }
        let mut draws = seed.iter().cycle();
        let mut parts = Vec::new();
        for pair in world.pairs() {
            let vias = world.vias(pair);
            let weights: Vec<f64> = vias.iter().map(|_| *draws.next().unwrap()).collect();
            let all = world.demand[pair[0] * world.n + pair[1]] as f64;
            let sum: f64 = weights.iter().sum();
            parts.extend(vias.iter().zip(&weights).map(|(&via, weight)| PathShare {
                from: pair[0] as u32,
                to: pair[1] as u32,
                via,
                bytes: all * weight / sum,
            }));
        }
        let found = relay_as(&world.request(), &parts, 0.0).unwrap();
        prop_assert_eq!(sum_of(&world, &found.paths), wanted(&world));
        let mut loads = vec![0.0; world.resources()];
        for part in &parts {
            for resource in world.crossed([part.from as usize, part.to as usize], part.via) {
                loads[resource] += part.bytes;
            }
        }
        let seconds = loads.iter().enumerate().map(|(r, bytes)| bytes / world.capacity(r));
        let expected = seconds.filter(|time| time.is_finite()).fold(0.0, f64::max);
        prop_assert!((found.with_relays - expected).abs() <= 1e-4 * expected,
            "{} for {expected}", found.with_relays);
    }
}

fn alone(world: &World, kind: PathKind, relay: Option<u32>) -> Loads {
    let bytes = world.demand[2];
    let path = RelayPath { source: 0, destination: 2, kind, relay, bytes };
    verify(&world.request(), &[path]).unwrap()
}

/// Each kind of path by hand: 0 to 2, over 1 if anything.
#[test]
fn every_kind_of_path_loads_what_it_crosses() {
    let mut world = triangle().send(0, 2, 50_000);
    world.eps = vec![Rate(BITS / 2), Rate(BITS / 4), Rate(BITS / 2)];
    let circuit = 1e-6;
    for (kind, relay, arcs, eps, seconds) in [
        (PathKind::Circuit, None, vec![2], None, circuit),
        (PathKind::Eps, None, vec![], Some([0, 2]), 2.0 * circuit),
        (PathKind::CircuitCircuit, Some(1), vec![1, 5], None, circuit),
        (PathKind::CircuitEps, Some(1), vec![1], Some([1, 2]), 4.0 * circuit),
        (PathKind::EpsCircuit, Some(1), vec![5], Some([0, 1]), 4.0 * circuit),
    ] {
        let loads = alone(&world, kind, relay);
        let used: Vec<usize> = (0..9).filter(|&arc| loads.arcs[arc] > 0).collect();
        assert_eq!(used, arcs, "{kind:?}");
        let expected = |server: usize, end: usize| u64::from(eps.map(|e| e[end]) == Some(server));
        for server in 0..3 {
            assert_eq!(loads.eps_out[server], 50_000 * expected(server, 0), "{kind:?} {server}");
            assert_eq!(loads.eps_in[server], 50_000 * expected(server, 1), "{kind:?} {server}");
        }
        let staged = if relay.is_some() { [0, 50_000, 0] } else { [0; 3] };
        assert_eq!(loads.staging, staged, "{kind:?}");
        assert!((loads.makespan - seconds).abs() < 1e-12, "{kind:?}: {}", loads.makespan);
    }
}

#[test]
fn staging_takes_time_only_where_its_rate_is_limited() {
    let mut world = triangle().send(0, 2, 50_000);
    let fast = alone(&world, PathKind::CircuitCircuit, Some(1)).makespan;
    world.cost.staging_rate = Some(Rate(BITS / 10));
    let slow = alone(&world, PathKind::CircuitCircuit, Some(1)).makespan;
    assert!((slow / fast - 10.0).abs() < ROUNDING);
    let direct = alone(&world, PathKind::Circuit, None).makespan;
    assert_eq!(direct.to_bits(), fast.to_bits());
}

#[test]
fn a_memory_limit_is_the_last_byte_that_a_relay_may_hold() {
    let mut world = triangle().send(0, 2, 1_000);
    let path = RelayPath {
        source: 0,
        destination: 2,
        kind: PathKind::CircuitCircuit,
        relay: Some(1),
        bytes: 1_000,
    };
    for (limit, fits) in [(1_000, true), (999, false), (0, false)] {
        world.cost.memory_limit = Some(limit);
        assert_eq!(verify(&world.request(), &[path]).is_ok(), fits, "{limit}");
    }
}

/// With room for a part of it, a relay takes that part; the direct circuit carries the rest.
#[test]
fn what_memory_cannot_hold_takes_the_direct_circuit() {
    let mut before = f64::INFINITY;
    for limit in [0_u64, 5_000_000, 10_000_000, 20_000_000, 40_000_000] {
        let mut world = triangle().send(0, 1, 80_000_000);
        world.cost.memory_limit = Some(limit);
        let found = relay(&world.request());
        let bytes = found.makespan * BYTES_PER_S;
        let fair = 80e6 - limit as f64;
        assert!(bytes >= fair - 1.0, "{bytes} with {limit}");
        assert!(bytes <= before * (1.0 + ROUNDING), "{bytes} with {limit}");
        before = bytes;
    }
    assert!(before <= 1.02 * 40e6);
}

#[test]
fn a_chunk_is_late_by_its_time_on_the_wire_and_across_the_switch() {
    let cost = RelayCost { chunk_bytes: 50_000, ..RelayCost::default() };
    let wire = cost.latency(Rate(BITS));
    assert!((wire - 1e-6).abs() < 1e-15);
    assert!((cost.latency(Rate(BITS / 2)) - 2.0 * wire).abs() < 1e-15);
    let larger = RelayCost { chunk_bytes: 150_000, ..cost };
    assert!((larger.latency(Rate(BITS)) - 3.0 * wire).abs() < 1e-15);
    let staged = RelayCost { staging_rate: Some(Rate(BITS / 4)), ..cost };
    assert!((staged.latency(Rate(BITS)) - 5.0 * wire).abs() < 1e-15);
    let noticed = RelayCost { relay_delay: Duration(7_000_000), ..cost };
    assert!((noticed.latency(Rate(BITS)) - wire - 7e-6).abs() < 1e-15);
    assert!(RelayCost::default().latency(Rate(BITS)) == 0.0);
}

fn pays(found: &Relayed) -> bool {
    found.verdict == RelayVerdict::Pays
}

/// A triangle gains half of the direct time, 800 us here: at any latency below, relaying pays.
#[test]
fn relaying_pays_exactly_while_its_latency_is_below_its_gain() {
    for (microseconds, expected) in [(0, true), (400, true), (780, true), (820, false)] {
        let mut world = triangle().send(0, 1, 80_000_000);
        world.cost.relay_delay = Duration(microseconds * 1_000_000);
        let found = relay(&world.request());
        assert_eq!(pays(&found), expected, "{microseconds}: {found:?}");
    }
}

#[test]
fn every_tampered_path_is_refused() {
    let world = World::new(4, 1.0).join(0, 1, 1).join(1, 2, 1).send(0, 2, 600).send(3, 1, 50);
    let path = |source, destination, kind, relay, bytes| RelayPath {
        source,
        destination,
        kind,
        relay,
        bytes,
    };
    let good = [
        path(0, 2, PathKind::Eps, None, 100),
        path(0, 2, PathKind::CircuitCircuit, Some(1), 200),
        path(0, 2, PathKind::CircuitEps, Some(1), 300),
        path(3, 1, PathKind::EpsCircuit, Some(2), 50),
    ];
    verify(&world.request(), &good).unwrap();
    for index in 0..good.len() {
        let own = good[index];
        let tampered = [
            RelayPath { bytes: own.bytes + 1, ..own },
            RelayPath { bytes: own.bytes - 1, ..own },
            RelayPath { source: own.destination, ..own },
            RelayPath { destination: own.source, ..own },
            RelayPath { source: 4, ..own },
            RelayPath { relay: Some(own.source), ..own },
            RelayPath { relay: Some(own.destination), ..own },
            RelayPath { relay: Some(4), ..own },
            RelayPath { kind: PathKind::Circuit, ..own },
            RelayPath { kind: PathKind::Circuit, relay: None, ..own },
        ];
        for (number, wrong) in tampered.into_iter().enumerate() {
            let mut paths = good.to_vec();
            paths[index] = wrong;
            assert!(verify(&world.request(), &paths).is_err(), "path {index}, edit {number}");
        }
        let mut fewer = good.to_vec();
        fewer.remove(index);
        assert!(verify(&world.request(), &fewer).is_err(), "path {index} is missing");
        let twice = [&good[..], &[own]].concat();
        assert!(verify(&world.request(), &twice).is_err(), "path {index} twice");
    }
}

/// Circuits are needed exactly on the hops that the kind names.
#[test]
fn each_hop_over_circuits_needs_circuits() {
    let needs = [
        (PathKind::CircuitCircuit, [true, true]),
        (PathKind::CircuitEps, [true, false]),
        (PathKind::EpsCircuit, [false, true]),
    ];
    for (kind, [first, second]) in needs {
        for (has_first, has_second) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let world = World::new(3, 1.0)
                .join(0, 1, u16::from(has_first))
                .join(1, 2, u16::from(has_second))
                .send(0, 2, 10);
            let path = RelayPath { source: 0, destination: 2, kind, relay: Some(1), bytes: 10 };
            let there = (!first || has_first) && (!second || has_second);
            let found = verify(&world.request(), &[path]).is_ok();
            assert_eq!(found, there, "{kind:?} {has_first} {has_second}");
        }
    }
}
