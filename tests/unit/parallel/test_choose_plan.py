"""The published plan scaled in DP, the rule, and what happens when neither is possible."""

import dataclasses
import itertools

import pytest

from lightloom.errors import PlanError
from lightloom.models import load_model
from lightloom.models.model import Attention, Model, PublishedPlan
from lightloom.parallel import (
    MemoryOptions,
    Plan,
    check_plan,
    choose_plan,
    does_not_fit,
    memory_per_stage,
    stated_plan,
)

GB80 = 80e9
BIG = Model(
    name="big",
    hidden_size=6144,
    vocab_size=32768,
    attention=Attention("gqa", num_heads=48, num_kv_heads=8, head_dim=128),
    moe_layers=(True,) * 56,
    num_experts=8,
    experts_per_token=2,
    expert_ffn_size=16384,
    plan=PublishedPlan(8, 8, 8, 4096, 8, "a paper"),
)
UNPUBLISHED = dataclasses.replace(BIG, plan=None)
SMALL = dataclasses.replace(
    UNPUBLISHED, name="small", hidden_size=1024, expert_ffn_size=1024, moe_layers=(True,) * 8
)
SIXTY = dataclasses.replace(SMALL, name="sixty", num_experts=60)


def degrees(plan):
    return plan.tp, plan.pp, plan.ep, plan.dp


def test_the_published_plan_is_scaled_in_dp():
    plan = choose_plan(BIG, 1024, gpu_memory_bytes=GB80)
    assert degrees(plan) == (8, 8, 8, 2)
    assert (plan.micro_batch_size, plan.seq_len, plan.micro_batches) == (8, 4096, 32)
    assert plan.provenance == ("published: a paper; dp scaled to 2",)
    assert choose_plan(BIG, 4096, gpu_memory_bytes=GB80).dp == 8


def test_context_parallelism_takes_gpus_of_the_replicas():
    plan = choose_plan(BIG, 2048, gpu_memory_bytes=GB80, overrides={"cp": 2})
    assert (plan.cp, *degrees(plan)) == (2, 8, 8, 8, 2)
    folded = {"cp": 2, "expert_mode": "folded", "etp": 8}
    # experts have no use for CP ranks, which are as many replicas of them
    assert choose_plan(BIG, 2048, gpu_memory_bytes=GB80, overrides=folded).dp == 4


def test_the_closest_of_plans_that_do_not_fit_needs_least():
    overrides = {"tp": 1, "ep": 8, "zero1": True}
    needed = {}
    for pp in (1, 2, 4, 8):
        plan = Plan(gpus=64, pp=pp, dp=8 // pp, seq_len=4096, **overrides)
        needed[pp] = max(stage.total_bytes for stage in memory_per_stage(SMALL, plan))
    closest = min(needed, key=needed.get)
    with pytest.raises(PlanError, match=f"the closest plan is TP1 EP8 PP{closest}"):
        choose_plan(SMALL, 64, gpu_memory_bytes=1, overrides={"tp": 1, "ep": 8})


def test_what_the_user_gives_overrides_the_publication():
    overrides = {"pp": 4, "micro_batch_size": 1, "vpp": None}
    plan = choose_plan(BIG, 1024, gpu_memory_bytes=GB80, overrides=overrides)
    assert degrees(plan) == (8, 4, 8, 4)
    assert plan.provenance == (
        "published: a paper; dp scaled to 4",
        "given: micro-batch-size 1, pp 4",
    )


def test_what_is_given_is_said_as_it_is_written():
    overrides = {"pp": 4, "zero1": False, "pp_layout": (14, 14, 14, 14), "overlap_gradients": True}
    plan = choose_plan(BIG, 1024, gpu_memory_bytes=GB80, overrides=overrides)
    assert plan.provenance[1] == (
        "given: overlap-gradients on, pp 4, pp-layout 14,14,14,14, zero1 off"
    )


def test_a_full_set_of_degrees_needs_no_rule():
    overrides = {"tp": 2, "pp": 2, "ep": 4, "dp": 4}
    plan = choose_plan(UNPUBLISHED, 64, gpu_memory_bytes=GB80, overrides=overrides)
    assert degrees(plan) == (2, 2, 4, 4)
    assert plan.provenance[0] == "dp as given"


def test_an_expert_tp_of_its_own_folds_the_experts():
    plan = choose_plan(BIG, 1024, gpu_memory_bytes=GB80, overrides={"etp": 1})
    assert plan.expert_mode == "folded"
    assert (plan.etp, plan.ep, plan.dp, plan.dense_dp) == (1, 8, 16, 16)
    published = dataclasses.replace(BIG, plan=PublishedPlan(8, 8, 8, 4096, 8, "a paper", etp=2))
    plan = choose_plan(published, 1024, gpu_memory_bytes=GB80)
    assert (plan.expert_mode, plan.etp, plan.dp) == ("folded", 2, 8)


def test_the_rule_takes_over_where_the_published_plan_is_impossible():
    plan = choose_plan(BIG, 64, gpu_memory_bytes=GB80)
    assert degrees(plan) == (8, 1, 8, 1)
    assert plan.provenance == (
        "rule: EP first, then the least TP x PP that fits 80 GB",
        "not the published plan (a paper): tp x cp x ep x dp x pp = 8 x 1 x 8 x 1 x 8 = 512, but "
        "there are 64 GPUs; gpus must be a multiple of 512; use 512 GPUs or change a degree, or "
        "let experts share the GPUs of TP and CP: --ep-mode folded --etp 1",
    )


@pytest.mark.parametrize(
    ("gpus", "fixed"),
    [
        # Megatron-LM's mixtral_8x7b_tp1pp4ep8vpp8_release
        (32, {"tp": 2, "pp": 4, "ep": 8}),
        (8, {"tp": 1, "pp": 1, "cp": 2, "ep": 8}),
        (64, {"tp": 2, "pp": 8, "cp": 2, "ep": 8}),
    ],
)
def test_experts_share_the_gpus_of_tp_where_nothing_else_fits(gpus, fixed):
    plan = choose_plan(SMALL, gpus, gpu_memory_bytes=GB80, overrides=fixed)
    assert (plan.expert_mode, plan.etp, plan.gpus) == ("folded", 1, gpus)
    said = choose_plan(
        SMALL, gpus, gpu_memory_bytes=GB80, overrides={**fixed, "expert_mode": "folded", "etp": 1}
    )
    assert plan == said
    assert "experts share the GPUs of TP and CP, as --ep-mode folded --etp 1" in plan.provenance


def test_an_axis_of_its_own_stays_where_it_fits_or_is_requested():
    fixed = {"tp": 2, "pp": 2, "ep": 8}
    assert choose_plan(SMALL, 32, gpu_memory_bytes=GB80, overrides=fixed).expert_mode == "axis"
    with pytest.raises(PlanError, match=r"use 32 GPUs or .*--ep-mode folded --etp 1$"):
        choose_plan(SMALL, 16, gpu_memory_bytes=GB80, overrides={**fixed, "expert_mode": "axis"})


def test_sequences_are_no_longer_than_the_model_has_positions_unless_given():
    short = dataclasses.replace(SMALL, max_positions=2048)
    assert choose_plan(short, 8, gpu_memory_bytes=GB80).seq_len == 2048
    degrees = {"tp": 1, "pp": 1, "ep": 8}
    assert choose_plan(short, 8, gpu_memory_bytes=GB80, overrides=degrees).seq_len == 2048
    overrides = {"seq_len": 8192}
    assert choose_plan(short, 8, gpu_memory_bytes=GB80, overrides=overrides).seq_len == 8192
    learned = dataclasses.replace(short, learned_positions=2048)
    with pytest.raises(PlanError, match="use at most seq-len = 2048"):
        choose_plan(learned, 8, gpu_memory_bytes=GB80, overrides=overrides)


def test_the_rule_puts_ep_before_tp_and_pp():
    assert degrees(choose_plan(SMALL, 64, gpu_memory_bytes=GB80)) == (1, 1, 8, 8)
    # 60 experts: 4 is the largest EP that both divides them and aligns with servers of 8
    assert degrees(choose_plan(SIXTY, 64, gpu_memory_bytes=GB80)) == (1, 1, 4, 16)


@pytest.mark.parametrize("gpus", [64, 96, 128, 256, 1024])
@pytest.mark.parametrize("gpu_memory_bytes", [80e9, 141e9, 192e9])
def test_what_the_rule_returns_fits_and_nothing_smaller_does(gpus, gpu_memory_bytes):
    plan = choose_plan(UNPUBLISHED, gpus, gpu_memory_bytes=gpu_memory_bytes)
    check_plan(plan, UNPUBLISHED)
    assert plan.zero1
    reserve = MemoryOptions().reserve
    assert does_not_fit(memory_per_stage(UNPUBLISHED, plan), gpu_memory_bytes, reserve) is None
    smaller = [
        other
        for tp, pp in itertools.product((1, 2, 4, 8), (1, 2, 4, 7, 8))
        if tp * pp < plan.tp * plan.pp and (other := possible(gpus, tp, pp, 8))
    ]
    for other in smaller:
        assert does_not_fit(memory_per_stage(UNPUBLISHED, other), gpu_memory_bytes, reserve)


def possible(gpus, tp, pp, ep):
    """The plan of these degrees if it passes every check."""
    try:
        plan = Plan(gpus=gpus, tp=tp, pp=pp, ep=ep, dp=gpus // (tp * pp * ep), zero1=True)
        check_plan(plan, UNPUBLISHED)
    except PlanError:
        return None
    return plan


def test_recomputation_lets_a_smaller_plan_fit():
    overrides = {"micro_batch_size": 4}
    plain, full = (
        choose_plan(
            UNPUBLISHED,
            1024,
            gpu_memory_bytes=GB80,
            overrides=overrides,
            memory=MemoryOptions(recompute=what),
        )
        for what in ("none", "full")
    )
    assert full.tp * full.pp < plain.tp * plain.pp


@pytest.mark.parametrize(
    ("model", "gpus", "overrides", "message"),
    [
        (BIG, 1024, {"tpp": 8}, "unknown plan option 'tpp'; did you mean 'tp'?"),
        (BIG, 1024, {"provenance": "x"}, "unknown plan option 'provenance'"),
        (BIG, 0, {}, "gpus = 0: expected a whole number of at least 1"),
        (UNPUBLISHED, 64, {"ep": "8"}, "ep = '8': expected a whole number of at least 1"),
        (
            BIG,
            1024,
            {"tp": 3},
            "tp x cp x ep x dp x pp = 3 x 1 x 8 x 5 x 8 = 960, but there are 1024 GPUs; gpus "
            "must be a multiple of 192; use 1152 GPUs or change a degree",
        ),
        (
            BIG,
            1024,
            {"tp": 16},
            "tp = 16: a tensor-parallel group must stay within a server of 8 GPUs; use a divisor "
            "of 8",
        ),
        (
            BIG,
            1024,
            {"dp": 3},
            "tp x cp x ep x dp x pp = 8 x 1 x 8 x 3 x 8 = 1536, but there are 1024 GPUs; set dp "
            "to 2",
        ),
        (
            SMALL,
            24,
            {"tp": 1, "pp": 2, "ep": 4},
            "dense-gradient groups of 12 GPUs cover servers of 8 unevenly; make the number of "
            "GPUs per pipeline stage a multiple of a server's GPUs",
        ),
        (UNPUBLISHED, 60, {}, "60 GPUs do not fill servers of 8; use 64 GPUs"),
        (
            UNPUBLISHED,
            64,
            {"ep": 3},
            "no plan for big on 64 GPUs is possible: tp x cp x ep x dp x pp = 1 x 1 x 3 x 21 x 1 "
            "= 63, but there are 64 GPUs; gpus must be a multiple of 3; use 66 GPUs or change a "
            "degree",
        ),
        (
            UNPUBLISHED,
            8,
            {"tp": 8, "ep": 1},
            "big does not fit on 8 GPUs; the closest plan is TP8 EP1 PP1 DP1 (dense DP 1, ZeRO-1), "
            "4 micro-batches x 1 x 4096 tokens: stage 0 needs 330.1 GB per GPU, 76.8 GB of 80 GB "
            "are for the model; use more GPUs, recompute activations, or give --tp, --pp and --ep",
        ),
    ],
)
def test_refusals_in_one_line(model, gpus, overrides, message):
    with pytest.raises(PlanError) as caught:
        choose_plan(model, gpus, gpu_memory_bytes=GB80, overrides=overrides)
    assert str(caught.value) == message


def test_a_job_smaller_than_a_server_is_possible():
    assert degrees(choose_plan(SMALL, 4, gpu_memory_bytes=GB80)) == (1, 1, 4, 1)


def test_tp_and_pp_state_the_plan_of_a_dense_model():
    dense = dataclasses.replace(SMALL, name="dense", moe_layers=(False,) * 8, ffn_size=4096)
    overrides = {"tp": 2, "pp": 2}
    plan = stated_plan(dense, 64, overrides=overrides)
    assert degrees(plan) == (2, 2, 1, 16)
    assert plan == choose_plan(dense, 64, gpu_memory_bytes=GB80, overrides=overrides)
    assert plan == choose_plan(dense, 64, gpu_memory_bytes=GB80, overrides={**overrides, "ep": 1})
    assert stated_plan(SMALL, 64, overrides=overrides) is None
    assert stated_plan(dense, 64, overrides={"tp": 2}) is None
    assert degrees(stated_plan(BIG, 1024)) == (8, 8, 8, 2)
    assert stated_plan(BIG, 64) is None


@pytest.mark.parametrize("sequences", [64, 512, 1024])
def test_the_batch_of_a_step_gives_micro_batches(sequences):
    overrides = {"tp": 2, "pp": 2, "ep": 8, "micro_batch_size": 4, "global_batch_size": sequences}
    plan = choose_plan(load_model("mixtral-8x7b"), 64, gpu_memory_bytes=1e15, overrides=overrides)
    assert plan.sequences_per_step == sequences
    assert plan.micro_batches == sequences // (16 * 4)


def test_a_batch_that_ranks_cannot_share_is_refused():
    overrides = {"tp": 2, "pp": 2, "ep": 8, "micro_batch_size": 4}
    model = load_model("mixtral-8x7b")
    with pytest.raises(
        PlanError,
        match="16 data-parallel ranks with micro-batches of 4 take multi"
        "ples of 64; give 64 or 128, or another",
    ):
        choose_plan(model, 64, gpu_memory_bytes=1e15,
                    overrides={**overrides, "global_batch_size": 100})  # fmt: skip
    with pytest.raises(PlanError, match="multiples of 64; give 64, or another"):
        choose_plan(model, 64, gpu_memory_bytes=1e15,
                    overrides={**overrides, "global_batch_size": 8})  # fmt: skip


def test_the_rule_takes_a_plan_that_suits_the_batch():
    plan = choose_plan(load_model("olmoe-1b-7b"), 16, gpu_memory_bytes=80e9,
                       overrides={"global_batch_size": 24})  # fmt: skip
    assert plan.sequences_per_step == 24
