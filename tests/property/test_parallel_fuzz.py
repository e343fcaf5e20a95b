"""Whatever degrees are asked for, the answer is a plan that can be built or one line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload_fakes import FakeCompute, balanced, toy_model

from lightloom.errors import PlanError
from lightloom.parallel import Plan, check_plan, choose_plan
from lightloom.workload import build

DEGREE = st.one_of(st.none(), st.integers(-1, 12), st.sampled_from([16, 24, 64]))
ODD = st.one_of(DEGREE, st.floats(), st.booleans(), st.text(max_size=3))
NAMES = ("tp", "pp", "dp", "ep", "etp", "cp", "vpp", "micro_batches", "micro_batch_size")
MODELS = st.sampled_from(
    [
        toy_model(),
        toy_model(moe_layers=(False,) * 5, num_experts=0, experts_per_token=0, expert_ffn_size=0),
        toy_model(moe_layers=(False, True) * 4, num_experts=12, tied_embeddings=True),
    ]
)


def attempt(make):
    """What ``make`` returns, or nothing if it refuses in one line."""
    refusal = ""
    try:
        return make()
    except PlanError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert 10 < len(refusal) < 500, refusal
    return None


@given(
    MODELS,
    st.integers(1, 200),
    st.dictionaries(st.sampled_from(NAMES), DEGREE, max_size=5),
    st.sampled_from([1, 2, 4, 8]),
)
@settings(max_examples=200, deadline=None)
def test_a_chosen_plan_can_be_built(model, gpus, overrides, gpus_per_server):
    plan = attempt(
        lambda: choose_plan(
            model,
            gpus,
            gpu_memory_bytes=80e9,
            overrides=overrides,
            gpus_per_server=gpus_per_server,
        )
    )
    if plan is None:
        return
    assert plan.gpus == gpus
    for name, value in overrides.items():
        assert value is None or getattr(plan, name) == value
    if plan.gpus * plan.micro_batches < 2000:
        build(
            model,
            plan,
            demand=balanced(model, plan),
            compute=FakeCompute(),
            gpus_per_server=gpus_per_server,
        )


@given(st.fixed_dictionaries({"gpus": ODD}, optional=dict.fromkeys(NAMES, ODD)))
@settings(max_examples=300, deadline=None)
def test_a_plan_is_made_or_refused_in_one_line(fields):
    plan = attempt(lambda: Plan(**fields))
    if plan is not None:
        attempt(lambda: check_plan(plan, toy_model()))


@given(st.text(max_size=20), st.lists(st.one_of(st.integers(-2, 9), st.text(max_size=2))))
def test_orders_and_layouts_are_read_or_refused(order, layout):
    with pytest.raises(PlanError):
        Plan(gpus=4, pp=4, order=order)
    layers = attempt(lambda: Plan(gpus=4, pp=4, pp_layout=tuple(layout)).layers(8))
    assert layers is None or sum(layout) in (0, 8)
