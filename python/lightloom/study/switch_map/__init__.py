"""For which circuit switches a reconfigurable fabric pays: delay, bring-up, rate, degree, price."""

from lightloom.lazy import export_on_use

TYPE_CHECKING = False

if TYPE_CHECKING:
    from lightloom.study.switch_map.results import SwitchMap as SwitchMap
    from lightloom.study.switch_map.run import switch_map as switch_map

export_on_use()
