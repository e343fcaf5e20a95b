"""Inject faults one at a time and say which of them no test notices.

Each room has a list of faults, ``benches/mutants/<room>.toml``::

    build = ["cargo", "test", "-p", "lightloom-execute", "--no-run"]   # optional
    test = ["cargo", "test", "-p", "lightloom-execute"]
    limit_s = 300                                                      # optional, per command

    [[fault]]
    name = "what a reader would call the mistake"
    file = "crates/execute/src/ledger.rs"
    find = "text that occurs once in the file"
    replace = "what stands there instead"
    count = 1                       # optional: so many occurrences, all of them replaced

A fault is *noticed* if the tests fail or run past the limit, *missed* if they pass, and *invalid*
if it does not build. The seconds that each took tell a failed test from tests that a busy machine
kept past the limit. The file is restored after each fault, also on Ctrl-C.

    python benches/mutants/run.py execute flowsim     # rooms; all of them without arguments
    python benches/mutants/run.py execute --only tor  # faults whose name or file contains "tor"
    python benches/mutants/run.py --names FILE        # faults that a file names, one a line
    python benches/mutants/run.py --sample 5 --seed 7 # five of each room, the same for each seed
    python benches/mutants/run.py --record            # write the rates to benches/MUTANTS.md
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
REPORT = ROOT / "benches" / "MUTANTS.md"
LIMIT_S = 600.0
#: what stands between the names of the report's columns and its rows
RULE = "|---|---|---|---|---|---|\n"

#: The same random cases each time, failures not made smaller, and nothing noted in the tree; and
#: the Python that runs this, whatever comes first on the path.
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "PROPTEST_RNG_SEED": "1",
    "PROPTEST_MAX_SHRINK_ITERS": "0",
    "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
}


class MutantsError(Exception):
    """A list that does not fit the code, or a tree that must not be touched."""


@dataclass(frozen=True)
class Fault:
    """One mistake: a text of a file, and what stands there instead."""

    name: str
    file: str
    find: str
    replace: str
    count: int = 1

    def inject(self, text: str) -> str:
        """The file's text with the mistake."""
        found = text.count(self.find)
        if found != self.count:
            raise MutantsError(
                f"'{self.name}': its text occurs {found} times in {self.file}, "
                f"expected {self.count}"
            )
        if self.find == self.replace:
            raise MutantsError(f"'{self.name}': it replaces its text by the same")
        return text.replace(self.find, self.replace)


@dataclass(frozen=True)
class Room:
    """A part of the code, how its tests are run, and its faults."""

    name: str
    test: list[str]
    build: list[str]
    limit_s: float
    faults: list[Fault]


def room_names() -> list[str]:
    """All rooms that have a list."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Room:
    """Read the list of a room."""
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        raise MutantsError(f"room '{name}': expected one of {', '.join(room_names())}")
    data = tomllib.loads(path.read_text())
    unknown = data.keys() - {"build", "test", "limit_s", "fault"}
    if unknown:
        raise MutantsError(f"{path.name}: unknown key '{min(unknown)}'")
    try:
        faults = [Fault(**fault) for fault in data["fault"]]
        test = data["test"]
    except (KeyError, TypeError) as error:
        raise MutantsError(f"{path.name}: {error}") from error
    names = [fault.name for fault in faults]
    if len(set(names)) < len(names):
        raise MutantsError(f"{path.name}: two faults have the same name")
    limit_s = float(data.get("limit_s", LIMIT_S))
    return Room(name, test, data.get("build", []), limit_s, faults)


def require_clean_tree(root: Path) -> None:
    """Refuse to start where an interrupted run could cost someone's changes."""
    command = ["git", "status", "--porcelain", "--untracked-files=no"]
    changed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    if changed:
        raise MutantsError(f"uncommitted changes: commit or stash them first\n{changed.rstrip()}")


@contextmanager
def injected(fault: Fault, root: Path) -> Iterator[None]:
    """Have a file contain a fault, and restore it whatever happens."""
    path = root / fault.file
    original = path.read_bytes()
    faulty = fault.inject(original.decode()).encode()
    try:
        path.write_bytes(faulty)
        yield
    finally:
        path.write_bytes(original)


def succeeds(command: Sequence[str], root: Path, limit_s: float) -> bool:
    """Whether a command ends well in time; its whole process group is ended with it."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command,
        cwd=root,
        env=os.environ | ENVIRONMENT,
        stdout=quiet,
        stderr=quiet,
        stdin=quiet,
        start_new_session=True,
    )
    try:
        return process.wait(limit_s) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def try_fault(room: Room, fault: Fault, root: Path) -> str:
    """Inject one fault and run the tests: noticed, missed or invalid."""
    with injected(fault, root):
        if room.build and not succeeds(room.build, root, room.limit_s):
            return "invalid"
        return "missed" if succeeds(room.test, root, room.limit_s) else "noticed"


@dataclass(frozen=True)
class Trial:
    """What became of faults of a room, by their names, and when and how long they were tried."""

    results: dict[str, str]
    date: str
    commit: str
    minutes: float

    def rate(self) -> str:
        """How many were noticed."""
        return f"{list(self.results.values()).count('noticed') / max(len(self.results), 1):.0%}"


def run_room(room: Room, faults: Sequence[Fault], root: Path) -> Trial:
    """Try faults of a room, and print the result of each as it comes."""
    command = ["git", "log", "-1", "--format=%h", "--abbrev=8"]
    commit = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    begin = time.monotonic()
    if not succeeds(room.test, root, LIMIT_S):
        raise MutantsError(f"{room.name}: its tests fail without any fault")
    results: dict[str, str] = {}
    for fault in faults:
        start = time.monotonic()
        results[fault.name] = try_fault(room, fault, root)
        seconds = time.monotonic() - start
        print(f"{room.name}: {results[fault.name]:8} {seconds:5.0f} s  {fault.name}", flush=True)
    trial = Trial(results, date, commit.strip(), (time.monotonic() - begin) / 60)
    print(
        f"{room.name}: {list(results.values()).count('noticed')} of {len(results)} noticed "
        f"({trial.rate()}), {trial.minutes:.0f} minutes",
        flush=True,
    )
    return trial


def with_names(rooms: Sequence[Room], path: Path) -> list[Room]:
    """Rooms with those of their faults that a file names, without those that have none."""
    try:
        names = {line.strip() for line in path.read_text().splitlines()} - {""}
    except OSError as error:
        raise MutantsError(f"--names {path}: {error.strerror}") from error
    unknown = names - {fault.name for room in rooms for fault in room.faults}
    if unknown:
        raise MutantsError(f"--names {path}: no fault '{min(unknown)}' in these rooms")
    chosen = [
        replace(room, faults=[fault for fault in room.faults if fault.name in names])
        for room in rooms
    ]
    return [room for room in chosen if room.faults]


def choose(room: Room, only: str, sample: int | None, seed: int) -> list[Fault]:
    """The faults of a room to try, in the order of its list."""
    faults = [fault for fault in room.faults if only in f"{fault.name} {fault.file}"]
    if sample is None or sample >= len(faults):
        return faults
    drawn = random.Random(f"{seed} {room.name}").sample(range(len(faults)), sample)
    return [faults[index] for index in sorted(drawn)]


def with_row(report: str, room: Room, trial: Trial) -> str:
    """The report with the room's row replaced, or added in the order of names."""
    results = trial.results
    missed = [name for name, result in results.items() if result != "noticed"]
    faults, tried = len(room.faults), len(results)
    cells = [
        f"`{room.name}`",
        str(faults) if tried == faults else f"{faults}, {tried} of them tried",
        str(tried - len(missed)),
        trial.rate(),
        f"{trial.date}, {trial.commit}, {max(trial.minutes, 1):.0f} min",
        "; ".join(missed) or "none",
    ]
    row = "| " + " | ".join(cells) + " |"
    rows = re.findall(r"^\| `.*\|$", report, re.MULTILINE)
    head, _, tail = report.partition(RULE)
    for old in rows:
        tail = tail.replace(f"{old}\n", "")
    kept = [old for old in rows if not old.startswith(f"| `{room.name}` ")]
    return f"{head}{RULE}" + "\n".join(sorted([*kept, row])) + f"\n{tail}"


def end_by_signal(number: int, _frame: object) -> NoReturn:
    """Let a signal end the run as Ctrl-C does, so that files are restored."""
    raise KeyboardInterrupt(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the faults of some rooms."""
    parser = argparse.ArgumentParser(description="Say which faults no test notices.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help="all rooms by default")
    parser.add_argument("--only", default="", metavar="TEXT", help="part of a fault's name or file")
    parser.add_argument("--names", type=Path, metavar="FILE", help="faults' names, one a line")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of each room, at random")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="S", help="of the sample (default 1)"
    )
    parser.add_argument("--record", action="store_true", help=f"write rates to {REPORT.name}")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, end_by_signal)
    try:
        if options.record and (options.only or options.names):
            raise MutantsError("--record is for whole rooms: leave --only and --names out")
        if options.sample is not None and options.sample < 1:
            raise MutantsError(f"--sample {options.sample}: expected 1 or more")
        rooms = [load(name) for name in options.rooms or room_names()]
        if options.names:
            rooms = with_names(rooms, options.names)
        require_clean_tree(ROOT)
        trials = {
            room.name: run_room(
                room, choose(room, options.only, options.sample, options.seed), ROOT
            )
            for room in rooms
        }
    except MutantsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; files are restored", file=sys.stderr)
        return 130
    if options.record:
        report = REPORT.read_text()
        for room in rooms:
            report = with_row(report, room, trials[room.name])
        REPORT.write_text(report)
    return int(any("invalid" in trial.results.values() for trial in trials.values()))


if __name__ == "__main__":
    sys.exit(main())
