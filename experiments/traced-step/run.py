"""Plays a trace of Megatron's Mixtral and Lightloom's own model of it, and says how they differ.

    python experiments/traced-step/run.py mixtral.json.gz

README.md says how the trace is recorded, and what comes out.
"""

import sys
from collections import Counter
from pathlib import Path

from lightloom.report.table import grouped
from lightloom.study.compare import PlanOptions, Scenario, compare
from lightloom.trace.step.times import OperatorTimes

#: the same cluster and samples for both
SHARED = {
    "cluster": {"rate_gbps": 400, "gpu": "h100"},
    "fabrics": ("fat-tree", "mixnet"),
    "seeds": 1, "compute_spread": 0.0, "policies": False, "imbalances": False,
}  # fmt: skip

#: what the traced program does, of the model
MODEL = {
    "model": "mixtral-8x7b", "gpus": 32, "recompute": "none", "memory_check": False,
    "plan": PlanOptions(
        tp=1, pp=2, ep=8, expert_mode="folded", micro_batches=8, micro_batch_size=1, seq_len=4096
    ),
    "demand": {"source": "balanced", "dispatcher": "alltoall"},
    "compute": {"permutation": "unfused"},
}  # fmt: skip


def by_kind(job):
    """Seconds of the operators of each recorded rank, by kind, and of the gaps around them."""
    times = OperatorTimes(job.compute.kernels)
    found = {}
    for rank, items in job.step.items.items():
        sums = found[rank] = Counter()
        for _, one in items.computes:
            whole, alone = times.seconds(one), 0.0
            for operator in one.operators:
                seconds = times.kernel_seconds(operator)
                sums[operator.kind] += seconds
                alone += seconds
            sums["launches"] += whole - alone
            sums["kernels"] += sum(operator.kernels for operator in one.operators)
    return found


def sorted_kinds(comparison):
    """Kinds of operators of all recorded ranks."""
    return sorted({kind for sums in by_kind(comparison.details["job"]).values() for kind in sums})


def main(path):
    """Print the tables of the README."""
    traced = compare(Scenario(workload=Path(path), **SHARED))
    modeled = compare(Scenario(**MODEL, **SHARED))
    print("| | traced | modeled |\n|---|---:|---:|")
    for name in SHARED["fabrics"]:
        own, its = traced.result(name), modeled.result(name)
        print(f"| step on {name} [s] | {own.step_time_s:.3f} | {its.step_time_s:.3f} |")
    one, other = (found.details["workload"].traffic for found in (traced, modeled))
    for purpose in ("ep", "dp", "pp"):
        sizes = (one[purpose].total_bytes, other[purpose].total_bytes)
        print(f"| {purpose.upper()} [GB] | {sizes[0] / 1e9:,.3f} | {sizes[1] / 1e9:,.3f} |")
    own, its = (grouped(found.result("fat-tree").mean_s) for found in (traced, modeled))
    for name in own:
        if own[name] or its[name]:
            print(f"| mean GPU, {name} [s] | {own[name]:.3f} | {its[name]:.3f} |")
    kinds = sorted_kinds(traced)
    print("\n| seconds of operators | " + " | ".join(kinds) + " |")
    print("|---|" + "---:|" * len(kinds))
    for rank, sums in by_kind(traced.details["job"]).items():
        print(f"| rank {rank} | " + " | ".join(f"{sums[kind]:,.3f}" for kind in kinds) + " |")


if __name__ == "__main__":
    main(sys.argv[1])
