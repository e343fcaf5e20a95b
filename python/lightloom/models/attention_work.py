"""Products of attention beyond its projections: how many, by kind and length of the sequence.

Sources: DeepSeek-V3.2 (arXiv 2512.02556), section 2.1, for sparse attention: an indexer scores
every pair of tokens, and the chosen keys are attended to as latent vectors that all heads share;
where that costs more than attention to all keys, under a mask, the latter runs, as there for short
sequences; in DeepSeek-V4 the tokens of a window are attended to as well, and compressed entries
are chosen. Gated DeltaNet (arXiv 2412.06464), section 3.3, and Lightning Attention (arXiv
2501.08313), section 2.2.2, for the chunked forms of linear attention, as in flash-linear-attention;
Kimi Delta Attention (arXiv 2510.26692) multiplies as much as the former. Mamba 2: the blocks of
state-space duality (arXiv 2405.21060), section 6. Mamba 1 scans: its products are not of matrices,
and what it moves takes its time (arXiv 2312.00752, section 3.3.2).
"""

from __future__ import annotations

from lightloom.models.model import Attention, Model
from lightloom.models.parameters import active_parameters

#: tokens of a chunk of linear attention, within which tokens see each other directly
CHUNK_TOKENS = {"delta": 64, "kda": 64, "lightning": 256, "mamba2": 128, "mamba": 0}
#: FLOPs per token and element of the state, as MFU counts them: twice the products of the state
#: with key, query, and (delta rule) once more; of Mamba as Megatron-LM's ``mamba_layer_flops``
_STATE_FLOPS = {"delta": 6, "kda": 6, "lightning": 4, "mamba": 7, "mamba2": 7}
#: queries of a tile of fused attention: keys that the window of any of them reaches are computed
#: for all. With 128, windows of 1,024 come out 0.86 to 0.93 as long as cuDNN's on H200, and those
#: of 128 half as long on GB200; with 256, 0.95 to 1.01 and 0.8 (NVIDIA/cudnn-frontend,
#: benchmark/sdpa_benchmark_training/results, cuDNN 9.19 and 9.22)
TILE_TOKENS = 256


def training_flops_per_token(model: Model, seq_len: int) -> float:
    """FLOPs that training takes per token, as model FLOPs utilization (MFU) counts them.

    ``6 N + 6 L h s``: each of ``N`` active parameters takes part in a multiplication and an
    addition, once in the forward and twice in the backward pass, and so does each pair of a query
    and a key not after it, for scores and values. The convention is Megatron-LM's since 2025:
    ``N`` has the output projection but not the input table, which is looked up; pairs that the
    causal mask leaves out do not count (they did before: ``12 L h s``), nor does what is
    recomputed. Windows and sparse attention count the pairs that are used; linear attention
    counts its recurrent form. A module of multi-token prediction goes through the output
    projection once more.

    Parameters
    ----------
    model
        The model's shape.
    seq_len
        Tokens per sequence, ``s``.

    Returns
    -------
    float
        ``L`` is the number of layers. ``h``, the hidden size in the literature, is the width of
        the attention: heads times the mean of a query's and a value's width, which equals the
        hidden size in most models and is what is multiplied in the others.

    Examples
    --------
    >>> import lightloom
    >>> f"{training_flops_per_token(lightloom.load_model('mixtral-8x22b'), 4096):.3e}"
    '2.422e+11'
    """
    products = sum(
        3.0 * layers * _forward_flops(attention, seq_len)
        for attention, layers in model.attentions.items()
    )
    again = model.mtp_layers * model.vocab_size * model.hidden_size
    return 6.0 * (active_parameters(model, "output") + again) + products


def _forward_flops(attention: Attention, seq_len: int) -> float:
    """FLOPs per token of scores and values in one layer, of the pairs that the mask leaves."""
    if attention.linear:
        return float(
            _STATE_FLOPS[attention.kind] * attention.num_heads * attention.qk_dim * attention.v_dim
        )
    return score_flops(attention, seq_len, tile=0) / seq_len


def index_flops(attention: Attention) -> float:
    """FLOPs with which the indexer scores one pair of tokens."""
    return 2.0 * attention.index_heads * attention.index_head_dim


def sparse_widths(attention: Attention) -> int:
    """Elements that a head multiplies for a pair of tokens, where keys are chosen.

    Latent vectors are then attended to as they are.
    """
    if attention.kind != "mla":
        return attention.qk_dim + attention.v_dim
    return 2 * attention.kv_lora_rank + attention.qk_rope_head_dim


def causal_pairs(seq_len: float, limit: float) -> float:
    """Pairs of a query and a key not after it, of which a query uses so many."""
    if limit >= seq_len:
        return seq_len**2 / 2
    return limit * seq_len - limit**2 / 2


def _compressed_flops(attention: Attention, seq_len: float, tile: int) -> float:
    """FLOPs over one sequence of attention to a window and to compressed entries, half for both."""
    heads, widths = attention.num_heads, attention.qk_dim + attention.v_dim
    pairs = causal_pairs(seq_len, attention.window + tile)
    if not attention.compress:
        return 2.0 * pairs * heads * widths
    entries = seq_len / attention.compress
    pairs += causal_pairs(entries, attention.index_top_k or entries) * attention.compress
    indexed = seq_len**2 / 2 / attention.compress
    return 2.0 * pairs * heads * widths + index_flops(attention) * indexed


def score_flops(attention: Attention, seq_len: float, tile: int = TILE_TOKENS) -> float:
    """FLOPs of one layer's softmax attention over one sequence, forward, half for the mask.

    Windows are longer by a ``tile`` of tokens, whose queries share what any of them reaches.
    """
    heads, widths = attention.num_heads, attention.qk_dim + attention.v_dim
    if attention.kind == "csa":
        return _compressed_flops(attention, seq_len, tile)
    if attention.span and attention.span < seq_len:
        whole, rest = divmod(seq_len, attention.span)
        pairs = (whole * attention.span**2 + rest**2) / 2
    elif attention.window:
        pairs = causal_pairs(seq_len, attention.window + tile)
    else:
        pairs = seq_len**2 / 2
    dense = 2.0 * pairs * heads * widths
    if not attention.index_top_k:
        return dense
    chosen = causal_pairs(seq_len, attention.index_top_k)
    sparse = 2.0 * chosen * heads * sparse_widths(attention)
    return min(dense, sparse) + index_flops(attention) * pairs


def linear_flops(attention: Attention) -> float:
    """FLOPs per token of one layer's linear attention in chunks, forward."""
    keys, values, chunk = attention.qk_dim, attention.v_dim, CHUNK_TOKENS[attention.kind]
    if attention.kind == "mamba":
        return float(_STATE_FLOPS["mamba"] * attention.num_heads * keys * values)
    if attention.kind == "mamba2":
        # scores are the same for all heads of a group
        within = keys * attention.num_kv_heads / attention.num_heads + values
        across = 2 * keys * values
    elif attention.kind == "lightning":
        within, across = keys + values, 2 * keys * values
    else:
        # products of queries and of keys with keys, values; and the two of the solved updates
        within, across = 3 * keys + 2 * values, 3 * keys * values
    return 2.0 * attention.num_heads * (chunk * within + across)


def linear_elements(attention: Attention) -> float:
    """Numbers per token that the kernels of one layer's linear attention move, forward.

    Queries, keys, values and the result; for the delta rule also keys, updates and their factors
    between its kernels; the gate and norm of the result; the state of every chunk, both ways.
    """
    keys, values, chunk = attention.qk_dim, attention.v_dim, CHUNK_TOKENS[attention.kind]
    if attention.kind == "mamba":
        # input, its convolution twice, step, gate and result of each channel; B and C of all
        return 6.0 * attention.num_heads * values + 2 * keys
    moved = 2 * keys + 2 * values + 2 * keys * values / chunk
    if attention.kind == "mamba2":
        # queries and keys are the same for all heads of a group, and so are their products, in
        # FP32; states are in FP32 until they are passed on (mamba-ssm's chunked scan)
        shared = attention.num_kv_heads / attention.num_heads
        moved += 4 * keys * values / chunk + 4 * chunk * shared - 2 * keys * (1 - shared)
    if attention.kind in {"delta", "kda"}:
        moved += 5 * keys + 5 * values + 3 * chunk
    moved += 3 * values if attention.output_gate else 2 * values
    convolved = 2 * (2 * attention.num_kv_heads * attention.qk_dim + attention.num_heads * values)
    return attention.num_heads * moved + (convolved if attention.conv_width else 0)
