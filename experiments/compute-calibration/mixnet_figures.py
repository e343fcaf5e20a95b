"""What MixNet's Figures 3 and 12 imply about compute speed. Compared, never fitted.

Figure 3: Mixtral 8x7B on 128 H800, micro-batch 8: experts take more than 100 ms forward.
Figure 12: normalized step times of two models on 1,024 GPUs at four link rates. A column of
them is fitted by step = C + V / rate; with the all-to-all volume of the model, C becomes a time
and so a speed. Both are compared with ``ComputeModel``.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lightloom.hardware import load_gpu
from lightloom.models import Model, load_model
from lightloom.workload.compute import ComputeModel

GPUS_PER_SERVER = 8
BF16 = 2

#: the published figures: lower bound of expert time forward, band of the all-to-all share
FIGURE_3_EXPERT_S = 0.100
FIGURE_3_SHARE = (0.33, 0.55)

#: FLOPs of a step per FLOP forward: forward, data gradient, weight gradient
PASSES = 3

#: all-to-alls of a layer: dispatch and combine, forward and backward
ALL_TO_ALLS = 4


@dataclass(frozen=True)
class Layer:
    """One MoE layer of one micro-batch under a published plan; per GPU."""

    model: Model
    tp: int
    ep: int
    pp: int
    tokens: int

    @classmethod
    def published(cls, name: str) -> Layer:
        """The layer under the plan published with the model (MixNet, Table 1 and D.1)."""
        model = load_model(name)
        plan = model.plan
        assert plan is not None, f"{name} has no published plan"
        return cls(model, plan.tp, plan.ep, plan.pp, plan.micro_batch_size * plan.seq_len)

    @property
    def expert_flops(self) -> float:
        """Forward FLOPs of the experts on one GPU, tokens evenly routed."""
        model = self.model
        copies = self.tokens * model.experts_per_token
        return 2 * 3 * model.hidden_size * model.expert_ffn_size * copies / self.tp

    @property
    def flops(self) -> float:
        """Forward FLOPs of the layer on one GPU: experts, projections and causal attention."""
        model, attention = self.model, self.model.attention
        width = attention.head_dim * (2 * attention.num_heads + 2 * attention.num_kv_heads)
        projections = 2 * self.tokens * model.hidden_size * width
        assert model.plan is not None
        heads = attention.num_heads * (attention.qk_dim + attention.v_dim)
        scores = self.tokens * model.plan.seq_len * heads
        return self.expert_flops + (projections + scores) / self.tp

    def all_to_all_bits(self, imbalance: float) -> float:
        """Bits through the busiest NIC in one all-to-all; one NIC per GPU, peers on NVSwitch."""
        ranks_per_server = max(1, GPUS_PER_SERVER // self.tp)
        outside = (self.ep - ranks_per_server) / self.ep
        copies = self.tokens / self.tp * self.model.experts_per_token
        return 8 * BF16 * copies * self.model.hidden_size * outside * imbalance

    def compute_s(self, compute: ComputeModel) -> tuple[float, float]:
        """Forward time of the experts, and forward plus backward time of the layer, s."""
        model, tp = self.model, self.tp
        assert model.plan is not None
        copies = self.tokens * model.experts_per_token
        per_gpu = model.num_experts // self.ep
        experts = [float(compute.experts(model, copies, per_gpu, tp, b)) for b in (False, True)]
        total = sum(experts)
        for backward in (False, True):
            total += compute.gate(model, self.tokens, backward, tp)
            total += compute.attention_layer(
                model, self.tokens, model.plan.seq_len, tp, 1, backward
            )
        return experts[0], total


@dataclass(frozen=True)
class Column:
    """Published step times of one model on one fabric, and their fit step = C + V / rate."""

    model: str
    fabric: str
    rates_gbps: tuple[float, ...]
    steps: tuple[float, ...]

    def fit(self) -> tuple[float, float, float]:
        """C, V in Gb/s (steps are dimensionless), and the largest relative residual."""
        inverse = 1 / np.array(self.rates_gbps)
        matrix = np.column_stack([np.ones_like(inverse), inverse])
        steps = np.array(self.steps)
        (constant, volume), *_ = np.linalg.lstsq(matrix, steps, rcond=None)
        residual = np.max(np.abs(matrix @ [constant, volume] / steps - 1))
        return float(constant), float(volume), float(residual)


NAMES = {"Mixtral 8*7B": "mixtral-8x7b", "Mixtral 8*22B": "mixtral-8x22b"}


def read_columns(path: Path) -> list[Column]:
    """Columns of the published table."""
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    fabrics = [key for key in rows[0] if key not in ("Model", "Bandwidth")]
    columns = []
    for model in dict.fromkeys(row["Model"] for row in rows):
        mine = [row for row in rows if row["Model"] == model]
        rates = tuple(float(row["Bandwidth"]) for row in mine)
        for fabric in fabrics:
            steps = tuple(float(row[fabric]) for row in mine)
            columns.append(Column(NAMES[model], fabric, rates, steps))
    return columns


def matrix_imbalance(path: Path) -> float:
    """Busiest rank over the mean of a token matrix, its own tokens left out."""
    matrix = np.array(json.loads(path.read_text(encoding="utf-8")), dtype=float)
    np.fill_diagonal(matrix, 0)
    busiest = max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())
    return float(busiest / (matrix.sum() / len(matrix)))


def _compute(gpu: str, sustained: float) -> ComputeModel:
    """The compute model of a GPU with this sustained factor, which may be newer than the file's."""
    compute = ComputeModel.load(gpu)
    efficiencies = dataclasses.replace(compute.efficiencies, sustained=sustained)
    return compute.with_efficiencies(efficiencies)


def figure_3(sustained: float) -> str:
    """Two readings of Figure 3 compared with the compute model."""
    layer = Layer.published("mixtral-8x7b")
    gpu = load_gpu("h800")
    compute = _compute("h800", sustained)
    expert_s, _ = layer.compute_s(compute)
    rate = 400e9
    line_s = 2 * layer.all_to_all_bits(1.0) / rate
    lines = [
        "| reading of Figure 3 | expert FLOPs per GPU | at peak [ms] | 100 ms is [% of peak] |"
        " our experts [ms] | two all-to-alls at line rate [ms] | share 33-55 % needs [ms] |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    per_stage = layer.model.num_layers // layer.pp
    for reading, layers in (("one layer", 1), (f"the {per_stage} layers of a stage", per_stage)):
        flops = layers * layer.expert_flops
        peak_s = flops / gpu.peak_bf16_flops
        needed = [FIGURE_3_EXPERT_S * share / (1 - share) for share in FIGURE_3_SHARE]
        lines.append(
            f"| {reading} | {flops:.3g} | {1e3 * peak_s:.1f} |"
            f" {100 * peak_s / FIGURE_3_EXPERT_S:.0f} | {1e3 * layers * expert_s:.1f} |"
            f" {1e3 * layers * line_s:.1f} | {1e3 * needed[0]:.0f}-{1e3 * needed[1]:.0f} or more |"
        )
    return "\n".join(lines)


def figure_12(shared: Path, sustained: float) -> str:
    """Fits of all columns, and the compute speed that each implies."""
    imbalance = matrix_imbalance(shared / "data" / "mixtral_8x8_token_matrix.txt")
    columns = read_columns(shared / "data" / "mixnet_published_mixtral.csv")
    a100 = load_gpu("a100")
    compute = _compute("a100", sustained)
    lines = [
        "| model | fabric | C | V [Gb/s] | worst residual [%] | V/rate of the step at 400 Gb/s"
        " [%] | implied speed, even load [% of A100 peak] |"
        f" with imbalance {imbalance:.2f} [% of A100 peak] | our A100 [% of peak] |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for column in columns:
        constant, volume, residual = column.fit()
        layer = Layer.published(column.model)
        _, ours_s = layer.compute_s(compute)
        flops = PASSES * layer.flops
        speeds = []
        for factor in (1.0, imbalance):
            # V stands for the all-to-alls of every layer and micro-batch, C for their compute.
            layer_s = constant / volume * 1e-9 * ALL_TO_ALLS * layer.all_to_all_bits(factor)
            speeds.append(100 * flops / layer_s / a100.peak_bf16_flops)
        share = volume / 400 / (constant + volume / 400)
        lines.append(
            f"| {column.model} | {column.fabric} | {constant:.3f} | {volume:.1f} |"
            f" {100 * residual:.1f} | {100 * share:.1f} | {speeds[0]:.0f} | {speeds[1]:.0f} |"
            f" {100 * flops / ours_s / a100.peak_bf16_flops:.0f} |"
        )
    return "\n".join(lines)


def parts(shared: Path, sustained: float) -> dict[str, str]:
    """Tables of the document by name."""
    return {"figure-3": figure_3(sustained), "figure-12": figure_12(shared, sustained)}
