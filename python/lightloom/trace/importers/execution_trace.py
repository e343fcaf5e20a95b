"""Execution traces of PyTorch (``torch.profiler.ExecutionTraceObserver``) as a trace.

One JSON file per rank: ``{"schema": "1.1.0-chakra.0.0.4", "nodes": [...]}``, of schema 1.0.1 or
later, as facebookresearch/param replays them and Chakra's ``chakra_trace_link`` merges them with a
profile. Read is what each ``record_param_comms`` says: the operation, the group, elements, splits
and the order; of later schemas from its attributes, of earlier ones from its inputs. Such traces
have no times and no kernels: there are calls alone, each waited for where the CPU does.

``## process_group:init ##`` lists groups; one without ranks is of all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lightloom.errors import InputError, echo
from lightloom.inputs.files import read_compressed, shown_path
from lightloom.inputs.formats import parse_json
from lightloom.progress import Progress
from lightloom.trace.importers.imported import Imported, advance, json_files
from lightloom.trace.importers.kineto_calls import CallMaker, Remarks
from lightloom.trace.importers.kineto_events import MAX_RANKS
from lightloom.trace.importers.kineto_requests import RECORD, CallRequest, request_of
from lightloom.trace.importers.libraries import CommunicationKernel
from lightloom.trace.importers.operations import operation_of, type_name
from lightloom.trace.importers.program import RankProgram
from lightloom.trace.trace import ProcessGroup, RankTrace, make_trace

FORM = "PyTorch execution trace"
#: of a file, unpacked, and of its nodes
MAX_FILE_BYTES, MAX_NODES = 1 << 30, 5_000_000
#: the number of a rank in a name, the more certain first
_NAMES = (re.compile(r"rank[-_.]?(\d{1,7})", re.I), re.compile(r"[-_.](\d{1,7})\.json"))
_STEP = re.compile(r"ProfilerStep\s*#(\d{1,9})")
_GROUPS = "process_group:init"
#: attributes of a record, as profiles call them
_ARGUMENTS = {
    "collective_name": "Collective name", "dtype": "dtype", "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems", "in_split_size": "In split size",
    "out_split_size": "Out split size", "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank stride", "pg_name": "Process Group Name",
    "pg_desc": "Process Group Description", "pg_size": "Group size",
}  # fmt: skip
_C10D = CommunicationKernel("c10d", "", None)


def read_execution_traces(path: Path, progress: Progress | None = None) -> Imported:
    """Read what ``ExecutionTraceObserver`` wrote.

    Parameters
    ----------
    path
        A file, or a folder with a file ``*.json`` or ``*.json.gz`` per rank.
    progress
        Is given the share that is done, and what is being done.

    Raises
    ------
    InputError
        If a file is no such trace, of an unknown rank, or nothing is communicated.
    """
    files = json_files(path)
    by_rank = _by_rank(files)
    groups: dict[tuple[str, tuple[int, ...]], None] = {}
    remarks = Remarks()
    size = 1 + max(by_rank)
    traces = {}
    for done, (rank, file) in enumerate(sorted(by_rank.items())):
        advance(progress, done / len(files), f"reading {file.name}")
        content = read_compressed(file, "trace", MAX_FILE_BYTES)
        trace = _file_of(parse_json(content, shown_path(file)), shown_path(file))
        traces[rank] = trace
        size = max(
            [size, trace.largest_group, *(max(ranks) + 1 for ranks in trace.groups.values())]
        )
    recorded = []
    for rank, trace in sorted(traces.items()):
        maker = CallMaker(rank, size, trace.ranks_of_groups(size), groups, remarks)
        recorded.append(_recording(trace, maker, rank))
    if not any(rank.calls for rank in recorded):
        raise InputError(
            f"{shown_path(path)}: no {RECORD} that communicates: expected the trace of a program "
            "that calls torch.distributed"
        )
    lines = [*remarks.lines(), "the trace has no times: a step is its calls alone"]
    if len(traces) < size:
        lines.append(f"{len(traces):,} of {size:,} ranks have files")
    last = max((max(ranks) for _, ranks in groups), default=0)
    if last >= MAX_RANKS:
        raise InputError(f"{shown_path(path)}: a group has rank {last}; the limit is {MAX_RANKS:,}")
    groups_found = [ProcessGroup(*group) for group in groups]
    joined = make_trace(max(size, last + 1), ("PyTorch",), recorded, groups_found)
    return Imported(FORM, joined, {}, tuple(lines))


def _by_rank(files: list[Path]) -> dict[int, Path]:
    by_rank: dict[int, Path] = {}
    for file in files:
        named = next((match for name in _NAMES if (match := name.search(file.name))), None)
        if named is None and len(files) > 1:
            raise InputError(
                f"{shown_path(file)}: does not say of which rank it is: expected a name such as "
                "rank3.json"
            )
        rank = int(named[1]) if named is not None and len(files) > 1 else 0
        if rank in by_rank:
            raise InputError(
                f"{shown_path(file)}: is of rank {rank}, as is {shown_path(by_rank[rank])}"
            )
        if rank >= MAX_RANKS:
            raise InputError(f"{shown_path(file)}: rank {rank:,}; the limit is {MAX_RANKS:,}")
        by_rank[rank] = file
    return by_rank


@dataclass
class _File:
    """What the file of a rank holds that matters here.

    Attributes
    ----------
    records
        Number of the node, its phase, and what it says of its call, in order.
    groups
        Ranks by the names of groups, of those that list them.
    sizes
        Of groups that list no rank.
    steps
        Number of the node and of the step of each ``ProfilerStep``, in order.
    """

    records: list[tuple[int, str, _Record]] = field(default_factory=list)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def largest_group(self) -> int:
        """Ranks of the largest group that says its size."""
        said = (record.request.arguments.get("Group size") for _, _, record in self.records)
        sizes = [size for size in said if isinstance(size, int) and 0 < size <= MAX_RANKS]
        return max([1, *sizes, *self.sizes.values()])

    def ranks_of_groups(self, world_size: int) -> dict[str, tuple[int, ...]]:
        """Ranks by the names of groups; one without ranks is of all."""
        everyone = tuple(range(world_size))
        return {**dict.fromkeys(self.sizes, everyone), **self.groups}

    def step_of(self, number: int) -> int | None:
        """The step of a node; all are of one where none were marked."""
        if not self.steps:
            return 0
        before = [step for start, step in self.steps if start <= number]
        return before[-1] if before else None


@dataclass(frozen=True)
class _Record:
    """A ``record_param_comms``: its request, its number in the group, and whom it names."""

    request: CallRequest
    sequence: object
    place: int | None

    @property
    def waits(self) -> bool:
        """Whether it waits for another, and asks for nothing."""
        return self.request.function == "wait"


def _file_of(data: object, name: str) -> _File:
    nodes = data.get("nodes") if isinstance(data, Mapping) else None
    if not isinstance(nodes, list) or not all(isinstance(node, Mapping) for node in nodes):
        raise InputError(f"{name}: expected an execution trace of PyTorch with a list of nodes")
    if len(nodes) > MAX_NODES:
        raise InputError(f"{name}: has {len(nodes):,} nodes; the limit is {MAX_NODES:,}")
    by_number: dict[int, Mapping[str, Any]] = {}
    for node in nodes:
        number = node.get("id")
        if not isinstance(number, int) or not isinstance(node.get("name"), str):
            raise InputError(f"{name}: a node has id {echo(number)}: expected a number and a name")
        by_number[number] = node
    trace = _File()
    for number, node in sorted(by_number.items()):
        if node["name"] == RECORD:
            try:
                record = _record(node)
            except (IndexError, KeyError, OverflowError, TypeError, ValueError):
                raise InputError(
                    f"{name}: node {number}: not a {RECORD} of schema 1.0.1 or later"
                ) from None
            trace.records.append((number, _phase(node, by_number), record))
        elif marked := _STEP.match(node["name"]):
            trace.steps.append((number, int(marked[1])))
        elif _GROUPS in node["name"]:
            _add_groups(trace, node)
    return trace


def _values(node: Mapping[str, Any], side: str) -> tuple[list[Any], list[Any]]:
    """Values and types of inputs or outputs: of a table since 1.0.2, of lists before."""
    values = node.get(side, [])
    types = node.get(f"{side[:-1]}_types", [])
    if isinstance(values, Mapping):
        values, types = values.get("values", []), values.get("types", [])
    return (
        values if isinstance(values, list) else [],
        types if isinstance(types, list) else [],
    )


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    listed = node.get("attrs", [])
    return {
        str(attribute.get("name")): attribute.get("value")
        for attribute in (listed if isinstance(listed, list) else [])
        if isinstance(attribute, Mapping)
    }


def _tensors(value: Any, kind: object) -> Iterator[tuple[int, str]]:
    """Bytes and types of an input's tensors, ``[id, storage, offset, count, bytes, place]``."""
    shown = str(kind)
    if shown.startswith("Tensor("):
        count, size = int(value[3]), int(value[4])
        if not 0 <= count < 1 << 50 or not 0 < size <= 16:
            raise ValueError
        yield count * size, type_name(shown[len("Tensor(") : -1])
    elif shown.startswith("GenericList[Tensor"):
        for item, each_kind in zip(value, shown[len("GenericList[") : -1].split(","), strict=False):
            yield from _tensors(item, each_kind)


def _record(node: Mapping[str, Any]) -> _Record:
    """What a record says: tensors, sequence, group, rank or root, name, splits."""
    values, kinds = _values(node, "inputs")
    # what waits is given no tensors; a sequence may come with whether it is of messages
    first = 0 if not str(kinds[0]).startswith(("Tensor", "GenericList[Tensor")) else 1
    sequence, group, rank, name = values[first : first + 4]
    put = list(_tensors(values[0], kinds[0])) if first else []
    outputs, types = _values(node, "outputs")
    got = list(_tensors(outputs[0], types[0])) if outputs else []
    attributes = _attributes(node)
    arguments = {shown: attributes[key] for key, shown in _ARGUMENTS.items() if key in attributes}
    named = group if isinstance(group, list) and len(group) == 2 else [group, ""]
    arguments.setdefault("Collective name", str(name))
    if isinstance(named[0], str):
        arguments.setdefault("Process Group Name", named[0])
        arguments.setdefault("Process Group Description", str(named[1]))
    for key, split in zip(("In split size", "Out split size"), values[first + 4 : first + 6],
                          strict=False):  # fmt: skip
        arguments.setdefault(key, split if isinstance(split, list) else [])
    said = values[first + 6 : first + 9]
    if len(said) == 3:
        for key, item in zip(("Global rank start", "Global rank stride", "Group size"), said,
                            strict=True):  # fmt: skip
            arguments.setdefault(key, item)
    request = request_of(arguments)
    if request.put_bytes is None:
        request = replace(
            request, put_bytes=sum(size for size, _ in put),
            got_bytes=sum(size for size, _ in got) if got else None,
            dtype=put[0][1] if put else "",
        )  # fmt: skip
    place = rank if isinstance(rank, int) and rank >= 0 else None
    return _Record(replace(request, place=place), sequence, place)


def _phase(node: Mapping[str, Any], by_number: Mapping[int, Mapping[str, Any]]) -> str:
    """The phase of a node, by the names of those that enclose it."""
    for _ in range(64):
        number = node.get("ctrl_deps", node.get("parent"))
        parent = by_number.get(number) if isinstance(number, int) else None
        if parent is None or parent is node:
            break
        if parent["name"].startswith("autograd::engine::evaluate_function"):
            return "backward"
        if parent["name"].startswith("Optimizer."):
            return "optimizer"
        node = parent
    return "forward"


def _add_groups(trace: _File, node: Mapping[str, Any]) -> None:
    values, _ = _values(node, "inputs")
    try:
        listed = json.loads(values[0]) if values and isinstance(values[0], str) else []
    except ValueError:
        # PyTorch cuts long texts
        return
    for entry in listed if isinstance(listed, list) else []:
        if not isinstance(entry, Mapping):
            continue
        ranks, size, name = entry.get("ranks"), entry.get("group_size"), str(entry.get("pg_name"))
        fits = isinstance(ranks, list) and all(
            isinstance(rank, int) and 0 <= rank < MAX_RANKS for rank in ranks
        )
        if ranks and fits:
            trace.groups[name] = tuple(ranks)
        elif isinstance(size, int) and 0 < size <= MAX_RANKS:
            trace.sizes[name] = size


def _recording(trace: _File, maker: CallMaker, rank: int) -> RankTrace:
    """The calls of a rank, each waited for before the first call after its wait."""
    program = RankProgram(rank)
    counts = maker.remarks.counts
    open_calls: dict[str, int] = {}
    for number, phase, record in trace.records:
        if record.waits:
            index = open_calls.pop(str(record.sequence), None)
            if index is not None:
                following = len(program.calls)
                program.calls[index] = replace(
                    program.calls[index], waited_before=following,
                    asynchronous=following != index + 1,
                )  # fmt: skip
            continue
        step = trace.step_of(number)
        if operation_of(record.request.function) is None:
            continue
        if step is None:
            counts["calls outside of steps are left out"] += 1
            continue
        call = maker.call(_C10D, RECORD, record.request)
        if call is not None:
            ranks = call.ranks
            root = record.place if call.op in ("broadcast", "reduce", "gather", "scatter") else None
            fits = root is not None and 0 <= root < len(ranks)
            index = program.call(replace(
                call, phase=phase, step=step, waited_before=len(program.calls) + 1,
                root=ranks[root] if fits and root is not None else None,
            ))  # fmt: skip
            open_calls[str(record.sequence)] = index
    return program.recording(max(1, len(trace.steps)))
