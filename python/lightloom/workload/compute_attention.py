"""Kernels of attention between its projections: scores and values, or linear attention in chunks.

Where attention differs from what was measured, FLOPs and bytes are computed
(:mod:`lightloom.models.attention_work`) and run at the efficiencies measured for attention over
the whole sequence and for element-wise kernels. That is an assumption: kernels of linear and sparse
attention were not measured. The backward pass costs 2.5 times the products of the forward one and
twice its bytes; that of Mamba makes the states again, as mamba-ssm does, which moves as much as a
forward pass. The indexer of sparse attention computes in BF16 here, in FP8 at DeepSeek.
"""

from __future__ import annotations

from dataclasses import replace

from lightloom.models.attention_work import linear_elements, linear_flops, score_flops
from lightloom.models.model import Model
from lightloom.workload.compute_kernels import BF16, NOTHING, Kernels, Work

#: kernels of linear attention forward, as in flash-linear-attention: of the delta rule sums of
#: decays, products of keys, their inverse, updates, states, results; of lightning, states and
#: results; of Mamba 2 (mamba-ssm) sums of steps, states, their sums, products, results; of Mamba 1
#: the scan alone. Convolution and the norm of the result are one each.
_LINEAR_KERNELS = {"delta": 6, "kda": 6, "lightning": 2, "mamba2": 5, "mamba": 1}

#: what scaled rotary positions cost in Megatron-Core (``_apply_rotary_pos_emb_bshd``), forward and
#: backward: how many strided kernels take an element (its products with cosine and sine, one half
#: negated, both joined, which takes as long as 1.27 products: pytorch/pytorch, issue 141265);
#: passes of the others (a sum and a copy; backward a sum of gradients, and zeros and a sum for the
#: part that is not rotated, which is empty); kernels of both sorts
_SCALED_ROTARY = ((3.77, 5, (8, 16)), (3.77, 7, (8, 10)))


def has_all_scores(model: Model) -> bool:
    """Whether attention that is not fused has scores of all pairs of tokens, in every layer."""
    return all(
        variant.attention.kind in ("gqa", "mla") and not variant.attention.index_top_k
        for variant in model.variants
    )


def core_work(
    kernels: Kernels,
    model: Model,
    sequences: float,
    seq_len: int,
    split: int,
    backward: bool,
) -> Work:
    """Scores and values of one layer, or its linear attention.

    Parameters
    ----------
    kernels
        Those of the GPU.
    model
        Its ``attention`` is used.
    sequences, seq_len
        Sequences of a micro-batch that a context-parallel group holds, and their tokens.
    split
        GPUs that share the heads and the tokens: ``tp * cp``.
    backward
        The backward pass instead of the forward one.
    """
    attention = model.attention
    if attention.linear:
        return _linear_work(kernels, model, sequences * seq_len / split, backward)
    if kernels.attention_kernels == "unfused" and attention.kind != "csa":
        heads, dims = attention.num_heads / split, (attention.qk_dim, attention.v_dim)
        return kernels.unfused_attention(seq_len, heads, dims, sequences, backward)
    if kernels.attention_kernels == "fp8" and attention.kind == "gqa":
        return _narrow_work(kernels, model, (sequences, seq_len), split, backward)
    if attention.index_top_k or attention.span or attention.window or attention.kind == "csa":
        flops = score_flops(attention, seq_len) * sequences / split
        return kernels.scores(flops, (attention.qk_dim, attention.v_dim), backward)
    heads = attention.num_heads / split
    dims = (attention.qk_dim, attention.v_dim)
    return kernels.attention(seq_len, heads, dims, sequences, backward)


def _narrow_work(
    kernels: Kernels, model: Model, lengths: tuple[float, int], split: int, backward: bool
) -> Work:
    """Attention in FP8: operands are cast, and the backward pass skips nothing outside a window.

    ``lengths`` are sequences and their tokens. On GB200 and GB300 the gradient of a window of 128
    takes 3.6 times as long for twice the tokens (``attention_cudnn.csv``).
    """
    attention, (sequences, seq_len) = model.attention, lengths
    keys = 0 if backward else attention.num_kv_heads * attention.kv_dim
    cast = attention.num_heads * attention.qk_dim + keys
    seen = replace(attention, window=0) if backward else attention
    flops = score_flops(seen, seq_len) * sequences / split
    work = kernels.scores(flops, (attention.qk_dim, attention.v_dim), backward)
    return work + kernels.quantize(sequences * seq_len * cast / split)


def _linear_work(kernels: Kernels, model: Model, tokens: float, backward: bool) -> Work:
    """``tokens`` are those of which a GPU computes all heads, or more of which it computes some."""
    attention = model.attention
    work = kernels.scores(tokens * linear_flops(attention), None, backward)
    again = attention.kind in {"mamba", "mamba2"}
    moved = kernels.elementwise(
        tokens * linear_elements(attention),
        2 + again if backward else 1,
        _LINEAR_KERNELS[attention.kind] + 2,
    )
    return work + moved


def rotary_work(kernels: Kernels, model: Model, tokens: float, tp: int, backward: bool) -> Work:
    """Rotary positions of queries and keys, and the copy that splits their projection.

    One kernel rotates both, but for positions that are scaled (YaRN): the fused kernel of
    Transformer Engine knows no factor, and Megatron-Core rotates by PyTorch's own operators.
    """
    attention = model.attention
    heads = attention.num_heads / tp + max(attention.num_kv_heads / tp, 1)
    rotated = tokens * heads * attention.head_dim
    if not attention.scaled_rotary:
        return kernels.elementwise(rotated, 4, 3)
    times, passes, (strided, others) = _SCALED_ROTARY[backward]
    work = kernels.strided(rotated * times, rotated * 3.5 * 2 * BF16, strided)
    return work + kernels.elementwise(rotated, 2 + passes, 1 + others)


def gate_work(kernels: Kernels, model: Model, tokens: float, tp: int, backward: bool) -> Work:
    """The product of softmax attention's result with its gate; linear attention counts its own."""
    attention = model.attention
    if not attention.output_gate or attention.linear:
        return NOTHING
    width = attention.num_heads / tp * attention.v_dim
    return kernels.elementwise(tokens * width, 5 if backward else 3)
