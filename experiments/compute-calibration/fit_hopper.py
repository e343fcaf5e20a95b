"""Curves of Hopper GPUs (H100, H800, H200) from operators that this project measured.

``h200_operators.csv`` and ``h100_operators.csv`` have one H200 and one H100: products of real
shapes forward and for both gradients, products of experts, FP8, attention by cuDNN, permutations
and element-wise kernels, each for spans of 30 ms with normally distributed data. The two GPUs have
the same chip; equal shapes take the same time within 2 % on average where bytes do not set it, so
that one curve holds both. Products of less than 8 GFLOP are those of OpenXLA's table
(``products_small.csv``). Few operators were not measured; they are derived and marked as assumed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import exp, log
from pathlib import Path

import fitting as common
import numpy as np

from lightloom.workload.compute_operators import FLASH, Curve

HERE = Path(__file__).resolve().parent

BF16_PEAK, FP8_PEAK = 989.4e12, 1978.9e12
#: memory rate of each GPU, bytes/s
BANDWIDTHS = {"h100": 3.35e12, "h200": 4.8e12}

#: weight gradients in FP8 that accumulate in FP32, as a share of the forward product's efficiency
ACCUMULATE = 0.95

#: a product that is bound by bytes moves them as fast as one that was measured can at best
BANDWIDTH = 0.8

#: assumed: FLOPs and time of the smallest attention; backward it is three kernels
SMALLEST = {"forward": (1e9, 8e-6), "backward": (2.5e9, 24e-6)}

#: assumed: how bytes and products of experts' weight gradients combine. With results in BF16, as
#: measured, the bytes add to the products (1.1); that FP32 sums would do so wholly is not known
WGRAD_NORM = 2.0

SOURCES = """[sources.h200]
text = "measured by this project on one H200 and one H100 (experiments/compute-calibration, \
h200_operators.csv and h100_operators.csv): PyTorch 2.11, CUDA 13.0, spans of 30 ms"
date = "2026-11-27"

[sources.xla]
text = "as h200; below 8 GFLOP OpenXLA (Apache-2.0), \
xla/service/gpu/model/matmul_interpolator_data.h: measured matrix products on sm_90"
date = "2026-11-27 and 2025"
url = "https://github.com/openxla/xla"

[sources.derived]
text = "derived from another operator of this file: FP8 gradients of experts from forward, weight \
gradients in FP8 at 0.95 of forward (as in BF16 on A100 and B200)"
date = "2026-11"

[sources.simumax]
text = "MooreThreads/SimuMax (Apache-2.0), configs/system: fused loss measured on B200"
date = "2026-04"
url = "https://github.com/MooreThreads/SimuMax"

"""


@dataclass(frozen=True)
class Device:
    """Peaks that efficiencies are fractions of; what ``fitting`` needs of a device."""

    peak: float
    bandwidth: float = BANDWIDTHS["h200"]


@dataclass(frozen=True)
class Row:
    """One measured operator."""

    gpu: str
    operator: str
    shape: tuple[int, ...]
    seconds: float


def rows() -> list[Row]:
    """Everything that was measured on both GPUs."""
    found = []
    for gpu in BANDWIDTHS:
        with (HERE / f"{gpu}_operators.csv").open(encoding="utf-8") as file:
            lines = (line for line in file if not line.startswith("#"))
            for row in csv.DictReader(lines):
                sizes = row["shape"].split("x") if row["shape"] else []
                shape = tuple(int(size) for size in sizes)
                found.append(Row(gpu, row["operator"], shape, float(row["time_us"]) * 1e-6))
    return found


def products(
    operators: tuple[str, ...], peak: float, element: float
) -> Iterator[tuple[float, ...]]:
    """FLOPs, bytes and efficiency of products; of experts' products per expert.

    A shape is m x k x n of the forward product, behind the number of experts if there are some.
    Bytes are scaled to the memory rate that the curve refers to.
    """
    for row in rows():
        if row.operator not in operators:
            continue
        m, k, n = row.shape[-3:]
        experts = row.shape[0] if len(row.shape) == 4 else 1
        flops = 2.0 * m * k * n
        size_bytes = element * (m * k + k * n) + 2 * m * n
        if "dgrad" in row.operator:
            size_bytes = element * (m * n + k * n) + 2 * m * k
        elif "wgrad" in row.operator:
            size_bytes = element * m * (k + n) + 2 * k * n
        size_bytes *= BANDWIDTHS["h200"] / BANDWIDTHS[row.gpu]
        yield flops, size_bytes, experts * flops / row.seconds / peak


def small_products() -> Iterator[tuple[float, ...]]:
    """Products that are smaller than those that were measured here, as :func:`products`."""
    with (HERE / "products_small.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            m, n, k = (float(row[name]) for name in ("m", "n", "k"))
            size_bytes = 2 * (m * k + k * n + m * n) * BANDWIDTHS["h200"] / BANDWIDTHS["h100"]
            yield 2 * m * n * k, size_bytes, float(row["tflops"]) * 1e12 / BF16_PEAK


def attention(
    operator: str, widths: tuple[int, int], library: str = "cudnn"
) -> Iterator[tuple[float, ...]]:
    """Causal attention of a library, of heads with these widths of keys and values."""
    for row in rows():
        if row.operator != f"{operator}_{library}" or row.shape[4:] != widths:
            continue
        batch, heads, _, seq_len = row.shape[:4]
        flops = seq_len**2 * heads * float(sum(widths)) * batch
        flops *= 2.5 if operator.endswith("backward") else 1.0
        yield flops, 0.0, flops / row.seconds / BF16_PEAK


def score_seconds(operator: str, wide: common.Fit, library: str = "cudnn") -> float:
    """Time of a score beside its products: what heads of 64 take more than half of those of 128.

    With as many FLOPs, heads of 64 have a score more for every 512 FLOPs of the forward pass.
    """
    narrow = as_rows(attention(operator, (64, 64), library))
    as_wide = curve_of(wide).seconds(narrow.flops, 0.0, BF16_PEAK, 1.0)
    scores = narrow.flops / (512 * (2.5 if operator.endswith("backward") else 1.0))
    more = (narrow.flops / narrow.efficiency / BF16_PEAK - as_wide) / scores
    return max(0.0, float(np.median(more)))


def curve_of(fit: common.Fit) -> Curve:
    """The curve that is shipped."""
    return Curve("", np.log(fit.flops), np.log(fit.efficiency), fit.launch_s, None, fit.norm)


def as_rows(points: Iterator[tuple[float, ...]]) -> common.Rows:
    """Rows of an iteration."""
    return common.as_rows([(flops, size, share) for flops, size, share in points])


def with_smallest(fit: common.Fit, flops: float, seconds: float) -> common.Fit:
    """The fit with a node below all that was measured: the smallest kernel and its time."""
    return replace(
        fit,
        flops=np.concatenate([[flops], fit.flops]),
        efficiency=np.concatenate([[flops / seconds / BF16_PEAK], fit.efficiency]),
    )


def fits() -> dict[str, common.Fit]:
    """Every operator, measured or assumed."""
    bf16, fp8 = Device(BF16_PEAK), Device(FP8_PEAK)
    found: dict[str, common.Fit] = {}
    for name, operators in (
        ("matmul", ("matmul", "matmul_dgrad")),
        ("matmul_accumulate", ("matmul_wgrad",)),
    ):
        points = as_rows(chain(products(operators, BF16_PEAK, 2.0), small_products()))
        found[name] = common.fit_curve(points, bf16, use_bytes=True)
    for stage in ("", "_dgrad", "_wgrad"):
        measured = (f"grouped_mm{stage}", f"grouped_mm{stage}_skew")
        points = as_rows(products(measured, BF16_PEAK, 2.0))
        like = found.get("grouped_matmul")
        if like is not None and stage == "_wgrad":
            like = replace(like, norm=WGRAD_NORM)
        found[f"grouped_matmul{stage}"] = common.fit_grouped(points, bf16, like, BANDWIDTH)
    dense = common.fit_curve(
        as_rows(products(("fp8_matmul_tensorwise",), FP8_PEAK, 1.0)), fp8, use_bytes=True
    )
    points = as_rows(products(("fp8_grouped_mm_rowwise",), FP8_PEAK, 1.0))
    grouped = common.fit_grouped(points, fp8, None, BANDWIDTH)
    for direction in ("forward", "backward"):
        operator = f"attention_{direction}"
        for family, widths, library in (
            ("attention", (128, 128), "cudnn"),
            ("attention_latent", (192, 128), "cudnn"),
            (FLASH, (128, 128), "flash"),
        ):
            points = as_rows(attention(operator, widths, library))
            fit = common.fit_curve(points, bf16, use_bytes=False)
            if family != "attention_latent":
                fit = replace(fit, score_s=score_seconds(operator, fit, library))
            found[f"{family}_{direction}"] = with_smallest(fit, *SMALLEST[direction])
    found |= {"matmul_fp8": dense, "grouped_matmul_fp8": grouped}
    sources = {"matmul": "xla", "matmul_accumulate": "xla"}
    found = {name: replace(f, source=sources.get(name, "h200")) for name, f in found.items()}
    found["matmul_accumulate_fp8"] = common.assume(dense, "derived", ACCUMULATE)
    found["grouped_matmul_dgrad_fp8"] = common.assume(grouped, "derived")
    found["grouped_matmul_wgrad_fp8"] = common.assume(grouped, "derived", ACCUMULATE)
    return found


def mean_share(moved: dict[str, float]) -> float:
    """Geometric mean of the share of the memory rate over the larger sizes of some operators.

    ``moved`` says how often an operator reads or writes its whole tensors, of tokens by copies (1
    where there are none) by width.
    """
    logs = []
    for gpu, bandwidth in BANDWIDTHS.items():
        for shape in {row.shape for row in rows() if row.operator in moved}:
            if shape[-1] * shape[0] < 8192 * 2048:
                continue
            seconds = {
                row.operator: row.seconds
                for row in rows()
                if row.gpu == gpu and row.shape == shape and row.operator in moved
            }
            tokens, width = shape[0], shape[-1]
            copies = shape[1] if len(shape) == 3 else 0
            size_bytes = 2.0 * tokens * width * (1 + copies)
            total = sum(moved[name] * size_bytes for name in seconds)
            logs.append(log(total / sum(seconds.values()) / bandwidth))
    return exp(sum(logs) / len(logs))


def memory() -> dict[str, tuple[float, str, bool]]:
    """Share of the memory rate, source, whether assumed, by kind."""
    norm, addition = mean_share({"rmsnorm_eager": 2}), mean_share({"add": ADDITION_PASSES})
    return {
        # half of what layers move is norms, the other plain passes
        "elementwise": ((norm * addition) ** 0.5, "h200", False),
        "strided": ((norm * addition) ** 0.5, "h200", False),
        "permute": (mean_share({"permute_gather": 1}), "h200", False),
        # Megatron-Core's inverse without a fused kernel adds rows by index
        "permute_unfused": (
            mean_share({"permute_gather": 1, "unpermute_index_add": 1}),
            "h200",
            False,
        ),
        "cross_entropy": (0.3, "simumax", True),
        "optimizer": (addition, "h200", True),
    }


#: passes of the addition that was measured; three would be more than the memory can give
ADDITION_PASSES = 2


def strided_seconds() -> float:
    """Time per element of strided kernels: gate and product of SwiGLU on halves of a matrix.

    They take as long on H100 and H200 (within 5 %), whose memories differ by 1.43.
    """
    logs = [
        log(row.seconds / (2 * row.shape[0] * row.shape[-1]))
        for row in rows()
        if row.operator == "swiglu_eager"
    ]
    return exp(sum(logs) / len(logs))


def build() -> dict[str, str]:
    """Text of the data file, by its name."""
    lines = []
    for kind, (share, source, assumed) in memory().items():
        lines += [
            f"[memory.{kind}]",
            f"bandwidth_efficiency = {share:.4g}",
            *([f"element_s = {strided_seconds():.4g}"] if kind == "strided" else []),
            f'source = "{source}"',
        ]
        lines += ["assumed = true", ""] if assumed else [""]
    text = common.as_toml(
        "H100, H800 and H200", Path(__file__).name, SOURCES, "\n".join(lines), fits()
    )
    return {"efficiency_h100.toml": text}
