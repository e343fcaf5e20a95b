"""Which servers share one reconfigurable circuit switch.

By default a region is the servers of one EP group, because only the all-to-alls of expert
parallelism use circuits (MixNet, section 4.2). Groups that share a server share its region.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightloom.errors import FabricError
from lightloom.workload.task_graph import Layout

#: region of a server without circuits
NO_REGION = 0xFFFF_FFFF


def plan_regions(
    what: str, layout: Layout, servers: int, region_servers: int | None, maximum: int
) -> npt.NDArray[np.uint32]:
    """Assign servers to regions.

    Parameters
    ----------
    what
        Fabric, for error messages.
    layout
        Which worker sits on which server.
    servers
        Number of servers.
    region_servers
        Servers of a region; ``None`` for those of one EP group.
    maximum
        Largest number of servers that the ports of one switch allow.

    Returns
    -------
    numpy.ndarray
        Region of each server, ``(servers,)``; ``NO_REGION`` where its EP traffic stays inside.

    Raises
    ------
    FabricError
        If a region exceeds the switch, or is too small for an EP group.
    """
    group = _linked_servers(layout, servers)
    size = np.bincount(group)
    largest = int(size.max())
    wanted = largest if region_servers is None else region_servers
    if wanted > maximum:
        source = "an EP group spans" if region_servers is None else "region_servers ="
        raise FabricError(
            f"{what}: {source} {wanted} servers, one switch has ports for {maximum};"
            " use fewer optical ports per server (ports), a larger switch (technology, ocs_ports)"
            " or smaller EP groups"
        )
    if wanted < largest:
        raise FabricError(
            f"{what}: region_servers = {wanted}: an EP group spans {largest} servers and must be in"
            " one region"
        )
    if region_servers is None:
        return _numbered(np.where(size[group] > 1, group, -1))
    return _numbered(_packed(size, region_servers)[group])


def _linked_servers(layout: Layout, servers: int) -> npt.NDArray[np.int64]:
    """Label servers by connected EP groups, ``(servers,)``."""
    label = np.arange(servers, dtype=np.int64)
    for group in layout.group_servers():
        joined = np.unique(label[group])
        if len(joined) > 1:
            label[np.isin(label, joined[1:])] = joined[0]
    return np.asarray(np.unique(label, return_inverse=True)[1], np.int64)


def _packed(size: npt.NDArray[np.int64], region_servers: int) -> npt.NDArray[np.int64]:
    """Fill regions with whole groups, in order."""
    region, room = 0, region_servers
    regions = np.empty(len(size), np.int64)
    for group, servers in enumerate(size):
        if servers > room:
            region, room = region + 1, region_servers
        regions[group], room = region, room - int(servers)
    return regions


def _numbered(region: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Number regions from 0 in order of their labels; negative labels have none."""
    used, number = np.unique(region, return_inverse=True)
    shift = int(np.count_nonzero(used < 0))
    return np.where(region < 0, NO_REGION, number - shift).astype(np.uint32)
