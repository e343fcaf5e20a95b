"""Recorded steps as folders, which ``lightloom packets --scenario`` reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from lightloom.errors import OutputError
from lightloom.output.files import write_text
from lightloom.simulate import RecordedStep, Run


class _Done(Protocol):
    @property
    def run(self) -> Run: ...


def check_folder(folder: Path) -> None:
    """Fail early, before minutes of simulation, if a folder cannot be written.

    Raises
    ------
    OutputError
        If it cannot be made, or there is something in it. It is not made here.
    """
    try:
        is_used = folder.exists() and any(folder.iterdir())
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    except OSError as error:
        raise _unwritable(folder, error) from None
    if not there.is_dir():
        raise OutputError(f"{folder}: {there} is a file; choose another place")
    if not os.access(there, os.W_OK):
        raise OutputError(f"{there}: is not writable; choose another place")
    if is_used:
        raise OutputError(f"{folder}: there is something in it; choose an empty or a new folder")


def _unwritable(folder: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(f"{folder}: cannot write: {reason}; choose another place")


def write_recording(step: RecordedStep, folder: Path) -> None:
    """Write the files of a recorded step into a folder, which is made if need be.

    Raises
    ------
    OutputError
        If it cannot be written, or there is something in it.
    """
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    for name, text in step.files().items():
        write_text(text, folder / name)


def write_recordings(runs: Mapping[str, _Done], folder: Path) -> None:
    """Write the recorded step of each fabric into a folder of its own.

    Raises
    ------
    OutputError
        As :func:`write_recording`.
    """
    for fabric, done in runs.items():
        if done.run.recording is not None:
            write_recording(done.run.recording, folder / fabric.replace("/", "-"))
