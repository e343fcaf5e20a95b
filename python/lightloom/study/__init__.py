"""Studies: compare fabrics for a training job over seeds, steps and compute speeds."""

from lightloom.study.compare import Monitor, compare
from lightloom.study.results import Comparison, FabricResult, Sample
from lightloom.study.scenario import (
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
    "Monitor",
    "PacketOptions",
    "PlanOptions",
    "Sample",
    "Scenario",
    "compare",
    "load_study",
]
