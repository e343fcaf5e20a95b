"""What comes out of a packet simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lightloom.optional import need
from lightloom.packets.classes import Classified
from lightloom.packets.flows import Flows
from lightloom.packets.programs import OperationTimes
from lightloom.packets.scenario import PacketScenario
from lightloom.packets.settings import PacketSettings, Tables
from lightloom.packets.spread import spread
from lightloom.shown import Shown, views
from lightloom.units import show_time

if TYPE_CHECKING:
    import polars

    from lightloom.report.figure import Figure

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Finished:
    """Flows that have finished, in the order in which they did; all arrays are of one length.

    Attributes
    ----------
    flow
        Number of the flow.
    fct_s
        From its start until its sender had the last acknowledgment.
    slowdown
        From its start until its receiver had everything, over the time that this takes on an idle
        network.
    began_s
        When it started: as given, or when what it waits for was there.
    """

    flow: Indices
    fct_s: Numbers
    slowdown: Numbers
    began_s: Numbers

    def __len__(self) -> int:
        return len(self.flow)


@dataclass(frozen=True)
class LinkCounters:
    """Every link over the whole run, ``(links,)``; a duplex connection is two of them.

    Attributes
    ----------
    layer
        Place in ``layers`` of the run.
    source, destination
        Places in ``nodes`` of the run.
    rate_gbps
        Rate.
    sent_bytes, peak_queue_bytes
        What it sent, headers included; most data that waited for it.
    drops, control_drops, trims, marks, pauses
        Packets of data and others lost at its queue, cut, marked; times that PFC paused it.
    paused_s
        For how long.
    """

    layer: npt.NDArray[np.uint8]
    source: Indices
    destination: Indices
    rate_gbps: Numbers
    sent_bytes: Counts
    peak_queue_bytes: Counts
    drops: Counts
    control_drops: Counts
    trims: Counts
    marks: Counts
    pauses: Counts
    paused_s: Numbers


@dataclass(frozen=True)
class QueueSamples:
    """Queues and utilization over time: one row per period and layer, ``(rows,)``.

    The number of periods is bounded: when there are too many, neighbors are merged. Means are
    over the links of the layer and the period, greatest values are those of one link.

    Attributes
    ----------
    begin_s, end_s
        The period; queues are looked at at its end.
    layer
        Place in ``layers`` of the run.
    carried_bytes
        What came out of the links, all together.
    mean_utilization, max_utilization
        That, over what the rates allow; the same of the link that had most to do.
    busiest, longest
        That link, and the one with the longest queue.
    mean_queue_bytes, max_queue_bytes
        What waits.
    """

    begin_s: Numbers
    end_s: Numbers
    layer: npt.NDArray[np.uint8]
    carried_bytes: Counts
    mean_utilization: Numbers
    max_utilization: Numbers
    busiest: Indices
    mean_queue_bytes: Numbers
    max_queue_bytes: Counts
    longest: Indices


@dataclass(frozen=True)
class CarriedSeries:
    """Every link and flow over time: a row where something moved or waited, ``(rows,)``.

    Periods are of one length, but for the last. Where rows are too many, neighboring periods are
    merged. Rows are in the order of periods; links come before flows, each by number.

    Attributes
    ----------
    begin_s, end_s
        The period.
    is_flow, number
        Whether it is about a flow, and the number of the flow or link.
    carried_bytes
        What came out of the link, headers included; payload that the receiver of the flow got.
    max_queue_bytes
        Most data that waited for the link; 0 for flows.
    """

    begin_s: Numbers
    end_s: Numbers
    is_flow: npt.NDArray[np.bool_]
    number: Indices
    carried_bytes: Counts
    max_queue_bytes: Counts


@dataclass(frozen=True)
class PacketTrace:
    """Events in the lives of packets in order of time, ``(events,)``.

    ``event`` is sent, arrived, delivered, dropped, trimmed or marked, at or over ``link``;
    ``kind`` says what the packet is and ``number`` which.
    """

    time_s: Numbers
    event: list[str]
    link: Indices
    flow: Indices
    kind: list[str]
    number: Indices


@dataclass(frozen=True)
class LayerUse:
    """The links of one layer over the whole run.

    ``mean_utilization`` is over the links and the run, ``max_utilization`` that of one link.
    """

    name: str
    links: int
    mean_utilization: float
    max_utilization: float
    peak_queue_bytes: int
    drops: int
    control_drops: int
    trims: int
    marks: int
    pauses: int
    paused_s: float


@dataclass(frozen=True)
class ClassUse:
    """The flows of one class.

    ``fct_s`` and ``slowdown`` are as those of :class:`PacketRun`, by quantile; ``None`` where none
    has finished.
    """

    name: str
    transport: str
    priority: int
    settings: Tables
    given: list[str]
    flows: int
    bytes: int
    unfinished: int
    fct_s: dict[str, float] | None
    slowdown: dict[str, float] | None


@dataclass(frozen=True, repr=False)
class PacketRun(Shown):
    """The outcome of a packet simulation.

    Attributes
    ----------
    flows
        What was simulated.
    scenario
        Over which network.
    classes
        The classes of the flows, with which parameters: one where all have one transport.
    fct_s, slowdown, began_s
        Per flow as in :class:`Finished`, ``(flows,)``; not a number where it has not finished.
    end_s
        Simulated time at the end.
    nodes
        Names of hosts (their numbers) and switches.
    layers
        Names of the layers of links.
    links
        What every link did.
    samples
        Queues and utilization over time; ``None`` if not asked for.
    series
        Every link and flow over time; ``None`` if not asked for.
    trace
        Empty unless asked for.
    operations
        When the operations of programs began and ended; ``None`` where no flow waits for others.
    data_hops, control_hops
        Links that packets left: packets with payload, and all others.
    events, peak_packets
        How much was simulated; most packets that there were at one time, in each half apart if two
        threads simulated it.
    undivided
        Why one thread simulated it though two were requested; ``None`` if that is not so.
    unfinished_received_bytes
        Payload of each of the flows that have not finished that its receiver has.
    remarks
        What makes the network slower or better than any that is built, a sentence each: windows
        and pauses that hold less than a round trip, queues without end, packets that overtake.
    run_hash
        Of all completions and counters; equal inputs have equal hashes.
    wall_s
        How long the simulation took; all else is the same whenever it is repeated.

    Examples
    --------
    >>> import lightloom
    >>> flows = lightloom.make_flows([0], [1], 1_000_000)
    >>> lightloom.simulate_flows(flows, hosts=16, rate="100 Gb/s", transport="ideal")
    PacketRun(flows: 1 of 1 finished by ideal in 85.60 us)
    """

    flows: Flows
    scenario: PacketScenario
    classes: Classified
    fct_s: Numbers
    slowdown: Numbers
    began_s: Numbers
    end_s: float
    nodes: tuple[str, ...]
    layers: tuple[str, ...]
    links: LinkCounters
    samples: QueueSamples | None
    series: CarriedSeries | None
    trace: PacketTrace
    operations: OperationTimes | None
    data_hops: int
    control_hops: int
    events: int
    peak_packets: int
    undivided: str | None
    unfinished_received_bytes: Counts
    remarks: tuple[str, ...]
    run_hash: str
    wall_s: float

    def __repr__(self) -> str:
        done = len(self.flows) - len(self.unfinished)
        return (
            f"PacketRun({self.flows.name}: {done:,} of {len(self.flows):,} finished by "
            f"{self.transports} in {show_time(self.end_s)})"
        )

    def to_polars(self) -> polars.DataFrame:
        """Return a row per flow, in the order of the flows."""
        need("polars", "to_polars")
        import polars

        from lightloom.packets.columns import completion_columns

        every = np.arange(len(self.flows), dtype=np.uint32)
        rows = completion_columns(
            self.flows, Finished(every, self.fct_s, self.slowdown, self.began_s)
        )
        return polars.DataFrame(rows, nan_to_null=True)

    def plot(self) -> Figure:
        """Draw the share of flows that are done after a time.

        Raises
        ------
        ValueError
            If no flow has finished.
        """
        return views().draw(self)

    @property
    def unfinished(self) -> npt.NDArray[np.int64]:
        """Numbers of the flows that have not finished."""
        return np.flatnonzero(np.isnan(self.fct_s))

    @property
    def settings(self) -> PacketSettings:
        """The parameters; those of the first class, where flows have several transports."""
        return self.classes.classes[0].settings

    @property
    def transports(self) -> str:
        """The names of all transports."""
        names = [it.settings.transport for it in self.classes.classes]
        return ", ".join(dict.fromkeys(names))

    def class_use(self) -> list[ClassUse]:
        """What became of the flows of each class; empty where all flows have one transport."""
        if len(self.classes.classes) == 1:
            return []
        return [self._class_use(number) for number in range(len(self.classes.classes))]

    def _class_use(self, number: int) -> ClassUse:
        it, members = self.classes.classes[number], self.classes.of_flow == number
        fct_s = self.fct_s[members]
        return ClassUse(
            name=it.name,
            transport=it.settings.transport,
            priority=it.priority,
            settings=it.settings.tables,
            given=sorted(it.settings.given),
            flows=int(members.sum()),
            bytes=int(self.flows.size_bytes[members].sum()),
            unfinished=int(np.isnan(fct_s).sum()),
            fct_s=spread(fct_s),
            slowdown=spread(self.slowdown[members]),
        )

    def layer_use(self) -> list[LayerUse]:
        """What the links of each layer did together."""
        return [self._layer_use(number) for number in range(len(self.layers))]

    def _layer_use(self, number: int) -> LayerUse:
        links = self.links
        in_layer = links.layer == number
        could = links.rate_gbps[in_layer] * 1e9 / 8 * self.end_s
        sent = links.sent_bytes[in_layer]
        busy = sent / could if self.end_s else np.zeros(len(sent))
        counts = {
            name: int(getattr(links, name)[in_layer].sum())
            for name in ("drops", "control_drops", "trims", "marks", "pauses")
        }
        return LayerUse(
            name=self.layers[number],
            links=int(in_layer.sum()),
            mean_utilization=float(sent.sum() / could.sum()) if self.end_s else 0.0,
            max_utilization=float(busy.max(initial=0.0)),
            peak_queue_bytes=int(links.peak_queue_bytes[in_layer].max(initial=0)),
            paused_s=float(links.paused_s[in_layer].sum()),
            **counts,
        )
