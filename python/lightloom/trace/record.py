"""Records what ranks of a training program communicate, without GPUs and without other ranks.

The program runs in its own Python, unmodified, as one rank after another of a job that does not
exist: process groups are made without peers, GPUs are answered for, floating-point tensors have no
data (see `recorder`). It may not write files or open connections, unless it is allowed to.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.demand import read_routing_log
from lightloom.demand.load_history import history_of_log
from lightloom.errors import InputError, LightloomError, echo
from lightloom.trace.job import missing_ranks
from lightloom.trace.trace import ProcessGroup, RankTrace, Trace, make_trace, rank_trace

RECORDER = Path(__file__).parent / "recorder"

#: starts the recorder as a package of its own, so that the program sees none of ours
_START = """
import importlib.util, os, sys
folder, specification = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "lightloom_recorder", folder + "/__init__.py", submodule_search_locations=[folder])
package = importlib.util.module_from_spec(spec)
sys.modules["lightloom_recorder"] = package
spec.loader.exec_module(package)
from lightloom_recorder.__main__ import main
main(specification)
os._exit(0)  # without what imported packages say of leaks when Python ends
"""

POLL_S = 0.05

#: times that ranks are added which those that are recorded have to hear
MAX_ROUNDS = 16

#: memory that is counted on for each rank that runs at a time
RANK_BYTES = 4 * 10**9

#: how long the recorder may take to end what it started
GRACE_S = 10.0

#: characters of a program's error and of its place
MAX_SHOWN = 400

#: files that are not the program's own
_LIBRARIES = re.compile(r"site-packages|/lib/python3|^<|/trace/recorder/")


#: called with a share and what is being done; ends the work by False
Progress = Callable[[float, str], bool | None]


class TraceError(LightloomError):
    """A program that could not be traced."""


class UnheardRankError(TraceError):
    """A recorded rank needs what one sends that is not recorded.

    Attributes
    ----------
    ranks
        Those that would have to be recorded, too.
    """

    def __init__(self, message: str, ranks: set[int]) -> None:
        super().__init__(message)
        self.ranks = ranks


@dataclass(frozen=True)
class TracedJob:
    """The job that a traced program believes to be part of.

    Attributes
    ----------
    world_size, local_world_size
        Ranks of the job, and of one server.
    device
        ``cuda``: the program finds a GPU; ``cpu``: it finds none.
    seed, skew
        Of the experts that tokens visit; see `recorder.oracle`.
    real
        Run really, the recorded ranks together, and only record. Where `device` is ``cuda``, GPUs
        are answered for, tensors are on the CPU, and all groups are of gloo.
    time_limit_s, memory_limit_bytes
        Of all ranks together, and of each.
    writable
        Folders that the program may write; others are left alone.
    network
        Whether it may open connections.
    processes
        Ranks that run at a time; 0 for as many as there are cores, and memory for.
    routing
        A routing log, by whose loads tokens visit experts instead.
    """

    world_size: int
    local_world_size: int = 8
    device: str = "cuda"
    seed: int = 0
    skew: float = 0.0
    real: bool = False
    time_limit_s: float = 600.0
    memory_limit_bytes: int = 8 * 10**9
    writable: tuple[Path, ...] = ()
    network: bool = False
    processes: int = 0
    routing: Path | None = None


def record(
    program: Sequence[str],
    job: TracedJob,
    ranks: Sequence[int] = (0,),
    progress: Progress | None = None,
) -> Trace:
    """Record ranks of a program.

    Parameters
    ----------
    program
        A command: ``python script.py ...``, ``python -m module ...`` or ``torchrun ... script.py``.
    job
        The job that it is part of.
    ranks
        Those that are recorded; rank 0, whose broadcasts steer the others, is always run.
    progress
        Called with the share of the ranks that are done.

    Returns
    -------
    Trace
        Of the ranks that were asked for.

    Raises
    ------
    InputError
        If the command or a rank cannot be traced.
    TraceError
        If the program fails, executes no training step, or takes too long.
    """
    return record_programs([program], job, ranks, progress)[0]


def record_programs(
    programs: Sequence[Sequence[str]],
    job: TracedJob,
    ranks: Sequence[int],
    progress: Progress | None = None,
) -> list[Trace]:
    """Record the same ranks of several programs, or of one with several arguments.

    As :func:`record`, which see; packages are imported once.
    """
    wrong = [rank for rank in ranks if not 0 <= rank < job.world_size]
    if wrong or not ranks:
        raise InputError(f"rank {wrong[:1] or '(none)'}: expected 0 to {job.world_size - 1}")
    order = sorted(set(ranks)) if job.real else sorted({0, *ranks})
    kept = [rank for rank in order if rank in ranks]
    with Recorder(programs, job, many=len(programs) * len(order) > 1) as recorder:
        for number in range(len(programs)):
            order = recorder.record_together(number, order, progress)
        return [recorder.trace(number, kept) for number in range(len(programs))]


def record_roles(
    programs: Sequence[Sequence[str]],
    job: TracedJob,
    others: Sequence[int] = (),
    progress: Progress | None = None,
    random_ranks: int = 0,
) -> list[Trace]:
    """Record one rank of each role.

    Rank 0 is recorded first; the groups that it notes tell which ranks act as it does. Until each
    role has a recorded rank, those that lack one are recorded too.

    Parameters
    ----------
    programs
        As of :func:`record`; several where the same job is recorded with several arguments. All
        have the roles of the first one.
    job, progress
        As of :func:`record`.
    others
        Ranks that are recorded in addition, to hold the expansion against.
    random_ranks
        How many more of these are drawn, by the seed of the job.

    Returns
    -------
    list[Trace]
        One of each program.

    Raises
    ------
    InputError, TraceError
        As by :func:`record`.
    """
    left = [rank for rank in range(1, job.world_size) if rank not in others]
    sampled = random.Random(job.seed).sample(left, min(random_ranks, len(left)))
    ranks, wanted = [0], [0]
    with Recorder(programs, job, many=True) as recorder:
        while wanted:
            recorder.record_together(0, wanted, progress)
            wanted = missing_ranks(recorder.trace(0, ranks))
            if len(ranks) == 1:
                wanted = sorted({*wanted, *others, *sampled} - {0})
            ranks = [*ranks, *wanted]
        ranks.sort()
        if any(rank.assumed for rank in recorder.trace(0, ranks).ranks.values()):
            # those that were recorded first did not hear the others
            recorder.record_together(0, ranks, progress)
        for number in range(1, len(programs)):
            recorder.record_together(number, ranks, progress)
        return [recorder.trace(number, ranks) for number in range(len(programs))]


def parse_numbers(text: str, option: str, also: str = "") -> list[int]:
    """Whole numbers from text such as ``0,3``.

    Raises
    ------
    InputError
        If it is no such text.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f"{option} {echo(text, quoted=False)}: expected numbers such as 0,3{also}")
    return [int(part) for part in parts]


def parse_ranks(
    text: str, world_size: int, option: str = "--rank", also: str = ", or all"
) -> list[int]:
    """Ranks from text such as ``0,3`` or ``all``; `also` says what else may be written.

    Raises
    ------
    InputError
        If it is neither, or names a rank that the job does not have.
    """
    if text == "all":
        return list(range(world_size))
    ranks = sorted(set(parse_numbers(text, option, also)))
    if ranks[-1] >= world_size:
        raise InputError(f"{option} {ranks[-1]}: the job has ranks 0 to {world_size - 1}")
    return ranks


def parse_roles(text: str, world_size: int) -> tuple[bool, list[int], int]:
    """Whether one rank of each role is meant, which ranks by number, and how many drawn ones.

    Raises
    ------
    InputError
        If text is neither as of :func:`parse_ranks` nor such as ``roles,3,random:2``.
    """
    first, *rest = (part.strip() for part in text.split(","))
    if first != "roles":
        return False, parse_ranks(text, world_size, also=", all, or roles"), 0
    drawn = [part.removeprefix("random:") for part in rest if part.startswith("random:")]
    numbers = ",".join(part for part in rest if not part.startswith("random:"))
    ranks = parse_ranks(numbers, world_size, also=", or random:2") if numbers else []
    if len(drawn) > 1:
        raise InputError(f"--rank {echo(text, quoted=False)}: expected random:NUMBER once")
    return True, ranks, sum(parse_numbers(text, "--rank roles,random:")[0] for text in drawn)


def split_command(program: Sequence[str]) -> tuple[str, list[str]]:
    """The interpreter of a command, and the script or module with its arguments.

    Raises
    ------
    InputError
        If it does not start Python.
    """
    expected = "expected python script.py ..., python -m module ... or torchrun ... script.py"
    if not program:
        raise InputError(f"no program: {expected}, after --")
    name = Path(program[0]).name
    if name == "torchrun":
        rest = list(program[1:])
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if option in ("-m", "--module"):
                return sys.executable, ["-m", *rest]
            if "=" not in option and rest and not rest[0].startswith("-") and option not in _FLAGS:
                rest.pop(0)
        return _script(sys.executable, rest, expected)
    if not name.startswith("python"):
        raise InputError(f"{echo(program[0])}: {expected}")
    python = shutil.which(program[0])
    if python is None:
        raise InputError(f"{echo(program[0])}: not found on the PATH")
    rest = list(program[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        if rest[0] == "-c":
            raise InputError("-c: code on the command line is not recorded; write it to a script")
        rest.pop(0)
    return _script(python, rest, expected)


#: options of torchrun without a value
_FLAGS = {"--standalone", "--no-python", "--no_python", "--run-path", "--run_path"}


def _script(python: str, rest: list[str], expected: str) -> tuple[str, list[str]]:
    if not rest or rest == ["-m"]:
        raise InputError(f"no script: {expected}")
    if rest[0] != "-m" and not Path(rest[0]).is_file():
        raise InputError(f"{echo(rest[0])}: no such script")
    return python, rest


def _write_routing(job: TracedJob, folder: Path) -> tuple[int, ...] | None:
    """Write the counts of the job's routing log to the folder; their shape."""
    if job.routing is None:
        return None
    log = read_routing_log(job.routing)
    counts = history_of_log(log, experts=log.experts or log.largest_expert + 1).counts
    (folder / "routing").write_bytes(counts.astype("float64").tobytes())
    return counts.shape


def _end(running: subprocess.Popen[bytes]) -> None:
    """End the recorder, which ends first what it started."""
    if running.poll() is None:
        running.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def _place(stack: Path) -> str:
    """Where the program is, by the stack that the recorder left, innermost first."""
    text = stack.read_text(encoding="utf-8", errors="replace") if stack.exists() else ""
    frames = re.findall(r'File "(.*)", line (\d+) in (\S+)', text)
    of_program = [frame for frame in frames if not _LIBRARIES.search(frame[0])]
    if not of_program:
        return ""
    name, line, function = of_program[0]
    return f", at {echo(f'{name}:{line} in {function}', quoted=False, limit=MAX_SHOWN)}"


def _read(
    record: dict[str, Any], rank: int, stack: Path
) -> tuple[RankTrace, list[tuple[str, list[int]]]]:
    """The recording of a rank, and the groups of the job."""
    if "killed" in record:
        raise TraceError(
            f"rank {rank} was killed, by signal {record['killed'] & 127}"
            f"{_place(stack)}: a crash, or more memory than the machine has"
        )
    if record.get("reason"):
        raise TraceError(f"rank {rank}: {echo(record['reason'], quoted=False, limit=MAX_SHOWN)}")
    if record["error"] or record["status"]:
        last = record["error"].strip().splitlines()[-1:] or [f"exit status {record['status']}"]
        where = f" at {record['place']}" if record.get("place") else ""
        why = echo(last[0] + where, quoted=False, limit=MAX_SHOWN)
        raise TraceError(f"rank {rank} failed: {why}; its traceback is above")
    if not record["steps"]:
        raise TraceError(
            f"rank {rank} ended without a training step: nothing called step() of an optimizer"
        )
    return rank_trace(rank, record), record.get("groups", [])


def _processes(memory_bytes: int) -> int:
    """Ranks that run at a time: one per core, as far as memory goes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, memory_bytes // RANK_BYTES))


def _check_routing(job: TracedJob, reports: Iterable[dict[str, Any]]) -> None:
    """Refuse a routing log that no gate of the program could follow."""
    if job.routing is None:
        return
    if not any(report["logged"] for report in reports):
        raise TraceError(
            f"{job.routing}: no gate of the program chooses among as many experts as the log has"
        )


class Recorder:
    """The recorder of a program, in the program's Python, which records rank after rank.

    Packages are imported once; each rank is recorded in a process that begins there.

    Parameters
    ----------
    programs
        Commands of the same interpreter.
    job
        The job that they are part of.
    many
        Whether it will be asked for more than one rank.
    """

    def __init__(
        self, programs: Sequence[Sequence[str]], job: TracedJob, *, many: bool = False
    ) -> None:
        self.programs, self.job = [tuple(map(str, program)) for program in programs], job
        self._folder = tempfile.TemporaryDirectory(prefix="lightloom-trace-")
        self.folder = Path(self._folder.name)
        self._known: dict[tuple[int, int], RankTrace] = {}
        #: counts requests, as the recorder does
        self._batch = 0
        self._groups: list[ProcessGroup] = []
        try:
            self._running = self._start(many)
        except BaseException:
            self._folder.cleanup()
            raise

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._close(GRACE_S if kind is None else 0.0)
        self._folder.cleanup()

    def record_together(
        self, program: int, ranks: Sequence[int], progress: Progress | None = None
    ) -> list[int]:
        """Record ranks of a program, and those that they have to hear; all that were recorded.

        Raises
        ------
        TraceError
            As by :meth:`record`.
        """
        for _ in range(MAX_ROUNDS):
            try:
                self.record([(program, rank) for rank in ranks], progress)
                return list(ranks)
            except UnheardRankError as error:
                if self.job.real or len(error.ranks | set(ranks)) > self.job.world_size:
                    raise
                needed, ranks = error, sorted(error.ranks | set(ranks))
        raise needed

    def record(self, runs: Sequence[tuple[int, int]], progress: Progress | None = None) -> None:
        """Record runs, given as the number of a program and a rank.

        Raises
        ------
        TraceError
            If one fails, executes no training step, or they take too long.
        """
        if not runs:
            return
        self._batch += 1
        assert self._running.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: told below
            self._running.stdin.write(json.dumps(runs).encode() + b"\n")
            self._running.stdin.flush()
        self._follow(runs, progress)
        reports: dict[tuple[int, int], Any] = {}
        for program, rank in runs:
            path = self._report(program, rank)
            if path.exists():
                reports[program, rank] = json.loads(path.read_text(encoding="utf-8"))
        unheard = [report for report in reports.values() if report.get("needs") is not None]
        if unheard:
            raise UnheardRankError(unheard[0]["reason"], {report["needs"] for report in unheard})
        # what hangs does so as another one has failed
        for run, report in sorted(reports.items(), key=lambda item: bool(item[1].get("hangs"))):
            if "left_out" not in report:
                self._take(*run, report)
        for run in runs:
            if run not in reports:
                raise TraceError(
                    f"rank {run[1]}: the recorder ended early; is PyTorch installed for the "
                    "program's Python?"
                )
        _check_routing(self.job, reports.values())

    def _report(self, program: int, rank: int) -> Path:
        return self.folder / f"{self._batch}-{program}-{rank}.json"

    def trace(self, program: int, ranks: Sequence[int]) -> Trace:
        """The recordings of ranks of a program."""
        kept = [self._known[program, rank] for rank in ranks]
        return make_trace(self.job.world_size, self.programs[program], kept, self._groups)

    def _take(self, program: int, rank: int, report: dict[str, Any]) -> None:
        stack = self._report(program, rank).with_suffix(".stack")
        recorded, groups = _read(report, rank, stack)
        self._known[program, rank] = recorded
        if groups and not self._groups:
            self._groups = [ProcessGroup(name, tuple(members)) for name, members in groups]

    def _start(self, many: bool) -> subprocess.Popen[bytes]:
        job = self.job
        commands = [split_command(program) for program in self.programs]
        specification = self.folder / "specification.json"
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        specification.write_text(
            json.dumps({
                "world_size": job.world_size, "local_world_size": job.local_world_size,
                "device": job.device, "seed": job.seed, "skew": job.skew, "many": many,
                "real": job.real, "programs": [script for _, script in commands],
                "folder": str(self.folder), "memory_limit_bytes": job.memory_limit_bytes,
                "network": job.network, "processes": job.processes or _processes(memory_bytes),
                "writable": [str(folder.resolve()) for folder in job.writable],
                "routing_shape": _write_routing(job, self.folder),
            }),
            encoding="utf-8",
        )  # fmt: skip
        return subprocess.Popen(
            [commands[0][0], "-c", _START, str(RECORDER), str(specification)],
            start_new_session=True, stdin=subprocess.PIPE, stdout=sys.stderr.fileno(),
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        )  # fmt: skip

    def _follow(self, runs: Sequence[tuple[int, int]], progress: Progress | None) -> None:
        """Wait until all runs have ended, or one has failed.

        Time counts once PyTorch and what the program imports first have been imported.
        """
        began = self.folder / "began"
        started = began.exists()
        end = time.monotonic() + self.job.time_limit_s
        left = list(runs)
        while self._running.poll() is None:
            while left and self._has_ended(left[0]):
                left.pop(0)
            if not left:
                return
            rank, done = left[0][1], len(runs) - len(left)
            shown = f"rank {rank}, {done + 1} of {len(runs)}" if len(runs) > 1 else f"rank {rank}"
            if progress is not None and progress(done / len(runs), shown) is False:
                raise KeyboardInterrupt
            if not started and began.exists():
                started, end = True, time.monotonic() + self.job.time_limit_s
            if time.monotonic() > end:
                _end(self._running)
                place = _place(self._report(*left[0]).with_suffix(".stack"))
                raise TraceError(
                    f"rank {rank} runs for more than {self.job.time_limit_s:g} s"
                    f"{place}: raise --timeout, or trace fewer steps"
                )
            time.sleep(POLL_S)

    def _has_ended(self, run: tuple[int, int]) -> bool:
        return self._report(*run).exists()

    def _close(self, patience_s: float) -> None:
        """End the recorder, by force after a while; nothing that it started is left."""
        if self._running.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._running.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._running.wait(patience_s)
        _end(self._running)
