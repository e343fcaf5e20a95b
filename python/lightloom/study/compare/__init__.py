"""Fabrics for a training job, compared over seeds, steps and compute speeds."""

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.study.compare.results import Comparison as Comparison
    from lightloom.study.compare.results import FabricResult as FabricResult
    from lightloom.study.compare.results import Sample as Sample
    from lightloom.study.compare.run import compare as compare
    from lightloom.study.compare.scenario import ClusterOptions as ClusterOptions
    from lightloom.study.compare.scenario import DemandOptions as DemandOptions
    from lightloom.study.compare.scenario import PacketOptions as PacketOptions
    from lightloom.study.compare.scenario import PlanOptions as PlanOptions
    from lightloom.study.compare.scenario import Scenario as Scenario
    from lightloom.study.compare.scenario import load_study as load_study

export_on_use()
