"""Chakra execution traces as a trace: a folder of ``NAME.RANK.et``, an archive of it, or one file.

A node of computation or communication becomes a compute or a call; a node of the CPU, of memory or
of metadata passes on what it waits for. Calls are collective over the group that ``pg_name`` names,
as ``groups.json`` explains it (ranks by the group's name, the form that ASTRA-sim reads), or a file
of that form that is called after the traces or has ``group`` in its name, such as STAGE's
``comm_group.json``; and over all ranks otherwise. ``comm_size`` is what a rank puts in.

Where a trace computes, each stream of a rank executes its nodes in their order, as ASTRA-sim does:
computation on stream 0, collectives on 1, sends on 2 and receives on 3, unless nodes have a
``stream``. Dependencies between streams are waits. Where there are calls alone, they are
asynchronous, and each is waited for before the first call that depends on it.
"""

from __future__ import annotations

import heapq
import io
import json
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lightloom.errors import InputError, echo
from lightloom.inputs.files import read_compressed, read_file, shown_path
from lightloom.inputs.formats import JsonLimits, parse_json
from lightloom.progress import Progress
from lightloom.trace.chakra import COLLECTIVES
from lightloom.trace.computes import Operator, StreamPlace
from lightloom.trace.importers.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    Node,
    nodes_of_bytes,
    nodes_of_json,
    nodes_of_stage,
)
from lightloom.trace.importers.imported import Imported, advance
from lightloom.trace.importers.operations import operation_of
from lightloom.trace.importers.program import EMPTY_CALL, RankProgram, message_bytes
from lightloom.trace.trace import Call, ProcessGroup, RankTrace, make_trace

#: of a file, and of an archive
MAX_FILE_BYTES = 1 << 30
#: files of a folder or an archive, and streams of a rank
MAX_RANKS, MAX_STREAMS = 1 << 20, 64
GROUPS_FILE = "groups.json"
_NAME = re.compile(r"(.*)\.(\d{1,7})\.(et|json)")
_OPERATIONS = {code: op for op, code in COLLECTIVES.items()} | {8: "reduce_scatter"}
_KINDS = {COLLECTIVE: 1, SEND: 2, RECEIVE: 3}


def read_chakra(path: Path, progress: Progress | None = None) -> Imported:
    """Read the execution traces of the ranks of a job.

    Parameters
    ----------
    path
        A folder or an archive of ``NAME.RANK.et`` or ``NAME.RANK.json``, or one such file.
    progress
        Is given the share that is done, and what is being done.

    Raises
    ------
    InputError
        If files are missing, mixed, truncated, of another schema or too large.
    """
    files, table = _files(path)
    name = shown_path(path)
    ranks = _by_rank(files, name)
    alone = len(ranks) == 1 and not path.is_dir()
    groups = {} if table is None else _groups(table, name)
    size = max(_world_size(set(ranks), groups, name, alone), _siblings(path) if alone else 1)
    reader = _Reader(size, groups, GROUPS_FILE if table is None else table.name)
    recorded = []
    for done, (rank, file) in enumerate(sorted(ranks.items())):
        advance(progress, done / len(ranks), f"reading rank {rank}")
        recorded.append(reader.recording(rank, file))
    if not any(rank.calls or rank.computes for rank in recorded):
        raise InputError(f"{name}: the trace neither computes nor communicates")
    trace = make_trace(reader.world_size, ("Chakra",), recorded, reader.groups())
    return Imported("Chakra execution trace, schema 0.0.4", trace, {}, reader.remarks())


@dataclass(frozen=True)
class _File:
    """A file of a rank: its content, or where that is."""

    name: str
    source: bytes | Path

    def read(self) -> bytes:
        if isinstance(self.source, bytes):
            return self.source
        return read_compressed(self.source, "trace", MAX_FILE_BYTES)


@dataclass(frozen=True)
class _Table:
    """The file that has the ranks of groups."""

    name: str
    content: bytes


def _files(path: Path) -> tuple[list[_File], _Table | None]:
    """Files of ranks, and the table of groups."""
    if path.is_dir():
        places = [file for file in sorted(path.iterdir()) if _NAME.fullmatch(file.name)]
        return [_File(shown_path(file), file) for file in places], _table_of_folder(path, places)
    content = read_compressed(path, "trace", MAX_FILE_BYTES)
    if content[257:262] == b"ustar":
        return _of_archive(content, shown_path(path))
    table = _table_of_folder(path.parent, [path])
    return [_File(shown_path(path).removesuffix(".gz"), content)], table


def _table_of_folder(folder: Path, traces: list[Path]) -> _Table | None:
    """The table of groups next to traces: by its name, or the one file of that form."""
    table = folder / GROUPS_FILE
    if table.exists():
        return _Table(GROUPS_FILE, read_file(table, "groups", MAX_FILE_BYTES))
    bases = _bases(file.name for file in traces)
    others = [file for file in sorted(folder.glob("*.json")) if _may_be_table(file.name, bases)]
    tables = [_Table(file.name, read_file(file, "groups", MAX_FILE_BYTES)) for file in others]
    return _one_table(tables, bases, shown_path(folder))


def _bases(names: Iterable[str]) -> set[str]:
    """What files of ranks are called, without rank and ending."""
    return {match[1] for name in names if (match := _NAME.fullmatch(name))}


def _may_be_table(name: str, bases: set[str]) -> bool:
    stem = name.removesuffix(".json")
    return stem != name and not _NAME.fullmatch(name) and (stem in bases or "group" in stem)


def _one_table(candidates: list[_Table], bases: set[str], name: str) -> _Table | None:
    """The table of groups among files, of those of that form the one that is called as traces."""
    tables = [table for table in candidates if _is_table(table.content)]
    named = [table for table in tables if Path(table.name).stem in bases]
    chosen = named if len(named) == 1 else tables
    if len(chosen) > 1:
        shown = ", ".join(table.name for table in chosen[:4])
        raise InputError(
            f"{name}: {shown} may have the ranks of groups: call the right one {GROUPS_FILE}"
        )
    return chosen[0] if chosen else None


def _is_table(content: bytes) -> bool:
    """Whether JSON is a table of lists of whole numbers."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(data, dict)
        and bool(data)
        and all(
            isinstance(ranks, list) and ranks and all(type(rank) is int for rank in ranks)
            for ranks in data.values()
        )
    )


def _siblings(path: Path) -> int:
    """Ranks of the trace that a file is a part of, by the names next to it."""
    match = _NAME.fullmatch(path.name)
    matches = [_NAME.fullmatch(file.name) for file in path.parent.iterdir()] if match else []
    ranks = [
        int(sibling[2])
        for sibling in matches
        if sibling and match and (sibling[1], sibling[3]) == (match[1], match[3])
    ]
    return 1 + max(ranks, default=0)


def _of_archive(content: bytes, name: str) -> tuple[list[_File], _Table | None]:
    files: list[_File] = []
    tables: list[_Table] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                base = Path(member.name).name
                # what archives of macOS add to each file
                if not member.isfile() or base.startswith("._"):
                    continue
                # a file with holes takes less than it says
                if member.size > len(content):
                    raise InputError(f"{name}: {echo(base)} is larger than the archive")
                stream = archive.extractfile(member)
                assert stream is not None
                if _NAME.fullmatch(base):
                    files.append(_File(f"{name}: {base}", stream.read()))
                elif base.endswith(".json"):
                    tables.append(_Table(base, stream.read()))
    except (tarfile.TarError, EOFError, ValueError, OverflowError):
        raise InputError(f"{name}: not a whole tar archive") from None
    named = next((table for table in tables if table.name == GROUPS_FILE), None)
    bases = _bases(file.name.removeprefix(f"{name}: ") for file in files)
    tables = [table for table in tables if _may_be_table(table.name, bases)]
    return files, named or _one_table(tables, bases, name)


def _by_rank(files: list[_File], name: str) -> dict[int, _File]:
    """Files by rank; of a single file without a number, rank 0."""
    if len(files) > MAX_RANKS:
        raise InputError(f"{name}: has {len(files):,} files; the limit is {MAX_RANKS:,}")
    by_rank: dict[int, _File] = {}
    traces = set()
    for file in files:
        parts = _NAME.fullmatch(Path(file.name).name.split(": ")[-1])
        if parts is None and len(files) == 1:
            return {0: file}
        assert parts is not None
        traces.add(parts[1])
        rank = int(parts[2])
        if rank in by_rank or len(traces) > 1:
            shown = ", ".join(map(echo, sorted(traces)[:3]))
            raise InputError(
                f"{name}: holds several traces ({shown}): expected one file NAME.RANK.et per rank; "
                "put each trace into a folder of its own"
            )
        by_rank[rank] = file
    if not by_rank:
        raise InputError(
            f"{name}: expected files named NAME.RANK.et, one per rank; unpack an archive of others"
        )
    return by_rank


def _groups(table: _Table, name: str) -> dict[str, tuple[int, ...]]:
    """Ranks of groups by their names."""
    where = f"{name}: {table.name}"
    data = parse_json(table.content, where, limits=JsonLimits(depth=3))
    if not isinstance(data, dict):
        raise InputError(f"{where}: expected lists of ranks by the names of groups")
    for group, ranks in data.items():
        if (
            not isinstance(ranks, list)
            or not all(isinstance(rank, int) and 0 <= rank < MAX_RANKS for rank in ranks)
            or len(set(ranks)) < max(1, len(ranks))
        ):
            raise InputError(f"{where}: group {echo(group)}: expected different ranks")
    return {group: tuple(ranks) for group, ranks in data.items()}


def _world_size(
    ranks: set[int], groups: Mapping[str, tuple[int, ...]], name: str, alone: bool
) -> int:
    """Ranks of the job; what groups do not name has to have a file, or be looked at alone."""
    size = 1 + max([*ranks, *(rank for ranks in groups.values() for rank in ranks)])
    missing = sorted(set(range(size)) - ranks)
    if missing and not groups and not alone:
        shown = ", ".join(map(str, missing[:6])) + ", ..." * (len(missing) > 6)
        raise InputError(
            f"{name}: has files of {len(ranks)} ranks up to {size - 1}; missing are {shown}"
        )
    return size


@dataclass
class _Reader:
    """Turns files into recordings, and counts what it leaves out."""

    world_size: int
    named: Mapping[str, tuple[int, ...]]
    table: str = GROUPS_FILE
    met: dict[tuple[str, tuple[int, ...]], None] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    whole_world: int = 0
    absent: int = 0
    all_ranks: tuple[int, ...] = ()

    def recording(self, rank: int, file: _File) -> RankTrace:
        content = file.read()
        if content.lstrip()[:1] == b"{":
            data = parse_json(content, file.name)
            if not isinstance(data, dict) or not {"workload_graph", "nodes"} & data.keys():
                raise InputError(f"{file.name}: expected JSON with a workload_graph, or STAGE's")
            gpus = data.get("ngpus", 1)
            if isinstance(gpus, int) and 0 < gpus <= MAX_RANKS:
                self.world_size = max(self.world_size, gpus)
            if "workload_graph" in data:
                nodes = nodes_of_json(data["workload_graph"], file.name)
            else:
                nodes = nodes_of_stage(data["nodes"], file.name)
        else:
            nodes = nodes_of_bytes(content, file.name)
        order = in_order(nodes, file.name)
        there = {node.id for node in nodes}
        self.absent += sum(number not in there for node in nodes for number in _needed(node))
        try:
            kept = self._kept(order)
            computes = any(nodes[place].kind == COMPUTE for place in kept)
            maker = _Maker(self, rank, nodes, kept)
            return (maker.streams(order) if computes else maker.calls_alone(order)).recording()
        except InputError as problem:
            raise InputError(f"{file.name}: {problem}") from None

    def _kept(self, order: list[tuple[int, Node, list[int]]]) -> set[int]:
        """Places of nodes that become calls and computes."""
        on_gpu = any(node.attributes.get("is_cpu_op", 1) == 0 for _, node, _ in order)
        calls_on_gpu = any(
            node.kind in _KINDS and node.attributes.get("is_cpu_op", 1) == 0 for _, node, _ in order
        )
        kept = set()
        for place, node, _ in order:
            of_cpu = node.attributes.get("is_cpu_op", 0) == 1
            if node.kind in _KINDS:
                if of_cpu and calls_on_gpu:
                    self.left_out["calls of the CPU, which start those of the GPU"] += 1
                else:
                    kept.add(place)
            elif node.kind == COMPUTE:
                if of_cpu and on_gpu:
                    self.left_out["operators of the CPU"] += 1
                elif node.duration_s or node.attributes.get("num_ops"):
                    kept.add(place)
            elif node.kind > 1:
                self.left_out["nodes of memory and storage"] += 1
        return kept

    def group(self, node: Node) -> tuple[str, tuple[int, ...]]:
        """Name and ranks of a node's group."""
        number = str(node.attributes.get("pg_name", node.attributes.get("comm_group", "")))
        name = str(node.attributes.get("pg_desc", "") or number or "world")
        if number in self.named:
            ranks = self.named[number]
        elif number not in ("", "0") and self.named:
            raise InputError(f"node {node.id} is of group {echo(number)}, which {self.table} lacks")
        else:
            dimensions = node.attributes.get("involved_dim", ())
            if isinstance(dimensions, tuple) and 0 in dimensions:
                raise InputError(
                    f"node {node.id} involves some dimensions of a network only: expected its "
                    f"group by pg_name, and the ranks of groups in {GROUPS_FILE}"
                )
            ranks = self.everyone()
            self.whole_world += 1
        if len(ranks) > 1:
            self.met.setdefault((name, ranks))
        return name, ranks

    def everyone(self) -> tuple[int, ...]:
        """All ranks of the job."""
        if len(self.all_ranks) != self.world_size:
            self.all_ranks = tuple(range(self.world_size))
        return self.all_ranks

    def groups(self) -> list[ProcessGroup]:
        """Groups that are called, or that the table of groups lists."""
        shown = {ranks for _, ranks in self.met}
        others = [
            ProcessGroup(name, ranks)
            for name, ranks in self.named.items()
            if ranks not in shown and len(ranks) > 1
        ]
        return [*(ProcessGroup(*group) for group in self.met), *others]

    def remarks(self) -> tuple[str, ...]:
        """What was assumed and left out."""
        lines = [f"left out: {number:,} {what}" for what, number in self.left_out.items()]
        if self.named and self.table != GROUPS_FILE:
            lines.append(f"the ranks of groups are those of {self.table}")
        if self.absent:
            lines.append(
                f"{self.absent:,} dependencies are on nodes that are not there: nothing waits for "
                "them"
            )
        if self.whole_world and self.world_size == 1:
            lines.append("neither groups nor the number of ranks are known")
        elif self.whole_world:
            lines.append(
                f"{self.whole_world:,} calls name no group that is known: "
                f"they are taken to be of all {self.world_size:,} ranks"
            )
        return tuple(lines)


def _needed(node: Node) -> list[int]:
    """Nodes that it depends on: its data's, or its callers where it has no others."""
    return node.data or node.control


def in_order(nodes: list[Node], name: str) -> list[tuple[int, Node, list[int]]]:
    """Nodes after what they depend on, otherwise in the order of the file.

    Returns
    -------
    list[tuple[int, Node, list[int]]]
        Place in the file, the node, and the places of those that it depends on. These are its data
        dependencies; callers (control dependencies) count where a node has no others. What the
        file does not hold is passed over.

    Raises
    ------
    InputError
        If nodes wait for each other, or two have the same number.
    """
    place_of = {node.id: place for place, node in enumerate(nodes)}
    if len(place_of) < len(nodes):
        twice = next(number for number, count in Counter(n.id for n in nodes).items() if count > 1)
        raise InputError(f"{name}: node {twice} is there twice")
    needs = [[place_of[number] for number in _needed(node) if number in place_of] for node in nodes]
    followers: dict[int, list[int]] = defaultdict(list)
    waiting = [len(wanted) for wanted in needs]
    for place, wanted in enumerate(needs):
        for other in wanted:
            followers[other].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append((place, nodes[place], needs[place]))
        for other in followers[place]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, other)
    if len(order) < len(nodes):
        stuck = next(place for place, count in enumerate(waiting) if count)
        raise InputError(f"{name}: node {nodes[stuck].id} depends on itself, by way of others")
    return order


class _Maker:
    """Makes the program of one rank from its nodes in order."""

    def __init__(self, reader: _Reader, rank: int, nodes: list[Node], kept: set[int]) -> None:
        self._reader = reader
        self._nodes = nodes
        self._kept = kept
        self._program = RankProgram(rank)

    def streams(self, order: list[tuple[int, Node, list[int]]]) -> RankProgram:
        """Each stream in order, and waits between them."""
        program = self._program
        #: of each node, how much of each stream has to be done once it is
        done: dict[int, dict[int, StreamPlace]] = {}
        waited: dict[tuple[int, int], StreamPlace] = {}
        streams: set[int] = set()
        for place, node, needs in order:
            after: dict[int, StreamPlace] = {}
            for other in needs:
                for stream, until in done[other].items():
                    after[stream] = max(until, after.get(stream, until))
            done[place] = after
            if place not in self._kept:
                continue
            stream = _whole(node, "stream", _KINDS.get(node.kind, 0))
            streams.add(stream)
            if len(streams) > MAX_STREAMS:
                raise InputError(f"has more than {MAX_STREAMS} streams of a rank")
            for other, until in after.items():
                if other != stream and until > waited.get((stream, other), (other, -1, -1)):
                    program.wait(stream, until)
                    waited[stream, other] = until
            self._issue(node, stream)
            done[place] = {**after, stream: program.place(stream)}
        return program

    def _issue(self, node: Node, stream: int) -> None:
        if node.kind != COMPUTE:
            self._program.call(self._call(node, stream=stream))
            return
        operators: tuple[Operator, ...] = ()
        flops = _whole(node, "num_ops", 0, 1 << 62)
        if node.duration_s is None:
            moved = _whole(node, "tensor_size", 0)
            operators = (Operator("matmul", "bfloat16", 1, 1, flops, moved),)
        self._program.compute(
            stream, _whole(node, "step", 0), node.duration_s, layer=_text(node, "layer"),
            phase=_text(node, "phase") or "forward", operators=operators,
        )  # fmt: skip

    def calls_alone(self, order: list[tuple[int, Node, list[int]]]) -> RankProgram:
        """Calls in order, each waited for before the first one that depends on it."""
        number = {
            place: index
            for index, place in enumerate(place for place, _, _ in order if place in self._kept)
        }
        first: dict[int, int] = {}
        for place, _, needs in reversed(order):
            wanted = number.get(place, first.get(place))
            for other in needs:
                if wanted is not None:
                    first[other] = min(wanted, first.get(other, wanted))
        for place, node, _ in order:
            if place in number:
                until = first.get(place)
                later = node.attributes.get("asynchronous", until != number[place] + 1)
                self._program.call(
                    self._call(
                        node, stream=_whole(node, "stream", 0), waited_before=until,
                        asynchronous=bool(later),
                    )
                )  # fmt: skip
        return self._program

    def _call(
        self,
        node: Node,
        *,
        stream: int,
        waited_before: int | None = None,
        asynchronous: bool = False,
    ) -> Call:
        rank = self._program.rank
        group, ranks = self._reader.group(node)
        op = _operation(node)
        peer = None
        if node.kind != COLLECTIVE:
            peer = _peer(node, rank, self._reader.world_size)
            if peer not in ranks:
                group, ranks = "world", self._reader.everyone()
        if rank not in ranks:
            raise InputError(f"node {node.id} of rank {rank} calls group {echo(group)} without it")
        put, got = message_bytes(op, _whole(node, "comm_size", 0), len(ranks))
        root = node.attributes.get("root")
        return replace(
            EMPTY_CALL, call_id=len(self._program.calls), stream=stream,
            waited_before=waited_before, asynchronous=asynchronous,
            op=op, function=node.name, group=group, ranks=ranks, peer=peer,
            root=root if isinstance(root, int) and root in ranks else None,
            tag=_whole(node, "comm_tag", 0) if peer is not None else None,
            input_bytes=put, output_bytes=_whole(node, "output_size", got),
            duration_s=node.duration_s, step=_whole(node, "step", 0),
            dtype=_text(node, "dtype"), reduction=_text(node, "reduction") or None,
            phase=_text(node, "phase") or "forward", layer=_text(node, "layer"),
            input_splits=_splits(node, "input_splits", ranks),
            output_splits=_splits(node, "output_splits", ranks),
            routed=_whole(node, "routed", 0) if "routed" in node.attributes else None,
        )  # fmt: skip


def _operation(node: Node) -> str:
    """What a node does: by its number, and by its name where it has none."""
    if node.kind != COLLECTIVE:
        return "send" if node.kind == SEND else "receive"
    code = node.attributes.get("comm_type")
    op = _OPERATIONS.get(code) if isinstance(code, int) else None
    if code is None or isinstance(code, str):
        op = operation_of(code or node.name)
    if op is None:
        shown = "no comm_type" if code is None else f"comm_type {echo(code)}"
        raise InputError(f"node {node.id} has {shown}: expected one of 0 to 9")
    return op


def _text(node: Node, name: str) -> str:
    return str(node.attributes.get(name, ""))[:200]


def _splits(node: Node, name: str, ranks: tuple[int, ...]) -> tuple[int, ...] | None:
    splits = node.attributes.get(name)
    fits = isinstance(splits, tuple) and len(splits) == len(ranks) and min(splits, default=0) >= 0
    return splits if fits else None  # type: ignore[return-value]


def _peer(node: Node, rank: int, world_size: int) -> int:
    mine, other = ("comm_src", "comm_dst") if node.kind == SEND else ("comm_dst", "comm_src")
    if _whole(node, mine, rank) != rank:
        raise InputError(f"node {node.id} in the file of rank {rank} has {mine} of another rank")
    peer = node.attributes.get(other)
    if not isinstance(peer, int) or not 0 <= peer < world_size or peer == rank:
        raise InputError(
            f"node {node.id}: {other} is {echo(peer)}: expected another of {world_size} ranks"
        )
    return peer


def _whole(node: Node, name: str, default: int, limit: int = 1 << 50) -> int:
    value = node.attributes.get(name, default)
    if not isinstance(value, int) or not 0 <= value < limit:
        raise InputError(
            f"node {node.id}: {name} is {echo(value)}: expected a whole number below {limit}"
        )
    return value
