"""Collectives over circuits that follow the demand: what is simulated is what runs.

An all-to-all has the five steps of MixNet, section 5.3: find the delegates of circuits and packet
NICs, gather onto them inside the server, send between servers over circuits and packets at once,
meanwhile move what stays in the server, and scatter. Which bytes take which NICs is the plan of
:mod:`lightloom.schedule.carrying`, that of a simulated run.

Inside a server bytes move through shared memory. Ranks agree on every step over a process group of
the packet network, which fences steps: no byte of a step is sent before all have ended the one
before.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch.autograd.function import FunctionCtx, once_differentiable

from lightloom.control.token import token_for
from lightloom.errors import InputError
from lightloom.schedule.carrying import CarriedPart, NicPlace
from lightloom.torch.arrivals import Arrivals
from lightloom.torch.circuit_decisions import CircuitDecisions, Demand, RegionCircuits, check_use
from lightloom.torch.gate import Gate
from lightloom.torch.job_nics import ServerNics, nics_of, read_nics
from lightloom.torch.octets import as_octets
from lightloom.torch.planners import Planners
from lightloom.torch.region_member import RegionMember
from lightloom.torch.ring_sums import RingSums
from lightloom.torch.server_memory import Octets, ServerMemory, name_of
from lightloom.torch.step_agreement import StepAgreement
from lightloom.torch.streams import RankStreams, StreamLimits, Way
from lightloom.torch.waiting import Watch
from lightloom.torch.wires import SECRET_BYTES, NicAddress, Wires, is_there

#: seconds before each look at a NIC over which a stream broke: one that answers has not failed
_LOOKS_S = (0.0, 0.1, 0.3)


@dataclass(frozen=True)
class MovedRows:
    """One all-to-all of a rank, for its timeline.

    Attributes
    ----------
    name, layer
        ``all_to_all``, ``combine`` or ``gradient``, and of which layer.
    begin_s, end_s
        By the clock of the machine, from when all ranks had come.
    waited_s
        Seconds before ``begin_s`` for the decision and its change of circuits that nothing hid.
    remote_bytes
        What this rank sent to other servers.
    circuits
        How many carried traffic.
    """

    name: str
    layer: int | None
    begin_s: float
    end_s: float
    waited_s: float
    remote_bytes: int
    circuits: int


@dataclass(frozen=True, eq=False)
class CircuitRoute:
    """How rows went to their ranks, and the way back.

    Attributes
    ----------
    received
        Rows that came from each rank, in this order.
    sent
        Rows that went to each rank.
    decision
        The circuits that were there, and why.
    """

    received: tuple[int, ...]
    sent: tuple[int, ...]
    decision: RegionCircuits
    mixnet: MixNetCollectives
    counts: npt.NDArray[np.int64]
    layer: int | None = None
    name: str = "all_to_all"
    waited_s: float = 0.0

    def combine(self, rows: torch.Tensor) -> torch.Tensor:
        """Return results to the ranks that their rows came from, over the same circuits.

        Parameters
        ----------
        rows
            A result for each row that was received, ``(rows, ...)``.

        Returns
        -------
        torch.Tensor
            A result for each row that was sent, in the order in which they were sent.

        Raises
        ------
        InputError
            On every rank, if there is not one row for each that was received, or ranks disagree.
        RankError
            If a rank does not answer.
        """
        problem = ""
        if len(rows) != sum(self.received):
            problem = f"combine: {len(rows)} rows; expected the {sum(self.received)} that came"
        back = self.back("combine")
        name = f"combine of {signature(rows)}"
        self.mixnet.agreement.agree(name, list(back.sent), problem)
        moved: torch.Tensor = _Moved.apply(rows.reshape(len(rows), row_elements(rows)), back)
        return moved.reshape(sum(back.received), *rows.shape[1:])

    def back(self, name: str) -> CircuitRoute:
        """The same route from its ends to its beginnings."""
        counts = self.counts.T.copy()
        return CircuitRoute(
            self.sent, self.received, self.decision, self.mixnet, counts, self.layer, name
        )


class MixNetCollectives:
    """The collectives of a job whose servers have NICs on circuits and on packet switches.

    All ranks of the default process group make one, and call its methods in the same order.

    Parameters
    ----------
    servers
        The NICs of each server; ranks are numbered server by server.
    controller, token
        Where ``lightloom control serve`` answers (``unix:PATH`` or ``HOST:PORT``), and its token.
        Without a controller all bytes take the packet NICs.
    policy
        ``"break-even"``: the controller decides at each all-to-all, by its region's policy;
        ``"never"``: the circuits stay as they are; ``"packets"``: circuits carry nothing.
    timeout_s
        Seconds that a rank waits for another.
    decide_s
        Seconds that a decision, with its change of circuits, may take.
    limits
        How long streams wait before they take other NICs.

    Raises
    ------
    InputError
        If NICs and ranks do not match, or cannot be used, or there is no such policy.
    """

    def __init__(
        self,
        servers: Sequence[ServerNics],
        *,
        controller: str | None = None,
        token: str = "",
        policy: str = "break-even",
        timeout_s: float = 30.0,
        decide_s: float = 10.0,
        limits: StreamLimits | None = None,
    ) -> None:
        check_use(policy)
        self.rank, ranks = dist.get_rank(), dist.get_world_size()
        if not servers or ranks % len(servers):
            raise InputError(f"{len(servers)} servers: expected a divisor of the {ranks} ranks")
        self.nics, places = nics_of(servers, ranks // len(servers))
        self.watch = Watch(self.rank, timeout_s)
        span = timedelta(seconds=timeout_s)
        self.agreement = StepAgreement(dist.new_group(backend="gloo", timeout=span), self.watch)
        deciding = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s + decide_s))
        each = self.nics.ranks_per_server
        self._server, self._local = divmod(self.rank, each)
        self._places = places[self._server]
        secret = self.agreement.gather_objects(os.urandom(SECRET_BYTES))[0]
        first = self._server * each
        self.memory = ServerMemory(
            self._local,
            each,
            name=name_of(secret, self._server),
            first=first,
            servers=len(servers),
            gather=lambda told: self.agreement.gather_objects(told)[first : first + each],
            watch=self.watch,
        )
        self.gate = Gate(self.memory.gate)
        limits = limits or StreamLimits()
        wires = Wires(self.rank, secret, self._places, limits.connect_s)
        self.arrivals = Arrivals(wires, self.memory, self.gate, self.watch, self.nics.delegate)
        sockets = self.arrivals.listeners
        ports = {nic: listener.getsockname()[:2] for nic, listener in sockets.items()}
        wires.ports = self.agreement.gather_objects(ports)
        self.streams = RankStreams(
            self.rank,
            self.nics,
            wires=wires,
            memory=self.memory,
            gate=self.gate,
            watch=self.watch,
            limits=limits,
        )
        self._hear()
        self.member = self._joined(controller, token, policy, decide_s)
        self.decisions = CircuitDecisions(
            deciding,
            self.member,
            policy,
            lambda work: self.agreement.wait(work, timeout_s + decide_s),
        )
        self.planners = Planners(self.nics)
        #: all-to-alls of this rank, once this is a list
        self.records: list[MovedRows] | None = None
        self._sums = RingSums(
            self.rank,
            self.nics,
            agreement=self.agreement,
            memory=self.memory,
            streams=self.streams,
            watch=self.watch,
        )

    @classmethod
    def from_environment(
        cls, *, timeout_s: float = 30.0, decide_s: float = 10.0, limits: StreamLimits | None = None
    ) -> MixNetCollectives:
        """Make one of what the environment says.

        ``LIGHTLOOM_NICS`` is a file of NICs, ``LIGHTLOOM_CONTROLLER`` an address,
        ``LIGHTLOOM_TOKEN_FILE`` a file with its token, ``LIGHTLOOM_POLICY`` a policy; the process
        group is that of ``torchrun`` where there is none yet.

        Raises
        ------
        InputError
            If no NICs are named, or a file cannot be used.
        """
        path = os.environ.get("LIGHTLOOM_NICS")
        if not path:
            raise InputError("LIGHTLOOM_NICS: expected a file of the NICs of the job's servers")
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        token_file = Path(os.environ.get("LIGHTLOOM_TOKEN_FILE", ""))
        return cls(
            read_nics(path),
            controller=os.environ.get("LIGHTLOOM_CONTROLLER"),
            # a service makes the file when it starts
            token=token_for(token_file) if token_file.is_file() else "",
            policy=os.environ.get("LIGHTLOOM_POLICY", "break-even"),
            timeout_s=timeout_s,
            decide_s=decide_s,
            limits=limits,
        )

    def all_to_all(
        self, x: torch.Tensor, splits: Sequence[int], *, layer: int | None = None
    ) -> tuple[torch.Tensor, CircuitRoute]:
        """Send rows to all ranks, over circuits that suit them.

        Parameters
        ----------
        x
            Rows, ``(rows, ...)``, of any type, in the order of the ranks that they go to.
        splits
            How many go to each rank.
        layer
            Takes the decision that :meth:`upcoming` has begun for it.

        Returns
        -------
        rows
            What this rank gets, in the order of the ranks that it comes from: bit-equal to
            ``torch.distributed.all_to_all_single``. The gradient goes back over the same circuits.
        route
            How many came from where, and the way back.

        Raises
        ------
        InputError
            On every rank, if ranks disagree or a rank's ``splits`` are not those of its rows.
        RankError
            If a rank does not answer.
        """
        problem = _problem(x, splits, self.nics.ranks)
        counts = self.agreement.agree(f"all_to_all of {signature(x)}", list(splits), problem)
        demand = counts.astype(np.uint64) * np.uint64(row_bytes(x))
        asked_s = time.monotonic()
        decision = self.decisions.take(layer, demand)
        route = CircuitRoute(
            tuple(counts[:, self.rank].tolist()),
            tuple(counts[self.rank].tolist()),
            decision,
            self,
            counts,
            layer,
            waited_s=time.monotonic() - asked_s,
        )
        moved: torch.Tensor = _Moved.apply(x.reshape(len(x), row_elements(x)), route)
        return moved.reshape(sum(route.received), *x.shape[1:]), route

    def upcoming(
        self,
        demand: Sequence[int] | npt.NDArray[np.uint64],
        *,
        layer: int | None = None,
        hidden_s: float = 0.0,
    ) -> None:
        """Begin to decide for an all-to-all beside what the job computes; returns at once.

        Parameters
        ----------
        demand
            Bytes that this rank will send to each, as the gate knows them; or, where they are
            predicted, a matrix from rank to rank, of which that of the first rank counts.
        layer
            That of the all-to-all.
        hidden_s
            Seconds until it is reached, which a switch may take for nothing.
        """
        told = demand if isinstance(demand, np.ndarray) else [int(size) for size in demand]
        self.decisions.upcoming(layer, told, hidden_s)

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of a tensor over all ranks, by the packet NICs; see :class:`RingSums`.

        Raises
        ------
        InputError
            On every rank, if ranks disagree.
        RankError
            If a rank does not answer.
        """
        return self._sums.sum(x)

    def play(self, rows: Octets, demand: Demand, decision: RegionCircuits, out: Octets) -> None:
        """Send bytes as planned, once all ranks have agreed on the step.

        Parameters
        ----------
        rows, out
            What this rank sends and gets, in the order of the other ranks.
        demand
            Bytes from rank to rank.
        decision
            Which circuits there are.
        """
        memory, step = self.memory, self.agreement.step
        before = self.agreement.expected
        begins = _begins(demand)
        ends = _begins(demand.T)  # by receiver
        each = self.nics.ranks_per_server
        inside = slice(self._server * each, (self._server + 1) * each)
        coming = demand[:, self.rank].copy()
        coming[inside] = 0
        self.agreement.expected += int(coming.sum())
        received = memory.receive_into(step, len(out))
        memory.sending(len(rows))[:] = rows
        memory.sent_is_ready(step)
        parts = self.planners.plan(demand, decision, self._server)
        for part in self._own(parts):
            source = memory.sent_by(part.source % each, step, int(demand[part.source].sum()))
            first = int(begins[part.source, part.destination]) + part.offset
            self.streams.send(
                part.hops,
                self.nics.delegate(part.hops[-1].receiver),
                step=step,
                rank=part.destination,
                offset=int(ends[part.destination, part.source]) + part.offset,
                data=memoryview(source)[first : first + part.size_bytes],
            )
        for source_rank in range(inside.start, inside.stop):  # meanwhile, what stays in the server
            data = memory.sent_by(source_rank % each, step, int(demand[source_rank].sum()))
            _copy(data, begins[source_rank, self.rank], out, ends[self.rank, source_rank],
                  demand[source_rank, self.rank])  # fmt: skip
        self.watch.until(
            lambda: memory.received() >= self.agreement.expected,
            lambda: f"{memory.received() - before} of {int(coming.sum())} bytes of {step} came",
        )
        for source_rank in np.flatnonzero(coming).tolist():
            at = ends[self.rank, source_rank]
            _copy(received, at, out, at, demand[source_rank, self.rank])
        self.streams.flush()

    def _own(self, parts: Sequence[CarriedPart]) -> list[CarriedPart]:
        """Those that leave over NICs next to this rank, its own bytes first."""
        leaving = (part for part in parts if self.nics.delegate(part.hops[0].sender) == self.rank)
        return sorted(leaving, key=lambda part: part.source != self.rank)

    def close(self) -> None:
        """End all connections; no rank may still wait for this one."""
        self.decisions.close()
        if self.member is not None:
            self.member.close()
        self.streams.close()
        self.arrivals.close()
        self.memory.close()

    def _joined(
        self, controller: str | None, token: str, policy: str, decide_s: float
    ) -> RegionMember | None:
        """The member of the server, on its first rank."""
        if controller is None or self._local or policy == "packets":
            return None
        return RegionMember(
            controller,
            token,
            self._server,
            gate=self.gate,
            over_circuits=self.memory.over_circuits,
            timeout_s=decide_s,
        )

    def _hear(self) -> None:
        """Act on what other ranks say and streams report."""
        self.watch.look, self.watch.find_gone = self._gone_here, self._find_gone
        self.watch.on_failure = self._fail
        self.memory.on_message = self._on_message
        self.arrivals.on_stop = self._on_stop
        self.streams.on_mended = self._on_mended

    def _gone_here(self) -> str:
        gone = self.memory.gone()
        return f"rank {gone[0]} does not answer: its process has ended" if gone else ""

    def _find_gone(self) -> str:
        """Who does not answer."""
        if found := self._gone_here():
            return found
        each = self.nics.ranks_per_server
        others = [rank for rank in range(self.nics.ranks) if rank != self.rank]
        gone: list[int] = []

        def ask(rank: int) -> None:
            is_near = rank // each == self._server
            if not (self.memory.answers(rank % each) if is_near else self.streams.answers(rank)):
                gone.append(rank)

        _each(ask, others, self.watch.timeout_s)
        return f"rank {min(gone)} does not answer" if gone else ""

    def _fail(self, reason: str) -> None:
        """End the job on every rank, for the first reason that any has."""
        if self.watch.fail(reason):
            self.memory.tell_all(f"stop {reason}")
            each = self.nics.ranks_per_server

            def tell(server: int) -> None:
                ranks = range(server * each, (server + 1) * each)
                any(self.streams.stop(rank, reason) for rank in ranks)

            others = [server for server in range(self.nics.servers) if server != self._server]
            _each(tell, others, self.watch.timeout_s)
            self.watch.told.set()

    def _on_stop(self, reason: str) -> None:
        """Another rank ends the job."""
        if self.watch.fail(reason):
            self.memory.tell_all(f"stop {reason}")
            self.watch.told.set()

    def _on_message(self, text: str) -> None:
        """A rank of the server says something."""
        word, _, rest = text.partition(" ")
        if word == "stop":
            self.watch.fail(rest)
            self.watch.told.set()
        elif word == "broken" and self.member is not None:
            part, _, why = rest.partition(" ")
            self._report(part, why)

    def _on_mended(self, way: Way, peer: int, error: OSError) -> None:
        """A stream broke, though the rank at its end answers: look whether a NIC has failed."""

        def look() -> None:
            for wait_s in _LOOKS_S:
                time.sleep(wait_s)
                if self.streams.works(way, peer) is not False:
                    return
            blamed = way[-1].receiver
            for hop in way:
                where: NicAddress | None = self._places.get(hop.sender)
                if where is not None and not is_there(where):
                    blamed = hop.sender
            why = f"{way[0].sender} to {way[-1].receiver}: {error}"
            if self.member is not None:
                self._report(str(blamed), why)
            else:
                self.memory.tell(0, f"broken {blamed} {why}")

        threading.Thread(target=look, daemon=True).start()

    def _report(self, part: str, why: str) -> None:
        """Tell the controller what has failed, without waiting for it."""
        member = self.member

        def tell() -> None:
            if member is not None and member.is_there:
                member.report(part, why)

        threading.Thread(target=tell, daemon=True).start()

    def record(self, route: CircuitRoute, begin_s: float, size_bytes: int) -> None:
        """Keep when rows moved, where that is wanted."""
        if self.records is not None:
            each, at = self.nics.ranks_per_server, self._server * self.nics.ranks_per_server
            inside = sum(route.sent[at : at + each]) / max(1, sum(route.sent))
            self.records.append(
                MovedRows(
                    route.name, route.layer, begin_s, time.monotonic(), route.waited_s,
                    round(size_bytes * (1 - inside)), len(route.decision.circuits),
                )
            )  # fmt: skip

    def nic_bytes(self) -> Mapping[tuple[NicPlace, str], int]:
        """Bytes that streams of this rank sent over each NIC of their ways, acknowledged."""
        return dict(self.streams.sent)


class _Moved(torch.autograd.Function):
    """Rows to their ranks; gradients the same way back."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: torch.Tensor, route: CircuitRoute) -> torch.Tensor:
        ctx.route = route  # type: ignore[attr-defined]
        return _moved(rows, route)

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        route: CircuitRoute = ctx.route  # type: ignore[attr-defined]
        back = route.back("gradient")
        name = f"gradient of {signature(gradient)}"
        route.mixnet.agreement.agree(name, list(back.sent), "")
        return _moved(gradient, back), None


def _moved(rows: torch.Tensor, route: CircuitRoute) -> torch.Tensor:
    demand = route.counts.astype(np.uint64) * np.uint64(row_bytes(rows))
    out = rows.new_empty((sum(route.received), rows.shape[1]), device="cpu")
    octets = as_octets(rows.detach().to("cpu").contiguous())
    begin_s = time.monotonic()
    route.mixnet.play(octets, demand, route.decision, as_octets(out))
    route.mixnet.record(route, begin_s, len(octets))
    return out.to(rows.device)


def _each(act: Callable[[int], None], numbers: Sequence[int], timeout_s: float) -> None:
    """Do something for each number at once, for a bounded time."""
    threads = [threading.Thread(target=act, args=(number,), daemon=True) for number in numbers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def row_elements(x: torch.Tensor) -> int:
    """Elements of a row."""
    return math.prod(x.shape[1:])


def row_bytes(x: torch.Tensor) -> int:
    """Bytes of a row."""
    return row_elements(x) * x.element_size()


def signature(x: torch.Tensor) -> str:
    """Type and elements of rows, in which all ranks agree."""
    return f"rows of {row_elements(x)} {str(x.dtype).removeprefix('torch.')}"


def _problem(x: torch.Tensor, splits: Sequence[int], ranks: int) -> str:
    """What is wrong with the arguments of this rank; nothing if they will do."""
    if x.dim() < 1:
        return "x is a scalar: expected rows along its first dimension"
    if len(splits) != ranks:
        return f"{len(splits)} splits: expected one for each of the {ranks} ranks"
    if any(not isinstance(count, int) or count < 0 for count in splits):
        return "splits: expected whole numbers of 0 or more"
    if sum(splits) != len(x):
        return f"splits add up to {sum(splits)}: expected the {len(x)} rows of x"
    return ""


def _begins(demand: Demand) -> npt.NDArray[np.int64]:
    """Where the bytes from each rank to each begin among those of their sender."""
    sizes = demand.astype(np.int64)
    return np.cumsum(sizes, axis=1) - sizes


def _copy(source: Octets, first: int, out: Octets, at: int, size: int) -> None:
    count = int(size)
    out[int(at) : int(at) + count] = source[int(first) : int(first) + count]
