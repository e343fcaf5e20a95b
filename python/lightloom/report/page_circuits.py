"""What a page shows of circuits: decisions of the policy, and fixed circuits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from markupsafe import Markup

from lightloom.fabric.network import Direct, Ocs
from lightloom.report.plots_circuits import chord_drawing, circuits_text, matrix_drawing
from lightloom.report.plots_svg import FabricStyle
from lightloom.schedule import map_nics
from lightloom.simulate import Snapshot
from lightloom.study.compare.results import Comparison
from lightloom.units import show_bytes, show_number, show_time

#: names and values, to be read beside a drawing
Facts: TypeAlias = tuple[tuple[str, str], ...]

#: what the circuit policy did, in words
FACTS = {
    "decisions": "decisions",
    "reconfigurations": "of them changed circuits",
    "skipped": "skipped (circuits in use)",
    "pairs_changed": "pairs switched",
    "delay_s": "delay of all",
    "hidden_s": "hidden behind compute",
    "exposed_s": "exposed (mean worker)",
    "makespan_over_bound": "all-to-alls over their lower bound",
    "shared_ratio": "answered from an equal one",
}
#: decisions drawn after the first, and servers of fixed circuits drawn
MAX_DECISIONS, MAX_SERVERS = 4, 128


@dataclass(frozen=True)
class ShownDecision:
    """One allocation: what for, how good, and a small drawing."""

    caption: str
    drawing: Markup


@dataclass(frozen=True)
class CircuitView:
    """Circuits of one fabric."""

    style: FabricStyle
    heading: str
    facts: Facts
    demand: Markup | None
    matrix: Markup | None
    chords: Markup
    caption: str
    decisions: tuple[ShownDecision, ...] = ()
    following: str = ""
    nics: Facts = ()


def circuit_views(comparison: Comparison, styles: dict[str, FabricStyle]) -> list[CircuitView]:
    """Views of all fabrics that have circuits, in their order."""
    views = []
    for result in comparison.results:
        done = comparison.details.get("runs", {}).get(result.fabric)
        if done is None:
            continue
        style = styles[result.fabric]
        facts = tuple((_words(k), _show(k, v)) for k, v in result.reconfiguration.items())
        if done.run.snapshots:
            ports = done.network.part(Ocs).ports
            views.append(_regional(style, done.run.snapshots, facts, ports))
        if done.network.part(Direct) is not None:
            views.append(_fixed(style, done.network, facts))
    return views


def _words(key: str) -> str:
    return FACTS.get(key, key.replace("_", " "))


def _show(key: str, value: Any) -> str:
    if key.endswith("_s"):
        return show_time(float(value))
    if key == "makespan_over_bound":
        return f"{float(value):.3f} x"
    if key == "shared_ratio":
        return f"{100 * float(value):.1f} %"
    return show_number(value)


def _square(values: Any, servers: int) -> np.ndarray[Any, Any]:
    return np.asarray(values).reshape(servers, servers).astype(np.int64)


def _regional(
    style: FabricStyle,
    snapshots: Sequence[Snapshot],
    facts: Facts,
    ports: int,
) -> CircuitView:
    telling, what = _telling(snapshots)
    first, *following = telling
    labels = [str(server) for server in first.servers]
    demand, circuits = _square(first.demand, len(labels)), _square(first.circuits, len(labels))
    unit = show_bytes(float(max(1, demand.max())), 3).split()[-1]
    factor = {"PB": 1e15, "TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}[unit]
    decisions = []
    for snapshot in following:
        names = [str(server) for server in snapshot.servers]
        small = chord_drawing(_square(snapshot.circuits, len(names)), names,
                              "Circuits between servers", style.class_, 250)  # fmt: skip
        decisions.append(ShownDecision(_decision(snapshot), small))
    return CircuitView(
        style=style,
        heading=f"Region of servers {labels[0]} to {labels[-1]}",
        facts=facts,
        demand=matrix_drawing(
            demand,
            labels,
            lambda v: f"{show_number(v / factor, 3)} {unit}",
            "Bytes from server to server",
        ),
        matrix=matrix_drawing(
            circuits, labels, circuits_text, "Circuits between servers",
            f"cells {style.class_}",
        ),
        chords=chord_drawing(circuits, labels, "Circuits between servers", style.class_),
        caption=f"{_decision(first)}; demand in {unit}",
        decisions=tuple(decisions),
        following=what,
        nics=_nics(circuits, labels, ports),
    )  # fmt: skip


def _nics(circuits: np.ndarray[Any, Any], labels: Sequence[str], ports: int) -> Facts:
    """The NICs that end each pair's circuits, parallel ones on different NUMA nodes."""
    pairs: dict[str, list[str]] = {}
    for a, nic_a, b, nic_b in map_nics(circuits, ports=ports).tolist():
        pairs.setdefault(f"{labels[a]} - {labels[b]}", []).append(f"{nic_a} - {nic_b}")
    return tuple((pair, ", ".join(ends)) for pair, ends in pairs.items())


def _telling(snapshots: Sequence[Snapshot]) -> tuple[list[Snapshot], str]:
    """Decisions of the first group that changed circuits, and what they are; else its first."""
    group = [s for s in snapshots if s.group == snapshots[0].group]
    changed = [s for s in group if s.ready_s > s.time_s]
    if not changed:
        return group[:1], "No circuit of this EP group ever has to change"
    what = "The next decisions for the same EP group that changed circuits"
    return changed[: 1 + MAX_DECISIONS], what if len(changed) > 1 else ""


def _decision(snapshot: Snapshot) -> str:
    took = snapshot.ready_s - snapshot.time_s
    delay = f"switched in {show_time(took)}" if took > 0 else "no circuit had to change"
    return (
        f"layer {snapshot.layer}, micro-batch {snapshot.micro_batch}: {delay}; "
        f"needs {show_time(snapshot.makespan_s)} at line rate"
    )


def _fixed(style: FabricStyle, network: Any, facts: Facts) -> CircuitView:
    servers = min(network.servers, MAX_SERVERS)
    circuits = np.zeros((servers, servers), dtype=np.int64)
    for a, b, count in np.asarray(network.part(Direct).circuits).astype(np.int64).tolist():
        if a < servers and b < servers:
            circuits[a, b] += count
            circuits[b, a] += count
    labels = [str(server) for server in range(servers)]
    cut = f"the first {servers} of {network.servers} servers" if servers < network.servers else (
        f"all {servers} servers"
    )  # fmt: skip
    return CircuitView(
        style=style,
        heading="Fixed circuits",
        facts=facts,
        demand=None,
        matrix=matrix_drawing(
            circuits, labels, circuits_text, "Circuits between servers",
            f"cells {style.class_}",
        ),
        chords=chord_drawing(circuits, labels, "Circuits between servers", style.class_),
        caption=f"{cut}; circuits stay for the whole job, other pairs are relayed",
    )  # fmt: skip
