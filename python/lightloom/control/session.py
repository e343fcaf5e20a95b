"""What the service does with requests: decide, drain, change, and say what is true now."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lightloom.control.controller import RegionController
from lightloom.control.decisions import MAX_UPCOMING, circuits_of
from lightloom.control.delegates import delegates_as_json, delegates_of
from lightloom.control.documents import Document
from lightloom.control.failure_state import RegionFailures
from lightloom.control.failures import FailureResponse, failed_ports
from lightloom.control.journal import ChangeReason
from lightloom.control.map_change import MapChange
from lightloom.control.members import ServiceMember, ServiceMembers
from lightloom.control.metrics import ControlMetrics
from lightloom.control.operations import check_window, in_window
from lightloom.control.operator_requests import OperatorRequests
from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.recording import Listener
from lightloom.control.refusals import ControlError, RequestError, StateError
from lightloom.control.region_light import still_lit
from lightloom.control.remap import lost_circuits, remap
from lightloom.control.report import ChangeReport, RegionState
from lightloom.control.request_fields import (
    check_keys,
    flag_of,
    hidden_of,
    parts_of,
    text_of,
    whole_of,
)
from lightloom.control.switch import SwitchError
from lightloom.control.token import ClientRole
from lightloom.control.wire import Frame
from lightloom.errors import LightloomError, echo, expected_one_of
from lightloom.schedule import Held
from lightloom.schedule.decider import Decision

_MAX_NUMBER = 2**53
#: seconds that an answer may take after the reading that it is made from
_ANSWER_S = 0.1
#: why a request is refused, or a connection ended, that counts servers as they were
_MAP_CHANGED = "the port map has changed, and with it the numbers of servers: connect anew"
#: seconds between attempts to reach switches whose state is unknown
_RECOVER_S = 1.0
#: the least role of each request; others are the operator's
LEAST_ROLE = {
    "status": ClientRole.VIEW,
    "demand": ClientRole.JOB,
    "join": ClientRole.JOB,
    "fail": ClientRole.JOB,
    "repair": ClientRole.JOB,
    "clients": ClientRole.VIEW,
    "plan": ClientRole.OPERATOR,
    "apply": ClientRole.OPERATOR,
    "pause": ClientRole.OPERATOR,
    "continue": ClientRole.OPERATOR,
    "remove": ClientRole.OPERATOR,
}

#: power of a port without light is below this; see ``failed_ports``
_NO_LIGHT_DBM = float("-inf")

#: what makes the header of a reply
_Serving = Coroutine[None, None, Document]


@dataclass
class SeenDemand:
    """The last demand that came, and what became of it.

    Attributes
    ----------
    at
        Seconds since the epoch.
    reason
        Who sent it, and for which job, step and layer.
    count
        All-to-alls that it was for.
    result
        That of the change, ``held``, why it was refused, or empty while it is served.
    matrix
        Bytes from server to server of all of them, ``(servers, servers)``; None until its turn.
    """

    at: float
    reason: ChangeReason
    count: int
    result: str = ""
    matrix: npt.NDArray[np.uint64] | None = None


class RegionSession:
    """Handles the requests to one region, one change at a time.

    Parameters
    ----------
    controller
        A controller that has started.
    drain_timeout_s
        Seconds that members have for draining.
    metrics
        Counts what is done.
    failures
        Failed parts of the region, as they were loaded.
    demand_timeout_s
        Seconds after which a demand is refused, though its change is carried through.
    notify
        Called with what happens apart from requests, for the log.
    read_map
        Reads the port map of the files, by which operators count; they are refused while it is
        another one. None if there are no files.
    """

    def __init__(
        self,
        controller: RegionController,
        drain_timeout_s: float = 2.0,
        metrics: ControlMetrics | None = None,
        failures: RegionFailures | None = None,
        *,
        demand_timeout_s: float = 5.0,
        notify: Listener | None = None,
        read_map: Callable[[], Awaitable[PortMap]] | None = None,
    ) -> None:
        self.controller, self._read_map = controller, read_map
        self.failures = failures or RegionFailures(controller)
        self._demand_timeout_s = demand_timeout_s
        self._notify = notify or (lambda _name, _facts: None)
        self._metrics = metrics or ControlMetrics(controller.region.name)
        self._members = ServiceMembers(self.name, drain_timeout_s, self._notify)
        #: changes that outlived their demand
        self._background: set[asyncio.Task[Document]] = set()
        #: circuits that a change in progress makes or deletes: nobody may count on them
        self._changing: frozenset[NicPair] = frozenset()
        #: when members had drained last: what was read before may have changed meanwhile
        self._drained_s = 0.0
        self._lock = asyncio.Lock()
        self._held: tuple[frozenset[NicPair], Held] | None = None
        self._recovering: asyncio.Task[None] | None = None
        self._is_closing = False
        self.operators = OperatorRequests(self)
        #: the last demand; None before the first
        self.demand: SeenDemand | None = None
        #: what is wrong with light and ports, by cross-connect or port
        self.alarms: dict[str, str] = {}

    @property
    def name(self) -> str:
        """Name of the region."""
        return self.controller.region.name

    @property
    def max_body_bytes(self) -> int:
        """Largest body of a request."""
        return MAX_UPCOMING * self.controller.decider.ranks**2 * 8

    @property
    def changing(self) -> frozenset[NicPair]:
        """Circuits that a change in progress makes or deletes."""
        return self._changing

    @contextlib.asynccontextmanager
    async def turn(self, member: ServiceMember) -> AsyncIterator[None]:
        """Wait until no other request changes circuits, or how servers are counted.

        Raises
        ------
        ControlError
            If the service is stopping, or who asks counts servers by another port map by now.
        """
        async with self._lock:
            self._check_turn(member)
            yield

    def _check_turn(self, member: ServiceMember) -> None:
        """Refuse a request whose turn has come too late."""
        if self._is_closing:
            raise ControlError(f"{self.name}: the service is stopping")
        self._check_map(member)

    def _check_map(self, member: ServiceMember) -> None:
        if member.port_map not in (None, self.controller.port_map.fingerprint):
            raise StateError(f"{self.name}: {_MAP_CHANGED}")

    async def file_map(self) -> PortMap:
        """Return the port map that the files have now, or that of the controller without files.

        Raises
        ------
        InputError
            If they cannot be used.
        """
        if self._read_map is None:
            return self.controller.port_map
        return await self._read_map()

    async def check_files(self) -> None:
        """Refuse an operator's request while the files have another port map.

        Raises
        ------
        InputError
            If they have, or cannot be used.
        """
        MapChange(self.controller.port_map, await self.file_map()).check_empty()

    def note_alarms(self, alarms: Mapping[str, str]) -> None:
        """Log and announce what is wrong with light and ports since the last time, or right again.

        Parameters
        ----------
        alarms
            What is wrong, by cross-connect or port.
        """
        raised = {place: text for place, text in alarms.items() if self.alarms.get(place) != text}
        cleared = sorted(self.alarms.keys() - alarms.keys())
        self.alarms = dict(alarms)
        for place, text in raised.items():
            self._notify("alarm", {"place": place, "text": text})
        for place in cleared:
            self._notify("alarm-cleared", {"place": place})
        if raised or cleared:
            self._members.announce("alarm", {"raised": raised, "cleared": cleared})

    def count(self, event: str) -> None:
        """Count a request that was not served."""
        self._metrics.count_request(event)

    def description(self) -> Document:
        """Return what a client is greeted with."""
        return {
            "region": self.name,
            "servers": list(self.controller.port_map.servers),
            "ranks": self.controller.decider.ranks,
            "revision": self.controller.lease.revision,
            "rules": self.controller.region.rules.fingerprint,
            "state": str(self.controller.state),
        }

    async def handle(self, member: ServiceMember, frame: Frame) -> Document:
        """Handle a request and return the reply.

        Raises
        ------
        LightloomError
            If it is refused; one line.
        """
        handlers = {
            "demand": self._demand,
            "status": self._status,
            "join": self._join,
            "fail": self._fail,
            "repair": self._repair,
            **self.operators.handlers,
        }
        name = frame.header.get("op")
        if not isinstance(name, str) or name not in handlers:
            raise RequestError(f"op {echo(name)}: {expected_one_of(name, handlers)}")
        least = LEAST_ROLE.get(name, ClientRole.OPERATOR)
        if member.role < least:
            raise RequestError(
                f"{name}: {member.client} has the role {member.role}; expected a token of the role "
                f"{least}"
            )
        self._metrics.count_request(name)
        self._check_map(member)
        return await handlers[name](member, frame)

    def enter(self, member: ServiceMember) -> None:
        """Give a connection its number; it counts servers as the region does now."""
        member.port_map = self.controller.port_map.fingerprint
        self._members.enter(member)

    def members(self) -> list[Document]:
        """Return the connections, oldest first: number, client, role, peer, server, hung."""
        return self._members.as_json()

    def remove_member(self, number: int) -> None:
        """Cut off a connection; nobody waits for it any more.

        Raises
        ------
        RequestError
            If there is none of this number.
        """
        self._members.remove(number)

    async def _status(self, _member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ())
        with contextlib.suppress(StateError):
            await self._look()
        return {
            **self.description(),
            **self._circuits(),
            "drift": str(self.controller.drift),
            "paused": self.operators.paused,
            "alarms": self.alarms,
        }

    async def _join(self, member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ("server",))
        servers = len(self.controller.port_map.servers)
        member.server = whole_of(frame, "server", 0, servers - 1)
        with contextlib.suppress(StateError):
            await self._look()
        return {**self._circuits(), "carrying": self._carrying()}

    def _carrying(self) -> Document:
        """What decides how bytes are divided among circuits, packets and relays."""
        rules = self.controller.region.rules
        relay = rules.policy.relaying
        return {
            "nics": list(self.controller.port_map.nics_per_server),
            "rates": {key: getattr(rules, key) for key in ("circuit_gbps", "eps_gbps", "eps_nics")},
            "split": rules.split,
            "relay": None if relay is None else vars(relay),
        }

    def leave(self, member: ServiceMember) -> None:
        """Forget a connection; nobody waits for it any more."""
        self._members.leave(member)

    def drained(self, member: ServiceMember, frame: Frame) -> None:
        """Note that a member sends nothing over circuits that go dark, or why it still does.

        Raises
        ------
        RequestError
            If the frame is malformed.
        """
        check_keys(frame, ("fence", "problem"))
        fence = whole_of(frame, "fence", 0, _MAX_NUMBER)
        problem = text_of(frame, "problem", None)
        self._members.answered(member, fence, problem or "")

    async def _fail(self, member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ("parts", "why", "now"))
        why = text_of(frame, "why", "a part has failed") or ""
        at_once = flag_of(frame, "now", False)
        if member.role is ClientRole.OPERATOR:  # a job says what has failed whenever it does
            why = in_window(self.controller, why, at_once=at_once)
        async with self.turn(member):
            if member.role is ClientRole.OPERATOR:
                await self.check_files()
            response = await self.failures.add(parts_of(frame))
            lit = await self._drop_lost(ChangeReason(member.who, why))
            with contextlib.suppress(StateError):
                await self._look()
            return {"response": response.sentences(), "failed": lit, **self._circuits()}

    async def _repair(self, member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ("parts",))
        async with self.turn(member):
            if member.role is ClientRole.OPERATOR:
                await self.check_files()
            response = await self.failures.remove(parts_of(frame))
            with contextlib.suppress(StateError):
                await self._look()
            return {"response": response.sentences(), **self._circuits()}

    async def _drop_lost(self, reason: ChangeReason) -> dict[str, str]:
        """Release the ports of circuits whose parts have failed; why some may still be lit."""
        controller = self.controller
        lost = frozenset(self.failures.current().lost) | self.failures.leftovers()
        if not lost:
            return {}
        if controller.state is RegionState.UNKNOWN:
            return {str(circuit): "the state of its switch is unknown" for circuit in sorted(lost)}
        report = await self.change(lost, lambda: controller.remove(lost, reason))
        lit = still_lit(controller, self.failures.leftovers()) | dict(report.failed)
        return {str(circuit): problem for circuit, problem in sorted(lit.items())}

    async def _demand(self, member: ServiceMember, frame: Frame) -> Document:
        received = _now()
        check_keys(frame, ("job", "step", "layer", "upcoming", "hidden_s", "who"))
        count = whole_of(frame, "upcoming", 1, MAX_UPCOMING, 1)
        ranks = self.controller.decider.ranks
        if len(frame.body) != 8 * count * ranks * ranks:
            raise RequestError(
                f"demand: expected {count} x {ranks} x {ranks} numbers of 8 bytes, got "
                f"{len(frame.body):,} bytes"
            )
        demand = np.frombuffer(frame.body, "<u8").reshape(count, ranks, ranks)
        said = text_of(frame, "who", None)
        reason = ChangeReason(
            member.who,
            f"for {said}" if said else "",
            job=text_of(frame, "job", None),
            step=whole_of(frame, "step", 0, _MAX_NUMBER, None),
            layer=whole_of(frame, "layer", 0, _MAX_NUMBER, None),
        )
        hidden_s = hidden_of(frame, count)
        seen = self.demand = SeenDemand(self.controller.lease.now(), reason, count)
        try:
            serving = self._serve(demand, hidden_s, seen, received)
            reply = await self._promptly(member, serving)
        except LightloomError as error:
            seen.result = str(error)
            raise
        seen.result = reply["result"]
        return reply

    async def _promptly(self, member: ServiceMember, serving: _Serving) -> Document:
        """Serve a demand in its turn, or refuse it when its time is over.

        A demand whose turn has not come by then is dropped; a change that was begun is carried
        through, whoever waits for it.

        Raises
        ------
        ControlError
            If the time is over.
        """
        deadline = _now() + self._demand_timeout_s
        late = f"{self.name}: no circuits within {self._demand_timeout_s:g} s"
        advice = "use the packet network (EPS)"
        try:
            async with asyncio.timeout_at(deadline):
                await self._lock.acquire()
        except TimeoutError:
            serving.close()
            raise ControlError(f"{late}: others are being changed; {advice}") from None
        task = asyncio.create_task(self._in_turn(member, serving))
        self._background.add(task)
        task.add_done_callback(self._ended)
        left = deadline - _now()
        await asyncio.wait({task}, timeout=max(left, 0.0))
        if not task.done():
            task.add_done_callback(self._report)
            raise ControlError(f"{late}: the change goes on; {advice} meanwhile")
        return task.result()

    async def _in_turn(self, member: ServiceMember, serving: _Serving) -> Document:
        """Serve a demand and let the next one in; the lock is held already."""
        try:
            self._check_turn(member)
            return await serving
        finally:
            serving.close()
            self._lock.release()

    def _report(self, task: asyncio.Task[Document]) -> None:
        """Log what came of a demand whose client was told to use the EPS."""
        if task.cancelled():
            return
        error = task.exception()
        result = repr(error) if error is not None else task.result()["result"]
        self._notify("late-demand", {"result": result})

    def _ended(self, task: asyncio.Task[Document]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits has it as well

    async def _serve(
        self,
        demand: npt.NDArray[np.uint64],
        hidden_s: list[float],
        seen: SeenDemand,
        received: float,
    ) -> Document:
        controller, reason = self.controller, seen.reason
        self.operators.check_running()
        if controller.state is RegionState.UNKNOWN:
            self._recover_later()
            raise StateError(f"{self.name}: the state of a switch is unknown; use the EPS")
        matrices = controller.decider.fold(demand)
        seen.matrix = matrices.sum(axis=0)
        await self._look()
        self.failures.current()
        before = controller.held
        decision = controller.decider.decide(self._held_for(before), matrices, hidden_s)
        decided = _now()
        wanted = circuits_of(decision) | controller.unseen(before)
        report = None
        reapplies = controller.region.change.on_drift == "reapply"
        if wanted != before or (reapplies and controller.state is RegionState.DRIFTED):
            if controller.region.change.window_binds_jobs:
                check_window(controller, "use the EPS")
            text = f"{decision} ({reason.text})" if reason.text else str(decision)
            why = replace(reason, text=text)
            report = await self.change(
                before ^ wanted,
                lambda: controller.apply(wanted, why, since_s=max(received, self._drained_s)),
            )
            self._metrics.observe_latency(controller.last_sent_s - received)
            if report.after == wanted:
                self._held = (report.after, decision.held)
            await self._look()
        timings = {"decide_s": decided - received, "total_s": _now() - received}
        return self._outcome(decision, report, timings)

    async def _look(self) -> None:
        """Read the switches, if what is known of them is older than the region's file permits."""
        if self.controller.age_s > self.controller.region.serve.max_age_s:
            await self._look_anew()

    async def _look_anew(self) -> None:
        try:
            await self.controller.look()
        except SwitchError as error:
            self._recover_later()
            raise StateError(f"{self.name}: {error}; use the EPS") from None

    def _outcome(
        self, decision: Decision, report: ChangeReport | None, timings: Mapping[str, float]
    ) -> Document:
        failed: Mapping[NicPair, str] = {} if report is None else report.failed
        return {
            "result": "held" if report is None else report.result,
            "why": str(decision),
            "change": None if report is None else report.number,
            "failed": {str(circuit): problem for circuit, problem in failed.items()},
            "timings": dict(timings),
            **self._circuits(),
        }

    def _held_for(self, circuits: frozenset[NicPair]) -> Held:
        if self._held is None or self._held[0] != circuits:
            self._held = (circuits, self.controller.decider.hold(circuits))
        return self._held[1]

    async def reapply(self, reason: ChangeReason) -> ChangeReport:
        """Make missing circuits again.

        Raises
        ------
        StateError, ControlError
            If that cannot be done.
        """
        controller = self.controller
        async with self._lock:
            missing = controller.held - controller.observed.circuits
            return await self.change(missing, lambda: controller.reapply(reason))

    async def give_up_failed_ports(self) -> FailureResponse | None:
        """Avoid NICs of ports that have failed, by the last reading; None if none is new.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        controller, failures = self.controller, self.failures
        async with self._lock:
            broken = failed_ports(controller.port_map, controller.statuses, _NO_LIGHT_DBM)
            new = [str(part) for part in broken if part not in failures.parts]
            return await failures.add(new) if new else None

    async def remap(
        self, member: ServiceMember, after: PortMap, reason: ChangeReason, seen: str | None
    ) -> ChangeReport:
        """Take up a port map in a turn of its own; who counts by the old one is cut off.

        Parameters
        ----------
        member
            Who asks; counts by the new map from then on.
        after, reason, seen
            As :func:`lightloom.control.remap.remap` takes them.

        Raises
        ------
        As that function, and as :meth:`change`; the old map still counts.
        """
        controller = self.controller

        async def make() -> ChangeReport:
            report = await remap(controller, self.failures, after, reason, seen)
            self._held = self.demand = None
            member.port_map, member.server = after.fingerprint, None
            cut_off = self._members.dismiss(member, f"{self.name}: {_MAP_CHANGED}")
            self._notify("map-taken-up", {"map": after.fingerprint, "cut_off": cut_off})
            return report

        await self._look_anew()
        lost = lost_circuits(controller, MapChange(controller.port_map, after))
        return await self.change(lost & controller.observed.circuits, make)

    async def change(
        self, circuits: frozenset[NicPair], make: Callable[[], Awaitable[ChangeReport]]
    ) -> ChangeReport:
        """Let members drain, change circuits, and let members resume, whatever came of it.

        Parameters
        ----------
        circuits
            Those that are made or deleted.
        make
            Makes the change.

        Raises
        ------
        ControlError
            If it is refused, or a member does not drain; no command was sent.
        """
        dark = {server for circuit in circuits for server in circuit.servers}
        members = self._members.of(dark)
        self._changing = circuits
        try:
            if members:
                await self._members.drain(members, dark)
                self._drained_s = _now()
            report = await make()
        except SwitchError as error:
            self._recover_later()
            raise StateError(f"{self.name}: {error}; use the EPS") from None
        finally:
            self._changing = frozenset()
            if members:
                self._members.announce("ready", self._circuits())
        if self.controller.state is RegionState.UNKNOWN:
            self._recover_later()
        blamed = self.failures.blame(report.failed, report.after)
        if blamed:
            await self.failures.add(blamed)
        return report

    def _circuits(self) -> Document:
        """Circuits that carry traffic by a reading that is not too old, and who sends over them."""
        controller = self.controller
        circuits: frozenset[NicPair] = frozenset()
        is_fresh = controller.age_s <= controller.region.serve.max_age_s + _ANSWER_S
        if is_fresh and controller.state is not RegionState.UNKNOWN:
            circuits = controller.held & controller.observed.circuits
        response = self.failures.current()
        circuits -= frozenset(response.lost) | self._changing
        nics = dict(enumerate(controller.port_map.nics_per_server))
        delegates = delegates_of(circuits, nics, controller.region.job.gpus_per_server)
        return {
            "state": str(controller.state),
            "circuits": [list(circuit) for circuit in sorted(circuits)],
            "delegates": delegates_as_json(delegates, response.relays),
            "failures": sorted(map(str, self.failures.parts)),
            "unreachable": sorted(controller.switches.unreachable),
        }

    def fallback(self) -> Document:
        """Return what is true when a request was refused: the circuits that are there."""
        return self._circuits()

    def _recover_later(self) -> None:
        if self._recovering is None or self._recovering.done():
            self._recovering = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        while not self._is_closing and self.controller.state is RegionState.UNKNOWN:
            with contextlib.suppress(SwitchError, ControlError):
                await self.controller.check()
                return
            await asyncio.sleep(_RECOVER_S)

    async def finish(self) -> None:
        """Wait for the request in progress; refuse further ones."""
        self._is_closing = True
        async with self._lock:
            if self._recovering is not None:
                self._recovering.cancel()
                await asyncio.gather(self._recovering, return_exceptions=True)


def _now() -> float:
    """Seconds by the clock of the event loop."""
    return asyncio.get_running_loop().time()
