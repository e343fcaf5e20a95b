"""The flows of a scenario: those of its file, or of its pattern."""

from __future__ import annotations

from typing import Any

from lightloom.demand.byte_matrix import read_byte_matrix
from lightloom.errors import InputError
from lightloom.packets import patterns
from lightloom.packets.flows import Flows, read_flows
from lightloom.packets.scenario import ScenarioFile

#: what each pattern needs and what it may have in addition
_READS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "flows": ((), ()),
    "permutation": (("size_bytes",), ()),
    "incast": (("size_bytes", "fan_in"), ()),
    "all-to-all": (("size_bytes",), ("group",)),
    "matrix": (("matrix",), ()),
}


def flows_of(scenario: ScenarioFile, call: Any = str) -> Flows:
    """The flows that a scenario asks for.

    Parameters
    ----------
    scenario
        Its traffic, hosts and seed are looked at.
    call
        Turns a key of the traffic into what messages call it.

    Raises
    ------
    InputError
        If there is neither a file nor a pattern, or both; if a key is missing or would not be
        read; if the file cannot be used or the pattern is impossible.
    """
    traffic = scenario.traffic
    pattern = traffic.pattern or ("matrix" if traffic.matrix and not traffic.flows else None)
    if (traffic.flows is None) == (pattern is None):
        both = "both are given" if traffic.flows is not None else "there is neither"
        raise InputError(f"expected {call('flows')} FILE or {call('pattern')} NAME, {both}")
    kind = pattern or "flows"
    needed, optional = _READS[kind]
    for key, value in traffic:
        known = key in {"flows", "pattern", *needed, *optional}
        if value is not None and not known:
            raise InputError(f"{call(key)} does not apply to {_calls(kind, call)}; leave it out")
        if value is None and key in needed:
            raise InputError(f"{call(key)} is missing; {_calls(kind, call)} needs it")
    hosts, size = scenario.network.hosts, traffic.size_bytes or 0
    if traffic.flows is not None:
        return read_flows(traffic.flows)
    if kind == "matrix":
        assert traffic.matrix is not None
        return patterns.from_matrix(read_byte_matrix(traffic.matrix), str(traffic.matrix))
    if kind == "incast":
        return patterns.incast(hosts, traffic.fan_in or 0, size)
    if kind == "all-to-all":
        return patterns.all_to_all(hosts, traffic.group or hosts, size)
    return patterns.permutation(hosts, size, seed=scenario.seed)


def _calls(kind: str, call: Any) -> str:
    return f"{call('flows')} FILE" if kind == "flows" else f"{call('pattern')} {kind}"
