"""Memory per stage against sums written out by hand."""

import dataclasses

import pytest

from lightloom.errors import PlanError
from lightloom.models import load_model
from lightloom.models.model import Attention, Model
from lightloom.models.parameters import total_parameters
from lightloom.parallel import MemoryOptions, Plan, does_not_fit, memory_per_stage
from lightloom.parallel.activations import TENSORS, kept_tensors, module_tensors
from lightloom.parallel.memory import (
    kept_bytes,
    layer_parameters,
    memory_by_stage,
    stage_parameters,
)

MODEL = Model(
    name="toy",
    hidden_size=64,
    vocab_size=1000,
    attention=Attention("gqa", num_heads=8, num_kv_heads=2, head_dim=8),
    moe_layers=(False, True, True, True),
    ffn_size=256,
    num_experts=8,
    experts_per_token=2,
    expert_ffn_size=96,
    shared_expert_ffn_size=32,
)
NONE = MemoryOptions()


def test_parameters_of_a_layer_by_hand():
    plan = Plan(gpus=8, tp=2, ep=4)
    attention = 64 * 64 + 2 * 64 * 16 + 64 * 64  # query, key and value, output
    norms = 2 * 64
    dense = layer_parameters(MODEL, plan, 0)
    assert dense.dense == attention / 2 + norms + 3 * 64 * 256 / 2
    assert dense.expert == 0
    mixture = layer_parameters(MODEL, plan, 1)
    assert mixture.dense == attention / 2 + norms + 8 * 64 + 3 * 64 * 32 / 2
    assert mixture.expert == 8 * 3 * 64 * 96 / (4 * 2)


@pytest.mark.parametrize("tied", [False, True])
def test_without_parallelism_a_stage_holds_every_parameter_once(tied):
    model = dataclasses.replace(MODEL, tied_embeddings=tied)
    parameters = stage_parameters(model, Plan(gpus=1), 0)
    assert parameters.dense + parameters.expert == total_parameters(model)


def test_a_tied_table_is_on_both_ends():
    model = dataclasses.replace(MODEL, tied_embeddings=True)
    plan = Plan(gpus=2, pp=2)
    stages = [stage_parameters(model, plan, stage) for stage in range(2)]
    total = sum(part.dense + part.expert for part in stages)
    assert total == total_parameters(model) + 1000 * 64


def test_states_by_hand():
    plan = Plan(gpus=16, tp=2, ep=4, dp=2)
    part = stage_parameters(MODEL, plan, 0)
    count = part.dense + part.expert
    (memory,) = memory_per_stage(MODEL, plan)
    assert memory.parameters_bytes == 2 * count
    assert memory.gradients_bytes == 4 * count
    assert memory.optimizer_bytes == 12 * count
    sharded = memory_per_stage(MODEL, dataclasses.replace(plan, zero1=True))[0]
    assert sharded.optimizer_bytes == pytest.approx(12 * (part.dense / 8 + part.expert / 2))
    assert sharded.gradients_bytes == memory.gradients_bytes


def test_zero1_shards_over_context_ranks_too():
    plan = Plan(gpus=16, cp=2, ep=4, dp=2, zero1=True)
    part = stage_parameters(MODEL, plan, 0)
    (memory,) = memory_per_stage(MODEL, plan)
    assert memory.optimizer_bytes == pytest.approx(12 * (part.dense / 16 + part.expert / 4))


def layer_activations(model, plan, layer, options):
    """Bytes that one layer keeps of one micro-batch per GPU, and when nothing is recomputed."""
    tensors = kept_tensors(model, plan, layer, options.keeps)
    return kept_bytes(tensors, options)


def test_activations_of_a_dense_layer_by_hand():
    plan = Plan(gpus=1, seq_len=128)
    kept, full = layer_activations(MODEL, plan, 0, NONE)
    # input, norm, queries, keys, values, core output, residual, norm, three of the feed-forward
    per_token = 64 + 64 + (64 + 16 + 16) + 64 + 64 + 64 + 3 * 256
    assert kept == full == 128 * per_token * 2


def test_activations_of_a_mixture_by_hand():
    plan = Plan(gpus=8, tp=2, ep=4, seq_len=128)
    kept, _ = layer_activations(MODEL, plan, 1, NONE)
    between = 64 * (64 + 64 + 64 + 64)  # half of the tokens: input, norm, residual, norm
    attention = 128 * (64 + 16 + 16 + 64) / 2
    # 256 copies per EP rank, gathered on both GPUs, and three times half an expert's width
    routed = 256 * (64 + 3 * 48)
    shared = 128 * 3 * 32 / 2
    assert kept == 2 * (between + attention + routed + shared)
    # half of the experts' outputs are back on each GPU
    before, _ = layer_activations(MODEL, plan, 1, MemoryOptions(keeps_outputs=True))
    assert before - kept == 2 * 256 * 64 / 2


def test_queries_and_keys_are_kept_before_their_norms_too():
    plan = Plan(gpus=1, seq_len=128)
    normed = dataclasses.replace(
        MODEL, attention=dataclasses.replace(MODEL.attention, qk_norm=True)
    )
    kept, _ = layer_activations(normed, plan, 0, NONE)
    assert kept - layer_activations(MODEL, plan, 0, NONE)[0] == 2 * 128 * (8 * 8 + 2 * 8)


def test_fp8_caches_of_deepseek_v3_by_hand():
    """A layer of experts of DeepSeek-V3, its technical report's section 3.3.3."""
    model, plan = load_model("deepseek-v3"), Plan(gpus=64, ep=64)
    options = MemoryOptions(recompute="selective", precision="fp8", activation_cache="fp8")
    kept, _ = layer_activations(model, plan, 60, options)
    fp8 = 1 + 1 / 32
    assert kept / 4096 == pytest.approx(
        2 * 2 * 7168  # into attention and into the feed-forward
        + 2 * (1536 + 512 + 64)  # latents, of which heads are made again
        + 1.5 * 128 * 128  # results of attention in E5M6
        + fp8 * 8 * 7168  # dispatched copies
        + fp8 * 9 * 2 * 2048  # inputs of SwiGLU, eight experts and the shared one
    )


def test_every_level_recomputes_tensors_that_there_are():
    full = {name for name, tensor in TENSORS.items() if "full" in tensor.recomputed_by}
    assert full == set(TENSORS) - {"input"}
    kept = {name for layer in (0, 1) for name, _ in kept_tensors(MODEL, Plan(gpus=1), layer)}
    modules = {name for name, _ in module_tensors(MODEL, Plan(gpus=1))}
    assert kept | modules | {"returned", "scores"} == set(TENSORS)


def test_sequence_parallelism_shards_what_is_between():
    plan = Plan(gpus=2, tp=2, seq_len=128)
    without = dataclasses.replace(plan, sequence_parallel=False)
    difference = (
        layer_activations(MODEL, without, 0, NONE)[0] - layer_activations(MODEL, plan, 0, NONE)[0]
    )
    assert difference == 2 * 64 * (4 * 64)


def test_recomputation_keeps_less_and_adds_one_layer():
    plan = Plan(gpus=4, pp=4, seq_len=128)
    none, attention, full = (
        memory_per_stage(MODEL, plan, MemoryOptions(recompute=what))[0].activations_bytes
        for what in ("none", "attention", "full")
    )
    layer = layer_activations(MODEL, plan, 0, NONE)[1]
    core = 2 * 128 * 64
    assert none == 4 * layer
    assert attention == 4 * (layer - core) + core
    assert full == 4 * core + layer - core


def test_selective_recomputation_keeps_no_norms_and_activations():
    plan = Plan(gpus=1, seq_len=128)
    selective = MemoryOptions(recompute="selective")
    kept, full = layer_activations(MODEL, plan, 0, selective)
    assert full - kept == 2 * 128 * (2 * 64 + 256)
    # 256 copies of 8 experts' tokens, and the shared expert
    kept, full = layer_activations(MODEL, plan, 1, selective)
    assert full - kept == 2 * (128 * (2 * 64 + 32) + 256 * 96)


def test_every_second_product_keeps_less_than_selective_recomputation():
    """The residual between attention and feed-forward stands for the result of the latter."""
    plan = Plan(gpus=1, seq_len=128)
    selective, products = (
        layer_activations(MODEL, plan, 0, MemoryOptions(recompute=level))[0]
        for level in ("selective", "products")
    )
    # the second half of the inputs of a gated activation function, and the keys
    keys = MODEL.attention.num_kv_heads * MODEL.attention.head_dim
    assert selective - products == 2 * 128 * (256 + keys)


def test_selective_recomputation_keeps_latents_instead_of_heads():
    attention = Attention(
        "mla", 8, 8, 8, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8
    )
    model = dataclasses.replace(MODEL, attention=attention)
    plan = Plan(gpus=1, seq_len=128)
    kept, full = layer_activations(model, plan, 0, MemoryOptions(recompute="selective"))
    heads = 8 * (12 + 12 + 8)
    assert full - kept == 2 * 128 * (2 * 64 + 256 + heads - (16 + 4))


@pytest.mark.parametrize("precision", ["fp8", "mxfp8"])
def test_inputs_of_linear_layers_are_kept_in_fp8(precision):
    plan = Plan(gpus=1, seq_len=128)
    _, full = layer_activations(MODEL, plan, 0, NONE)
    _, smaller = layer_activations(MODEL, plan, 0, MemoryOptions(precision=precision))
    assert full - smaller == pytest.approx((2 - 33 / 32) * 128 * (2 * 64 + 256))


def test_fp8_parameters_are_one_of_the_copies():
    plan = Plan(gpus=1)
    (memory,) = memory_per_stage(MODEL, plan, MemoryOptions(precision="fp8", parameter_bytes=1.0))
    parameters = stage_parameters(MODEL, plan, 0)
    outside = 2 * 64 * 1000 + 64
    layers = parameters.dense + parameters.expert - outside
    assert memory.parameters_bytes == pytest.approx(2 * 33 / 32 * layers + 2 * outside)


def test_ranks_share_out_gradients_and_parameters():
    plan = Plan(gpus=16, tp=2, ep=4, dp=2, zero1=True)
    counted = stage_parameters(MODEL, plan, 0)
    share, whole = counted.dense / 8 + counted.expert / 2, counted.dense + counted.expert
    for sharded, parameters, gradients in (
        ("states", whole, whole), ("gradients", whole, share), ("parameters", share, share),
    ):  # fmt: skip
        (memory,) = memory_per_stage(MODEL, plan, MemoryOptions(sharded=sharded))
        assert memory.parameters_bytes == pytest.approx(2 * parameters)
        assert memory.gradients_bytes == pytest.approx(4 * gradients)
        assert memory.optimizer_bytes == pytest.approx(12 * share)
    dense = layer_parameters(MODEL, plan, 0).dense
    mixture = layer_parameters(MODEL, plan, 1)
    largest = max(dense, mixture.dense + mixture.expert)
    # BF16 gradients of the largest dense part, two layers of parameters, FP32 gradients of one
    assert memory.workspace_bytes == pytest.approx(2 * dense + (2 * 2 + 4) * largest)


def test_nothing_is_shared_out_without_zero():
    plan = Plan(gpus=16, tp=2, ep=4, dp=2)
    shared, alone = (
        memory_per_stage(MODEL, plan, MemoryOptions(sharded=sharded))[0].total_bytes
        for sharded in ("parameters", "states")
    )
    assert shared == alone


def test_passes_that_alternate_hold_a_layer_more():
    alone = Plan(gpus=1, micro_batches=8, seq_len=128)
    both = dataclasses.replace(alone, overlap_all_to_all="batch")
    single, two = (memory_per_stage(MODEL, plan)[0].activations_bytes for plan in (alone, both))
    sizes = [layer_activations(MODEL, both, layer, NONE)[0] for layer in range(4)]
    assert single == sum(sizes)
    assert two == sum(sizes) + max(sizes)


def test_weights_have_copies_in_fp8_and_moments_can_be_bf16():
    plan = Plan(gpus=1)
    parameters = stage_parameters(MODEL, plan, 0)
    count = parameters.dense + parameters.expert
    (memory,) = memory_per_stage(
        MODEL, plan, MemoryOptions(precision="fp8", state_precision="bf16")
    )
    layers = count - 2 * 64 * 1000 - 64
    assert memory.parameters_bytes == pytest.approx(2 * count + 2 * 33 / 32 * layers)
    assert memory.optimizer_bytes == 8 * count


def test_only_the_last_stage_holds_logits():
    memory = memory_per_stage(MODEL, Plan(gpus=4, pp=4, seq_len=128))
    assert [stage.logits_bytes for stage in memory] == [0, 0, 0, 2 * 4 * 128 * 1000]
    in_place = memory_per_stage(
        MODEL, Plan(gpus=4, pp=4, seq_len=128), MemoryOptions(logit_bytes=2)
    )
    assert in_place[-1].logits_bytes == 2 * 128 * 1000


def test_what_does_not_fit_is_named():
    stages = memory_per_stage(MODEL, Plan(gpus=4, pp=4, seq_len=128))
    worst = max(stages, key=lambda stage: stage.total_bytes)
    assert does_not_fit(stages, worst.total_bytes / 0.9 + 1, 0.1) is None
    text = does_not_fit(stages, worst.total_bytes, 0.1)
    assert text.startswith(f"stage {worst.stage} needs ")
    # wherever it is
    assert does_not_fit(stages[::-1], worst.total_bytes, 0.1) == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"recompute": "some"},
            "recompute = 'some': expected one of none, selective, attention, products, full",
        ),
        ({"state_precision": "fp8"}, "state precision = 'fp8': expected one of fp32, bf16"),
        ({"reserve": 1.0}, "memory reserve = 1.0: expected a share from 0 to below 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(PlanError) as caught:
        MemoryOptions(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("chunks", [2, 4, 16])
def test_chunks_of_an_all_to_all_have_buffers(chunks):
    """A chunk that arrives, twice a TP rank's part, and gathered ones that are not in place."""
    model = load_model("mixtral-8x7b")
    plan = Plan(64, tp=4, ep=8, pp=2, strategy_chunks=0)
    usual = memory_by_stage(model, plan)
    copies = plan.tokens_per_ep_rank * model.experts_per_token * model.hidden_size * 2
    for name, gathered in (("O2", 1), ("O3", 2), ("O4", 0)):
        changed = dataclasses.replace(plan, strategy=name, strategy_chunks=chunks)
        found = memory_by_stage(model, changed)
        more = found.workspace_bytes - usual.workspace_bytes
        assert more == pytest.approx((2 / 4 + gathered) * copies / chunks)
        assert found.activations_bytes.tolist() == usual.activations_bytes.tolist()
        # fewer chunks are larger ones
        open_ = memory_by_stage(model, dataclasses.replace(plan, strategy=name))
        assert (open_.workspace_bytes >= found.workspace_bytes).all()
