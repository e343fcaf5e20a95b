"""Collectives for PyTorch: what the planner chooses, run.

Needs PyTorch, which this package does not install: whoever trains has a build of it already.

Examples
--------
A mixture of experts under expert and tensor parallelism, in the forward pass::

    rows, route = all_to_all_tp(tokens, splits, ep_group=ep, tp_group=tp, cluster="ours.toml")
    results = route.combine(experts(rows, route.received))

Over circuits that follow the demand, expert parallelism alone::

    mixnet = MixNet.from_environment()
    rows, route = mixnet.all_to_all(tokens, splits)
    results = route.combine(experts(rows, route.received))
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("lightloom.torch needs PyTorch; install torch first") from error

from lightloom.torch.agreement import RankError
from lightloom.torch.all_to_all import Route, all_to_all_tp
from lightloom.torch.circuit_decisions import DemandMonitor, RegionCircuits
from lightloom.torch.hooks import use_in_deepspeed, use_in_megatron
from lightloom.torch.job_nics import ServerNics
from lightloom.torch.mixnet import CircuitRoute, MovedRows
from lightloom.torch.mixnet import MixNetCollectives as MixNet
from lightloom.torch.streams import StreamLimits
from lightloom.torch.wires import NicAddress

__all__ = [
    "CircuitRoute",
    "DemandMonitor",
    "MixNet",
    "MovedRows",
    "NicAddress",
    "RankError",
    "RegionCircuits",
    "Route",
    "ServerNics",
    "StreamLimits",
    "all_to_all_tp",
    "use_in_deepspeed",
    "use_in_megatron",
]
