"""The connections of a service, and the fence that a change of circuits waits at.

A connection that has joined for a server is a member. Before circuits of its server go dark it is
told to drain, and the change waits for it, for a bounded time: a member that hangs is waited for
once, is reported, and then stops changes of its server without a wait until it answers or is
removed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lightloom.control.documents import Document
from lightloom.control.recording import Listener
from lightloom.control.refusals import ControlError, RequestError
from lightloom.control.token import ClientRole
from lightloom.control.wire import encode

#: bytes that may wait for a client to read them; who reads less is cut off
MAX_UNREAD_BYTES = 1 << 18
#: seconds in which a client must have read why it is dismissed
_DISMISS_S = 1.0


@dataclass(eq=False)
class ServiceMember:
    """A connection; one that has joined is told before circuits of its server go dark.

    Attributes
    ----------
    writer
        Where replies and events go; None of an operator in the process of the region itself.
    server
        The server it stands for; None if it has not joined.
    drained
        Set when it has drained for the present fence.
    number
        Of the connection; 0 until it has entered a session.
    client, role
        Whose token it has shown, and what that allows.
    peer
        Where it comes from, as this machine says: a user, or an address.
    fence
        The last one that it was sent.
    problem
        Why it did not drain for it; empty if it did, or may still.
    is_hung
        Whether it has not answered in time, and not since.
    port_map
        Fingerprint of the map by which it counts servers and NICs, as it was greeted; None before.
    """

    writer: asyncio.StreamWriter | None
    server: int | None = None
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0
    client: str = "client"
    role: ClientRole = ClientRole.JOB
    peer: str = ""
    fence: int = 0
    problem: str = ""
    is_hung: bool = False
    port_map: str | None = None

    @property
    def who(self) -> str:
        """Under which its requests are journaled; nothing of it was said by the client."""
        return f"{self.client} ({self.peer})" if self.peer else self.client

    def send(self, header: Mapping[str, object]) -> None:
        """Send a frame, if the connection is still there; who does not read is cut off."""
        if self.writer is None or self.writer.is_closing():
            return
        if self.writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.writer.transport.abort()
            return
        self.writer.write(encode(header))

    @property
    def is_closing(self) -> bool:
        """Whether nothing more is read from the connection, or written to it."""
        return self.writer is None or self.writer.is_closing()

    def abort(self) -> None:
        """End the connection; what was not read is lost."""
        if self.writer is not None:
            self.writer.transport.abort()

    def dismiss(self, why: str) -> None:
        """End the connection after a last word, which the client gets in place of replies."""
        self.send({"ok": False, "id": None, "error": why})
        if self.writer is not None:
            self.writer.close()
            asyncio.get_running_loop().call_later(_DISMISS_S, self.abort)


class ServiceMembers:
    """The connections of one region's service.

    Parameters
    ----------
    region
        Its name, for messages.
    drain_timeout_s
        Seconds that members have for draining.
    notify
        Called when a member hangs, or is removed.
    """

    def __init__(self, region: str, drain_timeout_s: float, notify: Listener) -> None:
        self._region, self._drain_timeout_s, self._notify = region, drain_timeout_s, notify
        self._connected: dict[int, ServiceMember] = {}
        self._numbers = itertools.count(1)
        self._fence = 0

    def enter(self, member: ServiceMember) -> None:
        """Give a connection its number."""
        member.number = next(self._numbers)
        self._connected[member.number] = member

    def leave(self, member: ServiceMember) -> None:
        """Forget a connection; nobody waits for it any more."""
        self._connected.pop(member.number, None)
        member.drained.set()

    def remove(self, number: int) -> None:
        """Cut off a connection; nobody waits for it any more.

        Raises
        ------
        RequestError
            If there is none of this number.
        """
        member = self._connected.get(number)
        if member is None:
            raise RequestError(f"member {number}: no connection has this number")
        self._report("member-removed", member)
        member.abort()
        self.leave(member)

    def dismiss(self, keep: ServiceMember, why: str) -> int:
        """End all connections but one after a last word; return how many."""
        dismissed = [member for member in self._connected.values() if member is not keep]
        for member in dismissed:
            member.dismiss(why)
            self.leave(member)
        return len(dismissed)

    def as_json(self) -> list[Document]:
        """Return the connections, oldest first: number, client, role, peer, server, hung."""
        return [
            {
                "number": member.number,
                "client": member.client,
                "role": str(member.role),
                "peer": member.peer,
                "server": member.server,
                "hung": member.is_hung,
            }
            for member in self._connected.values()
        ]

    def of(self, servers: Collection[int]) -> list[ServiceMember]:
        """Return those who have joined for one of these servers."""
        return [member for member in self._connected.values() if member.server in servers]

    def announce(self, event: str, facts: Mapping[str, object]) -> None:
        """Send an event to all who have joined."""
        for member in list(self._connected.values()):
            if member.server is not None:
                member.send({"event": event, **facts})

    def answered(self, member: ServiceMember, fence: int, problem: str) -> None:
        """Note that a member has drained for a fence, or why it cannot."""
        member.is_hung = False
        if fence == member.fence:
            member.problem = problem
            member.drained.set()

    async def drain(self, members: list[ServiceMember], servers: Collection[int]) -> None:
        """Wait until members send nothing over circuits of servers that go dark.

        Raises
        ------
        ControlError
            If one has not drained in time, cannot, or has not answered since the last time.
        """
        hung = [member for member in members if member.is_hung]
        if hung:
            raise self._undrained(hung[0], "has not answered since it was last to drain")
        self._fence += 1
        for member in members:
            member.fence, member.problem = self._fence, ""
            member.drained.clear()
            facts = {"fence": self._fence, "servers": sorted(servers)}
            member.send({"event": "drain", **facts})
        waiting = [asyncio.ensure_future(member.drained.wait()) for member in members]
        await asyncio.wait(waiting, timeout=self._drain_timeout_s)
        for task in waiting:
            task.cancel()
        late = [member for member in members if not member.drained.is_set()]
        for member in late:
            member.is_hung = True
            self._report("member-hung", member)
        if late:
            first = min(late, key=lambda member: (str(member.server), member.number))
            raise self._undrained(first, f"has not drained within {self._drain_timeout_s:g} s")
        for member in members:
            if member.problem:
                raise self._undrained(member, f"cannot drain: {member.problem}")

    def _undrained(self, member: ServiceMember, why: str) -> ControlError:
        return ControlError(
            f"{self._region}: server {member.server} {why} (member {member.number}); no circuit "
            "was changed"
        )

    def _report(self, event: str, member: ServiceMember) -> None:
        facts = {"member": member.number, "who": member.who, "server": member.server}
        self._notify(event, facts)
