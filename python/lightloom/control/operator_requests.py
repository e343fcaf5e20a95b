"""What the service does for an operator: plan, apply, pause, and say who is connected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from lightloom.control import operations
from lightloom.control.change import ConflictMode
from lightloom.control.documents import Document, region_as_json, report_as_json
from lightloom.control.journal import ChangeReason
from lightloom.control.operations import PlannedChange, Remapped
from lightloom.control.port_map import NicPair
from lightloom.control.refusals import RequestError, StateError
from lightloom.control.report import ChangeReport
from lightloom.control.request_fields import check_keys, flag_of, text_of
from lightloom.control.wire import Frame
from lightloom.errors import InputError, echo

if TYPE_CHECKING:
    from lightloom.control.members import ServiceMember
    from lightloom.control.session import RegionSession

Handler = Callable[["ServiceMember", Frame], Awaitable[Document]]


class OperatorRequests:
    """The requests of operators to one region.

    Parameters
    ----------
    session
        What serves the region.
    """

    def __init__(self, session: RegionSession) -> None:
        self._session = session
        #: who has paused the region, and why; empty if nobody has
        self.paused = ""

    @property
    def handlers(self) -> dict[str, Handler]:
        """What handles each request."""
        return {
            "plan": self._plan,
            "apply": self._apply,
            "pause": self._pause,
            "continue": self._continue,
            "clients": self._clients,
            "remove": self._remove,
        }

    def check_running(self) -> None:
        """Refuse a demand while the region is paused.

        Raises
        ------
        StateError
            If it is.
        """
        if self.paused:
            raise StateError(f"{self._session.name}: paused by {self.paused}; use the EPS")

    async def _plan(self, member: ServiceMember, frame: Frame) -> Document:
        session, header = self._session, frame.header
        check_keys(frame, ("target", "conflicts"))
        target = operations.parse_target(header.get("target"))
        conflicts = _conflicts(header.get("conflicts"))
        controller = session.controller
        demand = operations.fold_demand(controller, frame.body) if frame.body else None
        async with session.turn(member):
            await controller.look()
            if isinstance(target, Remapped):
                return operations.plan_map(controller, await session.file_map())
            await session.check_files()
            return operations.plan(controller, target, conflicts, demand)

    async def _apply(self, member: ServiceMember, frame: Frame) -> Document:
        session, header = self._session, frame.header
        check_keys(frame, ("plan", "checks", "now"))
        try:
            planned = PlannedChange.model_validate(header.get("plan"))
        except InputError as error:
            raise RequestError(f"plan: {error}") from None
        checks, at_once = flag_of(frame, "checks", True), flag_of(frame, "now", False)
        reason = ChangeReason(member.who)
        async with session.turn(member):
            if planned.kind == "remap":
                return await self._remap(member, planned, checks=checks, at_once=at_once)
            await session.check_files()
            return await operations.apply(
                session.controller,
                planned,
                reason,
                self._change,
                checks=checks,
                at_once=at_once,
            )

    async def _remap(
        self, member: ServiceMember, planned: PlannedChange, *, checks: bool, at_once: bool
    ) -> Document:
        session, controller = self._session, self._session.controller
        operations.check_plan(controller, planned)
        after = await session.file_map()
        if after.fingerprint != planned.new_map:
            raise StateError(
                f"{session.name}: {after.name} was edited after the plan was made; nothing was "
                "sent: plan again"
            )
        text = operations.in_window(controller, planned.why, at_once=at_once)
        seen = planned.seen if checks else None
        reason = ChangeReason(member.who, text)
        return report_as_json(await session.remap(member, after, reason, seen))

    async def _change(
        self,
        wanted: frozenset[NicPair],
        reason: ChangeReason,
        kind: str,
        conflicts: ConflictMode,
        seen: str | None,
    ) -> ChangeReport:
        controller = self._session.controller
        changed = (controller.held & controller.observed.circuits) ^ wanted
        return await self._session.change(
            changed, lambda: controller.apply(wanted, reason, kind, conflicts, seen)
        )

    async def _pause(self, member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ("why",))
        why = text_of(frame, "why", None)
        async with self._session.turn(member):
            self.paused = ": ".join(filter(None, (member.who, why)))
        return self._now()

    async def _continue(self, _member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ())
        self.paused = ""
        return self._now()

    async def _clients(self, _member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ())
        return self._now()

    async def _remove(self, _member: ServiceMember, frame: Frame) -> Document:
        check_keys(frame, ("number",))
        number = frame.header.get("number")
        if isinstance(number, bool) or not isinstance(number, int):
            raise RequestError(f"number {echo(number)}: expected the number of a client")
        self._session.remove_member(number)
        return self._now()

    def _now(self) -> Document:
        return {
            "region": region_as_json(self._session.controller),
            "paused": self.paused,
            "alarms": self._session.alarms,
            "clients": self._session.members(),
        }


def _conflicts(value: object) -> ConflictMode | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in set(ConflictMode):
        raise RequestError(f"conflicts {echo(value)}: expected {', '.join(ConflictMode)}")
    return ConflictMode(value)
