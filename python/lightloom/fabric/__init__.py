"""Fabrics: how the servers of a cluster are connected, and of which parts.

One file each; ``FABRICS`` is the list. A fabric's options are its fields; :func:`load_fabric` reads
a name, or a TOML file with a ``kind`` and any of the options.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import exports

if TYPE_CHECKING:
    from lightloom.fabric.base import Fabric
    from lightloom.fabric.bill import COMPONENTS, Bill, Counting, Line, Switches
    from lightloom.fabric.chronos import Chronos
    from lightloom.fabric.cluster import Cluster
    from lightloom.fabric.context import (
        FabricContext,
        MeanDemand,
        RingDemand,
        job_context,
        mean_demand,
    )
    from lightloom.fabric.dual_plane import DualPlane
    from lightloom.fabric.fabric_options import FabricOptions, Setting
    from lightloom.fabric.fat_tree import FatTree
    from lightloom.fabric.mixnet import MixNet
    from lightloom.fabric.mixnet_optical_io import MixNetOpticalIo
    from lightloom.fabric.nvl72 import Nvl72
    from lightloom.fabric.oversub import Oversub
    from lightloom.fabric.rail import Rail
    from lightloom.fabric.rail_only import RailOnly
    from lightloom.fabric.read import FABRICS, load_fabric
    from lightloom.fabric.topoopt import TopoOpt

__all__ = [
    "COMPONENTS",
    "FABRICS",
    "Bill",
    "Chronos",
    "Cluster",
    "Counting",
    "DualPlane",
    "Fabric",
    "FabricContext",
    "FabricOptions",
    "FatTree",
    "Line",
    "MeanDemand",
    "MixNet",
    "MixNetOpticalIo",
    "Nvl72",
    "Oversub",
    "Rail",
    "RailOnly",
    "RingDemand",
    "Setting",
    "Switches",
    "TopoOpt",
    "job_context",
    "load_fabric",
    "mean_demand",
]

__getattr__ = exports(
    __name__,
    {
        "base": ["Fabric"],
        "bill": ["COMPONENTS", "Bill", "Counting", "Line", "Switches"],
        "chronos": ["Chronos"],
        "cluster": ["Cluster"],
        "context": ["FabricContext", "MeanDemand", "RingDemand", "job_context", "mean_demand"],
        "dual_plane": ["DualPlane"],
        "fabric_options": ["FabricOptions", "Setting"],
        "fat_tree": ["FatTree"],
        "mixnet": ["MixNet"],
        "mixnet_optical_io": ["MixNetOpticalIo"],
        "nvl72": ["Nvl72"],
        "oversub": ["Oversub"],
        "rail": ["Rail"],
        "rail_only": ["RailOnly"],
        "read": ["FABRICS", "load_fabric"],
        "topoopt": ["TopoOpt"],
    },
)
