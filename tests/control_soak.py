"""Random reconfigurations of an emulated switch with random faults, all from one seed.

Used by the tests (few) and by ``python -m tests.control_soak`` (many). After every change whose
state is known, switch, journal and controller must agree; cross-connects of others, and the ports
that the region does not own, must never be touched.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.control_neighbors import Neighborhood
from tests.control_regions import emulated, port_map_of, region_of

from lightloom.control.controller import RegionController
from lightloom.control.drivers import open_driver
from lightloom.control.emulator import Emulator, FaultKind, FaultScript, FixedTime
from lightloom.control.example import write_example
from lightloom.control.journal import ChangeReason, Journal
from lightloom.control.port_map import NicPair
from lightloom.control.refusals import StateError
from lightloom.control.report import RegionState
from lightloom.control.running import open_region, running
from lightloom.control.switch import Credentials, CrossConnect, SwitchError

SERVERS, NICS, SIZE = 6, 2, 16
OTHERS = {13: 29, 14: 30, 15: 31}
KINDS = (
    FaultKind.DENY,
    FaultKind.CUT_BEFORE,
    FaultKind.CUT_AFTER,
    FaultKind.SLOW,
    FaultKind.LATE,
    FaultKind.FRAGMENT,
    FaultKind.REPORT,
    FaultKind.POWER_LOSS,
)
#: without commands that are executed after the controller has read back
PROMPT = tuple(kind for kind in KINDS if kind is not FaultKind.LATE)


@dataclass
class Soak:
    """One run: what it did and what came of it."""

    seed: int
    results: Counter[str] = field(default_factory=Counter)


def random_circuits(rng: random.Random) -> frozenset[NicPair]:
    """A random matching of the region's NICs."""
    nics = [(server, nic) for server in range(SERVERS) for nic in range(NICS)]
    rng.shuffle(nics)
    pairs = zip(nics[::2], nics[1::2], strict=True)
    chosen = [sorted(ends) for ends in pairs if ends[0][0] != ends[1][0] and rng.random() < 0.8]
    return frozenset(NicPair(*a, *b) for a, b in chosen)


def check_others(emulator: Emulator) -> None:
    """Whatever is not the region's is as it was."""
    owned = {str(n) for n in range(1, SERVERS * NICS + 1)}
    owned |= {str(SIZE + n) for n in range(1, SERVERS * NICS + 1)}
    outside = {a: b for a, b in emulator.matrix.circuits.items() if not {str(a), str(b)} & owned}
    assert outside == OTHERS


def check_agreement(controller: RegionController, emulator: Emulator) -> None:
    """Switch, journal and controller agree."""
    present = [CrossConnect(str(a), str(b)) for a, b in emulator.matrix.circuits.items()]
    observed = controller.port_map.observe({"ocs": present})
    assert observed.circuits == controller.held
    assert controller.journal.held() in (None, controller.held)
    assert controller.journal.unfinished() == []


async def disturb(rng: random.Random, emulator: Emulator, soak: Soak) -> None:
    """Now and then somebody else acts on ports of the region, or a mirror is stuck."""
    draw = rng.random()
    if draw < 0.01:
        emulator.matrix.change([rng.randint(1, SERVERS * NICS)], [])
        soak.results["deleted by others"] += 1
    elif draw < 0.02:
        pair = rng.randint(1, SERVERS * NICS), SIZE + rng.randint(1, SERVERS * NICS)
        emulator.matrix.change([], [pair])
        soak.results["connected by others"] += 1
    elif draw < 0.03:
        emulator.matrix.stuck = {rng.randint(1, SERVERS * NICS)}
        soak.results["stuck"] += 1
    elif draw < 0.06:
        emulator.matrix.stuck = set()


async def one_change(controller: RegionController, wanted: frozenset[NicPair], soak: Soak) -> None:
    try:
        report = await controller.apply(wanted, ChangeReason("soak"))
        soak.results[report.result] += 1
        if report.result in {"done", "unchanged"}:
            assert controller.held == wanted
    except StateError:
        soak.results["refused: drifted"] += 1
    except SwitchError as error:
        soak.results[f"refused: {type(error).__name__}"] += 1


async def run(
    soak: Soak, changes: int, folder: Path, *, kinds: Sequence[FaultKind] = KINDS, rate: float = 0.2
) -> Soak:
    """Make random changes with random faults, then let faults end and check that all agree.

    Unless commands may be executed late, all must agree after every change as well.
    """
    rng = random.Random(soak.seed)
    faults = FaultScript((), rate=rate, kinds=kinds, seed=soak.seed)
    emulator = Emulator((SIZE, SIZE), seed=soak.seed, timing=FixedTime(0.0), faults=faults)
    journal = Journal(folder / "soak.sqlite", "r0")
    async with emulator:
        emulator.matrix.change([], list(OTHERS.items()))
        url = f"{emulator.url()}?reply_timeout_s=0.2"
        driver = open_driver(url, credentials=Credentials("admin", "root"))
        controller = RegionController(
            region_of(timeout_s=5.0, on_drift="reapply", conflicts="overwrite"),
            port_map_of(SERVERS, NICS, SIZE),
            {"ocs": driver},
            journal,
        )
        await controller.start()
        for _ in range(changes):
            await disturb(rng, emulator, soak)
            await one_change(controller, random_circuits(rng), soak)
            check_others(emulator)
            if FaultKind.LATE not in kinds and controller.state is RegionState.READY:
                check_agreement(controller, emulator)
        faults.set_rate(0)
        emulator.matrix.stuck = set()
        await asyncio.sleep(0.1)
        await controller.check()
        if controller.state is RegionState.DRIFTED:
            await controller.reapply(ChangeReason("soak", "in the end"))
        final = random_circuits(rng)
        assert (await controller.apply(final, ChangeReason("soak"))).after == final
        assert controller.state is RegionState.READY
        check_agreement(controller, emulator)
        check_others(emulator)
        await controller.close()
    journal.close()
    return soak


async def change_for_ever(path: Path, seed: int) -> None:
    """Make random changes until this process is killed."""
    rng = random.Random(seed)
    region = open_region(path)
    async with running(region) as controller:
        while True:
            if controller.state is not RegionState.READY:
                await controller.reapply(ChangeReason("soak", "after a restart"))
            await controller.apply(random_circuits(rng), ChangeReason("soak"))


def kill_at_random(folder: Path, kills: int, seed: int) -> int:
    """Kill a controller that changes circuits at random points; return the number of changes.

    Each restart must understand what it finds, and in the end all must agree.
    """
    rng = random.Random(seed)
    with emulated(SIZE, 0.01) as emulator:
        emulator.matrix.change([], list(OTHERS.items()))
        path = write_example(
            folder, emulator.url(), servers=SERVERS, nics=NICS, size=SIZE, name="r0"
        )
        for kill in range(kills):
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.control_soak"),
                    *("--child", str(path), "--seed", str(seed + kill)),
                ],
                stderr=subprocess.PIPE,
                text=True,
            )
            line = process.stderr.readline()
            assert '"event"' in line, line
            time.sleep(rng.uniform(0, 0.2))
            process.kill()
            _, log = process.communicate()
            assert "Traceback" not in log, log
            check_others(emulator)
        return asyncio.run(check_restart(path, emulator))


async def check_restart(path: Path, emulator: Emulator) -> int:
    """Start once more; switch, journal and controller agree. Return the number of changes."""
    region = open_region(path, io.StringIO())
    async with running(region) as controller:
        assert controller.state is RegionState.READY
        check_agreement(controller, emulator)
        return controller.journal.last(1)[0].id


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--child", type=Path)
    arguments = parser.parse_args()
    if arguments.child is not None:
        asyncio.run(change_for_ever(arguments.child, arguments.seed))
    for title, kinds in (("late commands included", KINDS), ("checked after each", PROMPT)):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            soak = Soak(arguments.seed)
            asyncio.run(run(soak, arguments.changes, Path(folder), kinds=kinds))
        seconds = time.perf_counter() - began
        print(f"{arguments.changes} changes, {title}, in {seconds:.0f} s: all agree")
        for result, count in sorted(soak.results.items()):
            print(f"  {result:32} {count:6}", flush=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        counts = asyncio.run(Neighborhood(arguments.seed, Path(folder)).run(arguments.changes))
    seconds = time.perf_counter() - began
    print(f"{arguments.changes} changes among others, mode safe, in {seconds:.0f} s: all agree")
    for result, count in sorted(counts.items()):
        print(f"  {result:32} {count:6}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        changes = kill_at_random(Path(folder), arguments.kills, arguments.seed)
    print(f"{arguments.kills} kills at random points of {changes} changes: all agree")


if __name__ == "__main__":
    main()
