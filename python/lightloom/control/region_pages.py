"""What a service shows over HTTP to this machine: its page, the document behind it, its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from lightloom.control.history import ChangeHistory
from lightloom.control.logs import ControlLog
from lightloom.control.loopback_http import LoopbackServer, Page
from lightloom.control.metrics import ControlMetrics
from lightloom.control.overview import overview
from lightloom.control.recording import Listener
from lightloom.control.refusals import RegionFileError
from lightloom.control.session import RegionSession

#: seconds for which a document is shown to all who ask: many readers cost as much as one
_FRESH_S = 1.0


@contextlib.asynccontextmanager
async def loopback_server(port: int | None, notify: Listener) -> AsyncIterator[LoopbackServer]:
    """Listen on a loopback port; None on none. Pages are added by whoever has them.

    Raises
    ------
    RegionFileError
        If the port is taken.
    """
    server = LoopbackServer({}, notify=notify)
    if port is not None:
        try:
            await server.start(port)
        except OSError as error:
            raise RegionFileError(
                f"serve.http_port {port}: cannot listen: {error.strerror or error}"
            ) from None
    try:
        yield server
    finally:
        await server.close()


def region_pages(
    session: RegionSession, metrics: ControlMetrics, log: ControlLog, text: str = ""
) -> dict[str, Callable[[], Page]]:
    """Return what makes each page of a region, by its path.

    Parameters
    ----------
    session
        What serves the region.
    metrics
        Its metrics; without a library that counts there is no ``/metrics``.
    log
        What knows the secrets that no page shows.
    text
        The page ``/`` (HTML), which reads ``/region.json``; without, there is none.
    """
    history = ChangeHistory(session.controller.journal)
    cached: tuple[float, Page] | None = None

    def document() -> Page:
        nonlocal cached
        now = asyncio.get_running_loop().time()
        if cached is None or now - cached[0] >= _FRESH_S:
            content = json.dumps(_masked(overview(session, history), log), allow_nan=False)
            cached = now, Page("application/json", content.encode())
        return cached[1]

    pages = {"/region.json": document}
    if text:
        pages["/"] = lambda: Page("text/html; charset=utf-8", text.encode())
    if metrics.is_counting:
        pages["/metrics"] = metrics.page
    else:
        log.write("no-metrics", {"text": "install prometheus-client: lightloom[control]"})
    return pages


def _masked(value: Any, log: ControlLog) -> Any:
    """A document without the secrets that a switch or a client may have said."""
    if isinstance(value, dict):
        return {name: _masked(item, log) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, log) for item in value]
    return log.masked(value) if isinstance(value, str) else value
