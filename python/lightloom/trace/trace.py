"""What a traced program communicated: the calls of each rank that was recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lightloom.errors import InputError, echo
from lightloom.inputs.files import read_compressed
from lightloom.inputs.formats import parse_json
from lightloom.trace.computes import Compute, RouterChoice, StreamPlace, StreamWait

#: of a trace in JSON
FORMAT = "lightloom trace 1"

#: a larger file is no trace that this package wrote
MAX_FILE_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Call:
    """A collective or a message, as one rank issued it.

    Attributes
    ----------
    op
        What is done, such as ``all_reduce``, ``all_to_all`` or ``send``.
    call_id
        Counts the calls of a rank from 0, in the order in which it issued them.
    function
        PyTorch's operator.
    group, ranks
        Name of the process group, and its ranks in its order.
    shape, dtype
        Of what this rank puts in (of a receive: gets out); of the first of several tensors.
    input_bytes, output_bytes
        Of all tensors that go in and come out.
    input_splits, output_splits
        Rows for and from each rank of the group, where the program says so.
    reduction, peer, root, tag
        Of the operations that have them; `peer` and `root` are ranks of the job.
    phase
        ``setup``, ``forward``, ``backward``, ``optimizer``, or ``between`` these.
    layer
        The innermost module of the model that was being executed; empty outside and in backward.
    step
        Optimizer steps before it.
    stream
        The stream that was current; 0 is the default one.
    asynchronous, waited_before
        Whether the program goes on meanwhile, and the call before which it waits for this one;
        ``None`` where it never does.
    call_site
        The innermost place in the program's code.
    routed
        The choice of experts that its counts or splits stem from; ``None`` for other calls.
    tensors
        How many tensors go in together.
    waited_at
        Where the program waits for it, which `waited_before` tells without computes; ``None`` also
        where no computes were recorded.
    duration_s
        As measured; ``None`` where it was only traced.
    micro_batch
        How often the model, or the part of it that ran, had been run before in this step; of
        backward, when it had been run forward. ``None`` outside of it.
    """

    op: str
    call_id: int
    function: str
    group: str
    ranks: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    input_bytes: int
    output_bytes: int
    input_splits: tuple[int, ...] | None
    output_splits: tuple[int, ...] | None
    reduction: str | None
    peer: int | None
    root: int | None
    tag: int | None
    phase: str
    layer: str
    step: int
    stream: int
    asynchronous: bool
    waited_before: int | None
    call_site: str
    routed: int | None
    tensors: int
    waited_at: StreamPlace | None = None
    duration_s: float | None = None
    micro_batch: int | None = None


#: fields of a call that say nothing of what is communicated
NOT_HASHED = ("call_site", "waited_at", "duration_s")


@dataclass(frozen=True)
class RankTrace:
    """The recording of one rank.

    Attributes
    ----------
    rank
        Of the job.
    calls
        In the order in which they were issued.
    steps
        Optimizer steps that were executed.
    invented
        How often each operator asked for a number that depends on data, and was given an invented
        one.
    assumed
        What the program was answered that may be otherwise, with the place, and how often: calls as
        if ranks that nobody recorded held the same, and numbers that depend on data.
    stubs
        Absent packages of which a replacement by shape was imported.
    computes
        What was computed between the calls, in the order in which it was issued; empty where
        that was not recorded.
    stream_waits
        Where streams wait for others.
    choices
        Sizes of the choices of experts that calls name as `routed`.
    """

    rank: int
    calls: tuple[Call, ...]
    steps: int
    invented: Mapping[str, int]
    stubs: tuple[str, ...]
    assumed: Mapping[str, int] = field(default_factory=dict)
    computes: tuple[Compute, ...] = field(default=(), repr=False)
    stream_waits: tuple[StreamWait, ...] = field(default=(), repr=False)
    choices: tuple[RouterChoice, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process group of the job: what the program calls it, and its ranks in its order."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Trace:
    """Recordings of some ranks of a job.

    Attributes
    ----------
    world_size
        Ranks of the job.
    program
        The command that was traced.
    ranks
        The recordings, by rank.
    groups
        Every process group of the job, also of ranks that were not recorded; empty if not known.
    """

    world_size: int
    program: tuple[str, ...]
    ranks: Mapping[int, RankTrace] = field(repr=False)
    groups: tuple[ProcessGroup, ...] = field(default=(), repr=False)

    @property
    def calls_hash(self) -> str:
        """Equal for equal calls: SHA-256 of all that says what is communicated, and when."""
        digest = hashlib.sha256()
        for rank, recorded in sorted(self.ranks.items()):
            for call in recorded.calls:
                values = asdict(call).items()
                kept = {name: value for name, value in values if name not in NOT_HASHED}
                digest.update(json.dumps([rank, kept], sort_keys=True).encode())
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The trace as JSON; each rank has its calls in the form of the Chronos paper, extended."""
        return {
            "format": FORMAT,
            "world_size": self.world_size,
            "program": list(self.program),
            "calls_hash": self.calls_hash,
            "groups": [asdict(group) for group in self.groups],
            "ranks": {str(rank): asdict(recorded) for rank, recorded in sorted(self.ranks.items())},
        }


def rank_trace(rank: int, record: object) -> RankTrace:
    """The recording of one rank from JSON.

    Raises
    ------
    InputError
        If a field is missing or of another type.
    """
    if not isinstance(record, dict):
        raise InputError(f"rank {rank} of a trace: expected a table")
    names = {field.name for field in fields(RankTrace)}
    values = {name: value for name, value in record.items() if name in names}
    try:
        return TypeAdapter(RankTrace).validate_python(values | {"rank": rank})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        shown = echo(place, quoted=False)
        raise InputError(f"rank {rank} of a trace: {shown}: {first['msg']}") from None


def read_trace(path: Path) -> Trace:
    """Read a trace that ``lightloom trace record --json`` wrote.

    Raises
    ------
    InputError
        If the file cannot be read or is no such trace.
    """
    content = read_compressed(path, "trace", MAX_FILE_BYTES)
    data = parse_json(content, str(path))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"{path}: expected JSON of lightloom trace record, '{FORMAT}'")
    ranks, program, size = (data.get(name) for name in ("ranks", "program", "world_size"))
    if not (isinstance(ranks, dict) and isinstance(program, list) and isinstance(size, int)):
        raise InputError(f"{path}: expected ranks, program and world_size")
    if not ranks or not all(rank.isascii() and rank.isdigit() for rank in ranks):
        raise InputError(f"{path}: expected the recordings of ranks by their numbers")
    recorded = [rank_trace(int(rank), record) for rank, record in ranks.items()]
    try:
        groups = TypeAdapter(tuple[ProcessGroup, ...]).validate_python(data.get("groups", ()))
    except ValidationError:
        raise InputError(f"{path}: expected groups as names and ranks") from None
    return make_trace(size, program, recorded, groups)


def make_trace(
    world_size: int,
    program: Sequence[str],
    ranks: Iterable[RankTrace],
    groups: Iterable[ProcessGroup] = (),
) -> Trace:
    """Put recordings of ranks together."""
    by_rank = {recorded.rank: recorded for recorded in ranks}
    return Trace(world_size, tuple(map(str, program)), by_rank, tuple(groups))
