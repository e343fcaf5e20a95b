"""Compare two fabrics for Mixtral 8x7B on 128 GPUs, and say where the time goes."""

from lightloom.report.table import grouped
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare

scenario = Scenario(
    model="mixtral-8x7b",
    gpus=128,
    fabrics=("fat-tree", "mixnet"),
    cluster=ClusterOptions(gpu="a100", rate_gbps=400),
    plan=PlanOptions(micro_batches=4),
    seeds=1,
    seed=0,
)
comparison = compare(scenario)
for result in comparison.results:
    parts = ", ".join(f"{k} {v:.3f}" for k, v in grouped(result.critical_path_s).items())
    print(f"{result.fabric}: {result.step_time_s:.3f} s = {parts} [s]")
    print(f"  {1000 * result.perf_per_usd:.1f} tokens/s per thousand dollars of network")
