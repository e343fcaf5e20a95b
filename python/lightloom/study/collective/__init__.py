"""One collective alone on fabrics."""

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.study.collective.run import CollectiveResult as CollectiveResult
    from lightloom.study.collective.run import run_collectives as run_collectives
    from lightloom.study.collective.scenario import CollectiveScenario as CollectiveScenario

export_on_use()
