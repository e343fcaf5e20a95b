"""One collective alone on fabrics."""

from typing import TYPE_CHECKING

from lightloom.lazy import exports

if TYPE_CHECKING:
    from lightloom.study.collective.run import CollectiveResult, run_collectives
    from lightloom.study.collective.scenario import CollectiveScenario

__all__ = ["CollectiveResult", "CollectiveScenario", "run_collectives"]

__getattr__ = exports(
    __name__,
    {
        "run": ["CollectiveResult", "run_collectives"],
        "scenario": ["CollectiveScenario"],
    },
)
