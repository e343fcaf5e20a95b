"""How much of its time a job trains usefully, given that parts fail."""

from lightloom.lazy import export_on_use

TYPE_CHECKING = False

if TYPE_CHECKING:
    from lightloom.study.goodput.results import FabricGoodput as FabricGoodput
    from lightloom.study.goodput.results import Goodput as Goodput
    from lightloom.study.goodput.run import goodput as goodput

export_on_use()
