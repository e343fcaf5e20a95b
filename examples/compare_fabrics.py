"""Compare two fabrics for Mixtral 8x7B on 128 GPUs, under three loads of the experts."""

import lightloom

comparison = lightloom.compare(
    "mixtral-8x7b",
    gpus=128,
    rate="400 Gb/s",
    fabrics=["fat-tree", "mixnet"],
    plan={"micro_batches": 4},
    seeds=1,
)
for result in comparison.results:
    print(f"{result.fabric}: {result.step_time_s:.3f} s, MFU {result.mfu:.1%}")
    for load in result.loads:
        print(f"  {load.imbalance} load: {load.step_time_s:.3f} s")
    print(f"  {1000 * result.perf_per_usd:.1f} tokens/s per thousand dollars of network")
