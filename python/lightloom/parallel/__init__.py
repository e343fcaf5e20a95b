"""Parallelism plans: degrees, rank groups, pipeline order, memory, and the choice of a plan."""

from lightloom.parallel.choose import TooFewGpusError, check_plan, choose_plan, stated_plan
from lightloom.parallel.grid import RankGrid, Workers, place_workers
from lightloom.parallel.memory import MemoryOptions, StageMemory, does_not_fit, memory_per_stage
from lightloom.parallel.plan import MEGATRON_ORDER, Plan, balanced_layout, check_model

__all__ = [
    "MEGATRON_ORDER",
    "MemoryOptions",
    "Plan",
    "RankGrid",
    "StageMemory",
    "TooFewGpusError",
    "Workers",
    "balanced_layout",
    "check_model",
    "check_plan",
    "choose_plan",
    "does_not_fit",
    "memory_per_stage",
    "place_workers",
    "stated_plan",
]
