"""What a fabric leaves open is never slower than what may be asked for, on the first sample.

Small random jobs; in each the GPUs of a server are one worker or several, pipeline and data
parallelism cross the network, and experts stay in their server or do not.
"""

import random

import pytest

from lightloom.schedule import ALL_TO_ALL_STRATEGIES
from lightloom.study.compare import ClusterOptions, DemandOptions, PlanOptions, Scenario, compare

SEEDS = range(6)


def job(seed, fabric, **options):
    """A job on four servers of 8 GPUs."""
    draw = random.Random(seed)
    plan = PlanOptions(
        tp=draw.choice([1, 2]), pp=2, ep=draw.choice([2, 4, 8]), expert_mode="folded",
        micro_batches=draw.choice([2, 4]), seq_len=draw.choice([1024, 4096]),
        overlap_all_to_all=draw.choice(["none", "batch"]),
    )  # fmt: skip
    return Scenario(
        model="qwen3-30b-a3b", gpus=32, plan=plan, fabrics=(fabric,), seeds=1, seed=seed,
        cluster=ClusterOptions(gpu="h100", rate_gbps=draw.choice([100, 400])),
        demand=DemandOptions(source=draw.choice(["balanced", 1.2])),
        fabric_options={fabric: options}, compute_spread=0.0, imbalances=False, policies=False,
        memory_check=False,
    )  # fmt: skip


def step_s(seed, fabric, **options):
    return compare(job(seed, fabric, **options)).results[0].step_time_s


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_strategy_is_never_slower_than_any(seed):
    best = step_s(seed, "fat-tree")
    for strategy in ALL_TO_ALL_STRATEGIES:
        assert best <= step_s(seed, "fat-tree", all_to_all=strategy), strategy


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fat_tree_of_all_nics_is_never_slower_than_some_of_them_on_circuits(seed):
    # the first flow that ends sooner may meet another one: shares are max-min fair
    assert step_s(seed, "fat-tree") <= step_s(seed, "mixnet", link_up_s=0) * 1.001


@pytest.mark.parametrize("seed", SEEDS)
def test_split_by_trial_is_never_slower_than_on_or_off(seed):
    found, on, off = (
        step_s(seed, "mixnet", **given) for given in ({}, {"split": True}, {"split": False})
    )
    assert found == min(on, off)
