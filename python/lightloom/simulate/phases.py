"""Communication phases of steps as packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from lightloom import _core
from lightloom.errors import InputError
from lightloom.fabric.network import Network
from lightloom.progress import Progress
from lightloom.simulate.core_errors import core_errors
from lightloom.simulate.packet_options import Packets
from lightloom.simulate.plugins import BUILT_IN, Plugins
from lightloom.simulate.result import Run
from lightloom.simulate.step import StepRunner
from lightloom.workload.task_graph import TaskGraph


@dataclass(frozen=True)
class PhaseCount:
    """What is known of the phases of one purpose; see :class:`Phases`.

    ``mean``, ``minimum`` and ``maximum`` are of the stretch of those simulated: by how much longer
    their flows take than they would as fluids; the mean is by bytes.
    """

    distinct: int
    simulated: int
    size_bytes: int
    simulated_bytes: int
    mean: float
    minimum: float
    maximum: float
    packet_hops: int


class Phases:
    """What the communication phases of steps on one network take as packets.

    A phase is the transfers of one all-to-all, one pipeline send or one ring collective. Each
    distinct one (the same bytes over the same circuits, between servers that share switches alike)
    is simulated once, alone; its flows are then stretched so that alone they take as long. What is
    met by a run is simulated before the next.

    Parameters
    ----------
    network
        What steps run on.
    packets
        How packets are sent.
    sample
        How many distinct phases of each purpose are simulated, chosen by their digests; the others
        take the mean stretch. All of them if ``None``.
    purposes
        The purposes (``ep``, ``pp``, ...) whose phases are simulated; the others stay flows. All
        of them if ``None``.

    Raises
    ------
    FabricError
        If packets cannot be sent like that, or phases are to be simulated where circuits change by
        the clock.
    InputError
        If no phase is to be simulated (see :meth:`counting`), or, of a run, if its step has no such
        purpose.
    """

    def __init__(
        self,
        network: Network,
        packets: Packets,
        sample: int | None = None,
        *,
        purposes: Sequence[str] | None = None,
    ) -> None:
        if sample is not None and sample < 1:
            raise InputError(f"sample = {sample}: expected 1 phase or more")
        #: how many of each purpose are simulated
        self.sample = sample
        names = None if purposes is None else list(purposes)
        #: whether phases are counted and none is simulated
        self.only_counts = False
        with core_errors():
            self.book = _core.PhaseBook(network, packets, sample, names)

    @classmethod
    def counting(cls, network: Network, packets: Packets) -> Self:
        """Return phases that are counted alone, to know how many packet-hops a whole step is.

        Raises
        ------
        FabricError
            If packets cannot be sent like that.
        """
        phases = cls.__new__(cls)
        phases.sample, phases.only_counts = None, True
        with core_errors():
            phases.book = _core.PhaseBook.counting(network, packets)
        return phases

    @property
    def mtu_bytes(self) -> int:
        """Payload of a full packet."""
        return self.book.mtu()

    @property
    def pending(self) -> tuple[int, int]:
        """Phases still to be simulated, and about how many packet-hops these are."""
        return self.book.pending()

    @property
    def all_hops(self) -> int:
        """About how many packet-hops everything is that was met, equal phases included."""
        return self.book.all_hops()

    @property
    def all_flows(self) -> int:
        """About how many flows everything is that was met, equal phases included."""
        return self.book.all_flows()

    @property
    def placed_hops(self) -> int:
        """About how many packet-hops of whole steps are simulated, some of which repeat."""
        return self.book.placed_hops()

    def survey(
        self,
        graph: TaskGraph,
        network: Network,
        *,
        progress: Progress | None = None,
        plugins: Plugins = BUILT_IN,
    ) -> Run:
        """Simulate a step with what is known, and note the phases that it meets.

        ``network`` may differ from the book's in when and how circuits are chosen.
        """
        return StepRunner(graph, network, (), True, plugins).run(self.book, progress)

    def simulate(self, progress: Progress | None = None) -> None:
        """Simulate what is pending; after an interrupt, what was finished stays known."""
        with core_errors():
            self.book.simulate(progress)

    def counts(self) -> dict[str, PhaseCount]:
        """What is known, by purpose, of the purposes that were met."""
        return {purpose: PhaseCount(**count) for purpose, count in self.book.counts().items()}
