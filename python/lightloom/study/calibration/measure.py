"""Measure operators on a device and condense them into a profile that ``--profile`` reads.

The device is behind a small protocol, so that what is measured, and how often, does not depend on
it. Every operation runs alone, as those of the packaged tables did: the sustained factor stays that
of the GPU's generation. Operators that are not measured, such as those in FP8, stay, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from lightloom.hardware.gpus import Gpu

Run = Callable[[], None]

#: runs before the first that counts
WARM_UP = 3

#: time of the runs of one measurement, s, so that the resolution of the clock does not matter
SPAN_S = 0.02


@dataclass(frozen=True)
class Operation:
    """One operation of a size.

    Attributes
    ----------
    operator
        Name of the operator in a profile.
    shape
        Experts, m, k, n of a product; sequences, heads, length, d_qk, d_v of attention; tokens,
        copies, hidden size of a permutation; bytes of a copy.
    flops
        Its work, per expert for grouped products; 0 where bytes set the time.
    size_bytes
        What it reads and writes, where bytes set the time.
    """

    operator: str
    shape: tuple[int, ...]
    flops: float = 0.0
    size_bytes: float = 0.0

    @property
    def parts(self) -> int:
        """Experts that ``flops`` is per."""
        return self.shape[0] if self.operator.startswith("grouped") else 1


class Device(Protocol):
    """A GPU that runs operations."""

    @property
    def title(self) -> str:
        """Name of the device."""

    def prepare(self, operation: Operation) -> Run:
        """Allocate what an operation needs, and return what runs it once."""

    def seconds(self, run: Run, times: int) -> float:
        """Time of some runs, one after another, s."""


def operations() -> Iterator[Operation]:
    """Everything that is measured, from small to large."""
    for size in (512, 1024, 2048, 4096, 8192, 16384):
        for name in ("matmul", "matmul_accumulate"):
            yield Operation(name, (1, size, size, size), flops=2.0 * size**3)
    for tokens in (128, 512, 2048, 8192):
        for stage in ("", "_dgrad", "_wgrad"):
            product = (8, tokens, 4096, 4096)
            yield Operation(f"grouped_matmul{stage}", product, flops=2.0 * tokens * 4096**2)
    for family, dims in (("attention", (128, 128)), ("attention_latent", (192, 128))):
        for seq_len in (1024, 2048, 4096, 8192, 16384):
            flops = seq_len**2 * 16.0 * sum(dims)
            shape = (1, 16, seq_len, *dims)
            yield Operation(f"{family}_forward", shape, flops=flops)
            yield Operation(f"{family}_backward", shape, flops=2.5 * flops)
    yield Operation("permute", (8192, 8, 4096), size_bytes=2.0 * 8192 * 4096 * (1 + 8))
    yield Operation("elementwise", (2**30,), size_bytes=2.0 * 2**30)


def median_seconds(device: Device, operation: Operation, repeats: int) -> float:
    """Median time of one run over ``repeats`` measurements of equal length, s."""
    run = device.prepare(operation)
    once = device.seconds(run, WARM_UP) / WARM_UP
    times = max(1, round(SPAN_S / once))
    return statistics.median(device.seconds(run, times) / times for _ in range(repeats))


def measure(
    device: Device, gpu: Gpu, repeats: int, report: Callable[[str], None]
) -> dict[str, list[tuple[float, float]]]:
    """FLOPs and efficiency of every size, by operator; memory-bound ones have no FLOPs."""
    points: dict[str, list[tuple[float, float]]] = {}
    for operation in operations():
        seconds = median_seconds(device, operation, repeats)
        if operation.flops:
            rate = operation.flops * operation.parts / seconds
            efficiency, unit = rate / gpu.peak_bf16_flops, f"{rate / 1e12:.0f} TFLOPS"
        else:
            rate = operation.size_bytes / seconds
            efficiency, unit = rate / gpu.hbm_bytes_per_s, f"{rate / 1e9:.0f} GB/s"
        points.setdefault(operation.operator, []).append((operation.flops, efficiency))
        shape = " x ".join(str(part) for part in operation.shape)
        report(f"{operation.operator} {shape}: {1e6 * seconds:.1f} us, {unit}")
    return points


def profile_text(
    points: dict[str, list[tuple[float, float]]], title: str, gpu: Gpu, date: str
) -> str:
    """A profile in TOML; efficiencies include launches, and are fractions of the GPU's peaks."""
    lines = [
        f"# Operators measured on {title}, as fractions of the peaks of {gpu.title}.",
        "",
        "[sources.measured]",
        f'text = "lightloom calibrate gpu on {title}"',
        f'date = "{date}"',
    ]
    for name, pairs in points.items():
        if not pairs[0][0]:
            lines += ["", f"[memory.{name}]", f"bandwidth_efficiency = {pairs[0][1]:.4g}"]
        else:
            flops = ", ".join(f"{size:.6g}" for size, _ in pairs)
            efficiency = ", ".join(f"{value:.4g}" for _, value in pairs)
            lines += ["", f"[operators.{name}]", f"flops = [{flops}]"]
            lines.append(f"efficiency = [{efficiency}]")
        lines.append('source = "measured"')
    return "\n".join(lines) + "\n"
