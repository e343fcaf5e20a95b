"""Fit the roofline of ``lightloom.workload.compute_operators`` to measured operators.

:class:`Rows` are measurements, :class:`Fit` the parameters of a curve, and :func:`as_toml` the data
file that is shipped. Used by ``fit_operators.py``, ``fit_hopper.py`` and ``fit_blackwell.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from lightloom.workload.compute_operators import Curve

#: soft_l1 scale of log residuals: rows off by more than this are outliers (clock boosts)
ROBUST = 0.1

#: effective weight of a node's pull towards its neighbor, so that empty ranges stay flat
SMOOTH = 0.3

#: nodes of the efficiency curves per decade of FLOPs
NODES_PER_DECADE = 2

#: share of the memory rate of a fused permutation, and where it comes from
FUSED_PERMUTE = 0.55

FUSED_PERMUTE_SOURCE = """[sources.tileops]
text = "tile-ai/TileOPs, pull requests 603, 608 and 2125: fused permutation of 4,096 tokens to 8 \
of 128 experts at 2.40 TB/s, its weighted inverse at 2.95 TB/s of the 4.8 TB/s of an H200"
date = "2026-09"
url = "https://github.com/tile-ai/TileOPs/pull/2125\""""


#: strided kernels of PyTorch on B200: 10 rotations of queries and keys of 4 x 2048 tokens with 32
#: heads of 128, each two products with a broadcast operand, half of the elements negated, the
#: halves joined and one sum of contiguous operands, which memory bounds (three passes)
ROTATED_S, ROTATED, SUM_PASSES = 8.675e-3 / 10, 2 * 4 * 2048 * 32 * 128, 3
#: how often a strided kernel takes an element of that; joining takes as long as 1.27 products, as
#: 489 us to 769 for two on an H100 (issue 141265)
STRIDED_TIMES = 1 + 0.5 + 2 * 489 / 769 + 1

STRIDED_SOURCE = """[sources.pytorch]
text = "pytorch/pytorch, pull request 176223: PyTorch's own operators rotate queries and keys of \
4 x 2048 tokens with 32 heads of 128 in 867 us on a B200; issue 141265: joining two strided halves \
takes as long as 1.27 strided products"
date = "2026-03-02"
url = "https://github.com/pytorch/pytorch/pull/176223"

"""


class Card(Protocol):
    """What efficiencies are fractions of."""

    @property
    def peak(self) -> float:
        """FLOP/s."""

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""


@dataclass(frozen=True)
class Rows:
    """Measured operators: FLOPs, bytes and efficiency of each."""

    flops: npt.NDArray[np.float64]
    size_bytes: npt.NDArray[np.float64]
    efficiency: npt.NDArray[np.float64]


def as_rows(points: list[tuple[float, float, float]]) -> Rows:
    """Rows from tuples of FLOPs, bytes and efficiency."""
    flops, size_bytes, efficiency = (np.array(column) for column in zip(*points, strict=True))
    return Rows(flops, size_bytes, efficiency)


@dataclass(frozen=True)
class Fit:
    """Parameters of one operator's curve, and how well they fit."""

    flops: npt.NDArray[np.float64]
    efficiency: npt.NDArray[np.float64]
    launch_s: float
    bandwidth_efficiency: float | None
    norm: float
    rows: int
    error: float
    source: str = "simumax"
    assumed: bool = False
    score_s: float = 0.0


def _error(fit: Fit, rows: Rows, device: Card) -> float:
    """Root mean square of the log ratio of fitted to measured time."""
    curve = Curve(
        "",
        np.log(fit.flops),
        np.log(fit.efficiency),
        fit.launch_s,
        fit.bandwidth_efficiency,
        fit.norm,
    )
    predicted = curve.seconds(rows.flops, rows.size_bytes, device.peak, device.bandwidth)
    measured = rows.flops / device.peak / rows.efficiency
    return float(np.sqrt(np.mean(np.log(predicted / measured) ** 2)))


def fit_curve(rows: Rows, device: Card, use_bytes: bool) -> Fit:
    """Efficiency by size; with ``use_bytes`` no faster than the memory rate allows.

    The memory efficiency is that of elementwise operators and the terms combine as a maximum
    (norm 8): products too small or too thin for the tensor units are rare in training.
    """
    low, high = np.log10(rows.flops.min()), np.log10(rows.flops.max())
    count = max(2, round((high - low) * NODES_PER_DECADE) + 1)
    nodes = np.logspace(low, high, count)
    norm, bandwidth = 8.0, 0.7 if use_bytes else None
    measured = rows.flops / device.peak / rows.efficiency

    def residuals(log_efficiency: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        curve = Curve("", np.log(nodes), log_efficiency, 0.0, bandwidth, norm)
        predicted = curve.seconds(rows.flops, rows.size_bytes, device.peak, device.bandwidth)
        return np.concatenate([np.log(predicted / measured), SMOOTH * np.diff(log_efficiency)])

    start = np.full(count, np.log(np.median(rows.efficiency)))
    found = least_squares(residuals, start, loss="soft_l1", f_scale=ROBUST)
    efficiency = _slower(nodes, np.exp(found.x))
    fit = Fit(nodes, efficiency, 0.0, bandwidth, norm, len(measured), 0.0)
    return _with_error(fit, rows, device)


def _slower(
    flops: npt.NDArray[np.float64], efficiency: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Efficiencies that grow no faster than sizes do, so that more work never takes less time."""
    rates = np.minimum.accumulate(efficiency / flops)
    return np.asarray(rates * flops)


def fit_grouped(rows: Rows, device: Card, like: Fit | None, bandwidth: float | None = None) -> Fit:
    """One efficiency, a launch time per expert, the memory efficiency, and how they combine.

    With few rows, launch and norm are taken from the fit ``like`` of another GPU. A memory
    efficiency above 1 says that operands were in the cache; ``bandwidth`` fixes it.
    """
    measured = rows.flops / device.peak / rows.efficiency

    def unpack(x: npt.NDArray[np.float64]) -> tuple[float, float, float, float]:
        efficiency, rate = float(np.exp(x[0])), bandwidth or float(np.exp(x[1]))
        if like is not None:
            return efficiency, rate, like.launch_s, like.norm
        return efficiency, rate, float(np.exp(x[2])), float(np.exp(x[3]))

    def residuals(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        efficiency, rate, launch, norm = unpack(x)
        # One node: constant efficiency, so the floor below the smallest size is the launch.
        compute = rows.flops / (device.peak * efficiency)
        memory = rows.size_bytes / (device.bandwidth * rate)
        total = compute**norm + memory**norm + launch**norm
        return np.asarray(np.log(total ** (1 / norm) / measured))

    start = np.log([0.5, 0.6] if like is not None else [0.5, 0.6, 5e-6, 1.5])
    bounds = (
        np.log([0.05, 0.1, 1e-8, 0.8][: len(start)]),
        np.log([1.0, 1.5, 3e-5, 8.0][: len(start)]),
    )
    found = least_squares(residuals, start, loss="soft_l1", f_scale=ROBUST, bounds=bounds)
    efficiency, rate, launch, norm = unpack(found.x)
    # A node far below any product keeps the efficiency constant over all sizes.
    node = np.array([1.0])
    fit = Fit(node, np.array([efficiency]), launch, rate, norm, len(measured), 0.0)
    return _with_error(fit, rows, device)


def _with_error(fit: Fit, rows: Rows, device: Card) -> Fit:
    return replace(fit, error=_error(fit, rows, device))


def strided_seconds(sum_bytes_per_s: float) -> float:
    """Time per element of a strided kernel on B200; sums of contiguous numbers move as fast."""
    sums = ROTATED * SUM_PASSES * 2.0 / sum_bytes_per_s
    return (ROTATED_S - sums) / (STRIDED_TIMES * ROTATED)


def number(value: float) -> str:
    """Four digits."""
    return f"{value:.4g}"


def _numbers(values: npt.NDArray[np.float64]) -> str:
    return f"[{', '.join(number(value) for value in values)}]"


def as_toml(title: str, script: str, sources: str, memory: str, fits: dict[str, Fit]) -> str:
    """The data file of a GPU generation."""
    lines = [
        f"# Efficiencies of operators on {title}, condensed from measurements by",
        f"# experiments/compute-calibration/{script}: do not edit by hand.",
        "# `error` is the root mean square of ln(fitted / measured time) over `rows` rows.",
        "",
        sources.rstrip("\n"),
        "",
        memory.rstrip("\n"),
    ]
    for name, fit in fits.items():
        lines += [
            "",
            f"[operators.{name}]",
            f"flops = {_numbers(fit.flops)}",
            f"efficiency = {_numbers(fit.efficiency)}",
            f"launch_s = {number(fit.launch_s)}",
        ]
        if fit.bandwidth_efficiency is not None:
            lines.append(f"bandwidth_efficiency = {number(fit.bandwidth_efficiency)}")
        lines.append(f"norm = {number(fit.norm)}")
        if fit.score_s:
            lines.append(f"score_s = {number(fit.score_s)}")
        lines.append(f'source = "{fit.source}"')
        if fit.assumed:
            lines.append("assumed = true")
        else:
            lines += [f"rows = {fit.rows}", f"error = {fit.error:.3f}"]
    return "\n".join(lines) + "\n"


def assume(fit: Fit, source: str, factor: float = 1.0) -> Fit:
    """The curve of another operator, scaled, as an assumption."""
    return replace(fit, efficiency=fit.efficiency * factor, source=source, assumed=True)
