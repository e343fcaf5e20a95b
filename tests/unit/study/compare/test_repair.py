"""The sentence that says what recomputation costs a plan that does not fit as it is."""

import pytest

from lightloom import compare
from lightloom.report.remarks import remarks
from lightloom.study.compare import PlanOptions
from lightloom.study.compare.job import prepare
from lightloom.study.compare.repair import layer_seconds, repair_of


def test_a_plan_that_fits_has_nothing_to_say(scenario):
    assert repair_of(prepare(scenario(recompute="full", plan=PlanOptions()))) is None


def test_a_remark_says_that_a_plan_was_repaired_and_what_that_costs(scenario):
    found = compare(scenario(plan=PlanOptions(), seeds=1, policies=False, imbalances=False))
    repair = found.to_json()["memory"]["repair"]
    sentence = repair["sentence"]
    assert sentence in remarks(found)
    level = found.memory["recompute"]
    needed = f"{repair['needed_bytes'] / 1e9:.1f} GB"
    assert sentence.startswith(f"The plan needs {needed} per GPU without recomputation")
    assert f"it runs with {level} recomputation" in sentence
    assert f"compute {100 * repair['longer']:.0f} % longer" in sentence
    assert repair["needed_bytes"] > found.memory["limit_bytes"]


def test_full_recomputation_adds_a_forward_pass_to_every_layer(scenario):
    """A forward pass is a third of a step's products, and a little more of the rest."""
    job = prepare(scenario(recompute="none", memory_check=False, plan=PlanOptions()))
    none, selective, full = (layer_seconds(job, one) for one in ("none", "selective", "full"))
    assert none < selective < full
    assert full / none == pytest.approx(4 / 3, abs=0.05)
