"""Condense measured operator efficiencies into the curves that Lightloom ships.

    python experiments/compute-calibration/fit_operators.py [--shared ../shared] [--check]

Reads the operator tables of SimuMax (MooreThreads/SimuMax, Apache-2.0), fits the roofline of
``lightloom.workload.compute_operators`` to them and writes ``efficiency_b200.toml`` and
``efficiency_a100.toml`` into ``lightloom/hardware/data``. ``--check`` only says whether the
shipped files are what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Device:
    """The card that was measured: its peak and memory rate, and the file with its operators."""

    name: str
    file: str
    title: str
    peak: float
    bandwidth: float
    date: str


DEVICES = (
    Device("b200", "system_b200_bf16_ceperm.json", "B200", 2250e12, 8e12, "2026-04"),
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


def _as_rows(points: list[tuple[float, float, float]]) -> Rows:
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
    return _as_rows(points)


def grouped_rows(table: dict[str, Any], stage: str) -> Rows:
    """Products per expert, weight gradients in fp32."""
    points = []
    for row, efficiency in _rows(table, "group_matmul"):
        if row["stage"] != stage or row["main_grad_dtype"] != "fp32":
            continue
        m, n, k = (float(row[name]) for name in "MNK")
        weights = n * k * (8 if stage == "bwd_grad_w" else 2)
        points.append((2 * m * n * k, 2 * m * (n + k) + weights, efficiency))
    return _as_rows(points)


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
    return _as_rows(points)


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


def fit_grouped(rows: Rows, device: Device, like: Fit | None) -> Fit:
    """One efficiency, a launch time per expert, the memory efficiency, and how they combine.

    With few rows, launch and norm are taken from the fit ``like`` of another GPU.
    """
    measured = rows.flops / device.peak / rows.efficiency
    node = np.array([np.median(rows.flops)])

    def unpack(x: npt.NDArray[np.float64]) -> tuple[float, float, float, float]:
        efficiency, bandwidth = np.exp(x[:2])
        if like is not None:
            return float(efficiency), float(bandwidth), like.launch_s, like.norm
        return float(efficiency), float(bandwidth), float(np.exp(x[2])), float(np.exp(x[3]))

    def residuals(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        efficiency, bandwidth, launch, norm = unpack(x)
        # One node: constant efficiency, so the floor below the smallest size is the launch.
        compute = rows.flops / (device.peak * efficiency)
        memory = rows.size_bytes / (device.bandwidth * bandwidth)
        total = compute**norm + memory**norm + launch**norm
        return np.asarray(np.log(total ** (1 / norm) / measured))

    start = np.log([0.5, 0.6] if like is not None else [0.5, 0.6, 5e-6, 1.5])
    bounds = (
        np.log([0.05, 0.1, 1e-8, 0.8][: len(start)]),
        np.log([1.0, 1.5, 3e-5, 8.0][: len(start)]),
    )
    found = least_squares(residuals, start, loss="soft_l1", f_scale=ROBUST, bounds=bounds)
    efficiency, bandwidth, launch, norm = unpack(found.x)
    # A node far below any product keeps the efficiency constant over all sizes.
    node = np.array([1.0])
    fit = Fit(node, np.array([efficiency]), launch, bandwidth, norm, len(measured), 0.0)
    return _with_error(fit, rows, device)


def _with_error(fit: Fit, rows: Rows, device: Device) -> Fit:
    return Fit(
        fit.flops,
        fit.efficiency,
        fit.launch_s,
        fit.bandwidth_efficiency,
        fit.norm,
        fit.rows,
        _error(fit, rows, device),
    )


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


def as_toml(device: Device, fits: dict[str, Fit], memory: str) -> str:
    """The data file of a device."""
    lines = [
        f"# Efficiencies of operators on {device.title}, condensed from measurements by",
        "# experiments/compute-calibration/fit_operators.py: do not edit by hand.",
        "# `error` is the root mean square of ln(fitted / measured time) over `rows` rows.",
        "",
        "[sources.simumax]",
        f'text = "MooreThreads/SimuMax (Apache-2.0), configs/system/{device.file}, {device.title}"',
        f'date = "{device.date}"',
        'url = "https://github.com/MooreThreads/SimuMax"',
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
        lines += [
            f"norm = {_number(fit.norm)}",
            'source = "simumax"',
            f"rows = {fit.rows}",
            f"error = {fit.error:.3f}",
        ]
    return "\n".join(lines) + "\n"


def memory_toml(table: dict[str, Any], device: Device) -> str:
    """Memory-bound operators: SimuMax's shares, referred to the bytes that must move.

    SimuMax divides by GiB/s of its own reference rate and counts three passes over permuted
    tokens, and every temporary of an unfused loss; here a permutation is one read and one
    write, a loss one read and one write of the logits each way.
    """

    def rate(kind: str) -> float:
        return float(table[kind]["gbps"] * GIB_PER_GB * 1e9 * table[kind]["efficient_factor"])

    launch_s = float(table["default"]["latency_us"]) * 1e-6
    # Permutation and inverse of k copies: 2 + 2k passes must move, 2 + 6k are counted (k = 6).
    permute = (2 + 2 * 6) / (2 + 6 * 6) * (rate("permute_fwd") + rate("permute_bwd")) / 2
    fused = "ce_fusion" in table
    # Unfused: 38 bytes an element forward, 14 backward, of which 8 must move.
    loss = rate("ce_fusion") if fused else rate("ce") * 8 / 52
    kinds = {
        "elementwise": (rate("default"), ""),
        "permute": (permute, ""),
        "cross_entropy": (loss, "fused" if fused else "not fused"),
        "optimizer": (rate("default"), ""),
    }
    lines = []
    for kind, (found, note) in kinds.items():
        lines += [
            f"[memory.{kind}]" + (f"  # {note}" if note else ""),
            f"bandwidth_efficiency = {_number(found / device.bandwidth)}",
            f"launch_s = {_number(launch_s)}",
            'source = "simumax"',
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
        texts[f"efficiency_{device.name}.toml"] = as_toml(device, fits, memory)
        like = fits
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
    changed = []
    for name, text in build(options.shared).items():
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
