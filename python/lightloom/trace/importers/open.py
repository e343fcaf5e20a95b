"""Any trace by its path: what it is, is told by what it holds and not by its name."""

from __future__ import annotations

import json
import re
import zlib
from enum import StrEnum
from pathlib import Path

from lightloom.demand.routed_experts import is_routed_experts
from lightloom.errors import InputError
from lightloom.inputs.files import open_file, read_compressed, shown_path
from lightloom.progress import Progress
from lightloom.trace.importers.chakra import read_chakra
from lightloom.trace.importers.execution_trace import FORM, read_execution_traces
from lightloom.trace.importers.imported import Imported
from lightloom.trace.importers.kineto import read_kineto
from lightloom.trace.importers.simai import read_simai
from lightloom.trace.trace import FORMAT, MAX_FILE_BYTES, read_trace

#: of a file that are looked at first
_HEAD_BYTES = 1 << 20
#: of a routing log, which may be larger than what else is read
_MAX_BYTES = 64 * 10**9
#: a line of a routing log has one of these
_ROUTING_KEYS = {"row_type", "topk_ids", "top_indices", "tpe"}
_TABLE = re.compile(rb"[A-Z][A-Z_]+[ \t\r\n]")
#: what PyTorch calls the schema of its execution traces
_EXECUTION = re.compile(rb'"schema"\s*:\s*"\d+\.\d+\.\d+[\w.-]*"')
_KNOWN = (
    "a trace of lightloom trace record, Chakra execution traces, a profile or an execution trace "
    "of PyTorch, a layer table of SimAI, or a routing log"
)


class Form(StrEnum):
    """What a trace can be."""

    RECORDED = "lightloom trace record"
    CHAKRA = "Chakra execution trace"
    KINETO = "PyTorch profiler (Kineto)"
    EXECUTION = FORM
    SIMAI = "SimAI layer table"
    ROUTING = "routing log"


#: of JSON, what only one form has
_MARKS = {
    f'"{FORMAT}"'.encode(): Form.RECORDED,
    b'"traceEvents"': Form.KINETO,
    b'"workload_graph"': Form.CHAKRA,
    b'"node_type"': Form.CHAKRA,
}


def form_of(path: Path) -> Form:
    """Say what a file or a folder holds.

    Raises
    ------
    InputError
        If it cannot be read, is empty, or nothing that is known.
    """
    name = shown_path(path)
    if path.is_dir():
        return _form_of_folder(path, name)
    head = _head(path)
    if not head.strip():
        raise InputError(f"{name}: is empty; expected {_KNOWN}")
    if head[257:262] == b"ustar" or path.suffix == ".et":
        return Form.CHAKRA
    if _TABLE.match(head):
        return Form.SIMAI
    if is_routed_experts(path):
        return Form.ROUTING
    if head.lstrip()[:1] in (b"{", b"["):
        if _is_routing(head):
            return Form.ROUTING
        content = read_compressed(path, "trace", MAX_FILE_BYTES)
        places = [(content.find(mark), form) for mark, form in _MARKS.items() if mark in content]
        if places:
            return min(places)[1]
        if _EXECUTION.search(content) and b'"nodes"' in content:
            return Form.EXECUTION
        if content.lstrip()[:1] == b"[" and b'"ph"' in content:
            return Form.KINETO
    elif head[:1] < b" ":
        # the length of the metadata, with which a Chakra trace begins
        return Form.CHAKRA
    raise InputError(f"{name}: expected {_KNOWN}")


def _form_of_folder(path: Path, name: str) -> Form:
    names = sorted(file.name for file in path.iterdir())
    if any(name.endswith(".et") for name in names):
        return Form.CHAKRA
    if any(name.endswith(".jsonl") for name in names):
        return Form.ROUTING
    tables = [n for n in names if re.search(r"\.json(\.gz)?$", n) and n != "groups.json"]
    if tables:
        # tables of groups may be called otherwise
        form = form_of(path / min(tables, key=lambda file: "group" in file))
        if form in (Form.KINETO, Form.CHAKRA, Form.EXECUTION):
            return form
    raise InputError(
        f"{name}: expected a folder of Chakra's NAME.RANK.et, of profiles *.json of PyTorch, or of "
        "routing logs *.jsonl"
    )


def _head(path: Path) -> bytes:
    with open_file(path, "trace", _MAX_BYTES) as stream:
        head = stream.read(_HEAD_BYTES)
    if head[:2] != b"\x1f\x8b":
        return head
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
    except zlib.error:
        raise InputError(f"{shown_path(path)}: not a valid gzip file") from None


def _is_routing(head: bytes) -> bool:
    """Whether a first line is of a routing log, or the one after what says what the run was."""
    for line in head.lstrip().split(b"\n", 2)[:2]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(row, dict) or row.get("type") != "meta":
            return isinstance(row, dict) and bool(_ROUTING_KEYS & row.keys())
    return False


def read_any(path: Path, progress: Progress | None = None) -> Imported:
    """Read a trace, whoever recorded it.

    Parameters
    ----------
    path
        A file or a folder, see :func:`form_of`.
    progress
        Is given the share that is done, and what is being done.

    Raises
    ------
    InputError
        If it is nothing that is known, or cannot be used; also for a routing log, which says which
        experts were chosen and not what was communicated.
    """
    form = form_of(path)
    if form is Form.RECORDED:
        return Imported(form.value, read_trace(path))
    if form is Form.ROUTING:
        raise InputError(
            f"{shown_path(path)}: is a routing log: it has no calls; give it as --demand, or "
            "lightloom trace inspect it"
        )
    readers = {
        Form.CHAKRA: read_chakra,
        Form.KINETO: read_kineto,
        Form.EXECUTION: read_execution_traces,
        Form.SIMAI: read_simai,
    }
    return readers[form](path, progress)
