//! Time per call of the allocators and of the `TopoOpt` finder.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use lightloom_model::{Allocator, Rate};
use lightloom_schedule::topoopt::{RingGroup, Strides, TopoRequest, topology};
use lightloom_schedule::{EpsRates, Request, allocate, map_nics};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::Random;

const RATE: Rate = Rate(400_000_000_000);

const ALLOCATORS: [Allocator; 6] = [
    Allocator::Static,
    Allocator::Paper,
    Allocator::Reference,
    Allocator::Greedy,
    Allocator::Parametric,
    Allocator::Best,
];

/// Hot columns (as MoE routing has them) or skewed pairs.
fn demand(kind: &str, servers: usize, random: &mut Random) -> Vec<u64> {
    let popularity: Vec<f64> = (0..servers).map(|_| (2.0 * random.uniform()).exp()).collect();
    let cell = |index: usize, random: &mut Random| match kind {
        "columns" => popularity[index % servers] * (1.0 + 0.05 * random.uniform()),
        _ => -random.uniform().ln(),
    };
    (0..servers * servers).map(|index| (1e7 * cell(index, random)) as u64).collect()
}

fn allocators(criterion: &mut Criterion) {
    for kind in ["columns", "pairs"] {
        let mut group = criterion.benchmark_group(kind);
        for servers in [8, 32, 128] {
            let (ports, eps_rates) = (vec![6; servers], EpsRates::Equal(Rate(2 * RATE.0)));
            let mut random = Random(0x9E37_79B9_7F4A_7C15);
            let draws: Vec<Vec<u64>> =
                (0..16).map(|_| demand(kind, servers, &mut random)).collect();
            for allocator in ALLOCATORS {
                let name = format!("{allocator:?}").to_lowercase();
                let mut draw = 0;
                group.bench_function(BenchmarkId::new(name, servers), |bencher| {
                    bencher.iter(|| {
                        draw = (draw + 1) % draws.len();
                        let demand = &draws[draw];
                        let request = Request::new(demand, &ports, RATE, eps_rates, true).unwrap();
                        allocate(allocator, black_box(&request))
                    });
                });
            }
        }
        group.finish();
    }
}

fn nics(criterion: &mut Criterion) {
    let mut circuits = vec![1; 64];
    for server in 0..8 {
        circuits[server * 9] = 0;
        circuits[server * 8 + (server + 4) % 8] = 0;
    }
    criterion.bench_function("map_nics/8", |bencher| {
        bencher.iter(|| map_nics(black_box(&circuits), &[6; 8], 2, &[]));
    });
}

/// Stages of expert-parallel groups of 8 servers, pipeline neighbors, data-parallel rings.
fn topoopt(criterion: &mut Criterion) {
    for servers in [128_u32, 1024, 4096] {
        let stage = servers / 8;
        let mut pairs = Vec::new();
        for server in 0..servers {
            let group = server / 8 * 8;
            pairs.extend((group..group + 8).filter(|&b| b != server).map(|b| (server, b, 9_000)));
            if server + stage < servers {
                pairs.push((server, server + stage, 700));
                pairs.push((server + stage, server, 700));
            }
        }
        let rings: Vec<RingGroup> = (0..8)
            .flat_map(|s| (0..8).map(move |k| (s * stage, k)))
            .map(|(start, k)| RingGroup {
                members: (start + k..start + stage).step_by(8).collect(),
                edge_bytes: 4_000,
                phase: 0,
            })
            .collect();
        let request = TopoRequest {
            servers,
            degree: 8,
            rings: &rings,
            strides: Strides::Geometric,
            demand: &pairs,
            phases: &[],
            max_routes: 4,
        };
        let mut group = criterion.benchmark_group("topoopt");
        group.sample_size(10);
        group.bench_function(BenchmarkId::from_parameter(servers), |bencher| {
            bencher.iter(|| topology(black_box(&request)));
        });
        group.finish();
    }
}

criterion_group!(benches, allocators, nics, topoopt);
criterion_main!(benches);
