"""A predicted step beside a recorded one: times that add up in one's head, and their sum."""

import dataclasses
import random

import pytest
from tests.kineto_files import Profile

from lightloom.demand import open_demand
from lightloom.models import load_model
from lightloom.parallel import Plan
from lightloom.study.calibration.step_error import (
    TERMS,
    RecordedPart,
    all_to_alls,
    model_of_results,
    step_error,
)
from lightloom.trace.importers.kineto import read_kineto
from lightloom.workload.build import build
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.task_graph import Collective
from lightloom.workload.tokens import demand_shape

PLAN = {"tp": 2, "pp": 2, "ep": 4, "cp": 1}


def recorded(tmp_path, *profiles):
    for number, profile in enumerate(profiles):
        profile.write(tmp_path / f"rank{number}.json")
    return read_kineto(tmp_path)


def test_terms_of_one_step(tmp_path):
    """10 ms of products, 4 ms of all-to-all of which 1 ms is hidden, 2 ms idle, 3 ms of rings."""
    profile = Profile(0, 8)
    profile.kernel("gemm", 0, 10_000)
    profile.nccl(
        "all_to_allv", 9_000, 4_000, 1024, Group_size=4, Process_Group_Ranks="[0, 1, 2, 3]"
    )
    profile.nccl("_allgather_base", 15_000, 3_000, 1024, stream=21)
    found = step_error(
        "rail",
        {"attention": 4e-3, "expert": 4e-3, "ep": 4e-3, "straggler": 1e-3, "tp": 1e-3},
        PLAN,
        recorded(tmp_path, profile),
    )
    terms = {term.term: (term.predicted_s, term.measured_s) for term in found.terms}
    assert terms["all-to-alls"] == pytest.approx((5e-3, 3e-3))
    assert terms["tensor parallelism"] == pytest.approx((1e-3, 3e-3))
    assert terms["computation"] == pytest.approx((8e-3, 12e-3))
    assert found.idle_s == pytest.approx(2e-3)
    assert found.step.predicted_s == pytest.approx(14e-3)
    assert found.step.measured_s == pytest.approx(18e-3)
    assert found.largest.term == "computation"


def test_messages_are_the_pipeline_and_wide_rings_gradients(tmp_path):
    profile = Profile(0, 8)
    profile.kernel("gemm", 0, 1_000)
    profile.nccl(
        "all_reduce", 1_000, 500, 64, Group_size=8, Process_Group_Ranks=str(list(range(8)))
    )
    found = step_error("rail", {"dp": 1e-3, "bubble": 2e-3}, PLAN, recorded(tmp_path, profile))
    terms = {term.term: (term.predicted_s, term.measured_s) for term in found.terms}
    assert terms["gradients, parameters"] == pytest.approx((1e-3, 0.5e-3))
    assert terms["pipeline"] == pytest.approx((2e-3, 0.0))


@pytest.mark.parametrize("seed", range(5))
def test_terms_sum_to_the_step(tmp_path, seed):
    draw = random.Random(seed)
    profiles = []
    for rank in range(2):
        profile, at = Profile(rank, 2), 0
        for step in range(3):
            begin = at
            for _ in range(draw.randrange(2, 6)):
                profile.kernel("gemm", at, draw.randrange(1, 3_000))
                at += draw.randrange(500, 3_500)
                profile.nccl("all_to_allv", at, draw.randrange(1, 2_000), 1024)
                at += draw.randrange(500, 2_500)
            at += 4_000
            profile.step(step, begin, at - begin)
        profiles.append(profile)
    predicted = {name: draw.random() for name in ("expert", "ep", "pp", "dp", "cp", "bubble", "tp")}
    found = step_error("rail", predicted, PLAN, recorded(tmp_path, *profiles))
    assert (found.ranks, found.steps) == (2, 3)
    for side in ("predicted_s", "measured_s"):
        total = sum(getattr(term, side) for term in found.terms)
        assert total == pytest.approx(getattr(found.step, side))
    assert {term.term for term in found.terms} <= set(TERMS)
    assert all(term.measured_s >= -1e-12 for term in found.terms)
    assert 0 < found.idle_s < found.step.measured_s


def test_a_part_of_a_step_stands_beside_as_many_layers(tmp_path):
    """Two layers of one micro-batch, of 16 layers and 4 micro-batches in each of two stages."""
    model = load_model("mixtral-8x7b")
    plan = {**PLAN, "micro_batches": 4}
    profile = Profile(0, 8)
    for number in range(2 * 4):
        profile.kernel("gemm", 4_000 * number, 3_000)
        profile.nccl("all_to_allv", 4_000 * number + 3_000, 1_000, 1024)
    predicted = {
        "attention": 64e-3, "expert": 128e-3, "ep": 192e-3, "head": 1.0, "optimizer": 1.0,
        "bubble": 1.0, "pp": 1.0, "dp": 1.0,
    }  # fmt: skip
    found = step_error("rail", predicted, plan, recorded(tmp_path, profile), model=model)
    assert found.part == RecordedPart(2.0, 64.0)
    terms = {term.term: (term.predicted_s, term.measured_s) for term in found.terms}
    assert terms == {
        "computation": (pytest.approx(6e-3), pytest.approx(24e-3)),
        "all-to-alls": (pytest.approx(6e-3), pytest.approx(8e-3)),
    }
    assert found.step.predicted_s == pytest.approx(12e-3)
    assert found.step.measured_s == pytest.approx(32e-3)
    # nothing is known of steps without their model
    whole = step_error("rail", predicted, plan, recorded(tmp_path, profile))
    assert whole.part is None
    assert whole.step.predicted_s == pytest.approx(sum(predicted.values()))


def test_a_model_is_read_from_results_whatever_else_they_say():
    """Options of another version are no reason to compare nothing."""
    model = load_model("deepseek-v3")
    scenario = {"model": "deepseek-v3", "gpus": 2048, "memory": {"of_another_version": 1}}
    assert model_of_results({"scenario": scenario}) == model
    with_module = model_of_results({"scenario": {**scenario, "plan": {"mtp": 1, "older": 2}}})
    assert with_module.num_moe_layers == model.num_moe_layers + 1
    assert model_of_results({"scenario": {"workload": "trace.json", "gpus": None}}) is None


@pytest.mark.parametrize(
    ("model", "stages", "layers", "is_part"),
    [
        ("mixtral-8x7b", 2, 16, False),
        ("mixtral-8x7b", 2, 11, True),
        # the first stage has three layers without experts, and one with them
        ("deepseek-v3", 15, 1, False),
        ("llama-3-8b", 1, 1, False),
    ],
)
def test_a_stage_with_few_experts_is_no_part(tmp_path, model, stages, layers, is_part):
    profile = Profile(0, 2)
    for number in range(4 * layers):
        profile.nccl("all_to_allv", 2_000 * number, 1_000, 1024)
    plan = {**PLAN, "pp": stages, "micro_batches": 1}
    found = step_error(
        "rail", {"ep": 1.0}, plan, recorded(tmp_path, profile), model=load_model(model)
    )
    assert (found.part is not None) is is_part


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_all_to_alls_of_a_layer_are_those_of_its_task_graph(tmp_path, recompute, chunks):
    """Forward, backward, and forward again where whole layers are recomputed; once a chunk."""
    model = dataclasses.replace(
        load_model("mixtral-8x7b"), moe_layers=(True,) * 2, attention_by_layer=(), ffn_by_layer=()
    )
    overlap = {"overlap_all_to_all": "chunks", "overlap_chunks": chunks} if chunks > 1 else {}
    plan = Plan(gpus=32, tp=2, ep=4, dp=4, micro_batches=3, seq_len=512, **overlap)
    made = build(
        model,
        plan,
        demand=open_demand("balanced", demand_shape(model, plan), seed=1),
        compute=ComputeModel.load("h100", recompute=recompute),
        options=WorkloadOptions(),
    )
    program = made.graph.roles[0].program
    written = int(program.of(Collective.ALL_TO_ALL).sum())
    per_layer = all_to_alls(vars(plan), recompute)
    assert written == per_layer * model.num_moe_layers * plan.micro_batches

    # a profile of one layer and micro-batch of them is known as such
    profile = Profile(0, 8)
    for number in range(per_layer):
        profile.nccl("all_to_allv", 2_000 * number, 1_000, 1024)
    found = step_error(
        "rail", {"ep": 6e-3}, vars(plan), recorded(tmp_path, profile),
        model=model, recompute=recompute,
    )  # fmt: skip
    assert found.part == RecordedPart(1.0, 6.0)
    assert found.step.predicted_s == pytest.approx(1e-3)
