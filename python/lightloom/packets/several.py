"""Several runs that differ in some values alone, such as the transport: as rows and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.packets.columns import SCHEMA_VERSION, as_json
from lightloom.packets.results import PacketRun
from lightloom.packets.scenario import ScenarioFile
from lightloom.units import show_bytes

#: keys of a scenario that may take several values, what a run says of each, and its place
LISTS: Mapping[str, tuple[str, Callable[[Any], str], Callable[[ScenarioFile], Any]]] = {
    "transport": ("transport", str, lambda s: s.transport["name"]),
    "network.topology": ("topology", str, lambda s: s.network.topology),
    "network.routing": ("routing", str, lambda s: s.network.routing),
    "network.hosts": ("hosts", lambda v: f"{v:,} hosts", lambda s: s.network.hosts),
    "network.rate_gbps": ("rate_gbps", lambda v: f"{v:g} Gb/s", lambda s: s.network.rate_gbps),
    "traffic.size_bytes": ("size_bytes", show_bytes, lambda s: s.traffic.size_bytes),
    "traffic.load": ("load", lambda v: f"load {v:g}", lambda s: s.traffic.load),
    "seed": ("seed", lambda v: f"seed {v}", lambda s: s.seed),
}
_SHOWN = {name: show for name, show, _ in LISTS.values()}


@dataclass(frozen=True)
class PacketCase:
    """One of several runs: what tells it from the others, and what came of it.

    Attributes
    ----------
    values
        By the names of :data:`LISTS`: ``transport``, ``hosts``, ``rate_gbps`` ...
    scenario
        What is simulated.
    run
        The outcome; ``None`` where flows can never finish.
    stuck
        Why, then.
    """

    values: Mapping[str, Any]
    scenario: ScenarioFile
    run: PacketRun | None = None
    stuck: str = ""

    @property
    def title(self) -> str:
        """What a user reads: ``ndp, 100 Gb/s``."""
        return ", ".join(_SHOWN[name](value) for name, value in self.values.items())


def values_of(scenario: ScenarioFile, keys: Sequence[str]) -> dict[str, Any]:
    """The values of some keys of :data:`LISTS`."""
    return {LISTS[key][0]: LISTS[key][2](scenario) for key in keys}


def cases_as_json(cases: Sequence[PacketCase], *, interrupted: bool) -> dict[str, Any]:
    """Every run in full."""
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [
            {
                "values": dict(case.values),
                "stuck": case.stuck or None,
                "result": None if case.run is None else as_json(case.run, case.scenario),
            }
            for case in cases
        ],
        "interrupted": interrupted,
    }
