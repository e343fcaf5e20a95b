"""GPUs by name: peaks, memory, NVLink, power, price; each value with its source.

Rates are per direction. Peaks are dense. What was not published is marked ``assumed``.

A GPU that the package does not know comes from one small file::

    title = "Our accelerator"
    like = "h200"                  # what is not given below is taken from this GPU
    peak_bf16_flops = 1.2e15
    hbm_capacity_bytes = "192 GB"
    hbm_rate_gbps = 48000
    price_usd = 20000

Without ``like``, peak, memory, links and power are needed; operators then run at generic fractions
of the peak, unless a profile (``--profile``) says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from lightloom.errors import HardwareError, InputError
from lightloom.hardware.values import (
    Provenance,
    Source,
    Table,
    Value,
    entry_of,
    read_toml,
    resolve,
    values_of,
)
from lightloom.inputs import formats
from lightloom.inputs.strict import Name, Number, Strict, Whole, check, quantity
from lightloom.practice import Precision

PACKAGED = "gpus.toml"
#: the peak that products in a format are fractions of
PEAKS: dict[Precision, str] = {
    "bf16": "peak_bf16_flops",
    "fp8": "peak_fp8_flops",
    "mxfp8": "peak_fp8_flops",
    "nvfp4": "peak_fp4_flops",
}
#: the server that a GPU comes in
SERVER = ("gpus_per_server", "nics_per_server")


class GpuTable(Table):
    """One GPU as its file has it."""

    title: str
    operators: str = ""
    formats: tuple[Precision, ...] = ("bf16",)
    peak_bf16_flops: Value
    peak_fp8_flops: Value | None = None
    peak_fp4_flops: Value | None = None
    hbm_capacity_bytes: Value
    hbm_rate_gbps: Value
    nvlink_rate_gbps: Value
    gpus_per_server: Value | None = None
    nics_per_server: Value | None = None
    sms: Value | None = None
    power_w: Value
    price_usd: Value | None = None


class GpuFile(Table):
    """A file of GPUs."""

    sources: dict[str, Source]
    gpus: dict[str, GpuTable]


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    ``peak_*_flops`` are dense FLOP/s (``None`` where the GPU has no such unit), ``hbm_rate_gbps``
    and ``nvlink_rate_gbps`` Gb/s per direction, ``sms`` the number of streaming multiprocessors;
    that and ``price_usd`` are ``None`` where unknown. ``gpus_per_server`` GPUs share NVLink, in a
    server or a rack, and ``nics_per_server`` NICs; eight unless its data says otherwise.
    ``operators`` names the table of measured operators of its generation, empty if there is none;
    ``formats`` are the number formats that its tensor cores compute with.
    """

    name: str
    title: str
    operators: str
    formats: tuple[Precision, ...]
    peak_bf16_flops: float
    peak_fp8_flops: float | None
    hbm_capacity_bytes: float
    hbm_rate_gbps: float
    nvlink_rate_gbps: float
    sms: float | None
    power_w: float
    price_usd: float | None
    peak_fp4_flops: float | None = field(default=None, kw_only=True)
    #: the built-in GPU whose interconnect it has; itself by default
    like: str = field(default="", kw_only=True)
    gpus_per_server: int = field(default=8, kw_only=True)
    nics_per_server: int = field(default=8, kw_only=True)
    provenance: Mapping[str, Provenance] = field(repr=False, compare=False)

    @property
    def hbm_bytes_per_s(self) -> float:
        """Memory rate in bytes per second."""
        return self.hbm_rate_gbps * 1e9 / 8

    def peak_flops(self, precision: Precision) -> float:
        """Peak of the tensor cores in FLOP/s for matrix products of a precision.

        Raises
        ------
        HardwareError
            If the GPU does not compute in this format.
        """
        if precision not in self.formats:
            raise HardwareError(
                f"precision {precision}: GPU '{self.name}' does not compute in it; "
                f"expected one of {', '.join(self.formats)}"
            )
        peak = getattr(self, PEAKS[precision])
        assert peak is not None
        return float(peak)

    def nics_of(self, gpus_per_server: int) -> int:
        """NICs of a server with so many of it, in proportion to those that it comes in."""
        return -(-gpus_per_server * self.nics_per_server // self.gpus_per_server)

    def price(self) -> float:
        """Price in USD.

        Raises
        ------
        HardwareError
            If the file that described this GPU has no price for it.
        """
        if self.price_usd is None:
            raise HardwareError(f"GPU '{self.name}' has no price_usd; add one to its file")
        return self.price_usd


def is_gpu_file(name: str) -> bool:
    """Whether what stands for a GPU is the path of a file rather than a name."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def gpu_names(path: Path | None = None) -> list[str]:
    """Names that :func:`load_gpu` knows."""
    return list(read_toml(path, PACKAGED, GpuFile).gpus)


def load_gpu(name: str, path: Path | None = None) -> Gpu:
    """Return the GPU called ``name`` (case and blanks do not matter).

    Parameters
    ----------
    name
        Such as ``"b200"``, or the path of a file of one GPU (:func:`read_gpu`).
    path
        A file in the format of ``data/gpus.toml``; the packaged one by default.

    Raises
    ------
    HardwareError
        If the name is unknown, or the file is wrong.
    """
    if path is None and is_gpu_file(name):
        return read_gpu(Path(name))
    file = read_toml(path, PACKAGED, GpuFile)
    key = name.strip().lower()
    table = entry_of(file.gpus, key, "GPU", name)
    values = values_of(table)
    above_zero = ("peak_bf16_flops", "hbm_capacity_bytes", "hbm_rate_gbps", *SERVER)
    for field_name in above_zero:
        if field_name in values and values[field_name].value <= 0:
            raise HardwareError(f"GPU '{key}': {field_name} must be above 0")
    _check_peaks(table, f"GPU '{key}'")
    server = {name: int(values[name].value) for name in SERVER if name in values}
    return Gpu(
        name=key,
        title=table.title,
        operators=table.operators,
        formats=table.formats,
        peak_bf16_flops=table.peak_bf16_flops.value,
        peak_fp8_flops=None if table.peak_fp8_flops is None else table.peak_fp8_flops.value,
        peak_fp4_flops=None if table.peak_fp4_flops is None else table.peak_fp4_flops.value,
        hbm_capacity_bytes=table.hbm_capacity_bytes.value,
        hbm_rate_gbps=table.hbm_rate_gbps.value,
        nvlink_rate_gbps=table.nvlink_rate_gbps.value,
        sms=None if table.sms is None else table.sms.value,
        power_w=table.power_w.value,
        price_usd=None if table.price_usd is None else table.price_usd.value,
        gpus_per_server=server.get("gpus_per_server", 8),
        nics_per_server=server.get("nics_per_server", 8),
        provenance=resolve(values, file.sources),
    )


Count = Annotated[Whole, Field(le=1024)]
Amount = Annotated[Number, Field(gt=0, le=1e24)]
Rate = Annotated[float, quantity("gigabit / second"), Field(gt=0, le=1e9)]

#: what a GPU cannot do without
_NEEDED = (
    "peak_bf16_flops",
    "hbm_capacity_bytes",
    "hbm_rate_gbps",
    "nvlink_rate_gbps",
    "power_w",
)


class OwnGpu(Strict):
    """The file; rates are per direction, peaks dense."""

    error_class: ClassVar[type[InputError]] = HardwareError

    title: Name | None = None
    like: Name | None = None
    source: Name | None = None
    formats: Annotated[tuple[Precision, ...], Field(min_length=1)] | None = None
    peak_bf16_flops: Amount | None = None
    peak_fp8_flops: Amount | None = None
    peak_fp4_flops: Amount | None = None
    hbm_capacity_bytes: Annotated[float, quantity("byte"), Field(gt=0, le=1e18)] | None = None
    hbm_rate_gbps: Rate | None = None
    nvlink_rate_gbps: Rate | None = None
    gpus_per_server: Count | None = None
    nics_per_server: Count | None = None
    sms: Amount | None = None
    power_w: Annotated[float, quantity("watt"), Field(ge=0, le=1e6)] | None = None
    price_usd: Annotated[float, quantity("USD"), Field(ge=0, le=1e9)] | None = None


def read_gpu(path: Path) -> Gpu:
    """Return the GPU that a file describes; it is called what the path is.

    Raises
    ------
    HardwareError
        If the file cannot be read, has an unknown key or a wrong value, or lacks one that is
        needed.
    """
    table = check(OwnGpu, formats.read_toml(path, "description of a GPU", HardwareError), str(path))
    values = table.model_dump(exclude={"title", "like", "source"}, exclude_none=True)
    source = table.source or str(path)
    base = _like(table.like, path) if table.like else _blank(values, path)
    own_values = {
        key: Provenance(value, source, "given", False)
        for key, value in values.items()
        if key != "formats"
    }
    gpu = replace(
        base,
        name=str(path),
        title=table.title or path.stem,
        like=table.like or "",
        provenance={**base.provenance, **own_values},
        **values,
    )
    _check_peaks(gpu, str(path))
    return gpu


def _check_peaks(gpu: Gpu | GpuTable, where: str) -> None:
    """Refuse a format whose peak is not given."""
    for precision in gpu.formats:
        if getattr(gpu, PEAKS[precision]) is None:
            name = precision.removeprefix("mx")
            raise HardwareError(
                f"{where}: formats has {name}, so {PEAKS[precision]} is needed; add it"
            )


def _like(name: str, path: Path) -> Gpu:
    if is_gpu_file(name):
        raise HardwareError(
            f"{path}: like = {name}: expected one of {', '.join(gpu_names())}, no file"
        )
    try:
        return load_gpu(name)
    except HardwareError as error:
        raise HardwareError(f"{path}: like: {error}") from None


def _blank(values: dict[str, Any], path: Path) -> Gpu:
    """A GPU of which nothing is known; every number that it needs is given."""
    missing = [key for key in _NEEDED if key not in values]
    if missing:
        raise HardwareError(
            f'{path}: {", ".join(missing)} missing; add what is, or like = "h100" to take it '
            "from that GPU"
        )
    formats_known: tuple[Precision, ...] = (
        ("bf16", "fp8") if "peak_fp8_flops" in values else ("bf16",)
    )
    return Gpu(
        name="",
        title="",
        operators="",
        formats=formats_known,
        peak_bf16_flops=0.0,
        peak_fp8_flops=None,
        hbm_capacity_bytes=0.0,
        hbm_rate_gbps=0.0,
        nvlink_rate_gbps=0.0,
        sms=None,
        power_w=0.0,
        price_usd=None,
        provenance={},
    )
