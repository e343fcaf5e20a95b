"""Simulate flows packet by packet.

The simulation is Rust (``crates/packetsim``); it runs without the interpreter lock, hands over
flows as they finish, and can be interrupted. Here arrays are handed to it, and what comes back is
turned into seconds and bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError, StuckError
from lightloom.packets.classes import Classified, classify, with_priorities
from lightloom.packets.failures import failed_links
from lightloom.packets.flows import Flows, check_flows
from lightloom.packets.forecast import forecast
from lightloom.packets.graph import NetworkGraph, read_circuits, routes_of
from lightloom.packets.programs import OperationTimes, programs_of
from lightloom.packets.results import (
    CarriedSeries,
    Finished,
    LinkCounters,
    PacketRun,
    PacketTrace,
    QueueSamples,
)
from lightloom.packets.scenario import NetworkTable, PacketScenario
from lightloom.packets.settings import PacketSettings, idle_settings, topology_of
from lightloom.progress import Monitor
from lightloom.units import show_count, show_time, to_ps

#: events of a trace at most
MAX_TRACE, MAX_SAMPLES = 10_000_000, 100_000
#: rows of series at most
MAX_ROWS = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is kept in addition to completions.

    Attributes
    ----------
    samples
        Periods of queues and utilization at most; 0 for none.
    sample_s
        Length of a period to begin with; it doubles when there are too many.
    series
        Rows of series of every link and flow at most, in periods of their own that begin with
        ``sample_s`` as well; 0 for none.
    trace
        Events in the lives of packets: so many, the first; 0 for none.
    trace_flow
        Of this flow alone.
    """

    samples: int = 0
    sample_s: float = 1e-6
    series: int = 0
    trace: int = 0
    trace_flow: int | None = None


def simulate_flows(
    flows: Flows,
    scenario: PacketScenario,
    *,
    record: Record = Record(),
    monitor: Monitor[Finished] | None = None,
) -> PacketRun:
    """Simulate flows over a packet network until all have finished, or until ``until_s``.

    Parameters
    ----------
    flows
        From :func:`~lightloom.packets.make_flows`, :func:`~lightloom.packets.read_flows` or a
        pattern.
    scenario
        Network, transport, parameters and seed.
    record
        What is kept in addition to completions.
    monitor
        Takes progress before the run, some times per second, and at the end, and the flows that
        have finished since; the run stops if ``progress`` returns ``False``. Takes a remark on how
        long the run will take if that is over a minute.

    Raises
    ------
    InputError
        If the network, the parameters or the flows make no sense, or would take days without
        ``until_s``: nothing is simulated then. If packets pile up in the network beyond all bounds.
    StuckError
        If flows will never finish; says which, or which links wait for each other.
    KeyboardInterrupt
        If it was interrupted, or ``progress`` returned ``False``. The monitor has had what was
        finished.
    """
    topology = topology_of(scenario.network)
    check_flows(flows, scenario.network.hosts)
    flows = with_priorities(flows, scenario)
    classified = classify(flows, scenario)
    settings = classified.classes[0].settings
    programs = programs_of(flows)
    _check_record(record, len(flows))
    collect = _Collect(flows, scenario, settings, monitor or Monitor())
    columns, events = _of_graph(flows, scenario.network, topology)
    columns |= {"priority": classified.priority, "class": classified.of_flow}
    run = {**_run_values(scenario, record), **events}
    operations = None if programs is None else programs.for_core()
    begin = time.perf_counter()
    try:
        report = _core.packet_simulate(
            topology, _classes(classified, scenario), columns, operations, run, collect
        )
    except _core.PacketsStuck as error:
        raise StuckError(str(error)) from None
    except (ValueError, OverflowError) as error:
        # what is wrong, and the flow of which it is, if it is of one
        text, *flow = error.args
        place = f"{flows.place(flow[0])}: " if flow else ""
        raise InputError(f"{place}{text}") from None
    wall_s = time.perf_counter() - begin
    return PacketRun(
        flows=flows,
        scenario=scenario,
        classes=classified,
        fct_s=collect.fct_s,
        slowdown=collect.slowdown,
        began_s=collect.began_s,
        wall_s=wall_s,
        **{**report, **_parts(report, flows, scenario.network)},
    )


def _classes(classified: Classified, scenario: PacketScenario) -> list[dict[str, Any]]:
    """The classes for the core."""
    values = [it.settings.for_core(scenario.network, scenario.seed) for it in classified.classes]
    return [{"config": config, "transport": transport} for config, transport in values]


def _run_values(scenario: PacketScenario, record: Record) -> dict[str, object]:
    return {
        "until_ps": None if scenario.until_s is None else to_ps(scenario.until_s),
        "sample_every_ps": to_ps(record.sample_s),
        "max_samples": record.samples,
        "max_rows": record.series,
        "max_events": record.trace,
        "traced_flow": record.trace_flow,
        "in_halves": scenario.threads == 2,
        "hashes_ends": scenario.network.hashing == "ends",
        "detection_ps": to_ps(scenario.network.detection_s),
    }


def _parts(report: Mapping[str, Any], flows: Flows, network: NetworkTable) -> dict[str, Any]:
    """The tables and the remarks of a run."""
    samples, series, operations = report["samples"], report["series"], report["operations"]
    return {
        "remarks": (*flows.remarks, *idle_settings(network), *report["remarks"]),
        "links": LinkCounters(**report["links"]),
        "samples": None if samples is None else QueueSamples(**samples),
        "series": None if series is None else CarriedSeries(**series),
        "trace": PacketTrace(**report["trace"]),
        "operations": None if operations is None else OperationTimes(**operations),
    }


def _check_record(record: Record, flows: int) -> None:
    if not 0 <= record.samples <= MAX_SAMPLES or record.samples == 1:
        raise InputError(f"samples {record.samples}: expected 0, or 2 to {MAX_SAMPLES:,} periods")
    if not 1e-12 <= record.sample_s <= 1:
        raise InputError(f"sample_s {record.sample_s:g}: expected 1e-12 to 1 s")
    if not 0 <= record.series <= MAX_ROWS:
        raise InputError(f"series {record.series:,}: expected 0 to {MAX_ROWS:,} rows")
    if not 0 <= record.trace <= MAX_TRACE:
        raise InputError(f"trace {record.trace:,}: expected 0 to {MAX_TRACE:,} events")
    if record.trace_flow is not None and not 0 <= record.trace_flow < flows:
        raise InputError(f"trace of flow {record.trace_flow}: expected 0 to {flows - 1:,}")


def _of_graph(
    flows: Flows, network: NetworkTable, topology: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Columns of the flows for the core, when circuits are dark, and what fails."""
    starts, links = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
    events: dict[str, object] = {"circuits": [], "failures": []}
    if flows.routes is not None or network.outages is not None or network.failures:
        graph = NetworkGraph(topology)
        if flows.routes is not None:
            starts, links = routes_of(flows, graph)
        if network.outages is not None:
            events["circuits"] = read_circuits(network.outages, graph)
        events["failures"] = failed_links(network.failures, graph)
    columns: dict[str, object] = {
        "source": flows.source.astype(np.uint32),
        "destination": flows.destination.astype(np.uint32),
        "size_bytes": flows.size_bytes.astype(np.uint64),
        "start_ps": flows.start_ps,
        "source_nic": _nics(flows, 0),
        "destination_nic": _nics(flows, 1),
        "route_starts": starts,
        "route_links": links,
    }
    return columns, events


def _nics(flows: Flows, end: int) -> npt.NDArray[np.uint32]:
    """NICs at one end of each flow; empty where the network chooses."""
    if flows.nics is None:
        return np.zeros(0, dtype=np.uint32)
    return flows.nics[end].astype(np.uint32)


class _Collect:
    """Keeps what finishes, and hands it to a monitor."""

    def __init__(
        self,
        flows: Flows,
        scenario: PacketScenario,
        settings: PacketSettings,
        monitor: Monitor[Finished],
    ) -> None:
        self.flows = flows
        self._scenario, self._settings = scenario, settings
        self._monitor = monitor
        self._has_begun = False
        self._begin = time.monotonic()
        self.fct_s = np.full(len(flows), np.nan)
        self.slowdown = np.full(len(flows), np.nan)
        self.began_s = np.full(len(flows), np.nan)

    def __call__(
        self, time_s: float, hops: int, expected: int, finished: dict[str, Any]
    ) -> bool | None:
        if not self._has_begun:
            self._has_begun = True
            self._announce(expected)
        flows = Finished(**finished)
        self.fct_s[flows.flow] = flows.fct_s
        self.slowdown[flows.flow] = flows.slowdown
        self.began_s[flows.flow] = flows.began_s
        if len(flows.flow):
            self._monitor.finished(flows)
        shares = [hops / max(1, expected)]
        if self._scenario.until_s is not None:
            shares.append(time_s / self._scenario.until_s)
        return self._monitor.progress(min(1.0, max(shares)), self._text(time_s, hops))

    def _announce(self, expected_hops: int) -> None:
        """Say what the run will cost before it begins, or refuse it."""
        work = forecast(expected_hops, self.flows, self._scenario, self._settings)
        work.check()
        remark = work.remark()
        if remark is not None:
            self._monitor.remark(remark)

    def _text(self, time_s: float, hops: int) -> str:
        rate = hops / max(1e-9, time.monotonic() - self._begin)
        finished = int(np.count_nonzero(~np.isnan(self.fct_s)))
        done = f"{finished:,}/{len(self.flows):,} flows"
        return f"{show_time(time_s, 3)}, {done}, {show_count(rate)} data hops/s"
