"""Runs commands as a user does: in this process for speed, or in one of its own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lightloom.cli import run_command

ROOT = Path(__file__).parents[3]
SMALL = (
    "compare mixtral-8x7b --gpus 128 --rate 400 --plan published --micro-batches 4 "
    "--seeds 1 --fabrics fat-tree,mixnet"
)


@dataclass(frozen=True)
class Outcome:
    """What a user sees."""

    status: int
    out: str
    err: str


@pytest.fixture
def lightloom(capsys):
    """Run a command in this process."""

    def run(*arguments):
        words = [word for argument in arguments for word in argument.split()]
        capsys.readouterr()
        status = run_command(words)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


@pytest.fixture
def refused(lightloom):
    """Run a command that must be refused; return its one line."""

    def run(*arguments):
        outcome = lightloom(*arguments)
        assert outcome.status == 2
        assert outcome.out == ""
        assert outcome.err.startswith("lightloom: ")
        assert outcome.err.count("\n") == 1
        return outcome.err.removeprefix("lightloom: ").rstrip("\n")

    return run


@pytest.fixture
def spawn():
    """Start a command in a process of its own."""
    started = []

    def run(command, **options):
        process = subprocess.Popen(
            [sys.executable, "-m", "lightloom", *command.split()],
            stderr=subprocess.PIPE,
            cwd=ROOT,
            **options,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
