"""Recomputation and number formats: the user's, else the published, else the least that fits."""

import dataclasses

import pytest

from lightloom.errors import PlanError
from lightloom.hardware import load_gpu
from lightloom.models import load_model
from lightloom.models.model import Model
from lightloom.parallel.memory import RECOMPUTE
from lightloom.study.compare import PlanOptions
from lightloom.study.compare.fit import fitted_plan
from lightloom.study.compare.scenario import ComputeOptions, KeptOptions
from lightloom.workload import WorkloadOptions

MODEL = load_model("mixtral-8x7b")


def published(**fields) -> Model:
    """The model as if its run had been published with these fields."""
    return dataclasses.replace(MODEL, plan=dataclasses.replace(MODEL.plan, **fields))


def fitted(scenario, model=MODEL, gpu="a100", **fields):
    gpu = dataclasses.replace(load_gpu(gpu), **fields)
    return fitted_plan(scenario, model, gpu, WorkloadOptions())


@pytest.mark.parametrize("level", RECOMPUTE)
def test_a_published_run_recomputes_what_it_did_however_much_memory_there_is(scenario, level):
    found = fitted(scenario(), published(recompute=level), hbm_capacity_bytes=1e15)
    assert (found.options.recompute, found.repaired, found.misfit) == (level, None, None)
    # what the user gives stands
    given = fitted(scenario(recompute="none"), published(recompute=level), hbm_capacity_bytes=1e15)
    assert given.options.recompute == "none"


def test_the_least_recomputation_that_fits_is_taken(scenario):
    """With a little less memory than a level needs, the next one is taken."""
    large = scenario(plan=PlanOptions())
    needs = {}
    for level in RECOMPUTE:
        found = fitted(large.model_copy(update={"recompute": level}), hbm_capacity_bytes=1e15)
        needs[level] = max(stage.total_bytes for stage in found.memory)
    reserve = found.options.reserve
    for room in sorted(needs.values()):
        fits = next(level for level in RECOMPUTE if needs[level] <= room)
        repaired = fitted(large, hbm_capacity_bytes=room / (1 - reserve) * (1 + 1e-9))
        assert repaired.options.recompute == fits
        assert (repaired.repaired is None) == (fits == RECOMPUTE[0])
    none = min(needs.values()) / (1 - reserve) * 0.99
    with pytest.raises(PlanError, match="even recomputing all activations does not fit"):
        fitted(large, hbm_capacity_bytes=none)


def test_too_few_gpus_are_refused_with_how_many_do(scenario):
    """The number that is named has a plan, and half of it has none."""
    few = scenario(model="mixtral-8x22b", gpus=8, plan=PlanOptions())
    large = load_model("mixtral-8x22b")
    with pytest.raises(PlanError, match=r"does not fit on 8 GPUs; .*; --gpus \d+ does$") as error:
        fitted(few, large)
    enough = int(str(error.value).split()[-2])
    assert fitted(few.model_copy(update={"gpus": enough}), large).misfit is None
    with pytest.raises(PlanError, match=f"; --gpus {enough} does"):
        fitted(few.model_copy(update={"gpus": enough // 2}), large)


def test_the_remedy_is_another_level_than_the_one_that_does_not_fit(scenario):
    large = scenario(plan=PlanOptions())
    enough = fitted(large).options.recompute
    for level in RECOMPUTE[: RECOMPUTE.index(enough)]:
        with pytest.raises(PlanError, match=f"; --recompute {enough} fits"):
            fitted(large.model_copy(update={"recompute": level}))


@pytest.mark.parametrize(
    ("gpu", "given", "expected"),
    [
        ("h100", None, "fp8"),
        ("h100", "bf16", "bf16"),
        # which does not compute in it
        ("a100", None, "bf16"),
    ],
)
def test_the_users_format_beats_the_published_one(scenario, gpu, given, expected):
    own = scenario(compute=ComputeOptions(precision=given))
    assert fitted(own, published(precision="fp8"), gpu).options.precision == expected


def test_published_caches_go_with_published_products(scenario):
    run = published(precision="fp8", activation_cache="fp8")
    assert fitted(scenario(), run, "h100").options.activation_cache == "fp8"
    # which the GPU does not compute
    assert fitted(scenario(), run, "a100").options.activation_cache == "framework"
    own = scenario(memory=KeptOptions(activation_cache="framework", logit_bytes=2.0))
    assert fitted(own, run, "h100").options.activation_cache == "framework"
    assert fitted(own, run, "h100").options.logit_bytes == 2


def test_moments_have_the_users_format_else_the_published_one(scenario):
    run = published(state_precision="bf16")
    assert fitted(scenario()).options.state_precision == "fp32"
    assert fitted(scenario(), run).options.state_precision == "bf16"
    own = scenario(compute=ComputeOptions(state_precision="fp32"))
    assert fitted(own, run).options.state_precision == "fp32"
