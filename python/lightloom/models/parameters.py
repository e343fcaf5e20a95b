"""Parameter counts of a model, from its shape.

Counts are of weights, whatever their storage (an FP4 weight is one). What a count includes of the
embedding tables is an argument, because publishers differ: see
:data:`lightloom.models.model.EmbeddingConvention`. Totals include both tables by default, active
counts follow the publisher of the model's family. Multi-token prediction layers are counted where
a plan trains them.

Sources of the formulas: the layers of the reference implementations (Hugging Face transformers,
``models/*/modeling_*.py``); for latent attention, DeepSeek-V2 (arXiv 2405.04434), section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.models.model import Attention, EmbeddingConvention, Model


@dataclass(frozen=True)
class ParameterCount:
    """One kind of weights: ``count`` copies of ``each`` parameters, ``active`` of them per token.

    ``active`` counts copies that a token goes through, so that the parameters a token uses are
    ``active * each``.
    """

    name: str
    each: int
    count: int
    active: int

    @property
    def total(self) -> int:
        """Parameters of all copies."""
        return self.each * self.count

    @property
    def total_active(self) -> int:
        """Parameters of the copies that one token goes through."""
        return self.each * self.active


def attention_parameters(model: Model) -> int:
    """Parameters of one layer with ``model.attention``: projections, biases, norms, sinks."""
    attention = model.attention
    if attention.kind == "none":
        return 0
    if attention.kind == "mla":
        return _latent_attention(model)
    if attention.kind == "csa":
        return _compressed_attention(model)
    if attention.linear:
        return _linear_attention(model)
    hidden = model.hidden_size
    query = attention.num_heads * attention.head_dim
    key = attention.num_kv_heads * attention.head_dim
    value = attention.num_kv_heads * attention.v_dim
    key_value = (0, key, key + value)[attention.kv_projections]
    count = hidden * (query + key_value) + attention.num_heads * attention.v_dim * hidden
    if attention.bias:
        count += query + key_value
    if attention.output_bias:
        count += hidden
    if attention.qk_norm:
        count += 2 * attention.head_dim if attention.qk_norm_per_head else query + key
    if attention.sinks:
        count += attention.num_heads
    if attention.index_top_k:
        # queries of each index head and one key, each with a norm
        index = attention.index_head_dim
        count += hidden * (attention.index_heads + 1) * index + 2 * index
    return count + _gate(attention, hidden)


def _gate(attention: Attention, hidden: int) -> int:
    """The gate of the result, of one value per head or per element."""
    values = attention.num_heads * attention.v_dim
    count = hidden * attention.num_heads if attention.head_gate else 0
    if attention.output_gate:
        rank = attention.gate_rank
        count += rank * (hidden + values) if rank else hidden * values
    return count


def _linear_attention(model: Model) -> int:
    """Linear attention, as in the reference implementations.

    Those are of Qwen3-Next, Kimi-Linear, MiniMax-Text-01, Nemotron-H (Mamba 2) and Jamba (Mamba 1).
    """
    attention, hidden = model.attention, model.hidden_size
    keys = attention.num_kv_heads * attention.qk_dim
    heads, values = attention.num_heads, attention.num_heads * attention.v_dim
    if attention.kind == "mamba":
        # input and gate, convolution with bias, step size, B, C and their norms, A, D, output
        steps = attention.decay_rank
        count = 3 * hidden * values + (attention.conv_width + 1) * values
        count += values * (steps + 2 * keys) + steps * values + values + steps + 2 * keys
        return count + values * keys + values
    # queries, keys, values, and the projection of the result
    count = hidden * (2 * keys + values) + values * hidden
    count += attention.conv_width * (2 * keys + values) + _gate(attention, hidden)
    if attention.kind == "lightning":
        return count + values  # the norm of the result, over all heads
    if attention.kind == "mamba2":
        # step sizes; bias of the convolution; three numbers per head; the norm of the result
        return count + hidden * heads + 2 * keys + values + 3 * heads + values
    if attention.kind == "kda":
        # strength of each head's update; decays, their bias and scale; a norm for all heads
        rank = attention.decay_rank
        decays = rank * (hidden + keys) if rank else hidden * keys
        return count + hidden * heads + decays + keys + heads + attention.v_dim
    # decay and strength of each head's update; its norm is shared by the heads
    return count + hidden * 2 * heads + 2 * heads + attention.v_dim


def _compressed_attention(model: Model) -> int:
    """DeepSeek-V4: attention to a window and to compressed entries, which an indexer may choose."""
    attention, hidden = model.attention, model.hidden_size
    width, rank = attention.head_dim, attention.q_lora_rank
    query = attention.num_heads * width
    # queries with the norm of their latent; keys, which are values, with their norm; sinks
    count = hidden * rank + rank + rank * query + hidden * width + width + attention.num_heads
    count += query * attention.o_lora_rank
    count += attention.o_groups * attention.o_lora_rank * hidden
    if attention.compress:
        count += _compressor(attention, hidden, width)
    if attention.index_top_k:
        index = attention.index_head_dim
        count += _compressor(attention, hidden, index)
        count += rank * attention.index_heads * index + hidden * attention.index_heads
    return count


def compressor_outputs(attention: Attention, width: int) -> int:
    """Elements that are made of a token to compress it: values and gates, of two windows' overlap.

    Entries that an indexer chooses among are made of windows that overlap by half.
    """
    return (4 if attention.index_top_k else 2) * width


def _compressor(attention: Attention, hidden: int, width: int) -> int:
    outputs = compressor_outputs(attention, width)
    # values and gates, biases of the positions of a window, and the norm of the entry
    return hidden * outputs + attention.compress * (outputs // 2) + width


def _latent_attention(model: Model) -> int:
    attention = model.attention
    hidden = model.hidden_size
    query = attention.num_heads * attention.qk_dim
    compressed = attention.kv_lora_rank + attention.qk_rope_head_dim
    if attention.q_lora_rank:
        # down-projection, its norm, up-projection
        rank = attention.q_lora_rank
        count = hidden * rank + rank + rank * query
        count += rank if attention.bias else 0
    else:
        count = hidden * query
    expanded = attention.num_heads * (attention.qk_nope_head_dim + attention.v_head_dim)
    count += hidden * compressed + attention.kv_lora_rank * (1 + expanded)
    count += compressed if attention.bias else 0
    count += attention.num_heads * attention.v_head_dim * hidden
    if attention.index_top_k:
        # queries from the query's latent, one key for all heads with its norm, weights of heads
        index = attention.index_head_dim
        query_input = attention.q_lora_rank or hidden
        count += query_input * attention.index_heads * index + hidden * index + 2 * index
        count += hidden * attention.index_heads
    return count + _gate(attention, hidden) + (hidden if attention.output_bias else 0)


def _feed_forward(model: Model, width: int, hidden: int, *, bias: bool) -> int:
    inputs = 2 if model.gated_ffn else 1
    matrices = (inputs + 1) * hidden * width
    return matrices + (inputs * width + hidden if bias else 0)


def expert_parameters(model: Model) -> int:
    """Parameters of one routed expert (0 for a dense model)."""
    if not model.num_moe_layers:
        return 0
    return _feed_forward(model, model.expert_ffn_size, model.expert_hidden, bias=model.expert_bias)


def shared_expert_parameters(model: Model) -> int:
    """Parameters of one layer's shared experts together, and of their gate."""
    if not model.num_moe_layers or not model.shared_expert_ffn_size:
        return 0
    gate = model.hidden_size if model.shared_expert_gate else 0
    return _feed_forward(model, model.shared_expert_ffn_size, model.hidden_size, bias=False) + gate


def router_parameters(model: Model) -> int:
    """Parameters of one layer's router, with its per-expert bias if it has one."""
    if not model.num_moe_layers:
        return 0
    choices = model.num_experts + model.zero_experts
    return choices * (model.hidden_size + (1 if model.router_bias else 0))


def expert_projection_parameters(model: Model) -> int:
    """Parameters of one layer's projections to the experts' hidden size and back (0: none)."""
    return 2 * model.hidden_size * model.expert_hidden_size if model.num_moe_layers else 0


def dense_ffn_parameters(model: Model, width: int | None = None) -> int:
    """Parameters of one dense feed-forward of a width, or of the widest that the model has."""
    width = max(model.ffn_widths, default=0) if width is None else width
    return _feed_forward(model, width, model.hidden_size, bias=model.ffn_bias) if width else 0


def stream_parameters(model: Model) -> int:
    """Parameters of one block's hyper-connections: two mixes of streams and a matrix of them."""
    streams = model.residual_streams
    mixed = (2 + streams) * streams
    return mixed * (streams * model.hidden_size + 1) + 3 if streams > 1 else 0


def norm_parameters(model: Model) -> int:
    """Parameters of one norm over the hidden state; a block has one or two, the model one more."""
    return model.hidden_size * (2 if model.norm_bias else 1)


def embedding_parameters(model: Model) -> int:
    """Parameters of the tables that turn tokens, and positions, into hidden states."""
    return (model.vocab_size + model.learned_positions) * model.hidden_size


def output_parameters(model: Model) -> int:
    """Parameters of the output projection beyond the input table, if the two are tied."""
    matrix = 0 if model.tied_embeddings else model.vocab_size * model.hidden_size
    return matrix + (model.vocab_size if model.lm_head_bias else 0)


def mtp_parameters(model: Model) -> int:
    """Parameters of a module of multi-token prediction beyond its layer: projection and norms."""
    return 2 * model.hidden_size**2 + 3 * norm_parameters(model)


def parameter_parts(
    model: Model, embeddings: EmbeddingConvention = "both"
) -> tuple[ParameterCount, ...]:
    """Every kind of weights of a model, in the order in which a token meets them.

    Parameters
    ----------
    model
        The model's shape.
    embeddings
        Which embedding tables a token is said to use (``active``); all copies are always listed
        in ``count``.
    """
    mixtures = model.num_moe_layers
    projected = expert_projection_parameters(model)
    # A tied table does the output projection, so it is used under "output" as well.
    uses_input = embeddings == "both" or (embeddings == "output" and model.tied_embeddings)
    uses_output = embeddings != "none"
    routed = mixtures * model.num_experts
    chosen = mixtures * model.experts_per_token
    norms = model.num_blocks * (2 if model.post_norms else 1) + 1
    parts = (
        ParameterCount("input embedding", embedding_parameters(model), 1, int(uses_input)),
        *_attention_parts(model),
        ParameterCount("norms", norm_parameters(model), norms, norms),
        ParameterCount(
            "hyper-connections", stream_parameters(model), model.num_blocks, model.num_blocks
        ),
        *(
            ParameterCount("dense feed-forward", dense_ffn_parameters(model, width), count, count)
            for width, count in model.ffn_widths.items()
        ),
        ParameterCount("router", router_parameters(model), mixtures, mixtures),
        ParameterCount("expert projections", projected, mixtures, mixtures),
        ParameterCount("routed experts", expert_parameters(model), routed, chosen),
        ParameterCount("shared experts", shared_expert_parameters(model), mixtures, mixtures),
        ParameterCount("output projection", output_parameters(model), 1, int(uses_output)),
        ParameterCount(
            "multi-token prediction", mtp_parameters(model), model.mtp_layers, model.mtp_layers
        ),
    )
    return tuple(part for part in parts if part.each and part.count)


#: what kinds of attention are called in a list of parts
_PART_NAMES = {
    "delta": "linear attention",
    "kda": "linear attention",
    "lightning": "linear attention",
    "mamba": "Mamba",
    "mamba2": "Mamba-2",
}


def _attention_parts(model: Model) -> list[ParameterCount]:
    """Weights of attention, of each kind where layers differ in how many they have."""
    counts: dict[tuple[str, int], int] = {}
    for variant, layers in zip(model.variants, model.attentions.values(), strict=True):
        name = _PART_NAMES.get(variant.attention.kind, "attention")
        key = (name, attention_parameters(variant))
        counts[key] = counts.get(key, 0) + layers
    return [ParameterCount(*key, layers, layers) for key, layers in counts.items()]


def total_parameters(model: Model, embeddings: EmbeddingConvention = "both") -> int:
    """All parameters of a model, with the embedding tables that ``embeddings`` names."""
    parts = parameter_parts(model, embeddings)
    tables = ("input embedding", "output projection")
    return sum(part.total_active if part.name in tables else part.total for part in parts)


def active_parameters(model: Model, embeddings: EmbeddingConvention | None = None) -> int:
    """Parameters that one token goes through.

    Parameters
    ----------
    model
        The model's shape.
    embeddings
        Which embedding tables count. By default the count is the publisher's: the tables that
        ``model.active_embeddings`` names, and the routers if ``model.active_router``; with an
        argument, routers are always counted.
    """
    convention = model.active_embeddings if embeddings is None else embeddings
    count = sum(part.total_active for part in parameter_parts(model, convention))
    if embeddings is None and not model.active_router:
        count -= model.num_moe_layers * router_parameters(model)
    return count
