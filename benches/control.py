"""Processor time from demand received to the first command sent, by servers of a region.

A request takes the whole path of the service but the socket: header checks, folding of ranks to
servers, decision, change, journal, and the command as the Polatis driver writes it. The switch is
emulated by a process of its own, whose time is not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lightloom.control.example import write_example
from lightloom.control.members import ServiceMember
from lightloom.control.running import open_region, running, short_collections
from lightloom.control.session import RegionSession
from lightloom.control.wire import Frame

NICS, RANKS, ROUNDS, WARM_UP = 6, 8, 120, 20
TARGET_MS = {8: 1.0, 32: 2.0, 64: 5.0}


async def latencies_of(servers: int) -> list[float]:
    """Processor seconds of each round in which circuits changed."""
    sent: list[float] = []
    write = asyncio.StreamWriter.write

    def note(self: asyncio.StreamWriter, data: bytes) -> None:
        if data.startswith((b"ENT-PATCH", b"DLT-PATCH")):
            sent.append(time.process_time())
        write(self, data)

    size = servers * NICS
    with tempfile.TemporaryDirectory() as folder, emulated_switch(size) as url:
        path = write_example(
            Path(folder), url, servers=servers, nics=NICS, size=size, when="always"
        )
        region = open_region(path, io.StringIO())
        async with running(region) as controller:
            session = RegionSession(controller)
            asyncio.StreamWriter.write = note  # type: ignore[method-assign]
            try:
                with short_collections():
                    return await rounds(session, servers * RANKS, sent)
            finally:
                asyncio.StreamWriter.write = write  # type: ignore[method-assign]


@contextlib.contextmanager
def emulated_switch(size: int) -> Iterator[str]:
    """Run an emulator whose mirrors settle at once; yield its URL."""
    options = [f"--size={size}x{size}", "--settle-time=0s", "--tl1-port=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lightloom", "ocs-emulator", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield next(line.split()[1] for line in process.stdout if "tl1" in line)
    finally:
        process.terminate()
        process.wait()


async def rounds(session: RegionSession, ranks: int, sent: list[float]) -> list[float]:
    """Requests with demands of which few pairs are large."""
    rng = np.random.default_rng(1)
    member = ServiceMember(None)  # type: ignore[arg-type]
    found = []
    for number in range(ROUNDS):
        demand = np.floor(rng.lognormal(12, 2, size=(ranks, ranks))).astype("<u8")
        frame = Frame({"op": "demand", "id": number, "step": number}, demand.tobytes())
        sent.clear()
        received = time.process_time()
        reply = await session.handle(member, frame)
        if sent and number >= WARM_UP:
            assert reply["result"] == "done", reply
            found.append(sent[0] - received)
    return found


def main() -> None:
    """Print a row per size."""
    print("| servers | ranks | 10th percentile [ms] | median [ms] | target [ms] | changes |")
    print("|---:|---:|---:|---:|---:|---:|")
    for servers, limit_ms in TARGET_MS.items():
        values = 1e3 * np.array(asyncio.run(latencies_of(servers)))
        best, median = np.percentile(values, [10, 50])
        row = [servers, servers * RANKS, f"{best:.2f}", f"{median:.2f}", limit_ms, len(values)]
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
