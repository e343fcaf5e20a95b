"""Records what ranks of a training program communicate, without GPUs and without other ranks.

The program runs in its own Python, unmodified, as one rank after another of a job that does not
exist: process groups are made without peers, GPUs are answered for, floating-point tensors have no
data (see `recorder`). It may not write files or open connections, unless it is allowed to.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

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

#: how long the recorder may take to end what it started
GRACE_S = 10.0

#: characters of a program's error and of its place
MAX_SHOWN = 400

#: files that are not the program's own
_LIBRARIES = re.compile(r"site-packages|/lib/python3|^<|/trace/recorder/")


class TraceError(LightloomError):
    """A program that could not be traced."""


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


def record(
    program: Sequence[str],
    job: TracedJob,
    ranks: Sequence[int] = (0,),
    progress: Callable[[float, str], bool | None] | None = None,
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
    python, script = split_command(program)
    wrong = [rank for rank in ranks if not 0 <= rank < job.world_size]
    if wrong or not ranks:
        raise InputError(f"rank {wrong[:1] or '(none)'}: expected 0 to {job.world_size - 1}")
    order = list(ranks) if job.real else sorted({0, *ranks})
    with tempfile.TemporaryDirectory(prefix="lightloom-trace-") as folder:
        specification = Path(folder) / "specification.json"
        specification.write_text(
            json.dumps({
                "world_size": job.world_size, "local_world_size": job.local_world_size,
                "ranks": order, "device": job.device, "seed": job.seed, "skew": job.skew,
                "real": job.real, "program": script, "folder": folder,
                "memory_limit_bytes": job.memory_limit_bytes, "network": job.network,
                "writable": [str(folder.resolve()) for folder in job.writable],
            }),
            encoding="utf-8",
        )  # fmt: skip
        _run(
            [python, "-c", _START, str(RECORDER), str(specification)], job, order, folder, progress
        )
        found = [_read(Path(folder) / f"{rank}.json", rank) for rank in order]
    groups = [ProcessGroup(name, tuple(members)) for name, members in found[0][1]]
    kept = (one for one, _ in found if one.rank in ranks)
    return make_trace(job.world_size, program, kept, groups)


def record_roles(
    program: Sequence[str],
    job: TracedJob,
    others: Sequence[int] = (),
    progress: Callable[[float, str], bool | None] | None = None,
) -> Trace:
    """Record one rank of each role.

    Rank 0 is recorded first; the groups that it notes tell which ranks act as it does. Until each
    role has a recorded rank, those that lack one are recorded too.

    Parameters
    ----------
    program, job, progress
        As of :func:`record`.
    others
        Ranks that are recorded in addition, to hold the expansion against.

    Raises
    ------
    InputError, TraceError
        As by :func:`record`.
    """
    ranks = sorted({0, *others})
    while True:
        trace = record(program, job, ranks, progress)
        missing = missing_ranks(trace)
        if not missing:
            return trace
        ranks = sorted({*ranks, *missing})


def parse_ranks(text: str, world_size: int, option: str = "--rank") -> list[int]:
    """Ranks from text such as ``0,3`` or ``all``.

    Raises
    ------
    InputError
        If it is neither, or names a rank that the job does not have.
    """
    if text == "all":
        return list(range(world_size))
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(
            f"{option} {echo(text, quoted=False)}: expected numbers such as 0,3, or all"
        )
    ranks = sorted({int(part) for part in parts})
    if ranks[-1] >= world_size:
        raise InputError(f"{option} {ranks[-1]}: the job has ranks 0 to {world_size - 1}")
    return ranks


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


def _run(
    command: list[str], job: TracedJob, ranks: list[int], folder: str,
    progress: Callable[[float, str], bool | None] | None,
) -> None:  # fmt: skip
    """Run the recorder to its end; nothing that it started is left.

    Time counts once PyTorch and what the program imports first have been imported.
    """
    stack, began = Path(folder) / "stack", Path(folder) / "began"
    started = False
    end = time.monotonic() + job.time_limit_s
    running = subprocess.Popen(
        command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(),
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    try:
        while running.poll() is None:
            done = sum((Path(folder) / f"{rank}.json").exists() for rank in ranks)
            rank = ranks[min(done, len(ranks) - 1)]
            if progress is not None and progress(done / len(ranks), f"rank {rank}") is False:
                raise KeyboardInterrupt
            if not started and began.exists():
                started, end = True, time.monotonic() + job.time_limit_s
            if time.monotonic() > end:
                _end(running)
                raise TraceError(
                    f"rank {rank} runs for more than {job.time_limit_s:g} s"
                    f"{_place(stack)}: raise --timeout, or trace fewer steps"
                )
            time.sleep(POLL_S)
    finally:
        _end(running)


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
    found = re.findall(r'File "(.*)", line (\d+) in (\S+)', text)
    own = [one for one in found if not _LIBRARIES.search(one[0])]
    if not own:
        return ""
    name, line, function = own[0]
    return f", at {echo(f'{name}:{line} in {function}', quoted=False, limit=MAX_SHOWN)}"


def _read(path: Path, rank: int) -> tuple[RankTrace, list[tuple[str, list[int]]]]:
    """The recording of a rank, and the groups of the job."""
    if not path.exists():
        raise TraceError(
            f"rank {rank}: the recorder ended early; is PyTorch installed for the program's Python?"
        )
    found = json.loads(path.read_text(encoding="utf-8"))
    if "killed" in found:
        raise TraceError(
            f"rank {rank} was killed, by signal {found['killed'] & 127}"
            f"{_place(path.with_name('stack'))}: a crash, or more memory than the machine has"
        )
    if found.get("reason"):
        raise TraceError(f"rank {rank}: {echo(found['reason'], quoted=False, limit=MAX_SHOWN)}")
    if found["error"] or found["status"]:
        last = found["error"].strip().splitlines()[-1:] or [f"exit status {found['status']}"]
        where = f" at {found['place']}" if found.get("place") else ""
        why = echo(last[0] + where, quoted=False, limit=MAX_SHOWN)
        raise TraceError(f"rank {rank} failed: {why}; its traceback is above")
    if not found["steps"]:
        raise TraceError(
            f"rank {rank} ended without a training step: nothing called step() of an optimizer"
        )
    return rank_trace(rank, found), found.get("groups", [])
