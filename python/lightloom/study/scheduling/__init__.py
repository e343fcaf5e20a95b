"""One demand, every scheduler: the portfolio side by side, and whether to reconfigure at all."""

from lightloom.study.scheduling.earlier import Kept, kept_of, read_earlier
from lightloom.study.scheduling.problem import (
    DemandProfile,
    PortBudget,
    Problem,
    profile_of,
    without_diagonal,
    without_servers,
)
from lightloom.study.scheduling.results import AllocationRow, ScheduleComparison
from lightloom.study.scheduling.run import MethodChoice, check, compare_schedules

__all__ = [
    "AllocationRow",
    "DemandProfile",
    "Kept",
    "MethodChoice",
    "PortBudget",
    "Problem",
    "ScheduleComparison",
    "check",
    "compare_schedules",
    "kept_of",
    "profile_of",
    "read_earlier",
    "without_diagonal",
    "without_servers",
]
