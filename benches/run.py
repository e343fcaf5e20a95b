"""Time whole steps: building the task graph, and playing it on each fabric.

Each case runs in a process of its own, so that peak memory is its own. Times are processor
seconds, since a machine that others use too makes the clock meaningless. Equal requests to the
circuit allocator are not shared. Prints the table of benches/RESULTS.md; ``--quick`` leaves out
the largest case.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

#: model, GPUs, micro-batches (None: the plan's own)
CASES = {
    "1k": ("mixtral-8x22b", 1024, 8),
    "32k": ("mixtral-8x7b", 32768, None),
}
FABRICS = ("fat-tree", "oversub", "rail", "topoopt", "mixnet")


def measure(model: str, gpus: int, micro_batches: int | None, fabric: str) -> dict[str, float]:
    """Build one step and play it once."""
    from lightloom.fabric import job_context
    from lightloom.simulate import simulate
    from lightloom.study.compare import ClusterOptions, DemandOptions, PlanOptions, Scenario
    from lightloom.study.compare.job import prepare

    scenario = Scenario(
        model=model,
        gpus=gpus,
        fabrics=(fabric,),
        cluster=ClusterOptions(rate_gbps=400.0),
        plan=PlanOptions(micro_batches=micro_batches),
        demand=DemandOptions(source="mixtral"),
        seeds=1,
        compute_spread=0,
    )
    job = prepare(scenario)
    started = time.process_time()
    workload = job.workload(job.samples()[0], 8)
    built = time.process_time()
    context = job_context([workload.graph])
    network = job.fabrics[0].network(job.cluster, context)
    planned = time.process_time()
    run = simulate(workload.graph, network, share_equal_work=False)
    done = time.process_time()
    return {
        "build_s": built - started,
        "plan_s": planned - built,
        "play_s": done - planned,
        "events": run.events,
        "flows": run.flows,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the 1,024-GPU case")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "FABRIC"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        case, fabric = given.one
        print(json.dumps(measure(*CASES[case], fabric)))
        return
    print("| GPUs | fabric | build [CPU s] | network [CPU s] | play [CPU s] | events | flows | "
          "million events/CPU s | peak memory [MB] |")  # fmt: skip
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for case in list(CASES)[: 1 if given.quick else None]:
        for fabric in FABRICS:
            command = [sys.executable, __file__, "--one", case, fabric]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            print(
                f"| {CASES[case][1]:,} | {fabric} | {found['build_s']:.2f} | "
                f"{found['plan_s']:.2f} | {found['play_s']:.2f} | {found['events']:,} | "
                f"{found['flows']:,} | {found['events'] / found['play_s'] / 1e6:.2f} | "
                f"{found['memory_mb']:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
