"""Classes of flows: several transports in one run, each with packets and queues of its own.

A flow is of the scenario's own class unless it names another: one of the scenario's ``classes``, or
a transport, whose parameters are then as its reference has them, with the scenario's packets and
queues. Where flows have several transports, the flows of a transport and a priority are a class:
ports have queues for each priority, and send those of higher ones first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo, expected_one_of
from lightloom.packets.flows import HIGHEST_PRIORITY, OF_CLASS, Flows
from lightloom.packets.scenario import TRANSPORTS, FlowClassTable, PacketScenario
from lightloom.packets.settings import PacketSettings, resolve

#: classes of a run at most
MAX_CLASSES = 64


@dataclass(frozen=True)
class FlowClass:
    """Flows of one transport and one priority.

    Attributes
    ----------
    name
        What flows call it.
    priority
        From 0 to 7; ports send packets of higher ones first.
    settings
        Transport, packets and queues.
    """

    name: str
    priority: int
    settings: PacketSettings


@dataclass(frozen=True)
class Classified:
    """The classes of a run, and what the flows of each are.

    Attributes
    ----------
    classes
        Those that have flows; one where all flows have one transport, whatever their priorities.
    of_flow, priority
        ``(flows,)``: the place of each flow's class, and its priority.
    """

    classes: tuple[FlowClass, ...]
    of_flow: npt.NDArray[np.uint8]
    priority: npt.NDArray[np.uint8]


def class_name(table: FlowClassTable) -> str:
    """What flows call a class: its name, by default that of its transport."""
    return table.name or str(table.transport.get("name"))


def classify(flows: Flows, scenario: PacketScenario) -> Classified:
    """Find the classes of flows, with the settings of each.

    Raises
    ------
    InputError
        If there is no such class or transport, priorities contradict one another, or settings make
        no sense.
    """
    tables = _tables(scenario)
    own = str(scenario.transport.get("name"))
    names, place = _names(flows, own if own not in tables else "")
    priority = flows.priorities.astype(np.int64)
    is_given = np.False_ if flows.priority is None else flows.priority != OF_CLASS
    for number, name in enumerate(names):
        members = place == number
        given = _given_priority(name, scenario, tables)
        if given is None:
            continue
        differs = members & is_given & (priority != given)
        if differs.any():
            flow = int(np.argmax(differs))
            raise InputError(
                f"{flows.place(flow)}: priority {priority[flow]}, and flows of "
                f"{name or own} have priority {given}; leave one of them out"
            )
        priority[members] = given
    settings = [
        _settings(flows, name, place == number, scenario, tables)
        for number, name in enumerate(names)
    ]
    levels = priority.astype(np.uint8)
    if len(names) == 1:
        only = FlowClass(names[0] or own, int(priority.max(initial=0)), settings[0])
        return Classified((only,), np.zeros(len(flows), np.uint8), levels)
    keys, of_flow = np.unique(place * (HIGHEST_PRIORITY + 1) + priority, return_inverse=True)
    if len(keys) > MAX_CLASSES:
        raise InputError(
            f"{flows.name}: {len(keys)} classes of flows; expected at most {MAX_CLASSES}"
        )
    parts = [divmod(int(key), HIGHEST_PRIORITY + 1) for key in keys]
    classes = tuple(
        FlowClass(names[number] or own, level, settings[number]) for number, level in parts
    )
    return Classified(classes, of_flow.astype(np.uint8), levels)


def with_priorities(flows: Flows, scenario: PacketScenario) -> Flows:
    """The same flows, of which none has the priority of its class without saying it.

    Raises
    ------
    InputError
        As :func:`classify`.
    """
    if flows.priority is None or (flows.priority != OF_CLASS).all():
        return flows
    return flows.with_priority(classify(flows, scenario).priority)


def _tables(scenario: PacketScenario) -> Mapping[str, FlowClassTable]:
    """The classes of a scenario by name."""
    tables: dict[str, FlowClassTable] = {}
    for table in scenario.classes:
        name = class_name(table)
        if name in tables:
            raise InputError(
                f"classes: two are called {echo(name, quoted=False)}; give each a name of its own"
            )
        tables[name] = table
    return tables


def _names(flows: Flows, own: str) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The names of the classes that have flows, empty for the scenario's, and that of each flow."""
    if flows.classes is None:
        return [""], np.zeros(len(flows), np.int64)
    labels = np.array(["" if name == own else name for name in flows.classes], dtype=np.str_)
    names, place = np.unique(labels, return_inverse=True)
    return names.tolist(), place.astype(np.int64)


def _given_priority(
    name: str, scenario: PacketScenario, tables: Mapping[str, FlowClassTable]
) -> int | None:
    """The priority that is given for a class."""
    if not name:
        return scenario.priority
    return tables[name].priority if name in tables else None


def _settings(
    flows: Flows,
    name: str,
    members: npt.NDArray[np.bool_],
    scenario: PacketScenario,
    tables: Mapping[str, FlowClassTable],
) -> PacketSettings:
    """The settings of a class, of which some flows are members."""
    if not name:
        return resolve(scenario)
    if name in tables:
        table = tables[name]
        update: dict[str, Any] = {key: getattr(table, key) for key in _OWN}
        of_class = scenario.model_copy(update=update)
        return resolve(of_class, lambda key: f"classes.{name}.{key}")
    if name not in TRANSPORTS:
        flow = int(np.argmax(members))
        known = (*tables, *TRANSPORTS)
        raise InputError(
            f"{flows.place(flow)}: class {echo(name, quoted=False)}: {expected_one_of(name, known)}"
        )
    return resolve(scenario.model_copy(update={"transport": {"name": name}}))


#: what a class has of its own
_OWN = ("transport", "packet", "queue")
