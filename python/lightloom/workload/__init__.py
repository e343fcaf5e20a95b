"""From model, plan and demand to the task graph of a training step."""

from lightloom.workload.build import Workload, build, check_conservation, rebuild
from lightloom.workload.builder import Block, Entry, ProgramBuilder, TaskGraphBuilder
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.tokens import demand_shape

__all__ = [
    "Block",
    "Entry",
    "ProgramBuilder",
    "TaskGraphBuilder",
    "Workload",
    "WorkloadOptions",
    "build",
    "check_conservation",
    "demand_shape",
    "rebuild",
]
