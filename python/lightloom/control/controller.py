"""The controller of one region: it alone changes the region's circuits.

The switches are read before every change, and what others have made since is not deleted unless the
region's file says so. Every change is a line in the journal before a command is sent, and again
after the last reply. A change is verified as the region's file says. What fails is tried again, and
then left or rolled back. After a reply that did not come, the state is ``UNKNOWN``: the controller
connects again, reads back, and only then decides. It never repeats a command without knowing what
the first one did.

A switch that does not answer, while others do, is *unreachable*: its circuits are neither changed
nor called lit, and a change of them stays open in the journal until the switch can be read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from lightloom.control.change import (
    ConflictMode,
    RegionChange,
    check_owned,
    plan_commands,
)
from lightloom.control.decisions import RegionDecider
from lightloom.control.journal import (
    ChangeIntent,
    ChangeOutcome,
    ChangeReason,
    Journal,
    JournalEntry,
)
from lightloom.control.lease import Lease
from lightloom.control.loss_trend import LossTrend
from lightloom.control.map_change import MapChange
from lightloom.control.optics import (
    LossBudget,
    bright_ports,
    check_power,
    loss_budget,
    port_statuses,
)
from lightloom.control.port_map import (
    NicPair,
    ObservedCircuits,
    PlacedConnect,
    PortMap,
    SwitchPort,
)
from lightloom.control.recording import ChangeRecorder, Listener, recovered_outcome
from lightloom.control.refusals import ControlError, JournalError, StateError
from lightloom.control.region_file import RegionFile
from lightloom.control.report import (
    ChangeReport,
    Drift,
    RegionState,
    drift_of,
    failures_of,
    half_deleted,
    poor_light,
    with_replies,
)
from lightloom.control.switch import (
    CrossConnect,
    EquipmentStatus,
    PortStatus,
    Readback,
    SwitchDriver,
    SwitchError,
)
from lightloom.control.switch_set import (
    SwitchReplies,
    SwitchSet,
    broken_in,
    has_pending,
    in_order_of,
    present_in,
)
from lightloom.schedule import Failures

_MIN_QUIET_S = 0.001
#: cross-connects by switch, and those of them that carry no light
_Seen = tuple[Mapping[str, frozenset[CrossConnect]], frozenset[PlacedConnect]]
NOTHING = ObservedCircuits(frozenset(), frozenset(), frozenset())


class RegionController:
    """The controller of one region.

    Parameters
    ----------
    region
        Its file.
    port_map
        Its ports.
    drivers
        Of its switches, by name.
    journal
        Where changes are written.
    lease
        Without which nothing is changed; taken by :meth:`start`.
    listener
        Called with what was done, for logs and metrics.
    """

    def __init__(
        self,
        region: RegionFile,
        port_map: PortMap,
        drivers: Mapping[str, SwitchDriver],
        journal: Journal,
        lease: Lease | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.region, self.port_map, self.journal = region, port_map, journal
        self.lease = lease or Lease(journal, duration_s=region.lease_s)
        self.decider = RegionDecider(region, port_map)
        # a command that is executed late is done within twice the time that the switch takes
        quiet_s = max(2 * self.decider.timing.fixed_s, _MIN_QUIET_S)
        self.switches = SwitchSet(drivers, port_map, region.change.timeout_s, quiet_s)
        self.limits = region.optics.resolved()
        self.trend = LossTrend(journal)
        #: power supplies and fans of each switch that says so
        self.equipment: Mapping[str, tuple[EquipmentStatus, ...]] = {}
        self.state = RegionState.UNKNOWN
        self.held: frozenset[NicPair] = frozenset()
        self.observed = NOTHING
        #: cross-connects, and broken ones, that it was read from; None if it is what was accepted
        self._seen: _Seen | None = None
        self.drift = Drift()
        #: circuits that were made or deleted in part, and may have left cross-connects
        self._attempted: frozenset[NicPair] = frozenset()
        #: circuits that are missing, and stay so for the change in progress
        self._spared: frozenset[NicPair] = frozenset()
        self.statuses: Mapping[SwitchPort, PortStatus] = {}
        #: when the last command was sent, and when the oldest of the latest readings began, by the
        #: loop's clock
        self.last_sent_s = self.read_s = 0.0
        self._bright: Mapping[SwitchPort, float] = {}
        self._notify = listener or (lambda _name, _facts: None)
        self._recorder = ChangeRecorder(journal, self.lease, self._notify)
        self._lock = asyncio.Lock()

    async def start(self) -> RegionState:
        """Take the lease, connect, read back, and complete what was in flight before a crash.

        Raises
        ------
        LeaseError
            If another controller holds the region.
        SwitchError, PortMapError, JournalError
            If a switch, the map or the journal cannot be used.
        """
        self.lease.take()
        self.journal.use_map(self.port_map, self.lease.now())
        async with self._lock:
            self.held = self._held_by_journal()
            await self.switches.connect()
            await self._synchronize()
        return self.state

    async def inspect(self) -> RegionState:
        """Connect and read back without the lease, writing nothing: for looking, not for changing.

        Raises
        ------
        SwitchError, PortMapError, JournalError
            If a switch, the map or the journal cannot be used.
        """
        async with self._lock:
            self.held = self._held_by_journal()
            await self.switches.connect()
            self._observe(await self._read_settled(ports=True))
            self._compare()
        return self.state

    def _held_by_journal(self) -> frozenset[NicPair]:
        held, left = self.journal.held() or frozenset(), self.journal.left()
        nics = {end for circuit in held | left for end in (circuit[:2], circuit[2:])}
        if not nics <= self.port_map.by_nic.keys():
            raise JournalError(
                f"{self.region.name}: the journal holds circuits of NICs that its port map does "
                "not have; lightloom control audit names every damaged row"
            )
        self._attempted = left | self._unread()
        return held - self._at(self.switches.excluded, held)

    def _unread(self) -> frozenset[NicPair]:
        """The circuits that the last change touched, if nothing was read back after it."""
        entries = self.journal.last(1) if self.region.change.verify == "accepted" else []
        return frozenset().union(*(e.intent.before ^ e.intent.wanted for e in entries))

    async def close(self) -> None:
        """Wait for the change in flight, release the lease and close all connections."""
        async with self._lock:
            await self.switches.close()
            self.state = RegionState.UNKNOWN
            try:
                self.lease.release()
            except JournalError as error:
                self._notify("journal-failed", {"error": str(error)})

    def plan(self, wanted: Iterable[NicPair], mode: ConflictMode | None = None) -> RegionChange:
        """Return the change from what the switches hold to the circuits that are wanted.

        Circuits of a switch that does not answer stay as they are.

        Raises
        ------
        StateError
            If it would make a circuit over a switch that does not answer.
        ConflictError
            If it needs ports that somebody else uses.
        OpticalPowerError
            If it would connect a port with too much light.
        """
        kept, goal = self.unseen(self.held), frozenset(wanted)
        impossible = self.unseen(goal) - kept
        if impossible:
            circuit = min(impossible)
            raise StateError(
                f"{self.region.name}: circuit {circuit} cannot be made: "
                f"{self._why_unreachable(circuit)}"
            )
        change = plan_commands(
            self.port_map,
            replace(self.observed, circuits=self.observed.circuits | kept),
            self._managed,
            goal | kept,
            mode=mode or self.region.change.conflicts,
            timing=self.decider.timing,
        )
        if self._bright:
            check_power(change.created, self._bright, self.limits)
        return change

    async def look(self) -> None:
        """Read the cross-connects of the switches, and compare with what was made.

        Raises
        ------
        SwitchError
            If no switch can be read; the state is then unknown.
        """
        async with self._lock:
            await self._look()

    async def _look(self, *, ports: bool = False) -> None:
        if self.state is RegionState.UNKNOWN:
            await self._synchronize()
            return
        try:
            self._observe(await self._read_settled(ports=ports))
        except SwitchError:
            self.state = RegionState.UNKNOWN
            raise
        self._compare()

    @property
    def age_s(self) -> float:
        """Seconds since the switches were last read; none has been changed unseen for longer."""
        return asyncio.get_running_loop().time() - self.read_s

    def exclude(self, failures: Failures, switches: frozenset[str] = frozenset()) -> None:
        """Decide without some parts, before the controller is started.

        Raises
        ------
        InputError
            If a part does not exist.
        """
        self.decider.exclude(failures)
        self.switches.excluded = switches

    async def avoid(self, failures: Failures, switches: frozenset[str] = frozenset()) -> None:
        """Decide without some parts from now on, and leave switches that have failed alone.

        Circuits of such switches are not held any more; those of failed NICs are deleted with the
        next change.

        Raises
        ------
        InputError
            If a part does not exist.
        """
        async with self._lock:
            before = self.switches.excluded
            self.exclude(failures, switches)
            if switches != before:
                self.held -= self._at(switches, self.held)
                for name in switches:
                    self.switches.unreachable.pop(name, None)
                await self._synchronize()

    def take_up(self, maps: MapChange, decider: RegionDecider) -> None:
        """Count servers and NICs by another port map, which the journal has by now.

        What was read stays true; nothing may be in flight (:mod:`lightloom.control.remap`).

        Parameters
        ----------
        maps
            From the map of now to the other one, which has all circuits that are held.
        decider
            By the other one.
        """
        ports = self.port_map = maps.after
        self.decider = decider
        self.switches.count_by(ports)
        self.held = maps.translate(self.held)
        self._attempted = maps.translate(self._attempted)
        assert self._seen is not None
        self._seen = in_order_of(ports, *self._seen)
        self.observed = ports.observe(*self._seen)
        self._bright = bright_ports(self.statuses, ports, self.limits)
        self._compare()

    async def reach(self, name: str) -> bool:
        """Try to reach a switch that does not answer; return whether it does now.

        Other switches may be changed at the same time, until this one is reached.

        Raises
        ------
        SwitchError, PortMapError
            If it is reached, and cannot be used.
        """
        if not await self.switches.reach(name):
            return False
        async with self._lock:
            await self._synchronize()
        return True

    def _at(self, switches: Collection[str], circuits: Iterable[NicPair]) -> frozenset[NicPair]:
        """The circuits that use one of the switches."""
        if not switches:
            return frozenset()
        return frozenset(
            circuit
            for circuit in circuits
            if any(placed.switch in switches for placed in self.port_map.cross_connects(circuit))
        )

    def unseen(self, circuits: Iterable[NicPair]) -> frozenset[NicPair]:
        """Return the circuits over switches that do not answer."""
        return self._at(self.switches.unreachable, circuits)

    def _why_unreachable(self, circuit: NicPair) -> str:
        unreachable = self.switches.unreachable
        name = next(
            placed.switch
            for placed in self.port_map.cross_connects(circuit)
            if placed.switch in unreachable
        )
        return f"{name} does not answer: {unreachable[name]}"

    def loss_of(self, change: RegionChange) -> list[LossBudget]:
        """Return the expected light of the cross-connects that a change creates."""
        return loss_budget(change.created, self.statuses, self.limits, connected=False)

    async def check(self) -> RegionState:
        """Read the switches back and compare with what was made.

        Raises
        ------
        SwitchError
            If a switch cannot be read; the state is then unknown.
        """
        async with self._lock:
            await self._look(ports=True)
        return self.state

    async def apply(
        self,
        wanted: Iterable[NicPair],
        reason: ChangeReason,
        kind: str = "apply",
        mode: ConflictMode | None = None,
        seen: str | None = None,
        *,
        since_s: float | None = None,
    ) -> ChangeReport:
        """Change the circuits; once begun, this is carried through even if the caller is canceled.

        Parameters
        ----------
        wanted
            The circuits that there should be.
        reason
            For the journal.
        kind
            ``apply``, ``reapply``, ``roll-back`` or ``remap``.
        mode
            What becomes of cross-connects of others; as in the region's file by default.
        seen
            The :meth:`fingerprint` of what a plan was made from; the change is refused if the
            switches or the journal say something else by now.
        since_s
            A reading that began after this moment of the loop's clock is new enough; by default
            the switches are read anew.

        Raises
        ------
        StateError
            If the switches hold something else than was made or seen, or nobody knows.
        ConflictError, OpticalPowerError, LeaseError, JournalError
            If the change is refused; no command was sent.
        """
        return await asyncio.shield(
            asyncio.ensure_future(self._apply(frozenset(wanted), reason, kind, mode, seen, since_s))
        )

    async def remove(
        self,
        circuits: frozenset[NicPair],
        reason: ChangeReason,
        kind: str = "drain",
        seen: str | None = None,
    ) -> ChangeReport:
        """Delete circuits of this controller, and leave everything else as it is, also drift.

        Parameters
        ----------
        circuits
            The circuits; those that are not there are not missing any more.
        reason
            For the journal.
        kind
            ``drain`` or ``remap``.
        seen
            As :meth:`apply` takes it.

        Raises
        ------
        As :meth:`apply`, but for drift.
        """
        return await asyncio.shield(
            asyncio.ensure_future(self._remove(circuits, reason, kind, seen))
        )

    async def _remove(
        self, circuits: frozenset[NicPair], reason: ChangeReason, kind: str, seen: str | None
    ) -> ChangeReport:
        async with self._lock:
            await self._look()
            self._check_seen(seen)
            there = self.held & self.observed.circuits
            change = self.plan(there - circuits, ConflictMode.SAFE)
            if change.is_empty:
                return ChangeReport(change, "unchanged", self.held)
            self._spared = self.held - there - circuits
            try:
                return await self._attempt(change, reason, kind, ConflictMode.SAFE)
            finally:
                self._spared = frozenset()

    def fingerprint(self) -> str:
        """Return a digest of what a plan depends on: ports, circuits held, and those observed."""
        observed = self.observed
        facts = (
            self.region.name,
            self.port_map.fingerprint,
            sorted(self.held),
            sorted(observed.circuits),
            sorted(observed.strangers | observed.crossing),
            sorted(self.switches.unreachable),
        )
        return sha256(repr(facts).encode()).hexdigest()

    def _check_seen(self, seen: str | None) -> None:
        if seen is not None and seen != self.fingerprint():
            raise StateError(
                f"{self.region.name}: the switches or the journal have changed since the plan was "
                "made; nothing was sent: plan again"
            )

    async def reapply(self, reason: ChangeReason, mode: ConflictMode | None = None) -> ChangeReport:
        """Make missing circuits again; those of others in their path go only if the mode says so.

        Raises
        ------
        As :meth:`apply`, but for drift.
        """
        return await self.apply(self.held, reason, "reapply", mode)

    async def adopt(self, reason: ChangeReason, seen: str | None = None) -> frozenset[NicPair]:
        """Take the circuits that are there as those that this controller made.

        Raises
        ------
        StateError
            If something else was ``seen``.
        LeaseError, JournalError
            If it cannot be written.
        """
        async with self._lock:
            await self._synchronize()
            self._check_seen(seen)
            circuits = self.observed.circuits | self.unseen(self.held)
            intent = ChangeIntent("adopt", reason, self.held, circuits, {}, 0.0)
            number = self._recorder.begin(intent)
            self._hold(circuits)
            self._recorder.end(number, ChangeOutcome("done", circuits, self._left_words()))
            self._compare()
        return circuits

    def snapshot(self, number: int | None = None) -> frozenset[NicPair]:
        """Return the circuits before a change, by default the last one that changed any.

        Raises
        ------
        JournalError
            If there is no such change.
        """
        return self._recorder.snapshot(self.port_map, number)

    async def _apply(
        self,
        wanted: frozenset[NicPair],
        reason: ChangeReason,
        kind: str,
        mode: ConflictMode | None,
        seen: str | None,
        since_s: float | None,
    ) -> ChangeReport:
        async with self._lock:
            is_new = since_s is not None and self.read_s >= since_s
            if not is_new or self.state is RegionState.UNKNOWN:
                await self._look()
            self._check_seen(seen)
            creates = not wanted <= self.held & self.observed.circuits
            if self.state is RegionState.DRIFTED and kind == "apply" and creates:
                await self._resolve_drift(reason, mode)
            change = self.plan(wanted, mode)
            given_up = self.held - self.unseen(self.held) - wanted
            if change.is_empty and not given_up:
                self._compare()
                return ChangeReport(change, "unchanged", self.held)
            return await self._attempt(change, reason, kind, mode)

    async def _resolve_drift(self, reason: ChangeReason, mode: ConflictMode | None) -> None:
        """Make again what is missing, if the region's file says so; else refuse."""
        if self.region.change.on_drift == "reapply":
            change = self.plan(self.held, mode)
            if not change.is_empty:
                why = replace(reason, text=f"drifted: {self.drift}")
                await self._attempt(change, why, "reapply", mode)
            self._compare()
        if self.state is not RegionState.READY:
            raise StateError(f"{self.region.name}: drifted: {self.drift}; reapply or adopt first")

    async def _attempt(
        self, change: RegionChange, reason: ChangeReason, kind: str, mode: ConflictMode | None
    ) -> ChangeReport:
        """Make a change, then try again what failed, then leave it or roll back."""
        snapshot = change.before & self._managed
        report = await self._make(change, reason, kind)
        for attempt in range(self.region.change.retries):
            if not report.failed or self.state is RegionState.UNKNOWN:
                break
            why = replace(reason, text=f"attempt {attempt + 2} of change {report.number}")
            again = await self._possible(change.wanted, mode)
            if again is None or again.is_empty:
                break
            report = await self._make(again, why, "retry")
        is_known = self.state is not RegionState.UNKNOWN
        if report.failed and is_known and self.region.change.on_failure == "roll-back":
            return replace(await self._undo(snapshot, report, reason, mode), change=change)
        left = half_deleted(change.before - change.wanted, self.port_map, self.observed)
        failed = left | dict(report.failed)
        result = "partial" if failed and report.result == "done" else report.result
        return replace(report, change=change, result=result, failed=failed)

    async def _possible(
        self, wanted: frozenset[NicPair], mode: ConflictMode | None
    ) -> RegionChange | None:
        """The change to these circuits; None if it must not be made, now that others have acted."""
        try:
            await self._look()
            return self.plan(wanted, mode)
        except (ControlError, SwitchError) as error:
            self._notify("not-tried-again", {"error": str(error)})
            return None

    async def _undo(
        self,
        snapshot: frozenset[NicPair],
        report: ChangeReport,
        reason: ChangeReason,
        mode: ConflictMode | None,
    ) -> ChangeReport:
        why = replace(reason, text=f"change {report.number} failed")
        back = await self._possible(snapshot, mode)
        if back is None:
            return report
        if back.is_empty:
            return replace(report, result="rolled-back")
        undone = await self._make(back, why, "roll-back")
        result = "rolled-back" if undone.result == "done" else undone.result
        failed = {**report.failed, **undone.failed}
        return replace(undone, result=result, failed=failed)

    async def _make(self, change: RegionChange, reason: ChangeReason, kind: str) -> ChangeReport:
        """Journal the intent, send the commands, verify, journal the outcome."""
        check_owned(self.port_map, change.commands)
        counts = {
            switch: (len(command.deletes), len(command.creates))
            for switch, command in change.commands.items()
        }
        number = self._recorder.begin(
            ChangeIntent(kind, reason, change.before, change.wanted, counts, change.expected_s)
        )
        clock = asyncio.get_running_loop().time
        sent = self.last_sent_s = clock()
        replies = await self.switches.apply(change.commands)
        replied = clock()
        self._attempted |= change.before ^ change.wanted
        readbacks, lost = await self._verify(replies)
        if lost is not None:
            return self._unknown(change, number, change.before ^ change.wanted, str(lost))
        unseen = self.unseen(change.before ^ change.wanted)
        if unseen:
            self._hold(self._held_after(change.before, change.wanted))
            self._compare()
            return self._unknown(change, number, unseen, self._why_unreachable(min(unseen)))
        failed = failures_of(change, self.port_map, replies, readbacks)
        if readbacks is None:
            self.observed, self._seen = with_replies(self.observed, change, failed), None
        light = self._measure(change, readbacks)
        failed |= poor_light(change, self.port_map, light)
        timings = {"switch": replied - sent, "verify": clock() - replied}
        report = self._conclude(change, number, failed, timings)
        report = replace(report, light=light)
        self._notify("changed", {"report": report, "kind": kind, "replies": replies})
        return report

    def _unknown(
        self, change: RegionChange, number: int, circuits: Iterable[NicPair], problem: str
    ) -> ChangeReport:
        """The report of a change that stays open: nobody knows what became of some circuits."""
        self._notify("state-unknown", {"change": number, "error": problem})
        failed = dict.fromkeys(sorted(circuits), problem)
        return ChangeReport(change, "unknown", self.held, failed, number)

    def _conclude(
        self,
        change: RegionChange,
        number: int,
        failed: Mapping[NicPair, str],
        timings: Mapping[str, float],
    ) -> ChangeReport:
        """Journal the outcome of a change, and compare what is there with what is held."""
        changed = change.before ^ change.wanted
        result = "done" if not failed else "partial" if changed - failed.keys() else "failed"
        self._hold(self._held_after(change.before, change.wanted))
        words = {str(circuit): problem for circuit, problem in sorted(failed.items())}
        words = {**self._left_words(), **words}
        self._recorder.end(number, ChangeOutcome(result, self.held, words, timings))
        self._compare()
        return ChangeReport(change, result, self.held, failed, number, timings)

    def _held_after(
        self, before: frozenset[NicPair], wanted: frozenset[NicPair]
    ) -> frozenset[NicPair]:
        """Circuits of the controller after a change.

        Those that were not to change still are its, also if they have vanished: that is drift.
        """
        changed = self.observed.circuits & (self._managed | wanted) & (before ^ wanted)
        kept = (self.held & before & wanted) | self.unseen(self.held)
        return changed | kept | self._spared | (wanted & before & self.observed.circuits)

    def _hold(self, circuits: frozenset[NicPair]) -> None:
        """Hold these; what is left of one that is given up is still this controller's to delete."""
        self._attempted |= self.held - circuits
        self.held = circuits

    @property
    def _managed(self) -> frozenset[NicPair]:
        return self.held | self._attempted

    async def _verify(
        self, replies: SwitchReplies
    ) -> tuple[dict[str, Readback] | None, SwitchError | None]:
        """Read back as far as is needed; the error says that the state is unknown."""
        # what a switch has made of a command that it refused only a reading says
        is_accepted = all(result.is_accepted for result in replies.results.values())
        if self.region.change.verify == "accepted" and is_accepted and not replies.errors:
            return None, None
        try:
            if replies.errors:
                self.state = RegionState.UNKNOWN
                readbacks = await self.switches.resync()
            else:
                readbacks = await self._read_settled(ports=self.region.change.verify == "light")
        except SwitchError as error:
            self.state = RegionState.UNKNOWN
            return None, error
        self._observe(readbacks)
        return readbacks, None

    async def _read_settled(self, *, ports: bool) -> dict[str, Readback]:
        try:
            readbacks = await self.switches.read_back(ports=ports)
        except SwitchError as error:
            self._notify("read-back-failed", {"error": str(error)})
            return await self.switches.resync()
        return await self.switches.resync() if has_pending(readbacks) else readbacks

    def _measure(
        self, change: RegionChange, readbacks: Mapping[str, Readback] | None
    ) -> tuple[LossBudget, ...]:
        if readbacks is None or self.region.change.verify != "light":
            return ()
        return tuple(loss_budget(change.created, self.statuses, self.limits, connected=True))

    async def _synchronize(self) -> None:
        """Read back, complete open intents, and compare with what is held.

        Raises
        ------
        SwitchError
            If a switch cannot be read; the state is then unknown.
        """
        try:
            readbacks = await self.switches.resync()
        except SwitchError:
            self.state = RegionState.UNKNOWN
            raise
        self._observe(readbacks)
        self._recorder.settle_debt()
        for entry in self.journal.unfinished():
            self._recover(entry)
        self._compare()

    def _recover(self, entry: JournalEntry) -> None:
        """Write what became of a change whose outcome was never written.

        Other changes may have been made since, if a switch did not answer.
        """
        intent = entry.intent
        changed = intent.before ^ intent.wanted
        self._attempted |= changed
        if self.unseen(changed):
            return  # it stays open until the switch can be read
        if entry.id == self.journal.last(1)[0].id:
            self._hold(self._held_after(intent.before, intent.wanted))
        else:
            gone = (intent.before - intent.wanted) - self.observed.circuits
            self._hold((self.held - gone) | (self.observed.circuits & changed))
        outcome = recovered_outcome(intent, self.observed.circuits, self.held)
        outcome = replace(outcome, failed={**self._left_words(), **outcome.failed})
        self._recorder.end(entry.id, outcome)
        self._notify(
            "recovered", {"change": entry.id, "result": outcome.result.removeprefix("recovered-")}
        )

    def _observe(self, readbacks: Mapping[str, Readback]) -> None:
        seen = present_in(readbacks), broken_in(readbacks)
        if seen != self._seen:
            self.observed, self._seen = self.port_map.observe(*seen), seen
        self.read_s = min(map(self.switches.began_s.__getitem__, readbacks))
        statuses = port_statuses(readbacks)
        if not statuses:
            return  # ports were not read: what is known of them stays
        self.statuses = statuses
        self.equipment = {name: now.equipment for name, now in readbacks.items() if now.equipment}
        self._bright = bright_ports(self.statuses, self.port_map, self.limits)

    def left(self) -> frozenset[NicPair]:
        """Return circuits made or deleted in part, of which something is, or may be, there."""
        strangers = self.observed.strangers
        seen = frozenset(
            circuit
            for circuit in self._attempted
            if not strangers.isdisjoint(self.port_map.cross_connects(circuit))
        )
        return seen | self.unseen(self._attempted)

    def _left_words(self) -> dict[str, str]:
        return dict.fromkeys(map(str, sorted(self.left())), "left in part")

    def _compare(self) -> None:
        """Set the state by what is observed and held."""
        # a circuit that was given up, and has appeared since, is the controller's all the same
        self.held |= self.observed.circuits & self._attempted
        if self._seen is not None:
            self._attempted = self.left()
        debris = frozenset(
            placed
            for circuit in self._attempted | self.held
            for placed in self.port_map.cross_connects(circuit)
        )
        drift = drift_of(self.observed, self.held - self.unseen(self.held), debris)
        state = RegionState.DRIFTED if drift else RegionState.READY
        if (state, drift) != (self.state, self.drift):
            self._notify("state", {"state": state, "drift": drift})
        self.state, self.drift = state, drift
