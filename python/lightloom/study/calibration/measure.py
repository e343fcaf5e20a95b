"""Measure operators on a device and condense them into a profile that ``--profile`` reads.

The device is behind a small protocol, so that what is measured, and how often, does not depend on
it. Rows are given to the caller as they are measured, and rows that are known are not measured
again, so that an interrupted calibration goes on. Of each row the time that its bytes take is taken
out by the roofline of :mod:`lightloom.workload.compute_operators`, as the packaged tables were
made; what remains is the efficiency of its products by size. Attention with narrow heads has the
time of its further scores taken out, since curves are those of heads of 128.

How much slower the GPU is in a long run of products than in a short one bounds the sustained
factor; the rest of it, what a step loses between operators, stays that of the GPU's generation.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import exp, log, log10
from typing import Protocol

from lightloom.hardware.gpus import Gpu
from lightloom.study.calibration.operations import Operation, product
from lightloom.workload.compute_kernels import MEASURED_HEADS
from lightloom.workload.compute_operators import MOST_ELEMENT_S, load_efficiencies

Run = Callable[[], None]
#: seconds of an operation, by its operator and shape
Rows = dict[tuple[str, tuple[int, ...]], float]

#: runs before the first that counts
WARM_UP = 3
#: time of the runs of one measurement, s, so that the resolution of the clock does not matter
SPAN_S = 0.03
#: time of a run that heats the GPU up, s
LONG_S = 3.0
#: sizes that are condensed to one, per decade of FLOPs
PER_DECADE = 2
#: share of the memory rate of bytes of products, and how they combine: dense, of experts, and of
#: weight gradients of experts; what launching the product of one more expert costs, s
DENSE, GROUPED, GRADIENTS, EXPERT_S = (0.7, 8.0), (0.8, 3.0), (0.8, 2.0), 2e-6
#: an efficiency of experts is taken where bytes alone would take less than this share of the time
BOUND = 0.5
#: operators that a measured one stands for, too
SAME = {"matmul_dgrad": "matmul"}
#: what a large product is
LARGE = product("matmul", (8192, 8192, 8192))
#: kernels of the strided operation that take each of its elements
STRIDED_KERNELS = 2


class Device(Protocol):
    """A GPU that runs operations."""

    @property
    def title(self) -> str:
        """Name of the device."""

    def prepare(self, operation: Operation) -> Run:
        """Allocate what an operation needs, and return what runs it once."""

    def seconds(self, run: Run, times: int) -> float:
        """Time of some runs, one after another, s."""

    def launches(self) -> dict[str, float]:
        """Host time of a kernel, gap between two, and wait for a result, s; by their names."""


@dataclass(frozen=True)
class Profile:
    """What was measured, condensed.

    Attributes
    ----------
    curves
        Points of FLOPs and efficiency of each operator, and how bytes combine with them.
    memory
        Share of the memory rate by kind.
    launches
        Times of launching, s.
    sustained
        Speed in a long run over that in short ones.
    element_s
        Least time for an element of a strided kernel, s.
    """

    curves: Mapping[str, list[tuple[float, float]]]
    memory: Mapping[str, float]
    launches: Mapping[str, float] = field(default_factory=dict)
    sustained: float | None = None
    element_s: float = 0.0


def median_seconds(device: Device, operation: Operation, repeats: int) -> float:
    """Median time of one run over ``repeats`` measurements of equal length, s."""
    run = device.prepare(operation)
    once = device.seconds(run, WARM_UP) / WARM_UP
    times = max(1, round(SPAN_S / once))
    return statistics.median(device.seconds(run, times) / times for _ in range(repeats))


def line_of(operation: Operation, seconds: float) -> str:
    """A measured operation in words."""
    if operation.flops:
        rate = f"{operation.flops * operation.parts / seconds / 1e12:.0f} TFLOPS"
    else:
        rate = f"{operation.size_bytes / seconds / 1e9:.0f} GB/s"
    shape = " x ".join(str(part) for part in operation.shape)
    return f"{operation.operator} {shape}: {1e6 * seconds:.1f} us, {rate}"


def measure(
    device: Device,
    operations: list[Operation],
    repeats: int,
    known: Rows,
    report: Callable[[Operation, float], None],
) -> Rows:
    """Seconds of every operation; those that are known are not measured again."""
    rows = dict(known)
    for operation in operations:
        key = operation.operator, operation.shape
        if key not in rows:
            rows[key] = median_seconds(device, operation, repeats)
            report(operation, rows[key])
    return rows


def sustained_ratio(device: Device) -> float:
    """Speed of large products in a run of seconds, over that in short ones; 1 at most."""
    short = median_seconds(device, LARGE, 5)
    run = device.prepare(LARGE)
    times = max(1, round(LONG_S / short))
    device.seconds(run, times)
    return min(1.0, short * times / device.seconds(run, times))


def condense(operations: list[Operation], rows: Rows, gpu: Gpu) -> Profile:
    """Curves and shares of what was measured."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    moved: dict[str, float] = {}
    element_s = 0.0
    bound: list[tuple[float, float]] = []
    scores = {name: curve.score_s for name, curve in load_efficiencies(gpu).curves.items()}
    scores = {name: score_s for name, score_s in scores.items() if score_s}
    for operation in operations:
        seconds = rows[operation.operator, operation.shape] / operation.parts
        if operation.operator == "strided":
            element_s = seconds / (STRIDED_KERNELS * math.prod(operation.shape))
            continue
        if not operation.flops:
            moved[operation.operator] = operation.size_bytes / seconds / gpu.hbm_bytes_per_s
            continue
        name = SAME.get(operation.operator, operation.operator)
        peak = gpu.peak_flops("fp8" if operation.in_fp8 else "bf16")
        if "matmul" in name:
            seconds = _products_alone(operation, seconds, gpu)
        elif name in scores:
            seconds = _as_wide_heads(operation, seconds, scores[name])
        points[name].append((operation.flops, operation.flops / seconds / peak))
        if name.startswith("grouped") and _moved_s(operation, gpu) > BOUND * seconds:
            bound.append(points[name][-1])
    curves = {
        name: [_mean([p for p in found if p not in bound] or found)]
        if name.startswith("grouped")
        else _by_size(found)
        for name, found in points.items()
    }
    elementwise = (moved["norm"] * moved["add"]) ** 0.5
    memory = {
        "elementwise": elementwise,
        "strided": elementwise,
        "permute": moved["permute"],
        "permute_unfused": 2 / (1 / moved["permute"] + 1 / moved["unpermute"]),
        "optimizer": moved["add"],
    }
    return Profile(curves, memory, element_s=element_s)


def _products_alone(operation: Operation, seconds: float, gpu: Gpu) -> float:
    """Time without bytes and launch; at least half of it, where these seem to be all."""
    norm = _combined(operation.operator)[1]
    moved = _moved_s(operation, gpu)
    launch = EXPERT_S if operation.operator.startswith("grouped") else 0.0
    rest = seconds**norm - moved**norm - launch**norm
    return max(float(max(rest, 0.0) ** (1 / norm)), seconds / 2)


def _as_wide_heads(operation: Operation, seconds: float, score_s: float) -> float:
    """Time with heads of the width that curves are of, with as many FLOPs; at least half of it."""
    keys, values = operation.shape[-2:]
    forward = operation.flops / (2.5 if operation.operator.endswith("backward") else 1.0)
    more = forward / (2 * (keys + values)) - forward / (4 * MEASURED_HEADS)
    return max(seconds - more * score_s, seconds / 2)


def _combined(operator: str) -> tuple[float, float]:
    """Share of the memory rate of an operator's bytes, and how they combine with its products."""
    if not operator.startswith("grouped"):
        return DENSE
    return GRADIENTS if "wgrad" in operator else GROUPED


def _moved_s(operation: Operation, gpu: Gpu) -> float:
    """Time of the bytes of a product, s."""
    return operation.size_bytes / gpu.hbm_bytes_per_s / _combined(operation.operator)[0]


def _mean(points: list[tuple[float, float]]) -> tuple[float, float]:
    """One efficiency for all sizes: a node below any product keeps it constant."""
    return 1.0, exp(statistics.fmean(log(efficiency) for _, efficiency in points))


def _by_size(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Geometric means of what is nearly of a size, ascending; more work takes no less time."""
    bins: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for flops, efficiency in points:
        bins[round(log10(flops) * PER_DECADE)].append((flops, efficiency))
    means, most = [], math.inf
    for _, found in sorted(bins.items()):
        flops = exp(statistics.fmean(log(flops) for flops, _ in found))
        efficiency = exp(statistics.fmean(log(efficiency) for _, efficiency in found))
        most = min(most, efficiency / flops)
        means.append((flops, most * flops))
    return means


def profile_text(profile: Profile, title: str, gpu: Gpu, date: str) -> str:
    """A profile in TOML; efficiencies are fractions of the GPU's peaks."""
    lines = [
        f"# Operators measured on {title}, as fractions of the peaks of {gpu.title}.",
        "",
        "[sources.measured]",
        f'text = "lightloom calibrate gpu on {title}"',
        f'date = "{date}"',
    ]
    for name, pairs in profile.curves.items():
        lines += ["", f"[operators.{name}]"]
        lines.append(f"flops = [{', '.join(f'{size:.6g}' for size, _ in pairs)}]")
        lines.append(f"efficiency = [{', '.join(f'{value:.4g}' for _, value in pairs)}]")
        if "matmul" in name:
            share, norm = _combined(name)
            lines += [f"bandwidth_efficiency = {share}", f"norm = {norm}"]
        if name.startswith("grouped"):
            lines.append(f"launch_s = {EXPERT_S}")
        lines.append('source = "measured"')
    for name, share in profile.memory.items():
        lines += ["", f"[memory.{name}]", f"bandwidth_efficiency = {min(share, 2):.4g}"]
        if name == "strided":
            lines.append(f"element_s = {min(profile.element_s, MOST_ELEMENT_S):.4g}")
        lines.append('source = "measured"')
    for name, seconds in profile.launches.items():
        lines += ["", f"[launch.{name}]", f"value = {seconds:.4g}", 'source = "measured"']
    if profile.sustained is not None:
        lines += ["", "[sustained]", f"value = {profile.sustained:.3f}", 'source = "measured"']
    return "\n".join(lines) + "\n"
