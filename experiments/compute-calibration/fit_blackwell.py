"""Curves of B200, GB200, B300 and GB300, each from products measured on it.

``products_blackwell.csv`` and ``attention_blackwell.csv`` have rows of the tables of AIConfigurator
for the four GPUs: products in BF16, FP8 and NVFP4, and causal attention forward. What only training
runs (products of experts, gradients, accumulation in FP32) was measured by SimuMax on a server of
B200 that is slower as a whole; its fractions are taken relative to that server's own products, and
are marked as assumed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import fitting as common
import numpy as np
import numpy.typing as npt
from fitting import Fit

from lightloom.workload.compute_operators import FP8_ATTENTION

HERE = Path(__file__).resolve().parent
BANDWIDTH = 8e12
#: bytes of an operand's element, with its scales
ELEMENT = {"bf16": 2.0, "fp8": 1.0, "nvfp4": 0.5 + 1 / 16}
#: time of a score beside its products, backward over forward, as on H200 (``fit_hopper.py``)
BACKWARD_SCORES = 2.26
#: from this size on, products run at the speed that fractions of the other server are taken of
LARGE_FLOPS = 3e11

SOURCES = """[sources.aiconfigurator]
text = "ai-dynamo/aiconfigurator (Apache-2.0), systems/data/{gpu}, TensorRT-LLM 1.3.0rc20 at \
commit 095f58a5: measured products and attention (experiments/compute-calibration, \
*_blackwell.csv)"
date = "2026-08-21"
url = "https://github.com/ai-dynamo/aiconfigurator"

[sources.relative]
text = "MooreThreads/SimuMax (Apache-2.0), measured on B200, relative to the large products of \
that server; times the products of this GPU"
date = "2026-04"
url = "https://github.com/MooreThreads/SimuMax"

[sources.simumax]
text = "MooreThreads/SimuMax (Apache-2.0), memory-bound operators measured on B200"
date = "2026-04"
url = "https://github.com/MooreThreads/SimuMax"

"""


#: chips of ``attention_cudnn.csv``
CUDNN_CHIPS = ("gb200", "gb300")
CUDNN_SOURCE = """[sources.cudnn]
text = "NVIDIA/cudnn-frontend (MIT) at commit 3929da2: causal attention in MXFP8 by cuDNN 9.22 \
(experiments/compute-calibration, attention_cudnn.csv)"
date = "2026-04-24"
url = "https://github.com/NVIDIA/cudnn-frontend/tree/3929da2/benchmark/sdpa_benchmark_training"

"""
#: what only B200 of these was measured in
MEASURED = 'source = "pytorch"\n'


@dataclass(frozen=True)
class Chip:
    """One GPU: its dense peaks by format, as in ``gpus.toml``; what a fit needs of a device."""

    name: str
    peaks: tuple[tuple[str, float], ...]
    bandwidth: float = BANDWIDTH
    peak: float = 0.0

    def of(self, precision: str) -> Chip:
        """The chip with the peak of a format."""
        return replace(self, peak=dict(self.peaks)[precision])


CHIPS = (
    Chip("b200", (("bf16", 2250e12), ("fp8", 4500e12), ("nvfp4", 9000e12))),
    Chip("gb200", (("bf16", 2500e12), ("fp8", 5000e12), ("nvfp4", 10000e12))),
    Chip("b300", (("bf16", 2250e12), ("fp8", 4500e12), ("nvfp4", 13500e12))),
    Chip("gb300", (("bf16", 2500e12), ("fp8", 5000e12), ("nvfp4", 15000e12))),
)


def _table(name: str) -> Iterator[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def product_rows(chip: Chip, precision: str) -> common.Rows:
    """FLOPs, bytes and efficiency of products."""
    element, peak, points = ELEMENT[precision], chip.of(precision).peak, []
    for row in _table("products_blackwell.csv"):
        if row["format"] == precision:
            m, n, k = (float(row[size]) for size in "mnk")
            flops, size_bytes = 2 * m * n * k, element * (m * k + k * n) + 2 * m * n
            seconds = float(row[f"{chip.name}_us"]) * 1e-6
            points.append((flops, size_bytes, flops / seconds / peak))
    return common.as_rows(points)


def attention_seconds(
    chip: Chip, width: int, precision: str = "bf16"
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """FLOPs and seconds of causal attention forward with heads of a width."""
    rows = [
        row
        for row in _table("attention_blackwell.csv")
        if row["head_dim"] == str(width) and row["format"] == precision
    ]
    flops = [
        2.0 * float(row["seq_len"]) ** 2 * int(row["heads"]) * width * int(row["batch"])
        for row in rows
    ]
    seconds = [float(row[f"{chip.name}_us"]) * 1e-6 for row in rows]
    return np.array(flops), np.array(seconds)


def attention_ratio(chip: Chip) -> float:
    """How much faster than B200 attention is, as the geometric mean over all shapes."""
    times = [attention_seconds(other, 128)[1] for other in (CHIPS[0], chip)]
    return float(np.exp(np.mean(np.log(times[0] / times[1]))))


def large_share(fit: Fit) -> float:
    """Efficiency of large products, geometric mean over the nodes."""
    return float(np.exp(np.mean(np.log(fit.efficiency[fit.flops >= LARGE_FLOPS]))))


def fits(chip: Chip, server: dict[str, Fit]) -> dict[str, Fit]:
    """Every operator of a chip; ``server`` has those of SimuMax's B200."""
    found: dict[str, Fit] = {}
    base = large_share(server["matmul"])
    for precision, suffix in (("bf16", ""), ("fp8", "_fp8"), ("nvfp4", "_fp4")):
        rows = product_rows(chip, precision)
        dense = common.fit_curve(rows, chip.of(precision), use_bytes=True)
        dense = replace(dense, source="aiconfigurator")
        found[f"matmul{suffix}"] = dense
        accumulate = large_share(server["matmul_accumulate"]) / base
        found[f"matmul_accumulate{suffix}"] = common.assume(dense, "relative", accumulate)
        for stage in ("", "_dgrad", "_wgrad"):
            fit = server[f"grouped_matmul{stage}"]
            scaled = common.assume(fit, "relative", large_share(dense) / base)
            found[f"grouped_matmul{stage}{suffix}"] = scaled
    faster = attention_ratio(chip) * CHIPS[0].of("bf16").peak / chip.of("bf16").peak
    products = large_share(found["matmul"]) / large_share(_b200_products())
    for direction, factor in (("forward", faster), ("backward", products)):
        score_s = score_seconds(chip) * (1.0 if direction == "forward" else BACKWARD_SCORES)
        for family in ("attention", "attention_latent"):
            name = f"{family}_{direction}"
            fit = server[name]
            if chip.name != "b200":
                fit = common.assume(fit, "relative", factor)
            found[name] = replace(fit, score_s=score_s if family == "attention" else 0.0)
        if chip.name in CUDNN_CHIPS:
            fit = narrow_attention(chip, direction)
            found[f"{FP8_ATTENTION}_{direction}"] = replace(fit, score_s=score_s)
    return found


def narrow_attention(chip: Chip, direction: str) -> Fit:
    """Attention in FP8 with scales of blocks, by cuDNN, over whole sequences."""
    peak, points = chip.of("bf16").peak, []
    for row in _table("attention_cudnn.csv"):
        if (row["format"], row["direction"], row["window"]) == ("mxfp8", direction, "0"):
            flops = 2.0 * int(row["seq_len"]) ** 2 * int(row["head_dim"])
            flops *= int(row["heads"]) * int(row["batch"])
            flops *= 2.5 if direction == "backward" else 1.0
            seconds = float(row[f"{chip.name}_us"]) * 1e-6
            points.append((flops, 0.0, flops / seconds / peak))
    fit = common.fit_curve(common.as_rows(points), chip.of("bf16"), use_bytes=False)
    return replace(fit, source="cudnn")


def score_seconds(chip: Chip) -> float:
    """Time of a score beside its products, from heads of 64 and 128 with equal scores."""
    (flops, narrow), (_, wide) = (attention_seconds(chip, width) for width in (64, 128))
    large = flops > 4 * LARGE_FLOPS
    return float(np.median((2 * narrow - wide)[large] / (flops / 256)[large]))


def _b200_products() -> Fit:
    chip = CHIPS[0].of("bf16")
    return common.fit_curve(product_rows(chip, "bf16"), chip, use_bytes=True)


def sources(chip: Chip) -> str:
    """Where the values of a chip come from."""
    cudnn = CUDNN_SOURCE if chip.name in CUDNN_CHIPS else ""
    own = SOURCES.replace("{gpu}", chip.name) + cudnn
    return own + common.STRIDED_SOURCE + common.FUSED_PERMUTE_SOURCE


def build(server: dict[str, Fit], memory: str) -> dict[str, str]:
    """Texts of the data files by name; memory-bound operators are those of SimuMax's server."""
    return {
        f"efficiency_{chip.name}.toml": common.as_toml(
            chip.name.upper(),
            Path(__file__).name,
            sources(chip),
            memory
            if chip.name == "b200"
            else memory.replace(MEASURED, f"{MEASURED}assumed = true\n"),
            fits(chip, server),
        )
        for chip in CHIPS
    }
