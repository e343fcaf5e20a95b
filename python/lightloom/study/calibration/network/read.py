"""One way to read a file of measurements, whatever wrote it."""

from __future__ import annotations

from pathlib import Path

from lightloom.errors import InputError
from lightloom.inputs.files import read_compressed, shown_path
from lightloom.inputs.formats import parse_json
from lightloom.progress import Progress
from lightloom.study.calibration.network import deep_ep, deep_ep_v2, nccl_tests, steps
from lightloom.study.calibration.network.readings import Given, Reading
from lightloom.trace.importers.open import Form, form_of

#: of a text
MAX_BYTES = 64 << 20


def readings_of(
    path: Path, given: Given, default_per_server: int, progress: Progress | None = None
) -> list[Reading]:
    """Read the output of NCCL's or DeepEP's tests, or steps of PyTorch's profiler.

    Parameters
    ----------
    path
        A file; of steps also a folder.
    given, default_per_server
        What the user says of GPUs, and GPUs of a server where nobody does.
    progress
        See :class:`~lightloom.progress.Progress`.

    Raises
    ------
    InputError
        If it is none of these, in one line.
    """
    name = shown_path(path)
    if path.is_dir() or _is_step(path):
        return steps.read_step(path, given, default_per_server, progress)
    content = read_compressed(path, "measurements", MAX_BYTES)
    if content.lstrip()[:1] == b"{":
        written = parse_json(content, name)
        table = written if isinstance(written, dict) else {}
        return nccl_tests.read_json(table, name, given, default_per_server)
    text = content.decode("utf-8", "replace")
    if deep_ep.MARK.search(text):
        return deep_ep.read_deep_ep(text, name, given, default_per_server)
    if deep_ep_v2.MARK.search(text):
        return deep_ep_v2.read_version_2(text, name)
    if nccl_tests.MARK.search(text):
        return nccl_tests.read_table(text, name, given, default_per_server)
    raise InputError(
        f"{name}: expected the output of NCCL's tests (a table of size, count and time), of "
        "DeepEP's ([tuning] Best dispatch), or a step of PyTorch's profiler (JSON)"
    )


def gpus_named(path: Path) -> set[str]:
    """What a file calls its GPUs; of NCCL's tests alone, which say it.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if path.is_dir() or _is_step(path):
        return set()
    content = read_compressed(path, "measurements", MAX_BYTES)
    if content.lstrip()[:1] != b"{":
        return nccl_tests.gpus_named(content.decode("utf-8", "replace").splitlines())
    written = parse_json(content, shown_path(path))
    return nccl_tests.gpus_named(nccl_tests.lines_of(written, shown_path(path)))


def _is_step(path: Path) -> bool:
    """Whether a file is a trace of PyTorch's profiler, by its first bytes."""
    try:
        return form_of(path) is Form.KINETO
    except InputError:
        return False
