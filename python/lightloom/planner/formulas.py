"""The memory formulas that MoNTA publishes (arXiv 2411.00662, tables 3 and 4), and corrected ones.

They are for hand calculations; :func:`~lightloom.parallel.memory.memory_per_stage` is what plans
are judged by. What is corrected: experts are replicated ``d / e`` times, not ``d`` times, so that
ZeRO shards their states over ``d / e`` ranks; under TP the scores of attention are divided as well;
and each rank sends and gets ``k`` copies per token whatever the EP degree, not ``k / e``.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.errors import PlanError

#: bytes of parameters and gradients (2 + 2) and of the optimizer (12) that each ZeRO stage keeps
#: whole, and that it shards
ZERO = {"ZeRO-0": (16, 0), "ZeRO-1": (4, 12), "ZeRO-2": (2, 14), "ZeRO-3": (0, 16)}


@dataclass(frozen=True)
class FormulaRow:
    """Bytes of one configuration by a formula, as it is printed and corrected."""

    name: str
    printed_bytes: float
    corrected_bytes: float


@dataclass(frozen=True, kw_only=True)
class FormulaJob:
    """What the formulas need.

    Attributes
    ----------
    parameters, expert_parameters
        Of the whole model: without its routed experts, and of these.
    layers, hidden, heads, top_k
        Layers of the first stage, hidden size, query heads, experts per token.
    seq, batch
        Tokens of a sequence, sequences of a micro-batch.
    pp, tp, ep, dp
        Degrees; ``dp`` of the dense parts, within which EP ranks are.

    Raises
    ------
    PlanError
        If EP does not divide the data-parallel degree of the dense parts.
    """

    parameters: float
    expert_parameters: float
    layers: int
    hidden: int
    heads: int
    top_k: int
    seq: int
    batch: int
    pp: int
    tp: int
    ep: int
    dp: int

    def __post_init__(self) -> None:
        if self.dp % self.ep:
            raise PlanError(
                f"formulas: EP {self.ep} does not divide the {self.dp} data-parallel ranks of the "
                "dense parts; expected a divisor"
            )

    def states(self) -> list[FormulaRow]:
        """Parameters, gradients and optimizer of a GPU under each ZeRO stage (table 3)."""
        dense = self.parameters / (self.pp * self.tp)
        experts = self.expert_parameters / (self.pp * self.tp * self.ep)
        rows = []
        for name, (kept, sharded) in ZERO.items():
            alike = kept + sharded / self.dp
            among_copies = kept + sharded * self.ep / self.dp
            rows.append(
                FormulaRow(name, alike * (dense + experts), alike * dense + among_copies * experts)
            )
        return rows

    def activations(self) -> list[FormulaRow]:
        """Activations of a micro-batch in the first stage (table 4)."""
        scale = float(self.batch * self.seq * self.hidden * self.layers)
        t, k, fewer = self.tp, self.top_k, self.top_k / self.ep
        scores = 5 * self.heads * self.seq / self.hidden
        rows = [
            ("no parallelism", 13 + 21 * k + scores, 13 + 21 * k + scores),
            (
                "PP, TP, EP",
                5 + 5 * fewer + (8 + 16 * fewer) / t + scores,
                5 + 5 * k + (8 + 16 * k + scores) / t,
            ),
            ("... and SP", (13 + 21 * fewer) / t + scores, (13 + 21 * k + scores) / t),
            ("... selective", (13 + 21 * fewer) / t, (13 + 21 * k) / t),
            ("... full", 2 / t, 2 / t),
        ]
        return [FormulaRow(name, scale * printed, scale * right) for name, printed, right in rows]
