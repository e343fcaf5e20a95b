"""The limit of flows above which strategies are not simulated."""

import pytest

from lightloom.models import load_model
from lightloom.parallel import choose_plan
from lightloom.study.compare.budget import flows_of


@pytest.mark.parametrize(
    ("gpus", "ep", "expected"),
    [
        # 4 all-to-alls in each of 32 layers and 4 micro-batches, one group of 8 ranks
        (32, 8, 4 * 32 * 4 * 8 * 7),
        # four groups of 8 ranks in a stage, then eight of 4
        (128, 8, 4 * 32 * 4 * 4 * 8 * 7),
        (128, 4, 4 * 32 * 4 * 8 * 4 * 3),
    ],
)
def test_flows_of_a_step_are_pairs_times_all_to_alls(gpus, ep, expected):
    model = load_model("mixtral-8x7b")
    plan = choose_plan(
        model,
        gpus,
        gpu_memory_bytes=1e12,
        overrides={"tp": 1, "pp": 4, "ep": ep, "micro_batches": 4},
    )
    assert flows_of(model, plan) == expected
