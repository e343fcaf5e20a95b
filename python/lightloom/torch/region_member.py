"""A server's place at the controller of its region: it joins, drains, and learns of circuits.

One rank of each server is its member. A thread keeps the connection, and makes it again after it
was lost; meanwhile no circuit of the server carries traffic, as nobody would tell it of changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lightloom.control.client import ControlClient
from lightloom.control.documents import Document
from lightloom.control.refusals import ServiceError
from lightloom.errors import LightloomError
from lightloom.torch.gate import Gate

#: seconds between attempts to connect, and between looks at what is on its way
_AGAIN_S, _LOOK_S = 0.5, 0.001
#: seconds in which a member has drained, or says that it cannot
_DRAIN_S = 10.0

Result = TypeVar("Result")


class DrainedFence(NamedTuple):
    """A fence, the servers behind it, and when it was drained and opened by the machine's clock."""

    number: int
    servers: frozenset[int]
    drained_s: float
    opened_s: float = 0.0


class RegionMember:
    """The member of a server.

    Parameters
    ----------
    address, token
        Of the controller.
    server
        The server it stands for.
    gate
        Of the server.
    over_circuits
        Returns the bytes that are on their way over circuits from this server to some others.
    timeout_s
        Seconds that each request may take.
    """

    def __init__(
        self,
        address: str,
        token: str,
        server: int,
        *,
        gate: Gate,
        over_circuits: Callable[[Sequence[int]], int],
        timeout_s: float,
    ) -> None:
        self._address, self._token, self._server = address, token, server
        self._gate, self._over_circuits, self._timeout_s = gate, over_circuits, timeout_s
        self._client: ControlClient | None = None
        #: why there is no controller, while there is none
        self.problem = f"{address}: the controller does not answer"
        self._reported: set[str] = set()
        #: what the controller said when the server joined; empty before
        self.region: Document = {}
        #: those that this server has drained for
        self.fences: list[DrainedFence] = []
        #: which circuits of this server carried traffic, and from when on
        self.changes: list[tuple[float, list[tuple[int, ...]]]] = []
        #: called when the controller comes and goes, with why
        self.on_change: Callable[[bool, str], None] = lambda _is_there, _why: None
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._tried = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="lightloom-member")
        self._thread.start()
        self._tried.wait(timeout_s + 1.0)

    @property
    def is_there(self) -> bool:
        """Whether the controller answers."""
        return self._client is not None

    def demand(self, matrices: npt.NDArray[np.uint64], facts: Document) -> Document:
        """Send the demand of upcoming all-to-alls; the controller's answer.

        Raises
        ------
        ServiceError
            If there is none.
        """
        client = self._client
        if client is None:
            raise ServiceError(self.problem)
        reply = self._wait(client.circuits_for(matrices, **facts))
        # what was repaired meanwhile may fail again
        self._reported &= set(reply.get("failures", self._reported))
        return reply

    def fail(self, parts: Sequence[str], why: str) -> Document:
        """Tell the controller what has failed.

        Raises
        ------
        ServiceError
            If it does not answer.
        """
        client = self._client
        if client is None:
            raise ServiceError(f"{self._address}: the controller does not answer")
        return self._wait(client.request("fail", parts=list(parts), why=why))

    def report(self, part: str, why: str) -> None:
        """Tell the controller what has failed, once; nothing happens if it does not answer."""
        if part not in self._reported:
            self._reported.add(part)
            with contextlib.suppress(LightloomError):
                self.fail([part], why)

    def close(self) -> None:
        """Leave the region."""
        with contextlib.suppress(RuntimeError):  # it has left
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(2.0)

    def _wait(self, request: Coroutine[object, None, Result]) -> Result:
        try:
            future = asyncio.run_coroutine_threadsafe(request, self._loop)
        except RuntimeError:
            request.close()
            raise ServiceError(f"{self._address}: this server has left the region") from None
        try:
            return future.result(self._timeout_s + 1.0)
        except TimeoutError:
            future.cancel()
            raise ServiceError(f"{self._address}: the controller does not answer") from None

    def _run(self) -> None:
        with contextlib.suppress(RuntimeError), self._runner:
            self._runner.run(self._keep())

    async def _keep(self) -> None:
        """Connect, and again whenever the connection is lost."""
        why = ""
        while not self._stop.is_set():
            try:
                client = ControlClient(
                    self._address,
                    self._token,
                    self._on_event,
                    timeout_s=self._timeout_s,
                    drain_timeout_s=_DRAIN_S,
                )
                async with client:
                    self._check_same(client.region["servers"], self.region.get("servers"))
                    reply = await client.request("join", server=self._server)
                    if not reply.get("ok"):
                        raise ServiceError(str(reply.get("error", "refused to join")))
                    nics = self.region.get("carrying", {}).get("nics")
                    self._check_same(reply["carrying"]["nics"], nics)
                    self.region = {**client.region, **reply}
                    self._open(reply["circuits"])
                    self._client = client
                    self.on_change(True, "")
                    self._tried.set()
                    why = await self._lost(client)
            except (LightloomError, OSError) as error:
                why = str(error)
            self.problem = why
            was_there, self._client = self._client is not None, None
            self._open(())
            if was_there or not self._tried.is_set():
                self.on_change(False, why)
            self._tried.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _AGAIN_S)

    def _check_same(self, now: object, before: object) -> None:
        """Refuse a region whose servers or NICs have other numbers than this job began with.

        Raises
        ------
        ServiceError
            If they have.
        """
        if self.region and now != before:
            raise ServiceError(
                f"{self._address}: the port map of the region has changed since this job began; "
                "it uses circuits again after a restart"
            )

    async def _lost(self, client: ControlClient) -> str:
        """Wait until the connection is lost, or the member leaves; return why."""
        closed = asyncio.ensure_future(client.closed())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait([closed, stopped], return_when=asyncio.FIRST_COMPLETED)
        why = closed.result() if closed.done() else "this server has left the region"
        closed.cancel()
        stopped.cancel()
        return why

    async def _on_event(self, name: str, facts: Document) -> None:
        if name == "drain":
            servers = list(facts["servers"])
            self._gate.fence(servers)
            deadline = time.monotonic() + _DRAIN_S
            while self._over_circuits(servers) > 0 and time.monotonic() < deadline:
                await asyncio.sleep(_LOOK_S)
            left = self._over_circuits(servers)
            if left > 0:
                raise ServiceError(f"{left} bytes over circuits were not acknowledged")
            self._note()
            fence = DrainedFence(int(facts["fence"]), frozenset(servers), time.monotonic())
            self.fences.append(fence)
        elif name == "ready":
            if self.fences and self.fences[-1].opened_s == 0:
                self.fences[-1] = self.fences[-1]._replace(opened_s=time.monotonic())
            self._open(facts["circuits"])

    def _open(self, circuits: Iterable[Sequence[int]]) -> None:
        self._gate.open(circuits)
        self._note()

    def _note(self) -> None:
        """Keep which circuits of the server carry traffic from now on."""
        circuits = [row for row in sorted(self._gate.circuits()) if self._server in row[::2]]
        self.changes.append((time.monotonic(), circuits))
