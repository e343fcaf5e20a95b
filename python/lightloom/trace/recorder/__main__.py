"""Records ranks of a program in the program's own Python; started by `lightloom.trace.record`."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import random
import resource
import runpy
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import Session


def prepare(spec: dict[str, Any]) -> None:
    """The environment that a launcher would set."""
    rank, world, local = spec["rank"], spec["world_size"], spec["local_world_size"]
    here = min(local, world - rank // local * local)  # the last server may have fewer ranks
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % local),
        "LOCAL_WORLD_SIZE": str(here), "GROUP_RANK": str(rank // local),
        "NODE_RANK": str(rank // local), "GROUP_WORLD_SIZE": str(-(-world // local)),
    }  # fmt: skip
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")


def record_rank(spec: dict[str, Any]) -> dict[str, Any]:
    """Set the environment, run the program as one rank and return what was recorded."""
    prepare(spec)
    if not spec["real"]:
        from .post import Post

        spec["post"] = Post(spec["told"], spec["rank"], spec["runs"])
    recorded = record(spec)
    if not spec["real"]:
        spec["post"].end()
    return recorded


def record(spec: dict[str, Any]) -> dict[str, Any]:
    """Run the program as one rank and return what was recorded."""
    import torch

    from .devices import PLACE, STREAMS
    from .groups import MADE
    from .guard import guard
    from .oracle import RoutingOracle
    from .peers import NeedsRankError, Peers
    from .phases import follow_phases
    from .places import HangError, place_of, reason_of, refusal_of
    from .processes import follow_forks
    from .session import Session, follow_threads
    from .stubs import USED
    from .values import Values

    log = None
    if spec["routing_shape"]:
        counts = bytearray((Path(spec["folder"]) / "routing").read_bytes())
        log = torch.frombuffer(counts, dtype=torch.float64).view(spec["routing_shape"])
    oracle = RoutingOracle(spec["rank"], spec["seed"], spec["skew"], log)
    peers = None if spec["real"] else Peers(spec["rank"], oracle, spec["post"])
    session = Session(None if peers is None else Values(oracle), peers, oracle)
    STREAMS.session = session
    PLACE[0] = spec["rank"] % spec["local_world_size"]
    follow_phases(session)
    follow_threads(session)
    note = Path(spec["folder"]) / f"{spec['name']}.forked"
    if not spec["real"]:
        follow_forks(session, note)
        guard(spec)
    error, status, reason, place, refusal = "", 0, "", "", None
    try:
        seed_all(spec["seed"])
        (Path(spec["folder"]) / "began").touch()
        with session:
            run_program(spec["program"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as problem:  # whatever a program raises is reported, not raised
        error, status = "".join(traceback.format_exception(problem)), 1
        reason, place = reason_of(problem), place_of(problem)
        refusal = refusal_of(problem)
        if refusal is None:
            print(f"rank {spec['rank']}: {error}", file=sys.stderr)
    if refusal is None and session.refusal is not None:  # in a thread of the program
        refusal, status, reason = session.refusal, 1, str(session.refusal)
    if note.exists():
        reason = note.read_text(encoding="utf-8")
    return {
        "error": error,
        "reason": reason,
        "place": place,
        "status": status,
        "steps": session.step + session.stepped,
        "calls": list(map(vars, session.calls)),  # nothing in them is copied, as asdict would
        "computes": computes_of(session),
        "stream_waits": session.computes.waits,
        "choices": choices_of(session),
        "invented": {} if session.values is None else dict(session.values.invented),
        "needs": refusal.rank if isinstance(refusal, NeedsRankError) else None,
        "hangs": isinstance(refusal, HangError),
        "routings": oracle.number,
        "logged": oracle.logged,
        "stubs": USED,
        "assumed": assumptions_of(session),
        "torch": torch.__version__,
        # rank 0 has those of all
        "groups": MADE if spec["rank"] == min(spec["runs"]) else [],
    }


def seed_all(seed: int) -> None:
    """What is drawn at random is drawn alike each time."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


def assumptions_of(session: Session) -> dict[str, int]:
    """What was assumed of other ranks and of data, and how often."""
    parts = [part.assumed for part in (session.peers, session.values) if part is not None]
    return dict(sum(parts, Counter()))


def computes_of(session: Any) -> list[dict[str, Any]]:
    """What was computed, up to the end."""
    session.computes.close()
    return list(map(vars, session.computes.entries))


def choices_of(session: Any) -> list[list[int]]:
    """Sizes of the choices of experts that calls stem from."""
    used = {call.routed for call in session.calls}
    rows = session.oracle.all_choices if session.oracle is not None else []
    return [[row.number, row.tokens, row.experts, row.each] for row in rows if row.number in used]


def spoof(spec: dict[str, Any]) -> None:
    """Answer for what is not there."""
    import torch

    from .autocast import spoof_autocast
    from .compiled import compile_nothing
    from .devices import spoof_devices, spoof_tensors
    from .groups import follow_groups, spoof_groups
    from .higher_order import register
    from .kernels import spoof_kernels
    from .stubs import install_stubs, replace_kernels
    from .uncompiled import leave_compiler_out

    follow_groups(spec["world_size"])
    if spec["real"] and spec["device"] == "cpu":
        return
    if not spec["real"]:
        leave_compiler_out(Path(spec["folder"]) / "compiler")
    spoof_groups(spec)
    if spec["device"] == "cpu":
        spoof_tensors("cpu")
    else:
        spoof_devices(spec["local_world_size"], spec["real"])
        replace_kernels(spec["real"])
    if not spec["real"]:
        spoof_kernels()
        spoof_autocast(spec["device"])
    install_stubs()
    register()
    torch.compile = compile_nothing


def import_once(spec: dict[str, Any]) -> None:
    """Import once what every rank would: the packages that a script imports before all else.

    Only installed packages: the program's own modules may do anything when they are imported.
    """
    from .oracle import RoutingOracle
    from .session import Session
    from .values import Values

    values = None if spec["real"] else Values(RoutingOracle(0))
    for name in first_imports(spec["programs"][0]):
        # a package that fails does so again in the program, which is told then
        with contextlib.suppress(Exception), Session(values, None, None):
            if is_installed(name):
                importlib.import_module(name)


def is_installed(name: str) -> bool:
    """Whether a module is of an installed package."""
    spec = importlib.util.find_spec(name.split(".", maxsplit=1)[0])
    folders = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    return any("site-packages" in str(folder) for folder in folders)


def first_imports(program: list[str]) -> list[str]:
    """The modules that a script imports before it does anything else."""
    path: Any = program[0]
    try:
        if path == "-m":
            spec = importlib.util.find_spec(program[1]) if is_installed(program[1]) else None
            path = spec and spec.origin
        statements = ast.parse(Path(path).read_bytes()).body
    except Exception:  # told when the program is run
        return []
    names: list[str] = []
    for number, line in enumerate(statements):
        if isinstance(line, ast.Import):
            names += [alias.name for alias in line.names]
        elif isinstance(line, ast.ImportFrom) and not line.level:
            names.append(str(line.module))
        elif number or not isinstance(line, ast.Expr):  # a script may begin with what it is for
            break
    return [name for name in names if name != "__future__"]


def run_program(program: list[str]) -> None:
    """Run a script, or a module after ``-m``, as Python would."""
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = program
    sys.path.insert(0, str(Path(program[0]).resolve().parent))
    runpy.run_path(program[0], run_name="__main__")


def main(specification: str) -> None:
    """Carry out the runs that lines of the standard input ask for, until it ends.

    A line is a list of runs, each the number of a program and a rank. What was recorded of each is
    written where the specification says.
    """
    from .processes import adopt_descendants
    from .runs import Runs

    spec = json.loads(Path(specification).read_text(encoding="utf-8"))
    adopt_descendants()
    runs = Runs(spec, record_rank)
    signal.signal(signal.SIGTERM, lambda *_: runs.give_up())
    resource.setrlimit(resource.RLIMIT_DATA, (spec["memory_limit_bytes"],) * 2)
    spoof(spec)
    import_once(spec)
    gc.freeze()  # else the ranks' collectors copy what they share
    for line in sys.stdin:
        runs.carry_out(json.loads(line))
