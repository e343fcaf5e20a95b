"""Records ranks of a program in the program's own Python; started by `lightloom.trace.record`."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any


def prepare(spec: dict[str, Any]) -> None:
    """The environment that a launcher would set."""
    rank, world, local = spec["rank"], spec["world_size"], spec["local_world_size"]
    os.environ |= {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % local),
        "LOCAL_WORLD_SIZE": str(local), "GROUP_RANK": str(rank // local),
        "NODE_RANK": str(rank // local), "GROUP_WORLD_SIZE": str(-(-world // local)),
    }  # fmt: skip
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")


def record(spec: dict[str, Any]) -> dict[str, Any]:
    """Run the program and return what was recorded."""
    import torch

    from .groups import MADE
    from .oracle import RoutingOracle
    from .peers import Peers
    from .phases import follow_phases
    from .session import Session
    from .values import Values

    oracle = RoutingOracle(spec["rank"], spec["seed"], spec["skew"])
    if spec["real"]:
        session = Session(None, None, oracle)
    else:
        peers = Peers(spec["rank"], oracle, spec.get("heard"))
        session = Session(Values(oracle), peers, oracle)
    stubs = spoof(spec, session)
    follow_phases(session)
    error, status = "", 0
    try:  # what is drawn at random is drawn alike each time
        torch.manual_seed(spec["seed"])
        with session:
            run_program(spec["program"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as problem:  # whatever a program raises is reported, not raised
        error, status = "".join(traceback.format_exception(problem)), 1
        print(f"rank {spec['rank']}: {error}", file=sys.stderr)
    return {
        "error": error,
        "status": status,
        "steps": session.step + session.stepped,
        "calls": [dataclasses.asdict(call) for call in session.calls],
        "invented": {} if session.values is None else dict(session.values.invented),
        "said": {} if session.peers is None else session.peers.said,
        "routings": oracle.number,
        "stubs": stubs,
        "alike": 0 if session.peers is None else session.peers.alike,
        "torch": torch.__version__,
        # the first rank's are those of all
        "groups": MADE if spec["rank"] == spec["ranks"][0] else [],
    }


def spoof(spec: dict[str, Any], session: Any) -> list[str]:
    """Answer for what is not there; return the list of absent packages, which grows."""
    import torch

    if spec["real"] and spec["device"] == "cpu":
        return []
    from .devices import STREAMS, spoof_devices, spoof_tensors
    from .groups import spoof_groups
    from .stubs import USED, install_stubs

    spoof_groups(spec["rank"], spec["world_size"], spec["real"])
    if spec["device"] == "cpu":
        spoof_tensors("cpu", [0])
    else:
        local = spec["local_world_size"]
        spoof_devices(spec["rank"] % local, local, spec["real"])
    install_stubs()
    STREAMS.session = session
    torch.compile = lambda model=None, *_, **__: model if model is not None else (lambda f: f)
    return USED


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
    """Record each rank in a process of its own, which begins where PyTorch has been imported.

    Rank after rank is recorded, since what the first ones broadcast is what the others hear; really
    they run together. What was recorded of each is written where the specification says.
    """
    import torch
    import torch.distributed
    import torch.utils._python_dispatch

    spec = json.loads(Path(specification).read_text(encoding="utf-8"))
    if len(spec["ranks"]) > 1:
        import torch._dynamo  # noqa: F401 - optimizers import it, which takes more seconds
    resource.setrlimit(resource.RLIMIT_DATA, (spec["memory_limit_bytes"],) * 2)
    if spec["real"]:
        started = [(rank, start(spec, rank, {})) for rank in spec["ranks"]]
        for rank, child in started:
            finish(spec, rank, child)
        return
    heard: dict[str, list[Any]] = {}
    for rank in spec["ranks"]:
        found = finish(spec, rank, start(spec, rank, heard))
        if "killed" in found:
            return
        heard.update(found.get("said", {}))


def start(spec: dict[str, Any], rank: int, heard: dict[str, list[Any]]) -> int:
    """Record a rank in a new process, whose number is returned."""
    child = os.fork()
    if child:
        return child
    one = spec | {"rank": rank, "heard": heard}
    prepare(one)
    found = record(one)
    output = Path(spec["folder"]) / f"{rank}.json"
    part = output.with_suffix(".part")
    part.write_text(json.dumps(found), encoding="utf-8")
    part.rename(output)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def finish(spec: dict[str, Any], rank: int, child: int) -> dict[str, Any]:
    """What a process recorded, once it has ended."""
    output = Path(spec["folder"]) / f"{rank}.json"
    _, status = os.waitpid(child, 0)
    if not output.exists():
        output.write_text(json.dumps({"killed": status}), encoding="utf-8")
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return found
