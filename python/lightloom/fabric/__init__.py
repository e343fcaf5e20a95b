"""Fabrics: how the servers of a cluster are connected, and of which parts.

One file each; ``FABRICS`` is the list. A fabric's options are its fields; :func:`load_fabric` reads
a name, or a TOML file with a ``kind`` and any of the options.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.fabric.base import Fabric as Fabric
    from lightloom.fabric.bill import COMPONENTS as COMPONENTS
    from lightloom.fabric.bill import Bill as Bill
    from lightloom.fabric.bill import Counting as Counting
    from lightloom.fabric.bill import Line as Line
    from lightloom.fabric.bill import Switches as Switches
    from lightloom.fabric.chronos import Chronos as Chronos
    from lightloom.fabric.cluster import Cluster as Cluster
    from lightloom.fabric.context import FabricContext as FabricContext
    from lightloom.fabric.context import MeanDemand as MeanDemand
    from lightloom.fabric.context import RingDemand as RingDemand
    from lightloom.fabric.context import job_context as job_context
    from lightloom.fabric.context import mean_demand as mean_demand
    from lightloom.fabric.dual_plane import DualPlane as DualPlane
    from lightloom.fabric.fabric_options import FabricOptions as FabricOptions
    from lightloom.fabric.fabric_options import Setting as Setting
    from lightloom.fabric.fat_tree import FatTree as FatTree
    from lightloom.fabric.mixnet import MixNet as MixNet
    from lightloom.fabric.mixnet_optical_io import MixNetOpticalIo as MixNetOpticalIo
    from lightloom.fabric.nvl72 import Nvl72 as Nvl72
    from lightloom.fabric.oversub import Oversub as Oversub
    from lightloom.fabric.rail import Rail as Rail
    from lightloom.fabric.rail_only import RailOnly as RailOnly
    from lightloom.fabric.read import FABRICS as FABRICS
    from lightloom.fabric.read import load_fabric as load_fabric
    from lightloom.fabric.topoopt import TopoOpt as TopoOpt

export_on_use()
