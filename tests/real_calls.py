"""Calls of real runs over gloo, as PyTorch's process groups tell them, to hold traces against."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.torch_python import PYTHON

from lightloom.trace.check import disagreements
from lightloom.trace.record import TracedJob, record

WATCH = Path(__file__).parent / "unit/trace/really.py"


class Told(NamedTuple):
    """A call by what traces and process groups both tell of it."""

    op: str
    ranks: list[int]
    other: int | None
    input_bytes: int
    output_bytes: int
    dtype: str


def told(op, ranks, other, input_bytes, output_bytes, dtype):
    """A call; what is the same going in and out is told once."""
    if op == "barrier":
        return Told(op, ranks, None, 0, 0, "")
    if op in ("all_reduce", "broadcast", "reduce"):
        output_bytes = input_bytes
    if op in ("send", "receive"):
        input_bytes = output_bytes = max(input_bytes, output_bytes)
    return Told(op, ranks, other, input_bytes, output_bytes, dtype)


def traced(call):
    """A call of a trace."""
    other = call.peer if call.op in ("send", "receive") else call.root
    return told(call.op, list(call.ranks), other, call.input_bytes, call.output_bytes, call.dtype)


def real_calls(folder, command, ranks, limit_s=300.0):
    """What the groups of each rank were asked to do in a real run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = []
    for rank in range(ranks):
        job = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}  # fmt: skip
        arguments = [PYTHON, WATCH, folder / f"{rank}.json", *command]
        environment = os.environ | {name: str(value) for name, value in job.items()}
        with (folder / f"{rank}.err").open("w") as said:
            running.append(
                subprocess.Popen(
                    list(map(str, arguments)), cwd=folder,
                    env=environment, stdout=subprocess.DEVNULL, stderr=said,
                )
            )  # fmt: skip
    try:
        for process in running:
            process.wait(limit_s)
    finally:
        for process in running:
            process.kill()
            process.wait()
    said = [(folder / f"{rank}.err").read_text() for rank in range(ranks)]
    assert not any("Traceback" in text for text in said), said
    return [
        [told(**note) for note in json.loads((folder / f"{rank}.json").read_text())]
        for rank in range(ranks)
    ]


def compared(folder, command, ranks, limit_s=300.0):
    """A trace of all ranks, and each rank's calls of the trace and of a real run, side by side."""
    job = TracedJob(ranks, device="cpu", time_limit_s=limit_s)
    trace = record([PYTHON, *command], job, range(ranks))
    assert disagreements(trace) == []
    pairs = []
    for rank, real in enumerate(real_calls(folder, command, ranks, limit_s)):
        of_rank = []
        for call, other in zip(map(traced, trace.ranks[rank].calls), real, strict=True):
            # a message from any rank has no sender until it is there
            is_open = other.op == "receive" and other.other is None
            of_rank.append((call._replace(other=None) if is_open else call, other))
        pairs.append(of_rank)
    return trace, pairs
