"""What is measured on a GPU: operators of the shapes that training has.

Without a model the shapes are those of common ones (hidden sizes of 2,048 to 7,168); with one they
are its own: its linear layers, its experts, its heads. Gradients are products of their own, as
frameworks run them: the one of the input with transposed weights, the one of the weights over
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lightloom.models.model import Model
from lightloom.workload.projections import projections

#: rows of products: tokens of a micro-batch, or of a share of it
TOKENS = (512, 2048, 8192)
#: inputs and outputs of linear layers
LINEAR = ((4096, 14336), (14336, 4096), (4096, 6144), (7168, 2048))
#: experts of a GPU, and rows of each
GROUPS = ((8, 128), (8, 1024), (32, 256), (32, 1024), (128, 128))
#: inputs and outputs of experts
EXPERTS = ((4096, 3072), (1536, 4096), (2048, 1536))
#: sequences, heads of queries and of keys, tokens, widths of keys and of values
ATTENTION = (
    (1, 32, 8, 2048, 128, 128),
    (1, 32, 8, 4096, 128, 128),
    (1, 32, 8, 8192, 128, 128),
    (1, 64, 8, 4096, 64, 64),
    (1, 16, 16, 4096, 192, 128),
)
#: tokens, copies and width of what is sent to experts; tokens and width of element-wise operators
PERMUTED, PLAIN = (4096, 8, 7168), (8192, 7168)


@dataclass(frozen=True)
class Operation:
    """One operation of a size.

    Attributes
    ----------
    operator
        Name of the operator in a profile; ``norm``, ``add``, ``permute`` and ``unpermute`` are
        condensed to memory-bound ones, and ``strided`` is the gate and product of SwiGLU.
    shape
        m, k, n of a product's forward pass, behind the number of experts where there are some; see
        :data:`ATTENTION`, :data:`PERMUTED` and :data:`PLAIN`.
    flops
        Its work, per expert for grouped products; 0 where bytes set the time.
    size_bytes
        What it reads and writes, per expert.
    parts
        Experts that both are per.
    """

    operator: str
    shape: tuple[int, ...]
    flops: float = 0.0
    size_bytes: float = 0.0
    parts: int = 1

    @property
    def in_fp8(self) -> bool:
        """Whether it multiplies in FP8."""
        return self.operator.endswith("_fp8")


@dataclass(frozen=True)
class TriedShapes:
    """Inputs and outputs of linear layers and experts, groups of experts, and attention."""

    linear: tuple[tuple[int, int], ...] = LINEAR
    groups: tuple[tuple[int, int], ...] = GROUPS
    experts: tuple[tuple[int, int], ...] = EXPERTS
    attention: tuple[tuple[int, ...], ...] = ATTENTION

    @classmethod
    def of(cls, model: Model) -> TriedShapes:
        """Those of a model, without parallelism within a layer."""
        linear = {
            (round(layer.inputs), round(layer.outputs)) for layer in projections(model, 1.0, 1)
        }
        gated = 2 if model.gated_ffn else 1
        if model.ffn_size:
            linear |= {
                (model.hidden_size, gated * model.ffn_size),
                (model.ffn_size, model.hidden_size),
            }
        experts: tuple[tuple[int, int], ...] = EXPERTS
        groups: tuple[tuple[int, int], ...] = GROUPS
        if model.num_moe_layers:
            width, hidden = model.expert_ffn_size, model.expert_hidden
            experts = ((hidden, gated * width), (width, hidden))
            most = min(model.num_experts, 128)
            groups = tuple({(min(count, most), rows) for count, rows in GROUPS})
        attention = model.attention
        own: tuple[tuple[int, ...], ...] = ()
        if attention.kind in {"gqa", "mla"}:
            keys = attention.num_kv_heads if attention.kind == "gqa" else attention.num_heads
            own = tuple(
                (1, attention.num_heads, keys, length, attention.qk_dim, attention.v_dim)
                for length in (2048, 4096, 8192)
            )
        return cls(tuple(sorted(linear)), tuple(sorted(groups)), experts, own or ATTENTION)


def product(operator: str, shape: tuple[int, ...], element: float = 2.0) -> Operation:
    """A product with its work and its bytes; results are BF16."""
    m, k, n = shape[-3:]
    reads = {"dgrad": m * n + k * n, "wgrad": m * (k + n), "accumulate": m * (k + n)}
    writes = {"dgrad": m * k, "wgrad": k * n, "accumulate": k * n}
    kind = operator.removesuffix("_fp8").rpartition("_")[2]
    size_bytes = element * reads.get(kind, m * k + k * n) + 2.0 * writes.get(kind, m * n)
    parts = shape[0] if len(shape) == 4 else 1
    return Operation(operator, shape, 2.0 * m * k * n, size_bytes, parts)


def attention(operator: str, shape: tuple[int, ...]) -> Operation:
    """Causal attention; half of the scores are computed, in the backward pass 2.5 times as much."""
    batch, heads, _, length, keys, values = shape
    flops = float(length) ** 2 * heads * (keys + values) * batch
    return Operation(operator, shape, flops * (2.5 if operator.endswith("backward") else 1.0))


def operations(shapes: TriedShapes, fp8: bool) -> Iterator[Operation]:
    """Everything that is measured, what matters most first; ``fp8`` if the GPU computes in it."""
    for sizes in shapes.linear:
        for tokens in TOKENS:
            for name in ("matmul", "matmul_dgrad", "matmul_accumulate"):
                yield product(name, (tokens, *sizes))
    for group in shapes.groups:
        for sizes in shapes.experts:
            for stage in ("", "_dgrad", "_wgrad"):
                yield product(f"grouped_matmul{stage}", (*group, *sizes))
    for shape in shapes.attention:
        for direction in ("forward", "backward"):
            latent = "latent_" if shape[4] != shape[5] else ""
            yield attention(f"attention_{latent}{direction}", shape)
    tokens, copies, width = PERMUTED
    for name in ("permute", "unpermute"):
        yield Operation(name, PERMUTED, size_bytes=2.0 * tokens * width * (1 + copies))
    for name in ("norm", "add"):
        yield Operation(name, PLAIN, size_bytes=2.0 * 2 * PLAIN[0] * PLAIN[1])
    # the gate reads and writes; the product reads two and writes
    yield Operation("strided", PLAIN, size_bytes=2.0 * 5 * PLAIN[0] * PLAIN[1])
    if fp8:
        for sizes in shapes.linear[:2]:
            for tokens in (1024, 4096, 8192):
                yield product("matmul_fp8", (tokens, *sizes), 1.0)
        for group in shapes.groups:
            for sizes in shapes.experts[:2]:
                yield product("grouped_matmul_fp8", (*group, *sizes), 1.0)
