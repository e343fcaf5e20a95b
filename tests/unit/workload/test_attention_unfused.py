"""Attention that is not fused: all scores are computed, moved and, unless made again, kept."""

import dataclasses
import random

import pytest

from lightloom.errors import InputError
from lightloom.hardware import load_gpu
from lightloom.models import load_model
from lightloom.parallel import MemoryOptions, Plan, memory_per_stage
from lightloom.study.compare import Scenario
from lightloom.study.compare.fit import memory_options
from lightloom.study.compare.kernels import compute_model
from lightloom.study.compare.memory import job_memory
from lightloom.study.compare.plan_candidates import Candidates
from lightloom.workload import build
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions

MODEL = load_model("deepseek-v3")
SEQ = 4096


def kernels(gpu, attention="fastest"):
    return ComputeModel.load(gpu, attention_kernels=attention).kernels


@pytest.mark.parametrize("backward", [False, True])
def test_products_and_bytes_are_those_of_all_scores(backward):
    """Two products of all pairs, or four; scores are read and written between them."""
    of, heads, dims = kernels("b200", "unfused"), 64, (192, 128)
    rows = SEQ * heads
    if backward:
        products = [(rows, 128, SEQ), (rows, SEQ, 128), (rows, SEQ, 192), (rows, SEQ, 192)]
        moved = [(rows * SEQ, 3)]
    else:
        products = [(rows, 192, SEQ), (rows, SEQ, 128)]
        moved = [(rows * SEQ, 2), (rows * 128, 2)]
    by_hand = sum(of.matmul(*product).kernel_s for product in products)
    by_hand += sum(of.elementwise(*each).kernel_s for each in moved)
    found = of.unfused_attention(SEQ, heads, dims, 1, backward)
    assert found.kernel_s == pytest.approx(by_hand, rel=0.01)
    assert found.kernels >= len(products) + len(moved)


@pytest.mark.parametrize("gpu", ["h100", "b200", "gb200"])
def test_it_never_beats_fused_attention(gpu):
    draw, fused, apart = random.Random(1), kernels(gpu), kernels(gpu, "unfused")
    for _ in range(100):
        seq_len, heads = 2 ** draw.randrange(12, 16), draw.choice([16, 32, 128])
        dims = draw.choice([(64, 64), (128, 128), (192, 128)])
        for backward in (False, True):
            of = (seq_len, heads, dims, draw.choice([1, 2, 4]), backward)
            assert fused.attention(*of).kernel_s < apart.unfused_attention(*of).kernel_s


def test_four_times_the_pairs_take_four_times_as_long():
    of = kernels("h100", "unfused")
    short, long = (of.unfused_attention(s, 32, (128, 128), 1, True).kernel_s for s in (8192, 16384))
    assert long == pytest.approx(4 * short, rel=0.02)


@pytest.mark.parametrize(("recompute", "kept"), [("none", 1), ("selective", 1), ("attention", 0)])
def test_scores_are_kept_unless_they_are_computed_again(recompute, kept):
    """``s^2 a / t`` in BF16 for each layer in flight (Korthikanti et al., arXiv 2205.05198)."""
    plan = Plan(gpus=64, tp=2, pp=4, pp_layout=(15, 16, 15, 15), ep=8, dp=1, micro_batches=1)
    sizes = [
        memory_per_stage(MODEL, plan, MemoryOptions(recompute=recompute, keeps_scores=keeps))
        for keeps in (False, True)
    ]
    layer = SEQ**2 * MODEL.attention.num_heads / 2 * 2
    # those of a layer that is computed again are there while it is
    again = recompute == "attention"
    for stage, layers in enumerate((15, 16, 15, 15)):
        more = sizes[1][stage].activations_bytes - sizes[0][stage].activations_bytes
        assert more == pytest.approx((kept * layers + again) * layer)


def test_a_scenario_says_it_once_for_time_and_memory():
    def scenario(model, kernels):
        return Scenario(
            model=model, gpus=64, cluster={"rate_gbps": 400.0, "gpu": "gb200"},
            compute={"attention_kernels": kernels}, recompute="none", memory_check=False,
            plan={"tp": 2, "pp": 4, "ep": 8, "etp": 1, "expert_mode": "folded"},
        )  # fmt: skip

    fused, apart = (job_memory(scenario("deepseek-v3", k)).fitted for k in ("fastest", "unfused"))
    assert apart.options.keeps_scores
    assert not fused.options.keeps_scores
    assert apart.memory[0].activations_bytes > fused.memory[0].activations_bytes
    sparse = dataclasses.replace(MODEL.attention, index_top_k=2048)
    model = dataclasses.replace(MODEL, name="sparse", attention=sparse)
    given, refused = scenario("deepseek-v3", "unfused"), "sparse has attention that is not of all"
    with pytest.raises(InputError, match=refused):
        compute_model(given, model, WorkloadOptions(), MemoryOptions())
    with pytest.raises(InputError, match=refused):
        memory_options(given, model, load_gpu("gb200"), WorkloadOptions())
    shared = given.model_copy(update={"plan": given.plan.model_copy(update={"cp": 2})})
    with pytest.raises(InputError, match=r"unfused: frameworks share no sequence .* plan.cp = 2"):
        memory_options(shared, MODEL, load_gpu("gb200"), WorkloadOptions())


def test_a_workload_keeps_what_its_kernels_compute():
    model, plan = load_model("llama-3-8b"), Plan(gpus=8, tp=2, dp=4, micro_batches=1)
    fused, apart = (
        build(model, plan, demand=None, compute=ComputeModel.load("h200", **kernels))
        for kernels in ({}, {"attention_kernels": "unfused"})
    )
    more = apart.memory[0].activations_bytes - fused.memory[0].activations_bytes
    scores = plan.seq_len**2 * model.attention.num_heads / plan.tp * 2
    assert more == pytest.approx(plan.micro_batch_size * model.num_layers * scores)


def test_a_search_shares_no_sequence():
    def degrees(kernels):
        scenario = Scenario(
            model="llama-3-8b", gpus=8, cluster={"rate_gbps": 400.0, "gpu": "h200"},
            plan={"source": "search", "seq_len": 65536, "global_batch_size": 8},
            compute={"attention_kernels": kernels}, memory_check=False,
        )  # fmt: skip
        return {plan.cp for plan in Candidates(scenario, load_model("llama-3-8b")).plans()}

    assert max(degrees("fastest")) > 1
    assert degrees("unfused") == {1}
