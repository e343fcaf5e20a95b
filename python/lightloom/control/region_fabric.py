"""The fabric of a region: what is simulated by the same file is what the controller decides by.

A region's file may name that of a fabric with circuits. Rates, policy, timing and relays are then
those of the fabric, and the port map must have the NICs and switches that it says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightloom.control.port_map import PortMap
from lightloom.control.refusals import PortMapError, RegionFileError
from lightloom.errors import InputError
from lightloom.fabric import Cluster, load_fabric
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.reconfiguration import CircuitRegion
from lightloom.hardware import Gpu, load_gpu
from lightloom.inputs.files import shown_path
from lightloom.schedule import ALLOCATORS

#: servers of the cluster that a fabric is asked about; its regions are alike
_SERVERS = 2
#: rates of NICs, and of NVLinks, that a fabric is asked about to see whether its file says them
_NIC_GBPS, _NVLINK_GBPS = (100.0, 200.0), (1000.0, 2000.0)
#: GPU whose servers are taken where none is given
_GPU = "a100"


def read_circuit_region(
    path: Path, gpu: str | None = None, gpus_per_server: int | None = None
) -> CircuitRegion:
    """Return what the file of a fabric says of a region.

    Parameters
    ----------
    path
        The file.
    gpu, gpus_per_server
        Type of the GPUs, and how many a server has, for what the file leaves open.

    Raises
    ------
    RegionFileError
        If it cannot be read, has no circuits that a controller could decide, or leaves open what
        a controller needs.
    """
    name = shown_path(path)
    try:
        model = load_gpu(gpu or _GPU)
    except InputError as error:
        raise RegionFileError(f"job.gpu: {error}") from None
    try:
        fabric = load_fabric(path)
        region = _region_of(fabric, model, gpus_per_server, is_named=gpu is not None)
    except InputError as error:
        text = str(error)
        raise RegionFileError(text if text.startswith(name) else f"{name}: {text}") from None
    if region is None:
        raise RegionFileError(
            f"{name}: kind = '{fabric.kind}' has no circuits that a controller could decide:"
            " expected mixnet, or topology with a table [circuits]"
        )
    if region.allocator not in ALLOCATORS:
        raise RegionFileError(
            f"{name}: allocator = {region.allocator}: a controller has {', '.join(ALLOCATORS)}"
        )
    return region


def _region_of(
    fabric: object, gpu: Gpu, gpus_per_server: int | None, *, is_named: bool
) -> CircuitRegion | None:
    assert isinstance(fabric, FabricOptions)
    each = gpus_per_server or gpu.gpus_per_server
    of_server: dict[str, Any] = {
        "gpu": gpu.name,
        "gpus_per_server": each,
        "nics_per_server": gpu.nics_of(each),
    }
    gpus = _SERVERS * (fabric.gpus_per_server or each)
    regions = [
        fabric.circuit_region(Cluster.of(gpus=gpus, rate_gbps=rate_gbps, **of_server))
        for rate_gbps in _NIC_GBPS
    ]
    if None in regions:
        return None
    if regions[0] != regions[1]:
        raise RegionFileError("rate_gbps is missing: a controller takes the rate of NICs from it")
    if not is_named:
        links = [
            fabric.circuit_region(Cluster.of(gpus=gpus, rate_gbps=1, nvlink_gbps=gbps, **of_server))
            for gbps in _NVLINK_GBPS
        ]
        if links[0] != links[1]:
            raise RegionFileError(
                "nvlink_gbps is missing, which relays need: set it, or [job] gpu of the region,"
                " such as 'h100'"
            )
    if fabric.failures().names:
        raise RegionFileError(
            "failed: a controller is told what fails, as by lightloom control drain; leave it out"
        )
    return regions[0]


def check_port_map(port_map: PortMap, region: CircuitRegion, fabric: str) -> None:
    """Refuse a port map that is not as a fabric has it; ``fabric`` is the name of its file.

    Raises
    ------
    PortMapError
        Naming the first thing that differs.
    """
    for server, nics in zip(port_map.servers, port_map.nics_per_server, strict=True):
        if nics != region.ports:
            raise PortMapError(
                f"{port_map.name}: {server} has {nics} optical NICs, {fabric} says ports ="
                f" {region.ports}"
            )
    if region.ports > 1 and port_map.planes != region.planes:
        raise PortMapError(
            f"{port_map.name}: {_laid(port_map.planes)}, {fabric} says {_laid(region.planes)}"
        )
    if len(port_map.servers) > region.servers:
        raise PortMapError(
            f"{port_map.name}: {len(port_map.servers)} servers, a region of {fabric} has at most"
            f" {region.servers}"
        )


def _laid(planes: str | None) -> str:
    return "one switch for all NICs" if planes is None else f"a switch for each NIC, {planes}"
