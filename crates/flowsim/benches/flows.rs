//! Time per all-to-all round of the workloads, from an idle network to the last flow.

mod workloads;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use workloads::{WORKLOADS, run};

fn rounds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flows");
    group.sample_size(10);
    for workload in &WORKLOADS {
        let rounds = if workload.groups > 100 || workload.servers > 32 { 1 } else { 10 };
        group.throughput(Throughput::Elements(run(workload, rounds).flows));
        group.bench_function(BenchmarkId::from_parameter(workload.name), |bencher| {
            bencher.iter(|| run(workload, rounds));
        });
    }
    group.finish();
}

criterion_group!(benches, rounds);
criterion_main!(benches);
