"""An operator's way into a region: through its service if one runs, and else by holding it.

Both take the same requests and give the same replies, as plain values.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from lightloom.control.change import ConflictMode
from lightloom.control.client import ControlClient
from lightloom.control.connections import tcp_address, user_name
from lightloom.control.documents import Document
from lightloom.control.members import ServiceMember
from lightloom.control.operations import PlannedChange, Target
from lightloom.control.refusals import RegionFileError, ServiceError
from lightloom.control.region_file import RegionFile, read_region, read_tables
from lightloom.control.running import open_region, running
from lightloom.control.service import is_free, is_served
from lightloom.control.session import RegionSession
from lightloom.control.token import ClientRole, token_for
from lightloom.control.wire import Frame
from lightloom.errors import InputError, LightloomError
from lightloom.inputs.files import shown_path

#: seconds that a request of an operator may take: a change may be tried again
_TIMEOUT_S = 120.0
Demand = npt.NDArray[np.uint64]


class RegionOperator(ABC):
    """What an operator does with a region, by the same requests in its process and beyond it."""

    @abstractmethod
    async def ask(self, op: str, body: bytes = b"", **facts: object) -> Document:
        """Return the reply to a request.

        Raises
        ------
        InputError, ControlError
            If it is refused.
        """

    async def plan(
        self, target: Target, conflicts: ConflictMode | None, demand: Demand | None
    ) -> Document:
        """Return a plan: ``region``, ``plan``, ``why``, and ``change`` or ``adopts``."""
        body = b"" if demand is None else np.ascontiguousarray(demand, dtype="<u8").tobytes()
        facts: Document = {"target": target.model_dump(mode="json")}
        if conflicts is not None:
            facts["conflicts"] = str(conflicts)
        return await self.ask("plan", body, **facts)

    async def apply(
        self, planned: PlannedChange, *, checks: bool = True, at_once: bool = False
    ) -> Document:
        """Make a planned change; return ``result``, ``after``, ``failed`` and what was measured.

        ``at_once`` makes it outside the change window, too.
        """
        facts: Document = {"plan": planned.model_dump(mode="json"), "checks": checks}
        if at_once:
            facts["now"] = True
        return await self.ask("apply", **facts)

    async def drain(self, parts: Sequence[str], why: str, *, at_once: bool = False) -> Document:
        """Take parts out of service: their circuits are deleted, and avoided from then on."""
        facts: Document = {"parts": list(parts)}
        if why:
            facts["why"] = why
        if at_once:
            facts["now"] = True
        return await self.ask("fail", **facts)

    async def resume(self, parts: Sequence[str]) -> Document:
        """Put parts into service again."""
        return await self.ask("repair", parts=list(parts))


class LocalOperator(RegionOperator):
    """An operator whose process holds the region: the user who runs it, as the system says.

    Parameters
    ----------
    session
        Of a region whose controller has started.
    """

    def __init__(self, session: RegionSession) -> None:
        self._session = session
        user = user_name(os.getuid())
        self._member = ServiceMember(None, client=user, role=ClientRole.OPERATOR)
        session.enter(self._member)

    async def ask(self, op: str, body: bytes = b"", **facts: object) -> Document:
        """As :meth:`RegionOperator.ask`; carried through also if the caller is canceled."""
        handling = self._session.handle(self._member, Frame({"op": op, **facts}, body))
        return await asyncio.shield(asyncio.ensure_future(handling))


class ServedOperator(RegionOperator):
    """An operator who asks the service of the region.

    Parameters
    ----------
    client
        A connection to it.
    """

    def __init__(self, client: ControlClient) -> None:
        self.client = client

    async def ask(self, op: str, body: bytes = b"", **facts: object) -> Document:
        """As :meth:`RegionOperator.ask`."""
        reply = await self.client.request(op, body, **facts)
        if not reply.pop("ok", False):
            raise ServiceError(str(reply.get("error", "refused")))
        reply.pop("id", None)
        return reply


@contextlib.asynccontextmanager
async def serving(path: Path) -> AsyncIterator[ServedOperator | None]:
    """Connect to the service of a region; None if none listens.

    Raises
    ------
    RegionFileError
        If the file of the region or the token cannot be used.
    ServiceError
        If the service refuses the token.
    """
    file, folder = read_tables(path), path.parent
    address = await _address(file, folder)
    if address is None:
        yield None
        return
    path_of_tokens = folder / (file.serve.token_file or f"{file.name}.token")
    token = token_for(path_of_tokens, ClientRole.OPERATOR)
    tls = _trust(file.serve.tls_certificate, folder)
    async with ControlClient(address, token, tls=tls, timeout_s=_TIMEOUT_S) as client:
        yield ServedOperator(client)


async def rules_change(path: Path, file: RegionFile | None = None) -> str:
    """Return how the rules of a region's files differ from those that its service decides by.

    Parameters
    ----------
    path, file
        The region's file, and what was read of it; without, it is read where a service listens.

    Returns
    -------
    str
        A line that says what to do; empty where they are the same, nobody serves the region, or
        its service does not say.
    """
    try:
        async with serving(path) as served:
            rules = None if served is None else served.client.region.get("rules")
    except LightloomError:  # who may not ask it may still look at the switches
        return ""
    if rules is None:
        return ""
    until = "until lightloom control serve is started again, it decides by what it read then"
    try:
        found = read_region(path) if file is None else file
    except InputError as error:
        return f"the service would not start by these files ({error}); {until}"
    if found.rules.fingerprint == rules:
        return ""
    name = shown_path(path if found.fabric is None else path.parent / found.fabric)
    return f"{name} has changed since the service was started; {until}"


def _trust(certificate: Path | None, folder: Path) -> ssl.SSLContext | None:
    """Trust the certificate of the service alone, whatever name it has."""
    if certificate is None:
        return None
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(folder / certificate)
    except OSError as error:
        name = shown_path(folder / certificate)
        raise RegionFileError(f"{name}: cannot use it for TLS: {error.strerror}") from None
    return context


async def _address(file: RegionFile, folder: Path) -> str | None:
    settings = file.serve
    if settings.host is not None:
        if not settings.port or is_free(settings.host, settings.port):
            return None
        return tcp_address(settings.host, settings.port)
    path = folder / (settings.socket or f"{file.name}.sock")
    return f"unix:{path}" if path.is_socket() and await is_served(path) else None


@contextlib.asynccontextmanager
async def operator_of(
    path: Path, log: TextIO | None = None, *, remaps: bool = False
) -> AsyncIterator[RegionOperator]:
    """Reach a region as its operator, for changing it.

    Parameters
    ----------
    path
        The region's file.
    log
        Where the log of changes goes, if no service runs; standard error by default.
    remaps
        Whether a port map is to be taken up that has changed.

    Raises
    ------
    LightloomError
        If it cannot be reached, or another controller without a service holds it.
    """
    async with serving(path) as served:
        if served is not None:
            yield served
            return
    region = open_region(path, log)
    async with running(region, remaps=remaps):
        session = region.session()
        try:
            yield LocalOperator(session)
        finally:
            await session.finish()
