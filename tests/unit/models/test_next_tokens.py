"""Modules of multi-token prediction: counted by hand, and where they are in a step."""

import dataclasses

import pytest

from lightloom.errors import ModelError
from lightloom.models import load_model
from lightloom.models.attention_work import training_flops_per_token
from lightloom.models.next_tokens import with_next_tokens
from lightloom.models.parameters import parameter_parts, total_parameters
from lightloom.parallel import Plan, memory_per_stage
from lightloom.parallel.memory import stage_parameters
from lightloom.study.compare import Scenario
from lightloom.study.compare.job import model_of
from lightloom.workload.compute import ComputeModel

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
