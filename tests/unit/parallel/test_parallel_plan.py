"""Degrees, defaults, layer layouts, and the text of refusals."""

import dataclasses

import pytest

from lightloom.errors import PlanError
from lightloom.models.model import Attention, Model
from lightloom.parallel import Plan, balanced_layout, check_model

MODEL = Model(
    name="toy",
    hidden_size=64,
    vocab_size=100,
    attention=Attention("gqa", num_heads=8, num_kv_heads=2, head_dim=8),
    moe_layers=(True,) * 12,
    num_experts=8,
    experts_per_token=2,
    expert_ffn_size=96,
)


def test_defaults_that_depend_on_other_fields():
    assert Plan(gpus=64, tp=4, ep=2, pp=8).etp == 4
    assert Plan(gpus=64, tp=4, ep=8, pp=8, expert_mode="folded").etp == 1
    assert Plan(gpus=64, tp=4, ep=2, pp=8).micro_batches == 32
    assert Plan(gpus=64, tp=4, ep=2, pp=8, micro_batches=5).micro_batches == 5


def test_both_kinds_of_data_parallelism():
    plan = Plan(gpus=1024, tp=8, pp=8, ep=8, dp=2)
    assert plan.dense_dp == 16
    assert plan.groups_per_stage == 2
    assert plan.sequences_per_step == 16 * 32
    assert plan.tokens_per_step == 16 * 32 * 4096
    folded = Plan(gpus=1024, tp=4, cp=2, pp=8, ep=32, dp=4, expert_mode="folded")
    assert folded.dense_dp == 16
    assert folded.groups_per_stage == 4
    assert Plan(gpus=64, tp=2, cp=2, ep=4, dp=4).groups_per_stage == 8


def test_tokens_of_an_ep_rank():
    # axis: the whole micro-batch of a CP rank, shared by tp GPUs
    plan = Plan(gpus=64, tp=8, ep=8, micro_batch_size=2, seq_len=4096)
    assert plan.tokens_per_ep_rank == 8192
    # folded, expert-TP 1: what one GPU holds with sequence parallelism
    plan = Plan(gpus=64, tp=8, ep=8, dp=8, seq_len=4096, expert_mode="folded")
    assert plan.tokens_per_ep_rank == 512
    assert Plan(gpus=8, cp=2, ep=4, seq_len=4096).tokens_per_ep_rank == 2048


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (56, 8, (7,) * 8),
        (94, 4, (23, 24, 24, 23)),
        (61, 16, (3, *(4,) * 13, 3, 3)),
        (5, 2, (3, 2)),
        (7, 4, (2, 2, 2, 1)),
        (6, 4, (1, 2, 2, 1)),
        (5, 4, (1, 2, 1, 1)),
    ],
)
def test_balanced_layouts(layers, stages, expected):
    assert balanced_layout(layers, stages) == expected


@pytest.mark.parametrize("layers", range(1, 40))
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7, 12])
def test_balanced_layouts_add_up_and_differ_by_one(layers, stages):
    if layers + 2 < stages:
        with pytest.raises(PlanError, match="lower pp or vpp"):
            balanced_layout(layers, stages)
        return
    counts = balanced_layout(layers, stages)
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1


def test_the_embedding_and_the_loss_may_have_a_stage_each():
    # as a public run of Qwen3-235B-A22B on 256 GPUs, PP32 x VPP3
    assert balanced_layout(94, 96) == (0, *[1] * 94, 0)
    # one layer fewer than stages: the loss is alone, not the embedding
    assert balanced_layout(95, 96) == (*[1] * 95, 0)
    plan = Plan(gpus=32, pp=32, vpp=3, micro_batches=32)
    stated = Plan(gpus=32, pp=32, vpp=3, micro_batches=32, pp_layout=(0, *[1] * 94, 0))
    assert plan.layers(94) == stated.layers(94)


def test_a_stage_with_neither_names_the_option_for_it():
    # DeepSeek-V3's 61 layers in 64 chunks, of which one is for multi-token prediction
    with pytest.raises(PlanError, match=r"give the layers of each stage with --pp-layout, 0 for"):
        balanced_layout(61, 64)


def test_interleaved_chunks_alternate_over_stages():
    plan = Plan(gpus=2, pp=2, vpp=2)
    assert plan.layers(8) == (((0, 1), (4, 5)), ((2, 3), (6, 7)))
    stated = Plan(gpus=2, pp=2, vpp=2, pp_layout=(1, 3, 2, 2))
    assert stated.layers(8) == (((0,), (4, 5)), ((1, 2, 3), (6, 7)))


def test_description_names_both_kinds_of_data_parallelism():
    plan = Plan(gpus=1024, tp=8, pp=8, ep=8, dp=2, micro_batch_size=8)
    assert plan.describe() == (
        "1024 GPUs: TP8 EP8 PP8 DP2 (dense DP 16), 32 micro-batches x 8 x 4096 tokens"
    )
    plan = Plan(gpus=32, tp=2, cp=2, pp=2, vpp=2, ep=8, dp=2, zero1=True, expert_mode="folded")
    assert plan.describe() == (
        "32 GPUs: TP2 CP2 EP8 PP2 expert-TP1 2 chunks/stage DP2 (dense DP 4, ZeRO-1), "
        "8 micro-batches x 1 x 4096 tokens"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gpus": 8, "tp": 0}, "tp = 0: expected a whole number of at least 1"),
        ({"gpus": 8, "ep": 2.0}, "ep = 2.0: expected a whole number of at least 1"),
        ({"gpus": True}, "gpus = True: expected a whole number of at least 1"),
        ({"gpus": 8, "pp": "2"}, "pp = '2': expected a whole number of at least 1"),
        (
            {"gpus": 1000, "tp": 8, "ep": 8, "pp": 8, "dp": 2},
            "tp x cp x ep x dp x pp = 8 x 1 x 8 x 2 x 8 = 1024, but there are 1000 GPUs; gpus "
            "must be a multiple of 512; use 1024 GPUs or change a degree",
        ),
        (
            {"gpus": 1024, "tp": 8, "ep": 8, "pp": 8},
            "tp x cp x ep x dp x pp = 8 x 1 x 8 x 1 x 8 = 512, but there are 1024 GPUs; set dp "
            "to 2",
        ),
        (
            {"gpus": 16, "etp": 1, "ep": 4, "dp": 3, "expert_mode": "folded"},
            "etp x ep x dp x pp = 1 x 4 x 3 x 1 = 12, but there are 16 GPUs; set dp to 4",
        ),
        (
            {"gpus": 12, "tp": 8, "ep": 12, "expert_mode": "folded"},
            "12 GPUs / pp = 12 is not divisible by tp x cp = 8 x 1; lower tp or cp, or raise dp",
        ),
        (
            {"gpus": 8, "tp": 2, "etp": 1, "ep": 4},
            "etp = 1 with tp = 2: they are equal when EP is an axis of its own; use expert mode "
            "'folded' for another expert-TP",
        ),
        ({"gpus": 1, "expert_mode": "both"}, "expert mode 'both': expected 'axis' or 'folded'"),
        (
            {"gpus": 1, "order": "tp-pp"},
            "rank order 'tp-pp': expected each of tp, cp, ep, dp, pp once, such as "
            "'tp-cp-ep-dp-pp'",
        ),
        (
            {"gpus": 1, "vpp": 2},
            "vpp = 2 with pp = 1: chunks interleave stages; set vpp to 1",
        ),
        (
            {"gpus": 4, "pp": 4, "vpp": 2, "micro_batches": 6},
            "6 micro-batches are not divisible by pp = 4, which the interleaved schedule needs; "
            "change micro-batches, or set vpp to 1",
        ),
        (
            {"gpus": 4, "pp": 4, "pp_layout": (3, 3)},
            "pp-layout has 2 entries, expected pp x vpp = 4 x 1 = 4",
        ),
        (
            {"gpus": 2, "pp": 2, "pp_layout": (3, -1)},
            "pp-layout (3, -1): expected layer counts of at least 0",
        ),
        (
            {"gpus": 8, "tp": 8, "seq_len": 100},
            "micro-batch size x seq-len = 1 x 100 tokens are not divisible by tp x cp = 8 x 1; "
            "change seq-len",
        ),
    ],
)
def test_impossible_plans_are_refused_in_one_line(fields, message):
    with pytest.raises(PlanError) as caught:
        Plan(**fields)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("plan", "changes", "message"),
    [
        (
            Plan(gpus=16, tp=16),
            {},
            "toy: 8 attention heads are not divisible by tp = 16; use tp = 8",
        ),
        (
            Plan(gpus=8, tp=8),
            {"attention": Attention("gqa", num_heads=24, num_kv_heads=3, head_dim=8)},
            "toy: 3 key-value heads and tp = 8: one must divide the other; change tp",
        ),
        (
            Plan(gpus=3, ep=3),
            {},
            "toy: 8 experts are not divisible by ep = 3; use ep = 2",
        ),
        (
            Plan(gpus=4, tp=4),
            {"expert_ffn_size": 90},
            "toy: expert width 90 are not divisible by etp = 4; use etp = 3",
        ),
        (
            Plan(gpus=2, ep=2),
            {"moe_layers": (False,) * 12, "ffn_size": 96},
            "toy has no experts, but ep = 2; set ep to 1",
        ),
        (
            Plan(gpus=4, tp=4),
            {"moe_layers": (False, True), "ffn_size": 98},
            "toy: width 98 are not divisible by tp = 4; use tp = 2",
        ),
        (
            Plan(gpus=4, tp=4),
            {"shared_expert_ffn_size": 90},
            "toy: shared-expert width 90 are not divisible by tp = 4; use tp = 3",
        ),
        (
            Plan(gpus=16, pp=16),
            {},
            "12 layers over pp x vpp = 16 stages leaves stages empty, even if the embedding and "
            "the loss have one each; lower pp or vpp, or give the layers of each stage with "
            "--pp-layout, 0 for none",
        ),
        (
            Plan(gpus=1, seq_len=4096),
            {"learned_positions": 2048},
            "seq-len = 4096: toy has a learned vector for each of 2048 positions; use at most "
            "seq-len = 2048",
        ),
        (
            Plan(gpus=2, pp=2, pp_layout=(6, 5)),
            {},
            "pp-layout 6,5 has 11 layers, the model has 12; change the layout, or leave it out "
            "for a balanced one",
        ),
    ],
)
def test_what_does_not_divide_the_model_is_refused(plan, changes, message):
    with pytest.raises(PlanError) as caught:
        check_model(plan, dataclasses.replace(MODEL, **changes))
    assert str(caught.value) == message


def test_more_tp_ranks_than_key_value_heads_share_them():
    check_model(Plan(gpus=8, tp=8), MODEL)
