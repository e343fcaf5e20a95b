"""What a packet simulation found, as rows and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.packets import Finished, Flows, PacketRun, PacketScenario
from lightloom.packets.programs import critical_rows, operation_rows
from lightloom.packets.spread import spread
from lightloom.units import PS_PER_S

SCHEMA_VERSION = 1

Columns = dict[str, npt.NDArray[Any]]
#: the same where cells may be empty
SparseColumns = dict[str, npt.NDArray[Any] | list[Any]]


def completion_columns(flows: Flows, done: Finished) -> Columns:
    """Rows of flows that have finished."""
    return _columns(flows, done)


def unfinished_columns(flows: Flows, done: npt.NDArray[np.bool_]) -> Columns:
    """Rows of the flows that are not ``done``, without a completion."""
    flow = np.flatnonzero(~done)
    empty = np.full(len(flow), np.nan)
    return _columns(flows, Finished(flow.astype(np.uint32), empty, empty, empty))


def _columns(flows: Flows, done: Finished) -> Columns:
    flow, waits = done.flow, flows.after is not None or flows.programs is not None
    return {
        "flow": flow.astype(np.int64),
        "src": flows.source[flow],
        "dst": flows.destination[flow],
        "bytes": flows.size_bytes[flow],
        "start_us": _microseconds(flows.start_s[flow]),
        **({} if flows.routes is None else {"route": _of(flows.routes, flow)}),
        **({} if flows.after is None else {"after": _of(flows.after, flow)}),
        **({} if flows.delay_s is None else {"delay_us": _microseconds(flows.delay_s[flow])}),
        **({} if flows.priority is None else {"priority": flows.priority[flow]}),
        **({} if flows.classes is None else {"class": _of(flows.classes, flow)}),
        **({"began_us": _microseconds(done.began_s)} if waits else {}),
        "fct_us": _microseconds(done.fct_s),
        "slowdown": np.round(done.slowdown, 6),
    }


def _of(texts: Sequence[str], places: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    return np.array([texts[place] for place in places.tolist()], dtype=np.str_)


def _microseconds(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Microseconds of whole picoseconds, without the noise of seconds in binary."""
    return np.rint(seconds * PS_PER_S) / 1e6


def trace_columns(run: PacketRun) -> Columns:
    """Rows of the trace: where a packet is, by the ends of the link."""
    trace, links = run.trace, run.links
    return {
        "time_us": _microseconds(trace.time_s),
        "event": np.array(trace.event, dtype=np.str_),
        "flow": trace.flow,
        "kind": np.array(trace.kind, dtype=np.str_),
        "number": trace.number,
        "link": trace.link,
        "layer": np.array(run.layers, dtype=np.str_)[links.layer[trace.link]],
        "from_node": np.array(run.nodes, dtype=np.str_)[links.source[trace.link]],
        "to_node": np.array(run.nodes, dtype=np.str_)[links.destination[trace.link]],
    }


def series_columns(run: PacketRun) -> SparseColumns:
    """Rows of the series of links and flows, each by the nodes at its ends.

    Raises
    ------
    ValueError
        If none were kept.
    """
    series, links, flows = run.series, run.links, run.flows
    if series is None:
        raise ValueError("no series were kept; record some by Record(series=...)")
    is_flow, nodes = series.is_flow, np.array(run.nodes, dtype=np.str_)
    # where a row is about a link, its place among flows is that of the first one, and vice versa
    link, flow = np.where(is_flow, 0, series.number), np.where(is_flow, series.number, 0)
    layers = np.array(run.layers, dtype=np.str_)[links.layer[link]]
    begin_us, end_us = _microseconds(series.begin_s), _microseconds(series.end_s)
    rates_gbps = series.carried_bytes * 8e-3 / (end_us - begin_us)
    return {
        "begin_us": begin_us,
        "end_us": end_us,
        "kind": np.where(is_flow, "flow", "link"),
        "number": series.number,
        "from_node": nodes[np.where(is_flow, flows.source[flow], links.source[link])],
        "to_node": nodes[np.where(is_flow, flows.destination[flow], links.destination[link])],
        "layer": _unless(is_flow, layers),
        "bytes": series.carried_bytes,
        "gbps": np.round(rates_gbps, 6),
        "max_queue_bytes": _unless(is_flow, series.max_queue_bytes),
    }


def _unless(empty: npt.NDArray[np.bool_], values: npt.NDArray[np.generic]) -> list[Any]:
    """The values, or empty cells."""
    pairs = zip(empty.tolist(), values.tolist(), strict=True)
    return [None if is_empty else value for is_empty, value in pairs]


def as_json(run: PacketRun, scenario: PacketScenario) -> dict[str, Any]:
    """Everything but the flows."""
    return {
        "schema_version": SCHEMA_VERSION,
        "network": scenario.network.model_dump(mode="json", exclude_none=True),
        "transport": run.settings.transport,
        "settings": run.settings.tables,
        "given": sorted(run.settings.given),
        "classes": [asdict(use) for use in run.class_use()],
        "seed": scenario.seed,
        "until_s": scenario.until_s,
        "traffic": {
            "name": run.flows.name,
            "flows": len(run.flows),
            "bytes": int(run.flows.size_bytes.sum()),
        },
        "remarks": list(run.remarks),
        "unfinished": run.unfinished.tolist(),
        "unfinished_received_bytes": run.unfinished_received_bytes.tolist(),
        "fct_s": spread(run.fct_s),
        "slowdown": spread(run.slowdown),
        "end_s": run.end_s,
        "operations": None if run.operations is None else _operations(run),
        "layers": [asdict(layer) for layer in run.layer_use()],
        "nodes": list(run.nodes),
        "links": _lists(asdict(run.links)),
        "samples": None if run.samples is None else _lists(asdict(run.samples)),
        "work": {
            "data_hops": run.data_hops,
            "control_hops": run.control_hops,
            "events": run.events,
            "peak_packets": run.peak_packets,
            "threads": 1 if run.undivided else run.scenario.threads,
            "wall_s": run.wall_s,
        },
        "run_hash": run.run_hash,
    }


def _operations(run: PacketRun) -> dict[str, Any]:
    """How long programs took, and why."""
    assert run.operations is not None
    rows = operation_rows(run.flows, run.operations)
    path = critical_rows(run.flows, run.operations)
    return {
        "count": len(rows["rank"]),
        "makespan_s": run.operations.makespan_s,
        "critical_path": _lists(path),
    }


def _lists(columns: dict[str, npt.NDArray[Any]]) -> dict[str, list[Any]]:
    return {name: values.tolist() for name, values in columns.items()}
