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
        If it cannot be made, or there is something in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_used = any(folder.iterdir())
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{folder}: cannot write: {reason}; choose another place") from None
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{folder}: is not writable; choose another place")
    if is_used:
        raise OutputError(f"{folder}: there is something in it; choose an empty or a new folder")


def write_recording(step: RecordedStep, folder: Path) -> None:
    """Write the files of a recorded step into a folder, which is made if need be.

    Raises
    ------
    OutputError
        If it cannot be written, or there is something in it.
    """
    check_folder(folder)
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
