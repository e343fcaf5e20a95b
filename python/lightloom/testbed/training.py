"""Trains a small GPT with experts in a testbed, over circuits that its controller changes.

The program is :mod:`lightloom.torch.train_gpt`: it runs in a Python with PyTorch, a process per
rank, and prints a line of JSON per step.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lightloom.control.service import is_served
from lightloom.testbed.ranks import run_ranks
from lightloom.testbed.refusals import TestbedError
from lightloom.testbed.region import SOCKET
from lightloom.testbed.service import serving
from lightloom.testbed.testbed import Testbed

_PROGRAM = "lightloom.torch.train_gpt"
_PACKAGE = Path(__file__).parents[2]
#: a warning of Python, and what it says
_WARNING = re.compile(r"\b[A-Z]\w*Warning: (.+)")


@dataclass(frozen=True)
class TrainedStep:
    """One step of the training, as its first rank saw it.

    Attributes
    ----------
    step, loss
        Which one, and the mean loss over ranks before it.
    step_time_s, all_to_all_s
        Seconds of the step, and of its all-to-alls, combines and gradients of both.
    exposed_s
        Seconds for decisions and changes of circuits that nothing hid.
    circuits
        Circuits of the last all-to-all.
    all_to_alls
        Each of them: its name, layer, begin and end, bytes to other servers and circuits.
    """

    step: int
    loss: float
    step_time_s: float
    all_to_all_s: float
    exposed_s: float
    circuits: int
    all_to_alls: list[dict[str, float | int | str | None]]

    @classmethod
    def of(cls, line: str) -> TrainedStep:
        """Read what the program prints."""
        facts = json.loads(line)
        moved = facts["all_to_alls"]
        return cls(
            step=facts["step"],
            loss=facts["loss"],
            step_time_s=facts["step_time_s"],
            all_to_all_s=sum(record["end_s"] - record["begin_s"] for record in moved),
            exposed_s=facts["exposed_s"],
            circuits=moved[-1]["circuits"] if moved else 0,
            all_to_alls=moved,
        )


def train(
    testbed: Testbed,
    *,
    steps: int,
    policy: str,
    python: str,
    say: Callable[[TrainedStep], None],
    warn: Callable[[str], None] = lambda _text: None,
) -> list[TrainedStep]:
    """Train in the servers of a testbed; return its steps.

    Parameters
    ----------
    testbed
        Where; its circuits are served meanwhile, unless they already are.
    steps, policy
        How many, and what circuits do: ``break-even``, ``never`` or ``packets``.
    python
        A Python with PyTorch.
    say
        Called with each step when it has ended.
    warn
        Called with what the first rank warns of.

    Raises
    ------
    TestbedError
        If the program does not run.
    """
    found: list[TrainedStep] = []
    others: list[str] = []

    def read(line: str) -> None:
        rank, _, text = line.partition(" ")
        if rank == "[0]" and text.startswith('{"step"'):
            found.append(TrainedStep.of(text))
            say(found[-1])
        else:
            others.append(line)
            if rank == "[0]" and (warning := _WARNING.search(text)):
                warn(warning[1])

    words = [python, "-P", "-m", _PROGRAM, "--steps", str(steps)]
    with _variables(policy), _served(testbed, policy):
        ended = run_ranks(testbed, words, read)
    if any(rank.status for rank in ended):
        errors = [line for line in others if "Error" in line] or others or ["no reason"]
        raise TestbedError(f"the training ended: {errors[0]}")
    return found


@contextlib.contextmanager
def _served(testbed: Testbed, policy: str) -> Iterator[None]:
    """Serve circuits, unless nobody asks for them or they are served already."""
    # a controller that was killed has left its socket
    if policy == "packets" or asyncio.run(is_served(testbed.folder / SOCKET)):
        yield
    else:
        with serving(testbed):
            yield


@contextlib.contextmanager
def _variables(policy: str) -> Iterator[None]:
    """Variables for the ranks, which may run in a Python without this package."""
    path = os.pathsep.join(filter(None, [str(_PACKAGE), os.environ.get("PYTHONPATH")]))
    wanted = {"LIGHTLOOM_POLICY": policy, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def default_python() -> str:
    """The Python that runs this."""
    return sys.executable
