"""Curves of Hopper GPUs (H100, H800, H200) from public figures of their kernels.

No single table covers a training step on Hopper, so products come from the tables of XLA's cost
model and of DeepGEMM, attention from FlashAttention-3 (``products_hopper.csv`` and
``attention_hopper.csv`` have every row). What nobody published is derived from the other operators
as on the GPUs that were measured as a whole, and marked as assumed.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import fit_operators as common

HERE = Path(__file__).resolve().parent

BF16_PEAK, FP8_PEAK = 989.4e12, 1978.9e12
BANDWIDTH = 3.35e12

#: weight gradients that accumulate in FP32 reach this share of the forward product's efficiency
#: (A100 0.95, B200 0.96 at large sizes), the FP32 traffic apart
ACCUMULATE = 0.95

#: memory efficiency of grouped products: those of the tables fit in the cache of the GPU, those of
#: a training step do not
GROUPED_BANDWIDTH = 0.8

SOURCES = """[sources.xla]
text = "OpenXLA (Apache-2.0), xla/service/gpu/model/matmul_interpolator_data.h: measured matrix \
products on sm_90"
date = "2025"
url = "https://github.com/openxla/xla"

[sources.deepgemm]
text = "DeepSeek-AI, DeepGEMM (MIT), README of the first release: FP8 with block scales on H800"
date = "2025-02"
url = "https://github.com/deepseek-ai/DeepGEMM"

[sources.flash3]
text = "Shah et al., FlashAttention-3, arXiv 2407.08608, Figures 5 and 6 (H100 SXM5, FP16, \
forward causal, backward not), and meta-pytorch/tritonbench, pull request 1267: causal forward \
and backward of FlashAttention-3 on H100"
date = "2024-07 and 2026-09"
url = "https://arxiv.org/abs/2407.08608"

[sources.derived]
text = "derived from the forward operator of this file: weight gradients as on A100 and B200 \
(SimuMax), latent attention backward 0.78 of heads of 128 as on B200"
date = "2026-11"

[sources.copy]
text = "device-to-device copy and STREAM triad on H100 80GB HBM3: 3.0 TB/s of 3.35; norms and \
activation functions at 0.9 of it, as on A100"
date = "2026"

[sources.simumax]
text = "MooreThreads/SimuMax (Apache-2.0), configs/system: unfused kernels measured on A100 80GB \
PCIe, fused loss on B200"
date = "2026-04"
url = "https://github.com/MooreThreads/SimuMax"

"""

#: share of the memory rate, source, whether assumed
MEMORY = {
    "elementwise": (0.8, "copy", True),
    "permute": (common.FUSED_PERMUTE, "tileops", False),
    "permute_unfused": (0.06146, "simumax", True),
    "cross_entropy": (0.3, "simumax", True),
    "optimizer": (0.8, "copy", True),
}


@dataclass(frozen=True)
class Device:
    """Peaks that efficiencies are fractions of; what ``fit_operators`` needs of a device."""

    peak: float
    bandwidth: float = BANDWIDTH


def product_rows(operator: str, peak: float, element: float) -> common.Rows:
    """Rows of one operator; sizes are per expert."""
    with (HERE / "products_hopper.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["operator"] == operator]
    points = []
    for row in rows:
        m, n, k = (float(row[name]) for name in ("m", "n", "k"))
        size_bytes = element * (m * k + k * n) + 2 * m * n
        points.append((2 * m * n * k, size_bytes, float(row["tflops"]) * 1e12 / peak))
    return common.as_rows(points)


def attention_rows(operator: str) -> common.Rows:
    """Rows of attention; half of the score pairs are computed where it is causal."""
    with (HERE / "attention_hopper.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["operator"] == operator]
    points = []
    for row in rows:
        batch, heads, seq_len, dim = (
            float(row[name]) for name in ("batch", "heads", "seq_len", "head_dim")
        )
        flops = 2.0 * seq_len**2 * heads * 2 * dim * batch
        flops *= 0.5 if row["causal"] == "true" else 1.0
        flops *= 2.5 if operator.endswith("backward") else 1.0
        points.append((flops, 0.0, float(row["tflops"]) * 1e12 / BF16_PEAK))
    return common.as_rows(points)


def fits() -> dict[str, common.Fit]:
    """Every operator, measured or assumed."""
    found: dict[str, common.Fit] = {}
    for suffix, peak, element, source in (
        ("", BF16_PEAK, 2.0, "xla"),
        ("_fp8", FP8_PEAK, 1 + 1 / 32, "deepgemm"),
    ):
        device = Device(peak)
        rows = product_rows(f"matmul{suffix}", peak, element)
        dense = replace(common.fit_curve(rows, device, use_bytes=True), source=source)
        rows = product_rows(f"grouped_matmul{suffix}", peak, element)
        grouped = replace(common.fit_grouped(rows, device, None, GROUPED_BANDWIDTH), source=source)
        found[f"matmul{suffix}"] = dense
        found[f"matmul_accumulate{suffix}"] = common.assume(dense, "derived", ACCUMULATE)
        found[f"grouped_matmul{suffix}"] = grouped
        found[f"grouped_matmul_dgrad{suffix}"] = common.assume(grouped, "derived")
        found[f"grouped_matmul_wgrad{suffix}"] = common.assume(grouped, "derived", ACCUMULATE)
    for direction, factor in (("forward", 1.0), ("backward", 0.78)):
        name = f"attention_{direction}"
        fit = common.fit_curve(attention_rows(name), Device(BF16_PEAK), use_bytes=False)
        found[name] = replace(fit, source="flash3")
        found[f"attention_latent_{direction}"] = common.assume(fit, "derived", factor)
    return found


def build() -> dict[str, str]:
    """Text of the data file, by its name."""
    memory = []
    for kind, (share, source, assumed) in MEMORY.items():
        memory += [
            f"[memory.{kind}]",
            f"bandwidth_efficiency = {share:.4g}",
            f'source = "{source}"',
        ]
        memory += ["assumed = true", ""] if assumed else [""]
    text = common.as_toml(
        "H100, H800 and H200",
        Path(__file__).name,
        SOURCES + common.FUSED_PERMUTE_SOURCE,
        "\n".join(memory),
        fits(),
    )
    return {"efficiency_h100.toml": text}
