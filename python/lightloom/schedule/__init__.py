"""Schedulers: demand to circuits, and demand of a job to a fixed topology.

The algorithms are Rust (``crates/schedule``), one function for the simulator, the controller of a
real switch and Python. Every function is deterministic and releases the interpreter lock.
"""

from lightloom.schedule.circuits import (
    Allocation,
    Method,
    Region,
    allocate,
    allocate_region,
    changed_pairs,
    map_nics,
    port_bound_s,
    route,
)
from lightloom.schedule.topoopt import Cycles, Ring, Topology, cycles_in_order, topoopt_topology

__all__ = [
    "Allocation",
    "Cycles",
    "Method",
    "Region",
    "Ring",
    "Topology",
    "allocate",
    "allocate_region",
    "changed_pairs",
    "cycles_in_order",
    "map_nics",
    "port_bound_s",
    "route",
    "topoopt_topology",
]
