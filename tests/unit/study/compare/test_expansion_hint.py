"""Where no plan fits a long sequence, an expansion of the cluster is named that does."""

import re

import pytest

from lightloom.errors import PlanError
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario
from lightloom.study.compare.fills import Fills, Steps
from lightloom.study.compare.job import prepare
from lightloom.study.compare.plan_search import PLAIN, planned_job

NAMES = {"ep-mode": "expert_mode"}


def scenario(model="mixtral-8x7b", gpus=128, **plan):
    cluster = ClusterOptions(rate_gbps=400, gpu="h100")
    return Scenario(
        model=model, gpus=gpus, fabrics=("fat-tree",), cluster=cluster, plan=PlanOptions(**plan),
        seeds=1, compute_spread=0.0,
    )  # fmt: skip


def proposed(text):
    """The GPUs and the plan that a message names."""
    flags = dict(re.findall(r"--([a-z-]+) ([a-z\d]+)", text.partition("expansion fits: ")[2]))
    values = {
        NAMES.get(name, name.replace("-", "_")): int(value) if value.isdigit() else value
        for name, value in flags.items()
    }
    return values.pop("gpus", None), values


@pytest.mark.parametrize(
    ("gpus", "plan"), [(128, {"micro_batches": 8}), (16, {"tp": 8, "pp": 1, "ep": 2})]
)
def test_what_is_proposed_fits_and_takes_as_long(gpus, plan):
    length = 262_144
    with pytest.raises(PlanError, match="expansion fits: ") as caught:
        planned_job(scenario(gpus=gpus, seq_len=length, **plan))
    text = str(caught.value)
    assert "\n" not in text
    more, values = proposed(text)
    assert values["cp"] > 1
    made = prepare(scenario(gpus=more or gpus, **{**plan, **values, "seq_len": length}))
    assert made.fitted.misfit is None
    said_s = float(re.search(r"about ([\d.,]+) s for a step", text).group(1).replace(",", ""))
    step_s = Steps(Fills.of(made, made.plan.pp), lambda *_: True).step_time_s(PLAIN)
    assert said_s == pytest.approx(step_s, rel=0.06)
    way = "vertical" if values.get("ep-mode", values.get("expert_mode")) == "folded" else "horiz"
    assert f"a {way}" in text


@pytest.mark.parametrize("plan", [{"seq_len": 4096, "micro_batch_size": 64}, {"cp": 2}])
def test_usual_lengths_and_given_cp_are_not_expanded(plan):
    given = {"seq_len": 262_144, "tp": 2, "pp": 1, "ep": 1, **plan}
    with pytest.raises(PlanError) as caught:
        planned_job(scenario(gpus=16, **given))
    assert "expansion" not in str(caught.value)
