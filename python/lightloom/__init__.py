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

from lightloom.lazy import export_on_use
from lightloom.shown import shown_by

#: what type checkers take for true; that of ``typing`` takes long to import
TYPE_CHECKING = False

if TYPE_CHECKING:
    from lightloom.api import compare as compare
    from lightloom.api import compare_schedules as compare_schedules
    from lightloom.api import predict as predict
    from lightloom.api import simulate_flows as simulate_flows
    from lightloom.api import sweep as sweep
    from lightloom.demand import rank_matrix as rank_matrix
    from lightloom.demand import synthetic as synthetic
    from lightloom.demand.byte_matrix import read_byte_matrix as read_byte_matrix
    from lightloom.demand.predictors import DemandPredictor as DemandPredictor
    from lightloom.errors import InputError as InputError
    from lightloom.errors import LightloomError as LightloomError
    from lightloom.fabric import load_fabric as load_fabric
    from lightloom.models import load_model as load_model
    from lightloom.packets.flows import Flows as Flows
    from lightloom.packets.flows import make_flows as make_flows
    from lightloom.packets.flows import read_flows as read_flows
    from lightloom.packets.results import PacketRun as PacketRun
    from lightloom.progress import Progress as Progress
    from lightloom.report.figure import Figure as Figure
    from lightloom.schedule import Allocation as Allocation
    from lightloom.schedule import Decider as Decider
    from lightloom.schedule import PermutationSchedule as PermutationSchedule
    from lightloom.schedule import Region as Region
    from lightloom.schedule import allocate as allocate
    from lightloom.schedule import decompose as decompose
    from lightloom.study.compare import Comparison as Comparison
    from lightloom.study.compare import Scenario as Scenario
    from lightloom.study.compare import load_study as load_study
    from lightloom.study.prediction import Prediction as Prediction
    from lightloom.study.scheduling import ScheduleComparison as ScheduleComparison
    from lightloom.version import __version__ as __version__

shown_by("lightloom.report.views")
export_on_use()
