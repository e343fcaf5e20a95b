//! Time per call of the schedulers of permutations, next to Table 2 of Chronos.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use lightloom_schedule::permutation::{Demand, Method, decompose};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::Random;

/// Hot columns (as MoE routing has them) or 1 to 1,000 everywhere.
fn demand(kind: &str, lines: usize, random: &mut Random) -> Vec<u64> {
    let popularity: Vec<f64> = (0..lines).map(|_| (2.0 * random.uniform()).exp()).collect();
    let cell = |index: usize| match kind {
        "moe" => (1e7 * popularity[index % lines] * (1.0 + 0.05 * random.uniform())) as u64,
        _ => 1 + (1_000.0 * random.uniform()) as u64,
    };
    (0..lines * lines).map(cell).collect()
}

fn methods(criterion: &mut Criterion) {
    for kind in ["moe", "uniform"] {
        for method in [Method::Bvn, Method::OpenShop, Method::RoundRobin, Method::Threshold] {
            let mut group = criterion.benchmark_group(format!("{kind}/{}", method.name()));
            for lines in [16, 32, 64, 128, 256] {
                let mut random = Random(0x9E37_79B9_7F4A_7C15);
                // Different draws, so that the processor cannot learn the branches of one.
                let draws: Vec<Vec<u64>> =
                    (0..16).map(|_| demand(kind, lines, &mut random)).collect();
                let mut draw = 0;
                group.bench_function(BenchmarkId::from_parameter(lines), |bencher| {
                    bencher.iter(|| {
                        draw = (draw + 1) % draws.len();
                        let partial = method == Method::OpenShop;
                        let demand = Demand::new(lines, lines, &draws[draw], 0, partial);
                        decompose(black_box(&demand.expect("valid")), method, None)
                    });
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, methods);
criterion_main!(benches);
