"""Places in the code of a traced program."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from pathlib import Path

import torch

TORCH = str(Path(torch.__file__).parent)
HERE = str(Path(__file__).parent)
LIBRARY = os.path.dirname(os.__file__)
#: what computes for others, beside PyTorch
_NUMPY = str(Path(TORCH).parent / "numpy")

#: what PyTorch says without a GPU, where no function of ours answers
_NEEDS_GPU = (
    "NVIDIA driver", "CUDA GPUs", "compiled with CUDA", "CUDA error", "libcuda", "CUDA driver",
    "_cuda_", "torch.cuda",
)  # fmt: skip


def call_site() -> str:
    """The innermost place that is neither in PyTorch or NumPy nor here."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((TORCH, _NUMPY, HERE, "<")):
            return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


class RefusedError(PermissionError):
    """Something that a traced program may not do."""


class HangError(RefusedError):
    """A rank that waits for one that does not come."""


def place() -> str:
    """The innermost place in the user's own code."""
    frames = [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_stack()]
    return _innermost(frames)


def reason_of(problem: BaseException) -> str:
    """Why a program failed, in one line that begins with the place; what to do where it is known.

    Returns
    -------
    str
        Empty where the exception says enough.
    """
    if refusal := refusal_of(problem):
        return str(refusal)
    frames = [
        (frame.filename, frame.lineno, frame.name)
        for frame in traceback.extract_tb(problem.__traceback__)
    ]
    where = _innermost(frames)
    if isinstance(problem, MemoryError) or "can't allocate memory" in str(problem):
        return f"{where} takes more memory than --memory-limit allows: raise it, or trace less"
    if any(text in str(problem) for text in _NEEDS_GPU):
        call = _line(frames)
        return (
            f"{where} needs a GPU that answers more than a trace does ({call}): leave that call "
            "out, or trace it as on a machine without GPUs, by --device cpu"
        )
    return ""


def refusal_of(problem: BaseException) -> RefusedError | None:
    """What was refused, if that is why a program failed."""
    error: BaseException | None = problem
    while error is not None and not isinstance(error, RefusedError):
        error = error.__cause__ or error.__context__
    return error


def place_of(problem: BaseException) -> str:
    """The innermost place in the user's own code that an exception came through."""
    frames = traceback.extract_tb(problem.__traceback__)
    return _innermost([(frame.filename, frame.lineno, frame.name) for frame in frames])


def _is_own(name: str) -> bool:
    return not name.startswith((TORCH, HERE, LIBRARY, "<")) and "site-packages" not in name


def _innermost(frames: list[tuple[str, int | None, str]]) -> str:
    frames_of_program = [frame for frame in frames if _is_own(frame[0])]
    name, line, function = (frames_of_program or frames or [("", 0, "")])[-1]
    return f"{name}:{line} in {function}"


def _line(frames: list[tuple[str, int | None, str]]) -> str:
    frames_of_program = [frame for frame in frames if _is_own(frame[0])] or frames
    name, line, _ = frames_of_program[-1]
    return linecache.getline(name, line or 0).strip()
