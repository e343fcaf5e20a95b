"""Condense measured operator efficiencies into the curves that Lightloom ships.

    python experiments/compute-calibration/fit_operators.py [--shared ../shared] [--check]

Reads the operator tables of SimuMax (MooreThreads/SimuMax, Apache-2.0), fits the roofline of
``lightloom.workload.compute_operators`` to them and writes ``efficiency_b200.toml`` and
``efficiency_a100.toml`` into ``lightloom/hardware/data``; ``fit_hopper.py`` makes
``efficiency_h100.toml`` from public figures. ``--check`` only says whether the shipped files are
what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from lightloom.workload.compute_operators import Curve

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "python" / "lightloom" / "hardware" / "data"
GIB_PER_GB = 1024**3 / 1e9

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
FP8_RATIO_SOURCE = """[sources.mamf]
text = "S. Bekman, Machine Learning Engineering, maximum achievable matmul: FP8 3432 TFLOPS, BF16 \
1745 TFLOPS on B200, so that FP8 reaches the fraction of its peak that BF16 reaches of its own"
date = "2026"
url = "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator\""""


@dataclass(frozen=True)
class Device:
    """The card that was measured: its peak and memory rate, and the file with its operators."""

    name: str
    file: str
    title: str
    peak: float
    bandwidth: float
    date: str
    has_fp8: bool = False


DEVICES = (
    Device("b200", "system_b200_bf16_ceperm.json", "B200", 2250e12, 8e12, "2026-04", True),
    Device("a100", "system_a100_pcie.json", "A100 80GB PCIe", 312e12, 1.935e12, "2025-06"),
)


@dataclass(frozen=True)
class Rows:
    """Measured operators: FLOPs, bytes and efficiency of each."""

    flops: npt.NDArray[np.float64]
    size_bytes: npt.NDArray[np.float64]
    efficiency: npt.NDArray[np.float64]


def _fields(key: str) -> dict[str, str]:
    return dict(part.split("=") for part in key.split(", "))


def _rows(table: dict[str, Any], operator: str) -> Iterator[tuple[dict[str, str], float]]:
    for key, efficiency in table[operator].get("accurate_efficient_factor", {}).items():
        yield _fields(key), float(efficiency)


def as_rows(points: list[tuple[float, float, float]]) -> Rows:
    """Rows from tuples of FLOPs, bytes and efficiency."""
    flops, size_bytes, efficiency = (np.array(column) for column in zip(*points, strict=True))
    return Rows(flops, size_bytes, efficiency)


def matmul_rows(table: dict[str, Any], accumulate: bool) -> Rows:
    """Matrix products; accumulating ones read and write fp32."""
    points = []
    for row, efficiency in _rows(table, "matmul"):
        if (row["accumulate"] == "True") != accumulate:
            continue
        m, k, n = (float(row[name]) for name in "mkn")
        output = m * n * (8 if accumulate else 2)
        points.append((2 * m * k * n, 2 * (m * k + k * n) + output, efficiency))
    return as_rows(points)


def grouped_rows(table: dict[str, Any], stage: str) -> Rows:
    """Products per expert, weight gradients in fp32."""
    points = []
    for row, efficiency in _rows(table, "group_matmul"):
        if row["stage"] != stage or row["main_grad_dtype"] != "fp32":
            continue
        m, n, k = (float(row[name]) for name in "MNK")
        weights = n * k * (8 if stage == "bwd_grad_w" else 2)
        points.append((2 * m * n * k, 2 * m * (n + k) + weights, efficiency))
    return as_rows(points)


def attention_rows(table: dict[str, Any], backward: bool, latent: bool) -> Rows:
    """Causal attention. SimuMax counts all score pairs; half of them are computed."""
    points = []
    for row, efficiency in _rows(table, "sdp_bwd" if backward else "sdp_fwd"):
        qk_dim, v_dim = int(row["qk_head_dim"]), int(row["v_head_dim"])
        if (qk_dim != v_dim) != latent or row["qkv_contiguous"] != "True":
            continue
        flops = 2.0 * int(row["seq_len"]) ** 2 * int(row["head_num"]) * (qk_dim + v_dim)
        flops *= int(row["batch"]) * (2.5 if backward else 1.0)
        points.append((flops / 2, 0.0, efficiency / 2))
    return as_rows(points)


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


def _error(fit: Fit, rows: Rows, device: Device) -> float:
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


def fit_curve(rows: Rows, device: Device, use_bytes: bool) -> Fit:
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
    fit = Fit(nodes, np.exp(found.x), 0.0, bandwidth, norm, len(measured), 0.0)
    return _with_error(fit, rows, device)


def fit_grouped(
    rows: Rows, device: Device, like: Fit | None, bandwidth: float | None = None
) -> Fit:
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


def _with_error(fit: Fit, rows: Rows, device: Device) -> Fit:
    return replace(fit, error=_error(fit, rows, device))


def fit_device(table: dict[str, Any], device: Device, like: dict[str, Fit]) -> dict[str, Fit]:
    """All operators of a device; grouped products of ``like`` where there are few rows."""
    fits = {
        "matmul": fit_curve(matmul_rows(table, accumulate=False), device, use_bytes=True),
        "matmul_accumulate": fit_curve(matmul_rows(table, accumulate=True), device, use_bytes=True),
    }
    for name, stage in (
        ("grouped_matmul", "fwd"),
        ("grouped_matmul_dgrad", "bwd_grad_act"),
        ("grouped_matmul_wgrad", "bwd_grad_w"),
    ):
        fits[name] = fit_grouped(grouped_rows(table, stage), device, like.get(name))
    for latent, family in ((False, "attention"), (True, "attention_latent")):
        for backward, direction in ((False, "forward"), (True, "backward")):
            rows = attention_rows(table, backward, latent)
            fits[f"{family}_{direction}"] = fit_curve(rows, device, use_bytes=False)
    return fits


def _number(value: float) -> str:
    return f"{value:.4g}"


def _list(values: npt.NDArray[np.float64]) -> str:
    return f"[{', '.join(_number(value) for value in values)}]"


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
            f"flops = {_list(fit.flops)}",
            f"efficiency = {_list(fit.efficiency)}",
            f"launch_s = {_number(fit.launch_s)}",
        ]
        if fit.bandwidth_efficiency is not None:
            lines.append(f"bandwidth_efficiency = {_number(fit.bandwidth_efficiency)}")
        lines += [f"norm = {_number(fit.norm)}", f'source = "{fit.source}"']
        if fit.assumed:
            lines.append("assumed = true")
        else:
            lines += [f"rows = {fit.rows}", f"error = {fit.error:.3f}"]
    return "\n".join(lines) + "\n"


def assume(fit: Fit, source: str, factor: float = 1.0) -> Fit:
    """The curve of another operator, scaled, as an assumption."""
    return replace(fit, efficiency=fit.efficiency * factor, source=source, assumed=True)


def sources_toml(device: Device) -> str:
    """Where the values of a device come from."""
    lines = [
        "[sources.simumax]",
        f'text = "MooreThreads/SimuMax (Apache-2.0), configs/system/{device.file}, {device.title}"',
        f'date = "{device.date}"',
        'url = "https://github.com/MooreThreads/SimuMax"',
        "",
        FUSED_PERMUTE_SOURCE,
    ]
    if device.has_fp8:
        lines += ["", FP8_RATIO_SOURCE]
    return "\n".join(lines)


def memory_toml(table: dict[str, Any], device: Device) -> str:
    """Memory-bound operators: SimuMax's shares, referred to the bytes that must move.

    SimuMax divides by GiB/s of its own reference rate and counts three passes over permuted
    tokens, and every temporary of an unfused loss; here a permutation is one read and one
    write, a loss one read and one write of the logits each way. Its fixed latency per operator is
    left out: launches are counted by kernel (``launch.toml``).
    """

    def rate(kind: str) -> float:
        return float(table[kind]["gbps"] * GIB_PER_GB * 1e9 * table[kind]["efficient_factor"])

    # Permutation and inverse of k copies: 2 + 2k passes must move, 2 + 6k are counted (k = 6).
    permute = (2 + 2 * 6) / (2 + 6 * 6) * (rate("permute_fwd") + rate("permute_bwd")) / 2
    fused = "ce_fusion" in table
    # Unfused: 38 bytes an element forward, 14 backward, of which 8 must move.
    loss = rate("ce_fusion") if fused else rate("ce") * 8 / 52
    shares = {
        "elementwise": rate("default") / device.bandwidth,
        "permute": FUSED_PERMUTE,
        "permute_unfused": permute / device.bandwidth,
        "cross_entropy": loss / device.bandwidth,
        "optimizer": rate("default") / device.bandwidth,
    }
    notes = {"permute": ("tileops", True), "cross_entropy": ("simumax", False)}
    lines = []
    for kind, share in shares.items():
        source, assumed = notes.get(kind, ("simumax", False))
        note = f"  # {'fused' if fused else 'not fused'}" if kind == "cross_entropy" else ""
        lines += [
            f"[memory.{kind}]{note}",
            f"bandwidth_efficiency = {_number(share)}",
            f'source = "{source}"',
            *(["assumed = true"] if assumed else []),
            "",
        ]
    return "\n".join(lines)


def build(shared: Path) -> dict[str, str]:
    """Texts of the data files by name."""
    texts: dict[str, str] = {}
    like: dict[str, Fit] = {}
    for device in DEVICES:
        path = shared / "data" / "simumax" / device.file
        accelerator = json.loads(path.read_text(encoding="utf-8"))["accelerator"]
        fits = fit_device(accelerator["op"], device, like)
        memory = memory_toml(accelerator["bandwidth"], device)
        like = fits
        if device.has_fp8:
            # The same fractions of the FP8 peak as of the BF16 peak.
            doubled = [name for name in fits if "matmul" in name]
            fits = {**fits, **{f"{name}_fp8": assume(fits[name], "mamf") for name in doubled}}
        sources = sources_toml(device)
        texts[f"efficiency_{device.name}.toml"] = as_toml(
            device.title, Path(__file__).name, sources, memory, fits
        )
    return texts


def main() -> int:
    """Write or check the data files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not (options.shared / "data" / "simumax").is_dir():
        print(f"{options.shared}/data/simumax: not found; give --shared", file=sys.stderr)
        return 2
    import fit_hopper  # needs this module

    changed = []
    for name, text in {**build(options.shared), **fit_hopper.build()}.items():
        path = DATA / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        changed.append(name)
        if not options.check:
            path.write_text(text, encoding="utf-8")
    print(f"{'differ' if options.check else 'written'}: {', '.join(changed) or 'none'}")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
