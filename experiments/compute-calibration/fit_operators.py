"""Condense measured operator efficiencies into the curves that Lightloom ships.

    python experiments/compute-calibration/fit_operators.py [--shared ../shared] [--check]

Reads the operator tables of SimuMax (MooreThreads/SimuMax, Apache-2.0), fits the roofline of
``lightloom.workload.compute_operators`` to them and writes ``efficiency_a100.toml`` into
``lightloom/hardware/data``, and the operators of their server of B200 into ``b200_server.toml``, a
profile here; ``fit_hopper.py``, ``fit_blackwell.py`` and ``fit_amd.py`` make the files of others.
``--check`` only says whether the files are what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fit_amd
import fit_blackwell
import fit_hopper
from fitting import (
    FUSED_PERMUTE,
    FUSED_PERMUTE_SOURCE,
    STRIDED_SOURCE,
    Fit,
    Rows,
    as_rows,
    as_toml,
    fit_curve,
    fit_grouped,
    number,
    strided_seconds,
)

ROOT = Path(__file__).resolve().parents[2]

DATA = ROOT / "python" / "lightloom" / "hardware" / "data"

GIB_PER_GB = 1024**3 / 1e9


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


def _fields(key: str) -> dict[str, str]:
    return dict(part.split("=") for part in key.split(", "))


def _rows(table: dict[str, Any], operator: str) -> Iterator[tuple[dict[str, str], float]]:
    for key, efficiency in table[operator].get("accurate_efficient_factor", {}).items():
        yield _fields(key), float(efficiency)


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


def sources_toml(device: Device) -> str:
    """Where the values of a device come from."""
    lines = [
        "[sources.simumax]",
        f'text = "MooreThreads/SimuMax (Apache-2.0), configs/system/{device.file}, {device.title}"',
        f'date = "{device.date}"',
        'url = "https://github.com/MooreThreads/SimuMax"',
        "",
        (STRIDED_SOURCE if device.name == "b200" else "") + FUSED_PERMUTE_SOURCE,
    ]
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
        "strided": rate("default") / device.bandwidth,
        "permute": FUSED_PERMUTE,
        "permute_unfused": permute / device.bandwidth,
        "cross_entropy": loss / device.bandwidth,
        "optimizer": rate("default") / device.bandwidth,
    }
    measured = device.name == "b200"
    notes = {
        "strided": ("pytorch", False) if measured else ("simumax", True),
        "permute": ("tileops", True),
        "cross_entropy": ("simumax", False),
    }
    lines = []
    for kind, share in shares.items():
        source, assumed = notes.get(kind, ("simumax", False))
        note = f"  # {'fused' if fused else 'not fused'}" if kind == "cross_entropy" else ""
        lines += [
            f"[memory.{kind}]{note}",
            f"bandwidth_efficiency = {number(share)}",
            *(
                [f"element_s = {number(strided_seconds(rate('default')))}"]
                if kind == "strided" and measured
                else []
            ),
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
        text = as_toml(device.title, Path(__file__).name, sources_toml(device), memory, fits)
        if device.name == "b200":
            texts["b200_server.toml"] = text + sustained_of_server()
            texts |= fit_blackwell.build(fits, memory)
        else:
            texts[f"efficiency_{device.name}.toml"] = text
            texts |= fit_amd.build(fits, memory)
    return texts | fit_hopper.build()


def sustained_of_server() -> str:
    """The factor of the server, which ``run.py`` fits to its steps."""
    text = place_of("b200_server.toml").read_text(encoding="utf-8")
    return "\n" + text[text.index("[sources.steps]") :]


def place_of(name: str) -> Path:
    """Where a file goes: into the package, or, a profile of one server, beside this."""
    return (DATA if name.startswith("efficiency_") else Path(__file__).parent) / name


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
        path = place_of(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        changed.append(name)
        if not options.check:
            path.write_text(text, encoding="utf-8")
    print(f"{'differ' if options.check else 'written'}: {', '.join(changed) or 'none'}")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
