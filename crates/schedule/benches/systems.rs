//! Time per call of edge coloring and of permutations over circuit fabrics.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use lightloom_schedule::coloring::{Bipartite, FabricShape, Pods, color_edges, route_permutation};
use lightloom_schedule::matching::{assign, match_general};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::Random;

fn shuffled(count: u32) -> Vec<u32> {
    Random(0x9E37_79B9_7F4A_7C15).shuffled(count)
}

fn coloring(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("color_edges");
    for (hosts, leaf) in [(1_024, 32), (4_096, 64), (16_384, 64), (16_128, 63), (65_536, 128)] {
        let ends = shuffled(hosts);
        let edges: Vec<(u32, u32)> = (0..).zip(&ends).map(|(a, &b)| (a / leaf, b / leaf)).collect();
        let graph = Bipartite::new(hosts / leaf, hosts / leaf, &edges).unwrap();
        group.bench_function(BenchmarkId::new(format!("leaf{leaf}"), hosts), |bencher| {
            bencher.iter(|| color_edges(black_box(&graph), leaf));
        });
    }
    group.finish();
}

fn fabrics(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("route_permutation");
    let pods = |size| Some(Pods { leaves: size, cores: size });
    for (hosts, leaf, pods) in [
        (1_024, 32, None),
        (4_096, 64, None),
        (16_384, 64, None),
        (16_384, 16, pods(16)),
        (16_384, 32, pods(16)),
        (65_536, 128, None),
        (65_536, 32, pods(32)),
    ] {
        let to = shuffled(hosts);
        let shape = FabricShape { leaf, spines: leaf, pods };
        let tiers = if pods.is_some() { "three" } else { "two" };
        group.bench_function(BenchmarkId::new(format!("{tiers}/leaf{leaf}"), hosts), |bencher| {
            bencher.iter(|| route_permutation(black_box(&to), &shape));
        });
    }
    group.finish();
}

/// Hot columns, skewed pairs, or many ties; symmetric.
fn weights(kind: &str, n: usize) -> Vec<i64> {
    let random = shuffled((n * n) as u32);
    let cell = |a: usize, b: usize| {
        let draw = f64::from(random[a.min(b) * n + a.max(b)]) / (n * n) as f64;
        let hot = |vertex: usize| 1.0 / (1.0 + f64::from(random[vertex] % 64));
        match kind {
            "columns" => (1e9 * (hot(a) + hot(b)) * (1.0 + 0.05 * draw)) as i64,
            "pairs" => (-1e9 * (draw + 1e-9).ln()) as i64,
            _ => (4.0 * draw) as i64,
        }
    };
    (0..n * n).map(|index| cell(index / n, index % n)).collect()
}

fn matchings(criterion: &mut Criterion) {
    for kind in ["columns", "pairs", "ties"] {
        let mut group = criterion.benchmark_group(kind);
        group.sample_size(20);
        for n in [16, 64, 256, 1024] {
            let weights = weights(kind, n);
            group.bench_function(BenchmarkId::new("assign", n), |bencher| {
                bencher.iter(|| assign(n, n, black_box(&weights)));
            });
            group.bench_function(BenchmarkId::new("match_general", n), |bencher| {
                bencher.iter(|| match_general(n, black_box(&weights)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, coloring, fabrics, matchings);
criterion_main!(benches);
