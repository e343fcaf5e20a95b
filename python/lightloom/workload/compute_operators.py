"""How fast one GPU runs one operator: a roofline with measured efficiencies.

The time of an operator that computes ``F`` FLOPs and moves ``B`` bytes is

    t = (launch^p + (F / (peak e(F)))^p + (B / (bandwidth b))^p)^(1/p)

where ``e`` is the measured efficiency by size, a power law of ``F`` between measured sizes; below
the smallest the *time* stays constant, above the largest the efficiency does. Memory-bound
operators have ``launch + B / (bandwidth b)``, but ``strided`` ones no less than ``element_s`` for
each of their elements: threads of PyTorch's kernels whose operands are not contiguous or broadcast
load and store one element after the other (``CUDALoops.cuh``), and wait for each. Curves live in
``hardware/data/efficiency_*.toml``, which ``experiments/compute-calibration`` makes from
measurements; a user's profile overrides them. All times are divided by one number, ``sustained``:
how fast operators run within a long step, of how fast they were alone
(``hardware/data/sustained.toml``, fitted to measured steps).

Operators in FP8 (names end in ``_fp8``) are fractions of the FP8 peak; MXFP8 uses the same ones.
Those in NVFP4 end in ``_fp4``; ``attention_flash_*`` is FlashAttention 2, ``attention_fp8_*`` that
of cuDNN in FP8, as a fraction of the BF16 peak. Curves of attention are of heads of 128; beside its
products a score costs ``score_s`` (its exponential), of which narrow heads have more per FLOP.

A GPU that may draw less power than the one whose operators it has computes at a lower clock, the
power ratio to ``power_exponent``; its memory keeps its own rate.

Left out: overlap of operators within a GPU, clock and power management beyond these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from lightloom.errors import HardwareError, did_you_mean, echo
from lightloom.hardware.gpus import Gpu, load_gpu
from lightloom.hardware.values import Source, Table, Value, read_toml, resolve, values_of
from lightloom.inputs.files import MAX_TEXT_BYTES, read_file
from lightloom.inputs.text_table import Columns, TextTable, parse_table
from lightloom.practice import Precision

Array = npt.NDArray[np.float64]

#: operators whose time is set by FLOPs; sizes of grouped ones are per expert
OPERATORS = (
    "matmul",
    "matmul_accumulate",
    "grouped_matmul",
    "grouped_matmul_dgrad",
    "grouped_matmul_wgrad",
    "attention_forward",
    "attention_backward",
    "attention_latent_forward",
    "attention_latent_backward",
)

#: end of the name of an operator in FP8 and FP4
FP8, FP4 = "_fp8", "_fp4"
#: FlashAttention 2, where it is not the fastest attention that was measured
FLASH = "attention_flash"
#: attention in FP8 with scales of blocks, where it was measured
FP8_ATTENTION = "attention_fp8"
#: the same by format of products
SUFFIXES: dict[Precision, str] = {"bf16": "", "fp8": FP8, "mxfp8": FP8, "nvfp4": FP4}
PRODUCTS = tuple(name for name in OPERATORS if "matmul" in name)
FP8_OPERATORS = tuple(name + FP8 for name in PRODUCTS)
FP4_OPERATORS = tuple(name + FP4 for name in PRODUCTS)
FLASH_OPERATORS = (f"{FLASH}_forward", f"{FLASH}_backward")
NARROW_ATTENTION = (f"{FP8_ATTENTION}_forward", f"{FP8_ATTENTION}_backward")
ALL_OPERATORS = (
    *OPERATORS,
    *FP8_OPERATORS,
    *FP4_OPERATORS,
    *FLASH_OPERATORS,
    *NARROW_ATTENTION,
)

#: operators whose time is set by bytes
MEMORY_KINDS = (
    "elementwise",
    "strided",
    "permute",
    "permute_unfused",
    "cross_entropy",
    "optimizer",
)

#: the longest that a strided kernel may take for an element, s
MOST_ELEMENT_S = 1e-9

#: measured operators whose fractions of peak stand in for GPUs of no measured generation
GENERIC, GENERIC_FP8 = "a100", "h100"

_CSV_COLUMNS = Columns("efficiencies", needed=("operator", "flops", "efficiency"))


class CurveTable(Table):
    """Efficiency by size of one operator, and how it combines with launch and memory time."""

    flops: list[float] = Field(min_length=1)
    efficiency: list[float] = Field(min_length=1)
    launch_s: float = Field(default=0.0, ge=0)
    bandwidth_efficiency: float | None = Field(default=None, gt=0)
    norm: float = Field(default=1.0, ge=0.5, le=64)
    score_s: float = Field(default=0.0, ge=0, le=1e-9)
    source: str = ""
    assumed: bool = False
    rows: int = Field(default=0, ge=0)
    error: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> CurveTable:
        if len(self.flops) != len(self.efficiency):
            raise ValueError("flops and efficiency must have equal lengths")
        if any(low >= high for low, high in zip(self.flops, self.flops[1:], strict=False)):
            raise ValueError("flops must ascend")
        if self.flops[0] <= 0 or not all(0 < value <= 2 for value in self.efficiency):
            raise ValueError("flops must be above 0, efficiency in (0, 2]")
        return self


class MemoryTable(Table):
    """Share of the memory rate that one kind of memory-bound operator reaches."""

    bandwidth_efficiency: float = Field(gt=0, le=2)
    launch_s: float = Field(default=0.0, ge=0)
    element_s: float = Field(default=0.0, ge=0, le=MOST_ELEMENT_S)
    source: str = ""
    assumed: bool = False


class OwnLaunches(Table):
    """What a user measured of launching kernels; see :class:`Launches`."""

    host_s: Value | None = None
    gap_s: Value | None = None
    graph_gap_s: Value | None = None
    synchronize_s: Value | None = None


class EfficiencyFile(Table):
    """Efficiencies of one GPU; a user's profile may give only some of them.

    Links of a profile are :func:`lightloom.fabric.interconnect.measured_links`.
    """

    sources: dict[str, Source] = Field(default_factory=dict)
    operators: dict[str, CurveTable] = Field(default_factory=dict)
    memory: dict[str, MemoryTable] = Field(default_factory=dict)
    launch: OwnLaunches | None = None
    sustained: Value | None = None
    nvlink: dict[str, Value] = Field(default_factory=dict)
    network: dict[str, Value] = Field(default_factory=dict)


class SustainedFile(Table):
    """Speed of operators within a step, of their speed alone, by GPU generation."""

    sources: dict[str, Source]
    sustained: dict[str, Value]
    power_exponent: Value


class LaunchFile(Table):
    """Times that every kernel costs on top of its work; see :class:`Launches`."""

    sources: dict[str, Source]
    host_s: Value
    gap_s: Value
    graph_gap_s: Value
    synchronize_s: Value


@dataclass(frozen=True)
class Launches:
    """What launching kernels costs.

    Attributes
    ----------
    host_s
        Time of the host to issue one kernel in eager mode; the GPU waits for a slower host.
    gap_s
        Idle time of the GPU between two kernels that are launched one by one.
    graph_gap_s
        The same between kernels of a CUDA graph, which needs no host time per kernel.
    synchronize_s
        Idle time of the GPU where the host waits for a result of it before it continues.
    provenance
        Source of each.
    """

    host_s: float
    gap_s: float
    graph_gap_s: float
    synchronize_s: float
    provenance: Mapping[str, str] = field(repr=False, default_factory=dict)

    def seconds(self, kernel_s: npt.ArrayLike, counts: tuple[float, float], graph: bool) -> Array:
        """Time of kernels that work for ``kernel_s`` in all: how many they are, and their gaps."""
        (kernels, gaps), seconds = counts, np.asarray(kernel_s, dtype=np.float64)
        if graph:
            return seconds + gaps * self.graph_gap_s
        return np.maximum(seconds + gaps * self.gap_s, kernels * self.host_s)


def load_launches(profile: Path | None = None) -> Launches:
    """The packaged launch times, overridden by those of a user's profile in TOML."""
    file = read_toml(None, "launch.toml", LaunchFile)
    values = values_of(file)
    resolved = resolve(values, file.sources)
    seconds = {name: value.value for name, value in values.items()}
    provenance = {f"launch.{name}": str(value) for name, value in resolved.items()}
    if profile is not None and profile.suffix.lower() != ".csv":
        measured = _read_toml(profile)
        for name, value in (values_of(measured.launch) if measured.launch else {}).items():
            if value.value < 0:
                raise HardwareError(f"{profile}: launch.{name} must not be below 0")
            seconds[name] = value.value
            provenance[f"launch.{name}"] = _source(value, measured, str(profile))
    return Launches(**seconds, provenance=provenance)


@dataclass(frozen=True)
class Curve:
    """One operator: see the module for the formula."""

    name: str
    log_flops: Array = field(repr=False)
    log_efficiency: Array = field(repr=False)
    launch_s: float
    bandwidth_efficiency: float | None
    norm: float
    score_s: float = 0.0

    def at_clock(self, clock: float) -> Curve:
        """The operator at so many times the clock at which it was measured."""
        return replace(
            self,
            log_efficiency=self.log_efficiency + math.log(clock),
            score_s=self.score_s / clock,
        )

    def efficiency_at(self, flops: npt.ArrayLike) -> Array:
        """Efficiency at sizes above 0, same shape."""
        log_flops = np.log(np.asarray(flops, dtype=np.float64))
        inside = np.interp(log_flops, self.log_flops, self.log_efficiency)
        below = np.minimum(0.0, log_flops - self.log_flops[0])
        result: Array = np.exp(inside + below)
        return result

    def seconds(
        self, flops: npt.ArrayLike, size_bytes: npt.ArrayLike, peak: float, bandwidth: float
    ) -> Array:
        """Time of each operator, s; no FLOPs take no time.

        Parameters
        ----------
        flops, size_bytes
            Work and traffic of each, broadcast together.
        peak, bandwidth
            Peak of the GPU in FLOP/s and bytes/s.
        """
        flops, size_bytes = np.broadcast_arrays(
            np.asarray(flops, dtype=np.float64), np.asarray(size_bytes, dtype=np.float64)
        )
        some = flops > 0
        safe = np.where(some, flops, 1.0)
        compute = safe / (peak * self.efficiency_at(safe))
        memory: Any = 0.0
        if self.bandwidth_efficiency is not None:
            memory = size_bytes / (bandwidth * self.bandwidth_efficiency)
        # Scaled by the largest term, so that large norms neither overflow nor underflow.
        largest = np.maximum(np.maximum(compute, memory), self.launch_s)
        total = sum((part / largest) ** self.norm for part in (compute, memory, self.launch_s))
        result: Array = np.where(some, largest * total ** (1 / self.norm), 0.0)
        return result


@dataclass(frozen=True)
class Memory:
    """One kind of memory-bound operator."""

    name: str
    bandwidth_efficiency: float
    launch_s: float
    element_s: float = 0.0

    def at_clock(self, clock: float) -> Memory:
        """The operator at so many times the clock at which it was measured: bytes take as long."""
        return replace(self, element_s=self.element_s / clock)


@dataclass(frozen=True)
class Efficiencies:
    """All operators of one GPU, where they come from, and which are assumed."""

    curves: Mapping[str, Curve]
    memory: Mapping[str, Memory]
    sustained: float
    assumed: frozenset[str]
    provenance: Mapping[str, str]


def load_efficiencies(gpu: Gpu, profile: Path | None = None) -> Efficiencies:
    """Efficiencies of the GPU's generation, else the generic ones, overridden by a user's profile.

    Raises
    ------
    HardwareError
        If the profile cannot be read or names an unknown operator or a wrong value.
    """
    like = gpu.operators or GENERIC
    efficiencies = _build(_packaged(like), f"efficiency_{like}.toml")
    if not gpu.operators:
        if gpu.peak_fp8_flops:
            efficiencies = _with_fp8(efficiencies)
        measured = f"{GENERIC.upper()}, in FP8 on {GENERIC_FP8.upper()}"
        note = f"generic: fractions of peak measured on {measured}, not on this GPU"
        efficiencies = replace(
            efficiencies,
            assumed=frozenset([*efficiencies.curves, *MEMORY_KINDS]),
            provenance={key: f"{note} ({text})" for key, text in efficiencies.provenance.items()},
        )
    efficiencies = _with_power(_override(efficiencies, _sustained(like)), gpu)
    if profile is None:
        return efficiencies
    table = _read_csv(profile) if profile.suffix.lower() == ".csv" else _read_toml(profile)
    return _override(efficiencies, _build(table, str(profile)))


def _with_power(efficiencies: Efficiencies, gpu: Gpu) -> Efficiencies:
    """At the clock of a GPU that may draw less power than the one that was measured."""
    measured = load_gpu(gpu.operators).power_w if gpu.operators else gpu.power_w
    if not 0 < gpu.power_w < measured:
        return efficiencies
    file = read_toml(None, "sustained.toml", SustainedFile)
    note = _source(file.power_exponent, EfficiencyFile(sources=file.sources), "sustained.toml")
    text = f"{gpu.power_w:g} W of {measured:g} W to the power of {file.power_exponent.value:g}"
    clock = (gpu.power_w / measured) ** file.power_exponent.value
    return replace(
        efficiencies,
        curves={name: curve.at_clock(clock) for name, curve in efficiencies.curves.items()},
        memory={name: kind.at_clock(clock) for name, kind in efficiencies.memory.items()},
        provenance={**efficiencies.provenance, "clock": f"{text}: {note}"},
    )


def measures_operators(profile: Path | None) -> bool:
    """Whether a profile has operators, and not links alone."""
    if profile is None or profile.suffix.lower() == ".csv":
        return profile is not None
    file = _read_toml(profile)
    return bool(file.operators or file.memory)


def _with_fp8(efficiencies: Efficiencies) -> Efficiencies:
    """Generic efficiencies, for a GPU that computes in FP8 as well."""
    measured = _build(_packaged(GENERIC_FP8), f"efficiency_{GENERIC_FP8}.toml")
    names = [name for name in measured.curves if name.endswith(FP8)]
    return replace(
        efficiencies,
        curves={**efficiencies.curves, **{name: measured.curves[name] for name in names}},
        provenance={
            **efficiencies.provenance,
            **{name: measured.provenance[name] for name in names},
        },
    )


def _packaged(name: str) -> EfficiencyFile:
    file = read_toml(None, f"efficiency_{name}.toml", EfficiencyFile)
    missing = [key for key in OPERATORS if key not in file.operators]
    missing += [key for key in MEMORY_KINDS if key not in file.memory]
    assert not missing, f"efficiency_{name}.toml lacks {missing}"
    return file


def _sustained(generation: str) -> Efficiencies:
    """The sustained factor of a generation of GPUs."""
    file = read_toml(None, "sustained.toml", SustainedFile)
    value = file.sustained[generation]
    return _build(EfficiencyFile(sources=file.sources, sustained=value), "sustained.toml")


def _read_toml(profile: Path) -> EfficiencyFile:
    return read_toml(profile, "", EfficiencyFile)


def check_profile(file: EfficiencyFile, name: str) -> None:
    """Refuse a profile whose operators or start-ups no command could use.

    Raises
    ------
    HardwareError
        In one line, which ``name`` begins.
    """
    _build(file, name)
    for value in values_of(file.launch).values() if file.launch else ():
        _source(value, file, name)


def _build(file: EfficiencyFile, name: str) -> Efficiencies:
    """Check names and turn tables into curves."""
    for kind, names, keys in (
        ("operator", ALL_OPERATORS, file.operators),
        ("memory kind", MEMORY_KINDS, file.memory),
    ):
        for key in keys:
            if key not in names:
                hint = did_you_mean(key, names)
                raise HardwareError(
                    f"{name}: unknown {kind} '{key}'{hint}; known: {', '.join(names)}"
                )
    curves = {
        key: Curve(
            key,
            np.log(table.flops),
            np.log(table.efficiency),
            table.launch_s,
            table.bandwidth_efficiency,
            table.norm,
            table.score_s,
        )
        for key, table in file.operators.items()
    }
    memory = {
        key: Memory(key, table.bandwidth_efficiency, table.launch_s, table.element_s)
        for key, table in file.memory.items()
    }
    tables: dict[str, CurveTable | MemoryTable | Value] = {**file.operators, **file.memory}
    if file.sustained is not None:
        if file.sustained.value <= 0:
            raise HardwareError(f"{name}: sustained must be above 0")
        tables["sustained"] = file.sustained
    return Efficiencies(
        curves=curves,
        memory=memory,
        sustained=1.0 if file.sustained is None else file.sustained.value,
        assumed=frozenset(key for key, table in tables.items() if table.assumed),
        provenance={key: _source(table, file, name) for key, table in tables.items()},
    )


def _source(table: CurveTable | MemoryTable | Value, file: EfficiencyFile, name: str) -> str:
    key = table.source
    if key in file.sources:
        source = file.sources[key]
        note = f"; {table.note}" if isinstance(table, Value) and table.note else ""
        return f"{source.text}, {source.date}{note}"
    if file.sources and key:
        hint = did_you_mean(key, file.sources)
        raise HardwareError(f"{name}: source '{key}' is not in [sources]{hint}; list it there")
    return key or name


def _override(base: Efficiencies, user: Efficiencies) -> Efficiencies:
    changed = user.provenance.keys()
    curves = {
        key: replace(curve, score_s=curve.score_s or base.curves[key].score_s)
        if key in base.curves
        else curve
        for key, curve in user.curves.items()
    }
    return Efficiencies(
        curves={**base.curves, **curves},
        memory={**base.memory, **user.memory},
        sustained=user.sustained if "sustained" in changed else base.sustained,
        assumed=(base.assumed - changed) | user.assumed,
        provenance={**base.provenance, **user.provenance},
    )


def _read_csv(profile: Path) -> EfficiencyFile:
    """Read ``operator,flops,efficiency``; a measured efficiency includes launch and memory time.

    Memory kinds have an empty ``flops``. The sustained factor stays: operators are measured alone.
    """
    content = read_file(profile, "profile", MAX_TEXT_BYTES, HardwareError)
    table = parse_table(content, str(profile), _CSV_COLUMNS, HardwareError)
    points: dict[str, list[tuple[float, float]]] = {}
    memory: dict[str, MemoryTable] = {}
    flops = table.numbers("flops", 1.0)
    efficiencies = table.numbers("efficiency")
    for row, name in enumerate(table.texts("operator")):
        _check_row(table, row, name, flops[row], efficiencies[row])
        if name in MEMORY_KINDS:
            memory[name] = MemoryTable(bandwidth_efficiency=efficiencies[row])
        else:
            points.setdefault(name, []).append((flops[row], efficiencies[row]))
    operators = {}
    for name, pairs in points.items():
        pairs.sort()
        sizes = [pair[0] for pair in pairs]
        if len(set(sizes)) != len(sizes):
            raise HardwareError(f"{profile}: operator '{name}' has a size twice; keep one")
        operators[name] = CurveTable(flops=sizes, efficiency=[pair[1] for pair in pairs])
    return EfficiencyFile(operators=operators, memory=memory)


def _check_row(table: TextTable, row: int, name: str, flops: float, efficiency: float) -> None:
    where = table.place(row)
    if name not in (*ALL_OPERATORS, *MEMORY_KINDS):
        hint = did_you_mean(name, (*ALL_OPERATORS, *MEMORY_KINDS))
        raise HardwareError(f"{where}: unknown operator {echo(name)}{hint}")
    if name in ALL_OPERATORS and not table.texts("flops")[row]:
        raise HardwareError(f"{where}: expected the FLOPs of {name}, got an empty cell")
    if not 0 < efficiency <= 2 or flops <= 0:
        raise HardwareError(f"{where}: flops must be above 0, efficiency in (0, 2]")
