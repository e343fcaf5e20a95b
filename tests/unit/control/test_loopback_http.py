"""Metrics over HTTP: what is answered, and floods of connections that say little or never read."""

import asyncio
import contextlib
import threading
import time

import pytest

from lightloom.control.loopback_http import LoopbackServer, Page
from lightloom.control.metrics import ControlMetrics
from lightloom.control.port_map import SwitchPort
from lightloom.control.switch import PortStatus

PAGES = {"/metrics": lambda: Page("text/plain; version=1", b"up 1\n")}


@contextlib.asynccontextmanager
async def listening(pages=PAGES, request_s=5.0):
    server = LoopbackServer(pages, request_s)
    port = await server.start(0)
    try:
        yield port
    finally:
        await server.close()


async def response_to(port, content):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(content)
    try:
        async with asyncio.timeout(4):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK", b"up 1\n"),
        (b"GET /metrics?name[]=a HTTP/1.0", b"200 OK", b"up 1\n"),
        (b"HEAD /metrics HTTP/1.1", b"200 OK", b""),
        (b"GET /../token HTTP/1.1", b"404 Not Found", b"Not Found\n"),
        (b"GET /\xff HTTP/1.1", b"404 Not Found", b"Not Found\n"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed", b"Method Not Allowed\n"),
        (b"GET /metrics", b"400 Bad Request", b"Bad Request\n"),
        (b"GET /metrics SPDY/3", b"400 Bad Request", b"Bad Request\n"),
        (b"", b"400 Bad Request", b"Bad Request\n"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 9000, b"431 Request Header", b"Request Header"),
    ],
)
def test_requests_and_their_answers(request_line, status, body):
    async def scenario():
        async with listening() as port:
            return await response_to(port, request_line + b"\r\nHost: localhost:1\r\n\r\n")

    head, _, content = asyncio.run(scenario()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nConnection: close" in head
    assert content.startswith(body)
    assert bool(content) == bool(body)


def test_half_sent_requests_make_no_threads_and_lock_nobody_out():
    async def scenario():
        async with listening() as port:
            before, writers = threading.active_count(), []
            for _ in range(1500):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /metrics HT")
                writers.append(writer)
            assert threading.active_count() == before
            assert (await response_to(port, b"GET /metrics HTTP/1.1\r\n\r\n")).endswith(b"up 1\n")
            for writer in writers:
                writer.transport.abort()

    asyncio.run(scenario())


def test_who_sends_or_reads_too_slowly_is_cut_off():
    async def scenario():
        large = {"/": lambda: Page("text/plain", bytes(1 << 26))}
        async with listening(large, request_s=0.1) as port:
            began = time.monotonic()
            assert await response_to(port, b"GET / HTTP/1.1\r\n") == b""
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.transport.pause_reading()
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0.3)
            writer.transport.resume_reading()
            with contextlib.suppress(ConnectionError):
                assert len(await reader.read()) < 1 << 26
            assert time.monotonic() - began < 20
            writer.close()

    asyncio.run(scenario())


def test_the_metrics_are_served_and_those_of_ports_that_are_gone_vanish():
    pytest.importorskip("prometheus_client")
    metrics = ControlMetrics("r0")
    first, second = SwitchPort("ocs", "1"), SwitchPort("ocs", "2")

    async def scenario():
        async with listening({"/metrics": metrics.page}) as port:
            return (await response_to(port, b"GET /metrics HTTP/1.1\r\n\r\n")).decode()

    metrics.observe_ports(
        {
            first: PortStatus("1", power_dbm=-2.5, loss_db=1.25),
            second: PortStatus("2", power_dbm=-3.5),
        }
    )
    text = asyncio.run(scenario())
    assert "Content-Type: text/plain; version=" in text
    assert text.count("lightloom_port_power_dbm{") == 2
    assert text.count("lightloom_port_loss_db{") == 1
    metrics.observe_ports({first: PortStatus("1", power_dbm=-2.5)})  # its circuit is gone
    text = metrics.text()
    assert text.count("lightloom_port_power_dbm{") == 1
    assert "lightloom_port_loss_db{" not in text
    metrics.observe_ports({})
    metrics.observe_ports({first: PortStatus("1", power_dbm=-2.0)})
    assert metrics.text().count("lightloom_port_power_dbm{") == 1
