"""Parameter counts of a model, from its shape.

Counts are of weights, whatever their storage (an FP4 weight is one). What a count includes of the
embedding tables is an argument, because publishers differ: see
:data:`lightloom.models.model.EmbeddingConvention`. Totals include both tables by default, active
counts follow the publisher of the model's family. Multi-token prediction layers are not counted.

Sources of the formulas: the layers of the reference implementations (Hugging Face transformers,
``models/*/modeling_*.py``); for latent attention, DeepSeek-V2 (arXiv 2405.04434), section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.models.model import EmbeddingConvention, Model


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
    if attention.kind == "mla":
        return _latent_attention(model)
    if attention.linear:
        return _linear_attention(model)
    hidden = model.hidden_size
    query = attention.num_heads * attention.head_dim
    key_value = attention.num_kv_heads * attention.head_dim
    count = hidden * (query + 2 * key_value) + query * hidden
    if attention.bias:
        count += query + 2 * key_value
    if attention.output_bias:
        count += hidden
    if attention.qk_norm:
        count += 2 * attention.head_dim if attention.qk_norm_per_head else query + key_value
    if attention.sinks:
        count += attention.num_heads
    if attention.output_gate:
        count += hidden * query
    return count


def _linear_attention(model: Model) -> int:
    """Linear attention, as in the reference implementations of Qwen3-Next and MiniMax-Text-01."""
    attention, hidden = model.attention, model.hidden_size
    keys = attention.num_kv_heads * attention.qk_dim
    values = attention.num_heads * attention.v_dim
    # queries, keys, values, and the projection of the result
    count = hidden * (2 * keys + values) + values * hidden
    count += hidden * values if attention.output_gate else 0
    count += attention.conv_width * (2 * keys + values)
    if attention.kind == "lightning":
        return count + values  # the norm of the result, over all heads
    # decay and strength of each head's update; its norm is shared by the heads
    return count + hidden * 2 * attention.num_heads + 2 * attention.num_heads + attention.v_dim


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
    return count + (hidden if attention.output_bias else 0)


def _feed_forward(model: Model, width: int, *, bias: bool) -> int:
    inputs = 2 if model.gated_ffn else 1
    matrices = (inputs + 1) * model.hidden_size * width
    return matrices + (inputs * width + model.hidden_size if bias else 0)


def expert_parameters(model: Model) -> int:
    """Parameters of one routed expert (0 for a dense model)."""
    if not model.num_moe_layers:
        return 0
    return _feed_forward(model, model.expert_ffn_size, bias=model.expert_bias)


def shared_expert_parameters(model: Model) -> int:
    """Parameters of one layer's shared experts together, and of their gate."""
    if not model.num_moe_layers or not model.shared_expert_ffn_size:
        return 0
    gate = model.hidden_size if model.shared_expert_gate else 0
    return _feed_forward(model, model.shared_expert_ffn_size, bias=False) + gate


def router_parameters(model: Model) -> int:
    """Parameters of one layer's router, with its per-expert bias if it has one."""
    if not model.num_moe_layers:
        return 0
    return model.num_experts * (model.hidden_size + (1 if model.router_bias else 0))


def dense_ffn_parameters(model: Model) -> int:
    """Parameters of one dense layer's feed-forward (0 where every layer is a mixture)."""
    if model.num_moe_layers == model.num_layers:
        return 0
    return _feed_forward(model, model.ffn_size, bias=model.ffn_bias)


def norm_parameters(model: Model) -> int:
    """Parameters of one norm over the hidden state; a layer has two, the model one more."""
    return model.hidden_size * (2 if model.norm_bias else 1)


def embedding_parameters(model: Model) -> int:
    """Parameters of the tables that turn tokens, and positions, into hidden states."""
    return (model.vocab_size + model.learned_positions) * model.hidden_size


def output_parameters(model: Model) -> int:
    """Parameters of the output projection beyond the input table, if the two are tied."""
    matrix = 0 if model.tied_embeddings else model.vocab_size * model.hidden_size
    return matrix + (model.vocab_size if model.lm_head_bias else 0)


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
    layers, mixtures = model.num_layers, model.num_moe_layers
    # A tied table does the output projection, so it is used under "output" as well.
    uses_input = embeddings == "both" or (embeddings == "output" and model.tied_embeddings)
    uses_output = embeddings != "none"
    routed = mixtures * model.num_experts
    chosen = mixtures * model.experts_per_token
    dense = layers - mixtures
    parts = (
        ParameterCount("input embedding", embedding_parameters(model), 1, int(uses_input)),
        *_attention_parts(model),
        ParameterCount("norms", norm_parameters(model), 2 * layers + 1, 2 * layers + 1),
        ParameterCount("dense feed-forward", dense_ffn_parameters(model), dense, dense),
        ParameterCount("router", router_parameters(model), mixtures, mixtures),
        ParameterCount("routed experts", expert_parameters(model), routed, chosen),
        ParameterCount("shared experts", shared_expert_parameters(model), mixtures, mixtures),
        ParameterCount("output projection", output_parameters(model), 1, int(uses_output)),
    )
    return tuple(part for part in parts if part.each and part.count)


def _attention_parts(model: Model) -> list[ParameterCount]:
    """Weights of attention, of each kind where layers differ in how many they have."""
    counts: dict[tuple[str, int], int] = {}
    for variant, layers in zip(model.variants, model.attentions.values(), strict=True):
        name = "linear attention" if variant.attention.linear else "attention"
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
