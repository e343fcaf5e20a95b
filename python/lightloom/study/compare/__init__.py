"""Fabrics for a training job, compared over seeds, steps and compute speeds."""

from typing import TYPE_CHECKING

from lightloom.lazy import exports

if TYPE_CHECKING:
    from lightloom.study.compare.results import Comparison, FabricResult, Sample
    from lightloom.study.compare.run import compare
    from lightloom.study.compare.scenario import (
        ClusterOptions,
        DemandOptions,
        PacketOptions,
        PlanOptions,
        Scenario,
        load_study,
    )

__all__ = [
    "ClusterOptions",
    "Comparison",
    "DemandOptions",
    "FabricResult",
    "PacketOptions",
    "PlanOptions",
    "Sample",
    "Scenario",
    "compare",
    "load_study",
]

__getattr__ = exports(
    __name__,
    {
        "results": ["Comparison", "FabricResult", "Sample"],
        "run": ["compare"],
        "scenario": [
            "ClusterOptions",
            "DemandOptions",
            "PacketOptions",
            "PlanOptions",
            "Scenario",
            "load_study",
        ],
    },
)
