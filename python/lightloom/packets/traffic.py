"""The flows of a scenario: those of its file, of its pattern, or of its programs."""

from __future__ import annotations

from collections.abc import Callable

from lightloom.demand.byte_matrix import read_byte_matrix
from lightloom.errors import InputError
from lightloom.packets import patterns
from lightloom.packets.classes import class_name, with_priorities
from lightloom.packets.flows import Flows, check_flows, read_flows
from lightloom.packets.goal import read_programs
from lightloom.packets.load import random_load
from lightloom.packets.scenario import ScenarioFile
from lightloom.packets.settings import host_rates_gbps

#: what each pattern needs and what it may have in addition
_READS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "flows": ((), ()),
    "programs": ((), ()),
    "permutation": (("size_bytes",), ()),
    "incast": (("size_bytes", "fan_in"), ()),
    "all-to-all": (("size_bytes",), ("group",)),
    "matrix": (("matrix",), ()),
    "load": (("load", "flow_sizes", "load_time_s"), ()),
}


def flows_of(scenario: ScenarioFile, call: Callable[[str], str] = str) -> Flows:
    """The flows that a scenario asks for, those of its classes after its own.

    Parameters
    ----------
    scenario
        Its traffic, hosts and seed are looked at.
    call
        Turns a key of the traffic into what messages call it.

    Raises
    ------
    InputError
        If there is not one of a file, a pattern and programs; if a key is missing or would not be
        read; if the file cannot be used or the pattern is impossible.
    """
    flows = _flows_of(scenario, call)
    parts = [table for table in scenario.classes if table.traffic is not None]
    if not parts:
        return with_priorities(flows, scenario)
    check_flows(flows, scenario.network.hosts)
    for number, table in enumerate(parts, start=1):
        name = class_name(table)
        # a draw of its own, whatever patterns classes have
        seed = (scenario.seed + (number << 32)) % 2**63
        of_class = scenario.model_copy(update={"traffic": table.traffic, "seed": seed})
        more = _flows_of(of_class, f"classes.{name}.traffic.".__add__)
        if more.programs is not None or more.after is not None or more.classes is not None:
            raise InputError(
                f"classes.{name}.traffic: {more.name}: flows of a class wait for none and name no "
                "class; expected these in [traffic]"
            )
        check_flows(more, scenario.network.hosts)
        flows = flows.joined(more.with_class(name))
    return with_priorities(flows, scenario)


def _flows_of(scenario: ScenarioFile, call: Callable[[str], str]) -> Flows:
    traffic = scenario.traffic
    files = [name for name in ("flows", "programs") if getattr(traffic, name) is not None]
    pattern = traffic.pattern or ("matrix" if traffic.matrix and not files else None)
    sources = [*files, *([pattern] if pattern else [])]
    if len(sources) != 1:
        count = "there is none" if not sources else f"{len(sources)} are given"
        raise InputError(
            f"expected {call('flows')} FILE, {call('pattern')} NAME or {call('programs')} FILE, "
            f"{count}"
        )
    kind = sources[0]
    needed, optional = _READS[kind]
    for key, value in traffic:
        applies = key in {"flows", "pattern", "programs", *needed, *optional}
        if value is not None and not applies:
            raise InputError(f"{call(key)} does not apply to {_calls(kind, call)}; leave it out")
        if value is None and key in needed:
            raise InputError(f"{call(key)} is missing; {_calls(kind, call)} needs it")
    hosts, size = scenario.network.hosts, traffic.size_bytes or 0
    if traffic.flows is not None:
        return read_flows(traffic.flows)
    if traffic.programs is not None:
        return read_programs(traffic.programs)
    if kind == "matrix":
        assert traffic.matrix is not None
        return patterns.from_matrix(read_byte_matrix(traffic.matrix), str(traffic.matrix))
    if kind == "load":
        return random_load(
            host_rates_gbps(scenario.network),
            load=traffic.load or 0.0,
            sizes=traffic.flow_sizes or "",
            duration_s=traffic.load_time_s or 0.0,
            seed=scenario.seed,
        )
    if kind == "incast":
        if not 1 <= (traffic.fan_in or 0) < hosts:
            raise InputError(
                f"{call('fan_in')} {traffic.fan_in}: expected 1 to {hosts - 1:,}, the hosts other "
                "than host 0"
            )
        return patterns.incast(hosts, traffic.fan_in or 0, size)
    if kind == "all-to-all":
        return patterns.all_to_all(hosts, traffic.group or hosts, size)
    return patterns.permutation(hosts, size, seed=scenario.seed)


def _calls(kind: str, call: Callable[[str], str]) -> str:
    files = kind in ("flows", "programs")
    return f"{call(kind)} FILE" if files else f"{call('pattern')} {kind}"
