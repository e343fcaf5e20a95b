//! How near plans are to the best, and how they follow their demand.
//!
//! Random demand in several phases is the hardest case: an idle port may be better than a circuit,
//! as that would attract the bytes of a pair to one route, but the search joins all ports. It may
//! miss the best by half, and what it finds may jump. All-to-alls of groups whose pairs all find
//! ports, with sends between them, stay within two percent.

use std::ops::Range;

use super::links::Links;
use super::plan;
use super::predict::Plan;
use super::request::{RingCycle, RingGroup, Strides, TopoRequest};
use super::search::{self, Effort};
use super::start;
use super::traffic::Traffic;
use proptest::prelude::*;

/// A job with phases.
#[derive(Debug, Clone)]
struct Job {
    servers: u32,
    degree: u32,
    rings: Vec<RingGroup>,
    demand: Vec<(u32, u32, u64)>,
    phases: Vec<u32>,
    max_routes: u32,
}

impl Job {
    fn request(&self) -> TopoRequest<'_> {
        TopoRequest {
            servers: self.servers,
            degree: self.degree,
            rings: &self.rings,
            strides: Strides::Geometric,
            demand: &self.demand,
            phases: &self.phases,
            max_routes: self.max_routes,
        }
    }

    fn plan(&self) -> (Plan, Vec<RingCycle>) {
        plan(&self.request()).unwrap()
    }

    fn cost(&self) -> f64 {
        self.plan().0.cost
    }

    /// All-to-all groups, and sends between those that follow each other.
    fn training(groups: u32, size: u32, bytes: impl Fn(u32, u32) -> u64) -> Self {
        let servers = groups * size;
        let (mut demand, mut phases) = (Vec::new(), Vec::new());
        for a in 0..servers {
            for b in (0..servers).filter(|&b| a != b && a / size == b / size) {
                demand.push((a, b, bytes(a, b)));
                phases.push(2);
            }
            if a + size < servers {
                demand.extend([(a, a + size, 8_000), (a + size, a, 8_000)]);
                phases.extend([0, 1]);
            }
        }
        Self { servers, degree: 8, rings: vec![], demand, phases, max_routes: 4 }
    }
}

/// Random demand in up to three phases, and a ring or none.
fn job(servers: Range<u32>, degrees: Range<u32>) -> impl Strategy<Value = Job> {
    (servers, degrees, 1..5_u32).prop_flat_map(|(servers, degree, max_routes)| {
        let entry = (0..servers, 0..servers, 1_000..100_000_u64, 0..3_u32);
        let ring = prop_oneof![Just(0_u64), 1_000..100_000_u64];
        (prop::collection::vec(entry, 1..40), ring).prop_map(move |(entries, edge_bytes)| Job {
            servers,
            degree,
            rings: vec![RingGroup { members: (0..servers).collect(), edge_bytes, phase: 0 }],
            demand: entries.iter().map(|&(a, b, bytes, _)| (a, b, bytes)).collect(),
            phases: entries.iter().map(|entry| entry.3).collect(),
            max_routes,
        })
    })
}

/// The minimum cost of all circuits between four servers.
fn minimum_of_four(job: &Job) -> f64 {
    let traffic = Traffic::of(&job.request(), &[]);
    let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    let mut minimum = f64::INFINITY;
    for code in 0..(job.degree + 1).pow(6) {
        let mut links = Links::new(4, job.degree);
        let mut rest = code;
        let fits = pairs.iter().all(|&(a, b)| {
            let count = rest % (job.degree + 1);
            rest /= job.degree + 1;
            (0..count).all(|_| {
                let fits = links.has_room(a, b);
                if fits {
                    links.add(a, b);
                }
                fits
            })
        });
        if fits && links.all_connected(&traffic.pairs) {
            minimum = minimum.min(Plan::of(links, &traffic, job.max_routes).cost);
        }
    }
    minimum
}

/// Bytes that the busiest circuits carry at least: in each phase those of the busiest server over
/// its ports, or all bytes times the hops that they take at least, over all ports. From a server
/// with `d` ports `d` others are one hop away at most, `d (d - 1)` two.
fn bound(job: &Job) -> f64 {
    let traffic = Traffic::of(&job.request(), &[]);
    let (servers, degree) = (job.servers as usize, job.degree as usize);
    let mut sum = 0.0;
    for phase in 0..traffic.phases {
        let mut sent = vec![Vec::new(); servers];
        let mut received = vec![0.0; servers];
        for send in traffic.sends.iter().filter(|send| send.phase == phase) {
            let (from, to) = traffic.pairs[send.pair];
            sent[from as usize].push(send.bytes);
            received[to as usize] += send.bytes;
        }
        let mut hops = 0.0;
        for share in &mut sent {
            share.sort_by(|x, y| y.total_cmp(x));
            let distance = |place: usize| match place {
                _ if place < degree => 1.0,
                _ if place < degree * degree => 2.0,
                _ => 3.0,
            };
            hops +=
                share.iter().enumerate().map(|(place, bytes)| bytes * distance(place)).sum::<f64>();
        }
        let ends = sent.iter().map(|own| own.iter().sum::<f64>()).chain(received);
        sum += ends.fold(hops / servers as f64, f64::max) / degree as f64;
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    #[test]
    fn plans_for_four_servers_are_near_the_best_of_all(job in job(4..5, 2..5)) {
        let job = Job { rings: vec![], ..job };
        let (found, minimum) = (job.cost(), minimum_of_four(&job));
        prop_assert!(found <= minimum * 2.0, "{found} against {minimum}");
    }

    /// TopoOpt's own ports and matchings are the first of the starts.
    #[test]
    fn plans_are_no_worse_than_any_start(job in job(3..9, 2..7)) {
        let cost = job.cost();
        for start in start::all(&job.request()).unwrap() {
            for max_routes in [job.max_routes, job.max_routes.div_ceil(2)] {
                let first = Plan::of(start.links.clone(), &start.traffic, max_routes).cost;
                prop_assert!(cost <= first * (1.0 + 1e-6), "{cost} against {first}");
            }
        }
    }

    /// Against the best of three much longer searches.
    #[test]
    fn long_searches_find_little_more(job in job(6..9, 3..7)) {
        let (plan, cycles) = job.plan();
        let traffic = Traffic::of(&job.request(), &cycles);
        let minimum = (2..5)
            .map(|seed| {
                let effort = Effort { rounds: 20_000, seed };
                search::swap_one(plan.clone(), &traffic, job.max_routes, &effort).cost
            })
            .fold(f64::INFINITY, f64::min);
        prop_assert!(plan.cost <= minimum * 1.5, "{} against {minimum}", plan.cost);
    }

    #[test]
    fn plans_are_near_the_bound(job in job(9..33, 4..9)) {
        let job = Job { rings: vec![], max_routes: 4, ..job };
        let busiest: f64 = job.plan().0.busiest.iter().sum();
        prop_assert!(busiest >= bound(&job) * (1.0 - 1e-9));
        prop_assert!(busiest <= bound(&job) * 4.0, "{busiest} against {}", bound(&job));
    }

    /// Every byte count changes by up to one percent.
    #[test]
    fn a_little_more_demand_costs_a_little_more(
        job in job(3..9, 2..7),
        percents in prop::collection::vec(0..=10_u64, 40),
    ) {
        let mut more = job.clone();
        for (entry, tenths) in more.demand.iter_mut().zip(&percents) {
            entry.2 += entry.2 * tenths / 1_000;
        }
        let (before, after) = (job.cost(), more.cost());
        prop_assert!(after <= before * 1.5, "{before} to {after}");
        prop_assert!(after >= before * 0.66, "{before} to {after}");
    }

    #[test]
    fn more_of_one_pair_never_costs_less(
        job in job(3..9, 2..7),
        index in 0..40_usize,
        factor in 2..9_u64,
    ) {
        let mut more = job.clone();
        let place = index % job.demand.len();
        more.demand[place].2 *= factor;
        let (before, after) = (job.cost(), more.cost());
        prop_assert!(after >= before * 0.66, "{before} to {after}");
    }

    #[test]
    fn more_ports_never_cost_more(job in job(3..9, 2..7), ports in 1..3_u32) {
        let more = Job { degree: job.degree + ports, ..job.clone() };
        let (before, after) = (job.cost(), more.cost());
        prop_assert!(after <= before * 1.5, "{before} to {after}");
    }

    #[test]
    fn more_routes_never_cost_more(job in job(3..12, 2..7)) {
        let cost = |max_routes| Job { max_routes, ..job.clone() }.cost();
        let costs = [1, 2, 4].map(cost);
        prop_assert!(costs[1] <= costs[0] && costs[2] <= costs[0], "{costs:?}");
        prop_assert!(costs[2] <= costs[1] * (1.0 + 1e-9), "{costs:?}");
    }
}

/// Three peers and a neighbor in the pipeline: eight ports are two for each of the four.
#[test]
fn equal_demand_gets_equal_ports() {
    for groups in [2, 4] {
        let plan = Job::training(groups, 4, |_, _| 90_000).plan().0;
        let inside = plan.links.circuits().filter(|c| c.a / 4 == c.b / 4);
        assert!(inside.clone().all(|circuit| circuit.count >= 2), "{groups} groups");
        assert_eq!(inside.count() as u32, groups * 6);
        assert!((plan.busiest[2] - 45_000.0).abs() < 1e-6);
    }
    for (servers, degree) in [(3, 4), (4, 6), (5, 8), (8, 7), (5, 4), (9, 8)] {
        let pairs = (0..servers).flat_map(|a| (0..servers).map(move |b| (a, b, 1_000)));
        let demand = pairs.filter(|entry| entry.0 != entry.1).collect();
        let (rings, phases, max_routes) = (vec![], vec![], 4);
        let job = Job { servers, degree, rings, demand, phases, max_routes };
        let each = degree / (servers - 1);
        let plan = job.plan().0;
        assert!(plan.links.circuits().all(|circuit| circuit.count == each), "{servers} servers");
    }
}

/// Where ports do not divide, rates of equal pairs differ by one circuit.
#[test]
fn the_indivisible_rest_is_one_circuit() {
    for degree in 4..11 {
        let pairs = (0..4).flat_map(|a| (0..4).map(move |b| (a, b, 1_000)));
        let demand = pairs.filter(|entry| entry.0 != entry.1).collect();
        let (rings, phases, max_routes) = (vec![], vec![], 4);
        let job = Job { servers: 4, degree, rings, demand, phases, max_routes };
        let plan = job.plan().0;
        let counts: Vec<u32> = plan.links.circuits().map(|circuit| circuit.count).collect();
        let (minimum, largest) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
        assert_eq!((counts.len(), minimum), (6, degree / 3), "{degree} ports");
        assert!(largest <= minimum + 1, "{degree} ports: {minimum} to {largest}");
    }
}

/// A percent more or less of each pair of groups of four: the busiest circuits hardly change.
#[test]
fn nearly_equal_demand_costs_nearly_the_same() {
    let even = Job::training(8, 4, |_, _| 90_000).cost();
    for factor in 1..5 {
        let uneven = |a, b| 90_000 + u64::from(a * 7 + b * 13 * factor) % 900;
        let cost = Job::training(8, 4, uneven).cost();
        assert!(cost >= even && cost <= even * 1.02, "{cost} against {even}");
    }
}
