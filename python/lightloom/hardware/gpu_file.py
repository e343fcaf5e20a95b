"""A GPU that the package does not know, from one small TOML file.

::

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

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from lightloom.errors import HardwareError, InputError
from lightloom.hardware.gpus import Gpu, gpu_names, is_gpu_file, load_gpu
from lightloom.hardware.values import Provenance
from lightloom.inputs import formats
from lightloom.inputs.strict import Name, Number, Strict, Whole, check, quantity
from lightloom.practice import Precision

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
    if gpu.peak_fp8_flops is None and set(gpu.formats) & {"fp8", "mxfp8"}:
        raise HardwareError(f"{path}: formats has fp8, so peak_fp8_flops is needed; add it")
    return gpu


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
