"""Lightloom plans, simulates and runs reconfigurable fabrics for training MoE models.

The names of :data:`__all__` are the public API; each is imported when it is first used, so that
``import lightloom`` takes no time. Everything else may change between versions.

Examples
--------
>>> import lightloom
>>> "compare" in dir(lightloom)
True
"""

from __future__ import annotations

from lightloom.lazy import exports
from lightloom.shown import shown_by

#: what type checkers take for true; that of ``typing`` takes long to import
TYPE_CHECKING = False

if TYPE_CHECKING:
    from lightloom.api import compare, compare_schedules, predict, simulate_flows
    from lightloom.demand import rank_matrix, synthetic
    from lightloom.demand.byte_matrix import read_byte_matrix
    from lightloom.demand.predictors import DemandPredictor
    from lightloom.errors import InputError, LightloomError
    from lightloom.fabric import load_fabric
    from lightloom.models import load_model
    from lightloom.packets.flows import Flows, make_flows, read_flows
    from lightloom.packets.results import PacketRun
    from lightloom.progress import Progress
    from lightloom.report.figure import Figure
    from lightloom.schedule import (
        Allocation,
        Decider,
        PermutationSchedule,
        Region,
        allocate,
        decompose,
    )
    from lightloom.study.compare import Comparison, Scenario, load_study
    from lightloom.study.prediction import Prediction
    from lightloom.study.scheduling import ScheduleComparison

__all__ = [
    "Allocation",
    "Comparison",
    "Decider",
    "DemandPredictor",
    "Figure",
    "Flows",
    "InputError",
    "LightloomError",
    "PacketRun",
    "PermutationSchedule",
    "Prediction",
    "Progress",
    "Region",
    "Scenario",
    "ScheduleComparison",
    "allocate",
    "compare",
    "compare_schedules",
    "decompose",
    "load_fabric",
    "load_model",
    "load_study",
    "make_flows",
    "predict",
    "rank_matrix",
    "read_byte_matrix",
    "read_flows",
    "simulate_flows",
    "synthetic",
]

__version__: str

shown_by("lightloom.report.views")

_import_export = exports(
    __name__,
    {
        "api": ["compare", "compare_schedules", "predict", "simulate_flows"],
        "demand": ["rank_matrix", "synthetic"],
        "demand.byte_matrix": ["read_byte_matrix"],
        "demand.predictors": ["DemandPredictor"],
        "errors": ["InputError", "LightloomError"],
        "fabric": ["load_fabric"],
        "models": ["load_model"],
        "packets.flows": ["Flows", "make_flows", "read_flows"],
        "packets.results": ["PacketRun"],
        "progress": ["Progress"],
        "report.figure": ["Figure"],
        "schedule": [
            "Allocation",
            "Decider",
            "PermutationSchedule",
            "Region",
            "allocate",
            "decompose",
        ],
        "study.compare": ["Comparison", "Scenario", "load_study"],
        "study.prediction": ["Prediction"],
        "study.scheduling": ["ScheduleComparison"],
    },
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # slow to import, and seldom needed

        return version("lightloom")
    return _import_export(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
