"""A thousand faults: a job on a testbed whose parts fail at random, and is killed now and then.

    python -m tests.testbed_soak [--faults N] [--changes N] [--seed N]

First circuits change so many times under load, and no frame may be on its way into the dark. Then
all-to-alls run while NICs and cross-connects fail and come back, and ranks, the controller and the
control of the switch are killed (kill -9). Every all-to-all is compared row by row on every rank;
nothing may take longer than a limit. A job of which a rank was killed must end, each of the others
with one error, and the next one must begin with what the crash has left. Prints a line of counts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.torch_python import PYTHON, absent
from tests.unit.testbed.conftest import lacking

from lightloom.control.client import ControlClient
from lightloom.control.token import token_for
from lightloom.errors import LightloomError
from lightloom.testbed import Testbed
from lightloom.testbed.daemon import kill
from lightloom.testbed.parts import SWITCH
from lightloom.testbed.ranks import RankStatus, run_ranks
from lightloom.testbed.refusals import TestbedError
from lightloom.testbed.region import SOCKET, TOKENS
from lightloom.testbed.self_test import SwitchSession

PROGRAM = Path(__file__).parent / "unit" / "torch" / "circuits_job.py"
PACKAGE = Path(__file__).parents[1] / "python"
SERVERS = 4
SIZES = {"servers": SERVERS, "nics": 4, "eps_nics": 2, "rate_gbps": 0.1, "settle_time": "20ms"}
#: seconds of a job, and in which it must begin and end
JOB_S, LIMIT_S = 30.0, 90.0
#: seconds in which ranks say that one was lost
NOTICE_S = 25.0
#: seconds between faults, and until a part works again
BETWEEN_S, AWAY_S = (0.05, 0.4), (0.1, 1.5)
#: of faults; a rank is killed a few times in a hundred
WEIGHTS = {"nic": 40, "eps": 20, "circuit": 25, "controller": 3, "switch": 3, "rank": 3}
#: most parts that have failed at one time: what is left joins all servers
MOST_AWAY = 2


class SoakError(AssertionError):
    """What may not happen has happened."""


class Controller:
    """The service of a testbed's region, which may be killed and started again."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = ["control", "serve", str(self._testbed.region)]
        log = (self._testbed.folder / "control.log").open("a")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lightloom", *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True,
        )  # fmt: skip

    def keep(self) -> None:
        """As a service manager does: it ends where the switch does not answer as it starts."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def tell_repaired(self, part: str) -> None:
        """As an operator does, if it answers."""

        async def tell() -> None:
            token = token_for(self._testbed.folder / TOKENS)
            async with ControlClient(f"unix:{self._testbed.folder / SOCKET}", token) as client:
                await client.request("repair", parts=[part])

        with contextlib.suppress(LightloomError, OSError):
            asyncio.run(tell())

    def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Trouble:
    """Lets parts fail while a job runs, and repairs them."""

    def __init__(self, testbed: Testbed, controller: Controller, rng: random.Random) -> None:
        self._testbed, self._controller, self._rng = testbed, controller, rng
        self.counts: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self._away: list[tuple[float, str]] = []
        self.lost_rank: int | None = None

    def run(self, folder: Path, end: threading.Event, most: int) -> None:
        """Until the job ends, a rank was killed, or there were enough faults."""
        try:
            while not (folder / "begun").exists() and not end.wait(0.05):
                pass
            while not end.wait(self._rng.uniform(*BETWEEN_S)) and self.total < most:
                self._mend(time.monotonic())
                self._controller.keep()
                kinds = list(WEIGHTS)
                kind = self._rng.choices(kinds, [WEIGHTS[name] for name in kinds])[0]
                if self._let_fail(kind, folder):
                    self.counts[kind] += 1
                if self.lost_rank is not None:
                    break
        except BaseException as error:
            self.errors.append(error)
        finally:
            self._mend(float("inf"))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def _let_fail(self, kind: str, folder: Path) -> bool:
        rng, testbed = self._rng, self._testbed
        server = rng.randrange(SERVERS)
        if kind == "rank":
            self.lost_rank = server
            os.kill(int((folder / f"{server}.pid").read_text()), signal.SIGKILL)
        elif kind == "controller":
            self._controller.kill()
            time.sleep(rng.uniform(0.0, 0.5))
            self._controller.start()
        elif kind == "circuit":
            lit = testbed.circuits()
            if not lit or SWITCH in [part for _, part in self._away]:
                return False
            circuit = rng.choice(lit)
            optical = testbed.layout.optical_nics
            with contextlib.suppress(OSError, TestbedError), SwitchSession(testbed) as switch:
                # somebody deletes it behind the controller's back
                switch.tell(f"DLT-PATCH::{circuit.server * optical + circuit.nic + 1}:3:;")
        else:
            # what ranks agree on goes over eps0, so eps1 alone may be away
            names = {"nic": f"nic:{server}/{rng.randrange(2)}", "eps": f"eps:{server}/1"}
            part = names.get(kind, SWITCH)
            if len(self._away) >= MOST_AWAY or part in [other for _, other in self._away]:
                return False
            testbed.fail(part)
            self._away.append((time.monotonic() + rng.uniform(*AWAY_S), part))
        return True

    def _mend(self, now: float) -> None:
        for when, part in [one for one in self._away if one[0] <= now]:
            self._testbed.repair(part)
            if part != SWITCH:
                self._controller.tell_repaired(part)
            self._away.remove((when, part))


def run_job(
    testbed: Testbed, folder: Path, checks: str, *words: str, limit_s: float
) -> tuple[list[RankStatus], list[str]]:
    """Run the program in all servers within a limit."""
    said: list[str] = []
    found: list[list[RankStatus]] = []
    # the others have time to notice that a rank was killed, before they are told to end
    script = f'"$@"; status=$?; [ $status != 137 ] || sleep {NOTICE_S:g}; exit $status'
    program = [PYTHON, "-P", str(PROGRAM), "--folder", str(folder), "--checks", checks, *words]
    command = ["sh", "-c", script, "sh", *program]

    def run() -> None:
        found.append(run_ranks(testbed, command, said.append))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        # where each rank is, for who reads this
        kill(testbed._inside())
        raise SoakError(f"a job did not end within {limit_s:g} s:\n" + "\n".join(said[-60:]))
    return found[0], said


def change(testbed: Testbed, changes: int) -> dict[str, int]:
    """Change circuits under load."""
    with tempfile.TemporaryDirectory() as name:
        words = ("--changes", str(changes), "--timeout", "30")
        ended, said = run_job(testbed, Path(name), "fenced", *words, limit_s=60 + 3 * changes)
        if any(rank.status for rank in ended):
            raise SoakError("circuits changed, and:\n" + "\n".join(said[-60:]))
        return json.loads((Path(name) / "0.json").read_text())["fenced"]


def endure(testbed: Testbed, controller: Controller, rng: random.Random, most: int) -> Counter[str]:
    """Run one job until its time is up or a rank was killed; what happened."""
    trouble, end = Trouble(testbed, controller, rng), threading.Event()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        thread = threading.Thread(target=trouble.run, args=(folder, end, most))
        thread.start()
        begin = time.monotonic()
        try:
            words = ("--seconds", str(JOB_S), "--timeout", "20")
            ended, said = run_job(testbed, folder, "endured", *words, limit_s=LIMIT_S)
        finally:
            end.set()
            thread.join()
        if trouble.errors:
            raise trouble.errors[0]
        counts = trouble.counts + Counter(jobs=1)
        if trouble.lost_rank is None:
            if any(rank.status for rank in ended):
                raise SoakError("a job ended:\n" + "\n".join(said[-60:]))
            report = json.loads((folder / "0.json").read_text())["endured"]
            counts += Counter(all_to_alls=report["steps"], mended=report["mended"])
            counts["over_circuits"] = report["over_circuits"]
            counts["longest_ms"] = round(1e3 * report["longest_s"])
        else:
            told = [line for line in said if "RankError" in line]
            if not told:
                raise SoakError("no rank says that one was lost:\n" + "\n".join(said[-60:]))
            counts["ended_ms"] = round(1e3 * (time.monotonic() - begin))
        return counts


def soak(faults: int, changes: int, seed: int) -> None:
    """Change circuits, then let parts fail, and say what happened."""
    rng, total = random.Random(seed), Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="lightloom-") as folder,
        Testbed.up(Path(folder) / "testbed", **SIZES) as testbed,
    ):
        # cross-connects that somebody deletes are made again
        with testbed.region.open("a") as file:
            file.write('\n[change]\non_drift = "reapply"\n')
        controller = Controller(testbed)
        controller.start()
        try:
            if changes:
                print(json.dumps(change(testbed, changes)), flush=True)
            longest = 0
            while (done := sum(total[kind] for kind in WEIGHTS)) < faults:
                counts = endure(testbed, controller, rng, faults - done)
                longest = max(longest, counts.pop("longest_ms", 0))
                counts.pop("ended_ms", None)
                total += counts
                print(json.dumps({**total, "longest_ms": longest}), flush=True)
        finally:
            controller.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if reason := lacking() or ", ".join(absent("torch", "numpy", "pydantic")):
        print(f"no soak of a testbed: {reason}")
        return
    os.environ |= {"PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"}
    soak(given.faults, given.changes, given.seed)


if __name__ == "__main__":
    main()
