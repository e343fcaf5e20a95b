"""Linear layers of attention on one GPU: their sizes, written once for times of any pass.

Fewer key-value heads than TP ranks are repeated, so that each rank has one. Down-projections of
latent attention are whole on every rank and work on its share of the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.models.model import Model


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
    if attention.linear:
        return _linear_projections(model, tokens, tp)
    if attention.kind == "gqa":
        query = attention.num_heads * attention.head_dim / tp
        key = max(attention.num_kv_heads / tp, 1) * attention.head_dim
        return (
            Linear(tokens, hidden, (2 if attention.output_gate else 1) * query + 2 * key),
            Linear(tokens, query, hidden, quantized=False),
        )
    share = tokens / tp
    down = [Linear(share, hidden, attention.kv_lora_rank + attention.qk_rope_head_dim)]
    if attention.q_lora_rank:
        down.insert(0, Linear(share, hidden, attention.q_lora_rank))
    if attention.index_top_k:
        # each rank indexes its share of the sequence
        index = attention.index_heads * attention.index_head_dim
        down.append(Linear(share, attention.q_lora_rank or hidden, index))
        down.append(Linear(share, hidden, attention.index_head_dim + attention.index_heads))
    values = attention.num_heads / tp * attention.v_head_dim
    output = Linear(tokens, values, hidden, quantized=False)
    return (*latent_projections(model, tokens, tp), *down, output)


def _linear_projections(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """Of linear attention: queries, keys, values, gate, and two numbers per head of delta rules."""
    attention = model.attention
    values = attention.num_heads / tp * attention.v_dim
    keys = max(attention.num_kv_heads / tp, 1) * attention.qk_dim
    made = 2 * keys + (2 if attention.output_gate else 1) * values
    if attention.kind == "delta":
        made += 2 * attention.num_heads / tp
    return (
        Linear(tokens, model.hidden_size, made),
        Linear(tokens, values, model.hidden_size, quantized=False),
    )


def latent_projections(model: Model, tokens: float, tp: int) -> tuple[Linear, ...]:
    """Those of latent attention that make heads of latent vectors; none of other attention."""
    attention = model.attention
    if attention.kind != "mla":
        return ()
    heads = attention.num_heads / tp
    expanded = heads * (attention.qk_nope_head_dim + attention.v_head_dim)
    return (
        Linear(tokens, attention.q_lora_rank or model.hidden_size, heads * attention.qk_dim),
        Linear(tokens, attention.kv_lora_rank, expanded),
    )
