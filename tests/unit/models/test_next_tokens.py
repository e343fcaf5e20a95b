"""Modules of multi-token prediction: counted by hand, and where they are in a step."""

import dataclasses
import random

import pytest
from tests.workload_fakes import toy_model

from lightloom.demand import open_demand
from lightloom.errors import ModelError, PlanError
from lightloom.hardware import load_gpu
from lightloom.models import load_model
from lightloom.models.attention_work import training_flops_per_token
from lightloom.models.next_tokens import with_next_tokens
from lightloom.models.parameters import parameter_parts, total_parameters
from lightloom.parallel import MemoryOptions, Plan, memory_per_stage
from lightloom.parallel.memory import stage_parameters
from lightloom.study.compare import Scenario
from lightloom.study.compare.fills import Fills, Steps
from lightloom.study.compare.fit import fitted_plan
from lightloom.study.compare.job import model_of, prepare
from lightloom.study.compare.plan_candidates import Candidates
from lightloom.study.compare.plan_search import PLAIN
from lightloom.study.compare.racks import with_servers
from lightloom.workload.build import build
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.tokens import demand_shape

MODEL = load_model("deepseek-v3")


def test_a_module_has_a_layer_a_projection_and_three_norms():
    longer = with_next_tokens(MODEL, 1)
    assert (longer.num_layers, longer.num_moe_layers, longer.mtp_layers) == (62, 59, 1)
    hidden = MODEL.hidden_size
    layer = total_parameters(dataclasses.replace(longer, mtp_layers=0)) - total_parameters(MODEL)
    more = total_parameters(longer) - total_parameters(MODEL)
    assert more - layer == 2 * hidden**2 + 3 * hidden
    counts = {part.name: part.count for part in parameter_parts(longer)}
    assert counts["multi-token prediction"] == 1
    assert with_next_tokens(MODEL, None) is MODEL


def test_flops_are_those_that_the_published_runs_count():
    """Megatron-Bridge: 250 GFLOPs a token of DeepSeek-V3 without, and 260 with its module."""
    found = [training_flops_per_token(with_next_tokens(MODEL, n), 4096) / 1e9 for n in (None, 1)]
    assert found == pytest.approx([250, 260], rel=0.004)
    hidden, layers = MODEL.hidden_size, MODEL.num_layers
    longer = with_next_tokens(MODEL, 1)
    plain = dataclasses.replace(longer, mtp_layers=0)
    layer = training_flops_per_token(plain, 4096) / 1e9 - found[0]
    again = 6 * (MODEL.vocab_size * hidden + 2 * hidden**2 + 3 * hidden) / 1e9
    assert found[1] - found[0] == pytest.approx(layer + again, rel=1e-9)
    assert layer < 1.5 * found[0] / layers


def test_the_last_stage_has_it():
    plan = Plan(gpus=64, pp=4, ep=16, dp=1, zero1=True)
    longer = with_next_tokens(MODEL, 1)
    before, after = ([stage_parameters(model, plan, stage) for stage in range(4)]
                     for model in (MODEL, longer))  # fmt: skip
    # 61 layers are 15, 16, 15, 15 by balance, 62 are 15, 16, 16, 15
    assert after[:2] == before[:2]
    table = MODEL.vocab_size * MODEL.hidden_size
    module = 2 * MODEL.hidden_size**2 + 3 * MODEL.hidden_size
    assert after[3].dense - before[3].dense == pytest.approx(table + module)
    logits = [memory_per_stage(model, plan)[-1].logits_bytes for model in (MODEL, longer)]
    assert logits[1] == 2 * logits[0]


LAYERS = {"pp": 4, "pp_layout": (16, 16, 16, 14), "ep": 16, "micro_batches": 8}


@pytest.mark.parametrize("schedule", ["1f1b", "dualpipe"])
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_what_a_module_keeps_beside_its_layer(recompute, precision, schedule):
    """Two states to be joined, their norms, joined, and the result with its norm, by hand."""
    plan = Plan(gpus=64, dp=1, schedule=schedule, **LAYERS)
    longer = with_next_tokens(MODEL, 1)
    plain = dataclasses.replace(longer, mtp_layers=0)
    options = MemoryOptions(recompute=recompute, precision=precision)
    sizes = [
        [stage.activations_bytes for stage in memory_per_stage(model, plan, options)]
        for model in (plain, longer)
    ]
    more = [after - before for before, after in zip(*sizes, strict=True)]
    element = 2 if precision == "bf16" else 1 + 1 / 32
    # the two states are kept once a micro-batch, the others are made again for one at a time
    module = 4096 * 7168 * (2 * 2 + 2 * element + 2 * 2)
    if schedule == "1f1b":
        assert more[:3] == [0, 0, 0]
        assert more[3] == pytest.approx(module)
    else:
        # both ends hold the last stage, and alike many micro-batches of it
        assert more[1:3] == [0, 0]
        assert more[0] == more[3] >= 0.99 * module


def test_tp_and_cp_ranks_share_what_a_module_keeps():
    longer = with_next_tokens(MODEL, 1)
    plain = dataclasses.replace(longer, mtp_layers=0)

    def module(**degrees):
        plan = Plan(dp=1, **{**LAYERS, **degrees})
        before, after = (memory_per_stage(model, plan)[-1] for model in (plain, longer))
        return after.activations_bytes - before.activations_bytes

    whole = module(gpus=64)
    assert module(gpus=256, tp=4) == pytest.approx(whole / 4)
    assert module(gpus=256, cp=4) == pytest.approx(whole / 4)
    assert module(gpus=256, tp=4, sequence_parallel=False) == pytest.approx(whole)
    assert module(gpus=64, micro_batch_size=2) == pytest.approx(2 * whole)


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_tp_collectives_of_a_module(sequence_parallel, recompute):
    """Bytes of its task graph, and of a micro-batch as counted by hand, in hidden states."""
    model = dataclasses.replace(MODEL, moe_layers=(False,) * 3, ffn_by_layer=())
    longer = dataclasses.replace(model, mtp_layers=1)
    plan = Plan(gpus=8, tp=4, dp=2, micro_batches=2, seq_len=512,
                sequence_parallel=sequence_parallel)  # fmt: skip
    compute = ComputeModel.load("h100", recompute=recompute)
    sent = []
    for each in (model, longer):
        made = build(each, plan, demand=None, compute=compute, options=WorkloadOptions())
        assert made.traffic["tp"].total_bytes == pytest.approx(made.expected_bytes["tp"], rel=1e-6)
        sent.append(made.traffic["tp"].total_bytes)
    state = 512 * 7168 * 2 * 3 / 4
    moved = {
        (True, "none"): 5 + 8, (True, "full"): 5 + 8 + 3,
        (False, "none"): 3 + 6, (False, "full"): 3 + 6 + 1,
    }  # fmt: skip
    hand = moved[sequence_parallel, recompute] * state * plan.micro_batches * plan.gpus
    assert sent[1] - sent[0] == pytest.approx(hand, rel=1e-6)


def test_random_plans_send_what_modules_imply():
    """``build`` itself asserts that what is sent is what the model implies."""
    draw = random.Random(5)
    tried = 0
    while tried < 25:
        model = toy_model(
            hidden_size=1024, moe_layers=tuple(draw.random() < 0.5 for _ in range(8)),
            num_experts=8, experts_per_token=2, expert_ffn_size=96, mtp_layers=draw.choice([1, 2]),
        )  # fmt: skip
        degrees = {name: draw.choice([1, 2, 4]) for name in ("tp", "pp", "cp", "ep")}
        gpus = 2 * degrees["tp"] * degrees["pp"] * degrees["cp"] * degrees["ep"]
        try:
            plan = Plan(
                gpus=gpus, dp=2, micro_batches=8, seq_len=128, **degrees,
                sequence_parallel=draw.random() < 0.5, zero1=draw.random() < 0.5,
                schedule=draw.choice(["1f1b", "zero-bubble", "dualpipe"]),
            )  # fmt: skip
        except PlanError:
            continue
        compute = ComputeModel.load("h100", recompute=draw.choice(["none", "full"]))
        demand = open_demand("balanced", demand_shape(model, plan), seed=1)
        made = build(model, plan, demand=demand, compute=compute, options=WorkloadOptions())
        assert (made.traffic["tp"].total_bytes > 0) == (plan.tp > 1)
        tried += 1


def test_steps_with_a_module_are_estimated_as_well():
    """Its collectives are those of a simulation: the error is that of a model without."""
    scenario = Scenario(
        model="deepseek-v3", gpus=64, memory_check=False, fabrics=("fat-tree",), seeds=1,
        cluster={"rate_gbps": 400.0, "gpu": "h100"}, demand={"source": "balanced"},
        compute_spread=0.0,
        plan={"source": "search", "tp": 4, "pp": 2, "ep": 8, "micro_batches": 4, "mtp": 1,
              "pp_layout": [32, 30], "etp": 1, "expert_mode": "folded", "strategy": "O1",
              "schedule": "1f1b"},
    )  # fmt: skip
    error = {}
    for modules in (None, 1):
        layout = (32, 30) if modules else (32, 29)
        plan = scenario.plan.model_copy(update={"mtp": modules, "pp_layout": layout})
        model = model_of(scenario.model_copy(update={"plan": plan}))
        given = with_servers(scenario.model_copy(update={"plan": plan}), model)
        known = Candidates(given, model)
        fitted = fitted_plan(given, model, load_gpu("h100"), known.options)
        estimate = known.estimates(PLAIN.adapt(known.machines)).of(fitted).step_time_s
        step_s = Steps(Fills((prepare(given, fitted),)), lambda *_: True).step_time_s(PLAIN)
        error[modules] = estimate / step_s - 1
    assert abs(error[1]) < 0.05
    assert error[1] == pytest.approx(error[None], abs=0.01)


def test_its_head_takes_twice_as_long():
    compute = ComputeModel.load("h100")
    longer = with_next_tokens(MODEL, 1)
    for backward in (False, True):
        times = [compute.head(model, 4096, 1, backward) for model in (MODEL, longer)]
        assert 2 * times[0] < times[1] < 2.6 * times[0]


def test_a_plan_asks_for_it_and_a_model_without_is_refused():
    def model(name="deepseek-v3", **plan):
        cluster = {"rate_gbps": 400.0}
        return model_of(Scenario(model=name, gpus=64, cluster=cluster, plan=plan))

    assert model().mtp_layers == 0
    assert model(mtp=1).mtp_layers == 1
    for name, count in (("deepseek-v3", 2), ("mixtral-8x7b", 1)):
        with pytest.raises(ModelError, match=f"plan.mtp = {count}: {name} has .* modules? of"):
            model(name, mtp=count)
