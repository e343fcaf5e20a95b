"""Linear layers of attention on one GPU: their sizes, written once for times of any pass.

Fewer key-value heads than TP ranks are repeated, so that each rank has one. Down-projections of
latent attention are whole on every rank and work on its share of the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.models.model import Model
from lightloom.models.parameters import compressor_outputs


@dataclass(frozen=True)
class Linear:
    """A linear layer for so many tokens; ``quantized`` where a norm before it writes in FP8."""

    tokens: float
    inputs: float
    outputs: float
    quantized: bool = True

    @property
    def sizes(self) -> tuple[float, float, float]:
        """Tokens, inputs and outputs."""
        return self.tokens, self.inputs, self.outputs


def projections(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """All linear layers of attention for the tokens of a TP group."""
    attention, hidden = model.attention, model.hidden_size
    if attention.kind == "none":
        return ()
    if attention.linear:
        return _linear_projections(model, tokens, tp)
    if attention.kind == "gqa":
        return _grouped_projections(model, tokens, tp)
    if attention.kind == "csa":
        return _compressed_projections(model, tokens, tp)
    share = tokens / tp
    down = [Linear(share, hidden, attention.kv_lora_rank + attention.qk_rope_head_dim)]
    if attention.q_lora_rank:
        down.insert(0, Linear(share, hidden, attention.q_lora_rank))
    if attention.index_heads:
        # each rank indexes its share of the sequence
        index = attention.index_heads * attention.index_head_dim
        down.append(Linear(share, attention.q_lora_rank or hidden, index))
        down.append(Linear(share, hidden, attention.index_head_dim + attention.index_heads))
    values = attention.num_heads / tp * attention.v_head_dim
    if attention.output_gate:
        down.append(Linear(tokens, hidden, values))
    output = Linear(tokens, values, hidden, quantized=False)
    return (*latent_projections(model, tokens, tp), *down, output)


def _grouped_projections(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """Grouped-query attention: queries with keys, values, gate and what indexes; the result."""
    attention, hidden = model.attention, model.hidden_size
    heads = attention.num_heads / tp
    key_heads, values = max(attention.num_kv_heads / tp, 1), heads * attention.v_dim
    width_out = heads * attention.head_dim
    width_out += key_heads * (0, attention.head_dim, attention.kv_dim)[attention.kv_projections]
    width_out += (values if attention.output_gate else 0) + (heads if attention.head_gate else 0)
    if attention.index_heads:
        width_out += (attention.index_heads / tp + 1) * attention.index_head_dim
    return Linear(tokens, hidden, width_out), Linear(tokens, values, hidden, quantized=False)


def every_second(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """Layers whose results are not kept where those of every second product of attention are.

    Queries, keys, values and the result are four products there (torchtitan), so that keys and the
    result are computed again; of other attention it is every second of its layers.
    """
    layers = projections(model, tokens, tp)
    attention = model.attention
    if attention.kind != "gqa":
        return layers[1::2]
    keys = max(attention.num_kv_heads / tp, 1) * attention.head_dim
    return Linear(tokens, model.hidden_size, keys), layers[-1]


def _compressed_projections(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """DeepSeek-V4's attention: latents, keys and entries, whole on every rank as in MLA."""
    attention, hidden = model.attention, model.hidden_size
    width, rank, share = attention.head_dim, attention.q_lora_rank, tokens / tp
    width_out = rank + width
    if attention.compress:
        width_out += compressor_outputs(attention, width)
    index = attention.index_heads * attention.index_head_dim
    if index:
        width_out += compressor_outputs(attention, attention.index_head_dim) + attention.index_heads
    heads, groups = attention.num_heads / tp, attention.o_groups / tp
    grouped = attention.num_heads * width / attention.o_groups
    return (
        Linear(share, hidden, width_out),
        *((Linear(share, rank, index),) if index else ()),
        Linear(tokens, rank, heads * width),
        # each group has a matrix of its own
        Linear(tokens * groups, grouped, attention.o_lora_rank, quantized=False),
        Linear(tokens, groups * attention.o_lora_rank, hidden),
    )


def expert_projections(model: Model, tokens: float) -> tuple[tuple[float, float, float], ...]:
    """Tokens, inputs and outputs of the projections to the experts' hidden size and back."""
    hidden, latent = model.hidden_size, model.expert_hidden_size
    if not latent or not model.num_moe_layers:
        return ()
    return (tokens, hidden, latent), (tokens, latent, hidden)


def _linear_projections(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """Linear attention: queries, keys, values, gate, decays; numbers per head; the result."""
    attention, hidden = model.attention, model.hidden_size
    heads = attention.num_heads / tp
    values = heads * attention.v_dim
    keys = max(attention.num_kv_heads / tp, 1) * attention.qk_dim
    result = Linear(tokens, values, hidden, quantized=False)
    if attention.kind == "mamba":
        steps = attention.decay_rank
        return (
            Linear(tokens, hidden, 2 * values),
            Linear(tokens, values, steps + 2 * keys, quantized=False),
            Linear(tokens, steps, values, quantized=False),
            result,
        )
    rates = {"delta": 2, "kda": 1, "mamba2": 1}.get(attention.kind, 0) * heads
    width_out = 2 * keys + values + rates
    wide = [(attention.gate_rank, values)] if attention.output_gate else []
    wide += [(attention.decay_rank, keys)] if attention.kind == "kda" else []
    width_out += sum(rank or width for rank, width in wide)
    low = (Linear(tokens, rank, width, quantized=False) for rank, width in wide if rank)
    return Linear(tokens, hidden, width_out), *low, result


def latent_projections(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """Projections that make heads of latent vectors; other attention than latent has none."""
    attention = model.attention
    if attention.kind != "mla":
        return ()
    heads = attention.num_heads / tp
    expanded = heads * (attention.qk_nope_head_dim + attention.v_head_dim)
    return (
        Linear(tokens, attention.q_lora_rank or model.hidden_size, heads * attention.qk_dim),
        Linear(tokens, attention.kv_lora_rank, expanded),
    )
