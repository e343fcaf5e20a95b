"""Layer tables of SimAI and AICB as a trace: one program per pipeline stage.

The first line names the parallelism, the second the number of rows; a row has, for forward, input
gradient and weight gradient, a time in nanoseconds, a collective and its size, as SimAI's
``Workload.cc`` reads them. A collective without a suffix is of the tensor-parallel group, for
weight gradients of the data-parallel one; ``_EP`` and ``_DP_EP`` name the groups of experts and of
their replicas. The size is that of the whole buffer: of what an all-gather puts together, of what a
reduce-scatter divides. Collectives of weight gradients are waited for at the end of the step.

A table holds what one stage does, with the rows of a micro-batch once per micro-batch. All stages
are taken to be alike, as SimAI takes them. Where rows repeat as the header says (``ga``), forward
and backward passes alternate as in Megatron's 1F1B schedule, with messages of ``pp_comm`` bytes
between stages; otherwise a step is one pass through the table. With ``vpp`` above 1 the schedule is
the interleaved one, and the rows of a micro-batch are divided into so many chunks: SimAI counts
``2 * vpp * ga`` messages of a rank and divides the bubble by ``vpp`` (``Layer.cc``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.inputs.files import decode, read_compressed, shown_path
from lightloom.progress import Progress
from lightloom.trace.importers.imported import Imported, advance
from lightloom.trace.importers.program import EMPTY_CALL, RankProgram, message_bytes
from lightloom.trace.importers.simai_schedule import Message, Pass, PipelineSchedule
from lightloom.trace.trace import ProcessGroup, RankTrace, make_trace

MAX_FILE_BYTES, MAX_ROWS, MAX_GPUS = 256 << 20, 1_000_000, 1 << 17
#: calls of all stages together
MAX_CALLS = 5_000_000
#: rows that are there once, before and after those of micro-batches
MAX_ONCE = 64
#: policies whose forward and backward collectives are those of tensor parallelism
POLICIES = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER")
OPERATIONS = {
    "ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all", "BROADCAST": "broadcast",
}  # fmt: skip
_SUFFIXES = {"_EP": "ep", "_DP_EP": "edp"}
_COMMUNICATION = re.compile(rf"({'|'.join(OPERATIONS)})(_EP|_DP_EP)?")
#: names of the header, as versions of AICB write them
_KEYS = {
    "model_parallel_NPU_group": "tp", "ep": "ep", "expert_parallel_npu_group": "ep", "pp": "pp",
    "vpp": "vpp", "ga": "ga", "all_gpus": "gpus", "pp_comm": "message",
    "checkpoints": "checkpoints", "checkpoint_initiates": "initiates",
}  # fmt: skip


@dataclass(frozen=True)
class LayerWork:
    """What a layer does in one of its passes: it computes, then communicates."""

    nanoseconds: int
    op: str | None
    group: str
    size_bytes: int


@dataclass(frozen=True)
class LayerRow:
    """A row of a table: a layer, and its work in forward and in both parts of backward."""

    name: str
    forward: LayerWork
    input_gradient: LayerWork
    weight_gradient: LayerWork


@dataclass(frozen=True)
class TableSizes:
    """What the header says.

    Attributes
    ----------
    tp, ep, pp, vpp
        Degrees, and chunks of a pipeline stage.
    ga, gpus
        Micro-batches and GPUs.
    message
        Bytes of a pipeline message.
    checkpoints, initiates
        Layers that are computed again, and that begin it.
    unknown
        Words that are not known.
    """

    tp: int
    ep: int
    pp: int
    ga: int
    gpus: int
    message: int
    vpp: int = 1
    checkpoints: int = 0
    initiates: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def dp(self) -> int:
        """Replicas of a stage."""
        return self.gpus // (self.tp * self.pp)

    def families(self) -> dict[str, npt.NDArray[np.int64]]:
        """Groups by name, ``(groups, size)``; ranks lie as [stage][replica][tensor index]."""
        grid = np.arange(self.gpus).reshape(self.pp, self.dp, self.tp)
        experts = grid.reshape(self.pp, self.dp // self.ep, self.ep, self.tp)
        return {
            "tp": grid.reshape(-1, self.tp),
            "dp": grid.transpose(0, 2, 1).reshape(-1, self.dp),
            "ep": experts.transpose(0, 1, 3, 2).reshape(-1, self.ep),
            "edp": experts.transpose(0, 2, 3, 1).reshape(-1, self.dp // self.ep),
            "pp": grid.transpose(1, 2, 0).reshape(-1, self.pp),
        }


def read_simai(path: Path, progress: Progress | None = None) -> Imported:
    """Read a layer table.

    Parameters
    ----------
    path
        The file.
    progress
        Is given the share that is done, and what is being done.

    Raises
    ------
    InputError
        If it is no such table, rows are missing, or degrees do not fit the number of GPUs.
    """
    name = shown_path(path)
    lines = decode(read_compressed(path, "layer table", MAX_FILE_BYTES), name).splitlines()
    sizes = _header(lines, name)
    rows = _rows(lines, name)
    families = sizes.families()
    parts = _repeated(rows, sizes.ga)
    schedule = _schedule(sizes, len(parts[1]))
    calls = (3 * len(rows) + 4 * schedule.micro_batches * schedule.vpp) * sizes.pp
    if calls > MAX_CALLS:
        raise InputError(f"{name}: {calls:,} calls of all stages; the limit is {MAX_CALLS:,}")
    recorded = []
    for stage in range(sizes.pp):
        advance(progress, stage / sizes.pp, f"stage {stage}")
        recorded.append(_Stage(sizes, schedule, families, stage).recording(*parts))
    groups = [
        ProcessGroup(family, tuple(group))
        for family, members in families.items()
        for group in members.tolist()
        if len(group) > 1
    ]
    trace = make_trace(sizes.gpus, ("SimAI",), recorded, groups)
    return Imported("SimAI layer table", trace, {}, _remarks(sizes, schedule, rows))


def _schedule(sizes: TableSizes, batches: int) -> PipelineSchedule:
    """The interleaved schedule where the header says so and Megatron-LM has it."""
    fits = sizes.pp > 1 and batches % sizes.pp == 0
    return PipelineSchedule(sizes.pp, sizes.vpp if fits else 1, batches)


def _remarks(
    sizes: TableSizes, schedule: PipelineSchedule, rows: Sequence[LayerRow]
) -> tuple[str, ...]:
    lines = []
    if sizes.pp > 1:
        lines.append(f"all {sizes.pp} stages are taken to be alike")
    if schedule.vpp > 1:
        lines.append(
            f"stages are interleaved: the rows of a micro-batch are divided into {schedule.vpp} "
            "chunks, which hand on to each other"
        )
    elif sizes.vpp > 1 and sizes.pp > 1:
        lines.append(
            f"vpp {sizes.vpp} is not played: interleaved stages need a multiple of {sizes.pp} "
            f"micro-batches, and there are {schedule.micro_batches}"
        )
    if sizes.checkpoints or sizes.initiates:
        lines.append(
            f"recomputation is not played: checkpoints of {sizes.checkpoints:,} layers, and "
            f"{sizes.initiates:,} that begin it"
        )
    if sizes.unknown:
        lines.append(f"the header's {', '.join(sizes.unknown)} is not read")
    if schedule.micro_batches != sizes.ga:
        lines.append(
            f"rows do not repeat {sizes.ga} times, as ga says: a step is one pass through the table"
        )
    if all(row.forward.nanoseconds <= 1 for row in rows):
        lines.append("no layer has a time: the table was written without measurements")
    return tuple(lines)


def _header(lines: list[str], name: str) -> TableSizes:
    words = lines[0].split() if lines else []
    if not words or words[0] not in POLICIES:
        shown = echo(words[0]) if words else "nothing"
        raise InputError(
            f"{name}: begins with {shown}: expected a layer table of {' or '.join(POLICIES)}"
        )
    values = {"ep": 1, "pp": 1, "ga": 1, "message": 0}
    unknown = [word[:40] for word in words[1:] if word[-1] == ":" and word[:-1] not in _KEYS]
    for word, value in itertools.pairwise(words):
        key = _KEYS.get(word.removesuffix(":"))
        if key is not None:
            may_be_zero = key in ("message", "checkpoints", "initiates")
            values[key] = _whole(value.removesuffix(".0"), f"{name}: {word}", not may_be_zero)
    missing = [old for old, key in _KEYS.items() if key in ("tp", "gpus") and key not in values]
    if missing:
        raise InputError(f"{name}: the header does not say {' and '.join(missing)}")
    sizes = TableSizes(**values, unknown=tuple(unknown[:8]))
    if sizes.gpus > MAX_GPUS:
        raise InputError(f"{name}: {sizes.gpus:,} GPUs; the limit is {MAX_GPUS:,}")
    if sizes.gpus % (sizes.tp * sizes.pp) or sizes.dp % sizes.ep:
        raise InputError(
            f"{name}: {sizes.gpus:,} GPUs are no multiple of tp {sizes.tp} x pp {sizes.pp} x ep "
            f"{sizes.ep}"
        )
    return sizes


def _whole(text: str, where: str, positive: bool = False) -> int:
    if not re.fullmatch(r"\d{1,18}", text) or (positive and int(text) == 0):
        expected = "a positive whole number" if positive else "a whole number"
        raise InputError(f"{where}: {echo(text)}: expected {expected}")
    return int(text)


def _rows(lines: list[str], name: str) -> list[LayerRow]:
    number = _whole(lines[1].strip() if len(lines) > 1 else "", f"{name}, line 2: rows", True)
    if number > MAX_ROWS:
        raise InputError(f"{name}, line 2: {number:,} rows; the limit is {MAX_ROWS:,}")
    rows = [(place, line) for place, line in enumerate(lines[2:], 3) if line.strip()]
    if len(rows) != number:
        raise InputError(f"{name}: has {len(rows):,} rows; line 2 says {number:,}")
    return [_row(line.split(), f"{name}, line {place}") for place, line in rows]


def _row(words: list[str], where: str) -> LayerRow:
    if len(words) != 12:
        raise InputError(f"{where}: {len(words)} columns: expected 12")
    passes = [
        _work(words[first : first + 3], where, without_suffix)
        for first, without_suffix in ((2, "tp"), (5, "tp"), (8, "dp"))
    ]
    return LayerRow(words[0][:100], *passes)


def _work(words: list[str], where: str, without_suffix: str) -> LayerWork:
    nanoseconds, size = _whole(words[0], where), _whole(words[2], where)
    if words[1] == "NONE":
        return LayerWork(nanoseconds, None, "", 0)
    match = _COMMUNICATION.fullmatch(words[1])
    if match is None:
        names = ", ".join(OPERATIONS)
        raise InputError(
            f"{where}: {echo(words[1])}: expected NONE, or {names} with _EP, _DP_EP or nothing"
        )
    group = _SUFFIXES.get(match[2], without_suffix)
    return LayerWork(nanoseconds, OPERATIONS[match[1]], group, size)


def _repeated(
    rows: Sequence[LayerRow], times: int
) -> tuple[Sequence[LayerRow], list[Sequence[LayerRow]], Sequence[LayerRow]]:
    """Rows before, those of each micro-batch, and rows after; all are of one where none repeat.

    Rows are the same if they are of the same layer and communicate alike.
    """
    numbers: dict[object, int] = {}
    kinds = np.array([numbers.setdefault(_kind(row), len(numbers)) for row in rows])
    longest = len(rows) // times
    shortest = max(1, -(-(len(rows) - MAX_ONCE) // times))
    for length in range(longest, shortest - 1, -1) if times > 1 else ():
        differs = np.flatnonzero(kinds[length:] != kinds[:-length])
        edges = np.concatenate([[-1], differs, [len(kinds) - length]])
        runs = np.diff(edges) - 1
        if runs.max() >= length * (times - 1):
            first = int(edges[runs.argmax()]) + 1
            after = first + length * times
            parts = [rows[place : place + length] for place in range(first, after, length)]
            return rows[:first], parts, rows[after:]
    return [], [rows], []


def _kind(row: LayerRow) -> object:
    passes = (row.forward, row.input_gradient, row.weight_gradient)
    return row.name, *((work.op, work.group, work.size_bytes) for work in passes)


class _Stage:
    """Makes the program of one pipeline stage."""

    def __init__(
        self,
        sizes: TableSizes,
        schedule: PipelineSchedule,
        families: dict[str, npt.NDArray[np.int64]],
        stage: int,
    ) -> None:
        self._sizes = sizes
        self._schedule = schedule
        self._stage = stage
        rank = stage * sizes.dp * sizes.tp
        self._program = RankProgram(rank)
        self._groups = {
            name: tuple(members[(members == rank).any(axis=1)][0].tolist())
            for name, members in families.items()
        }
        sources = {(stage + offset) % sizes.pp for offset in (1, -1)} - {stage}
        #: what is still to come of other stages, in the order in which they send it
        self._arrivals = {source: iter(schedule.arrivals(stage, source)) for source in sources}
        #: calls that receive what is not wanted yet
        self._early: dict[Message, int] = {}

    def recording(
        self,
        before: Sequence[LayerRow],
        batches: list[Sequence[LayerRow]],
        after: Sequence[LayerRow],
    ) -> RankTrace:
        """One step: a warm-up, forward and backward in turn, a cool-down."""
        self._forward(before)
        left = sum(step.phase == "forward" for step in self._schedule.passes(self._stage))
        for step in self._schedule.passes(self._stage):
            rows = self._chunk(batches[step.micro_batch], step.chunk)
            self._receive(step)
            (self._forward if step.phase == "forward" else self._backward)(rows)
            self._send(step)
            left -= step.phase == "forward"
            if not left and step.phase == "forward":
                self._forward(after)
                self._backward(after)
        self._backward(before)
        return self._program.recording()

    def _chunk(self, rows: Sequence[LayerRow], chunk: int) -> Sequence[LayerRow]:
        number = self._schedule.vpp
        return rows[len(rows) * chunk // number : len(rows) * (chunk + 1) // number]

    def _receive(self, step: Pass) -> None:
        """Receive what a pass needs, after what its sender sends before it."""
        received = self._schedule.received(self._stage, step)
        if received is None:
            return
        source, wanted = received
        if wanted in self._early:
            index = self._early.pop(wanted)
            calls = self._program.calls
            calls[index] = replace(calls[index], waited_at=self._program.place(0))
            return
        for message in self._arrivals[source]:
            if message == wanted:
                self._message("receive", source, message.phase, waits=True)
                return
            self._early[message] = len(self._program.calls)
            self._message("receive", source, message.phase, asynchronous=True)

    def _send(self, step: Pass) -> None:
        sent = self._schedule.sent(self._stage, step)
        if sent is not None:
            self._message("send", sent[0], step.phase, asynchronous=True)

    def _message(
        self, op: str, stage: int, phase: str, *, waits: bool = False, asynchronous: bool = False
    ) -> None:
        put, got = message_bytes(op, self._sizes.message, 2)
        self._call(
            op, "pp", put, got, phase=phase, peer=self._groups["pp"][stage], tag=0,
            asynchronous=asynchronous, waits=waits,
        )  # fmt: skip

    def _forward(self, rows: Sequence[LayerRow]) -> None:
        for row in rows:
            self._do(row.name, row.forward, "forward")

    def _backward(self, rows: Sequence[LayerRow]) -> None:
        for row in reversed(rows):
            self._do(row.name, row.input_gradient, "backward")
            self._do(row.name, row.weight_gradient, "backward", waits=False)

    def _do(self, layer: str, work: LayerWork, phase: str, *, waits: bool = True) -> None:
        # SimAI's generator writes 1 where nothing was measured
        if work.nanoseconds > 1:
            self._program.compute(0, 0, work.nanoseconds * 1e-9, phase=phase, layer=layer)
        if work.op is None or not work.size_bytes:
            return
        ranks = self._groups[work.group]
        if len(ranks) < 2:
            return
        put = work.size_bytes
        if work.op == "all_gather":
            put = -(-put // len(ranks))
        put, got = message_bytes(work.op, put, len(ranks))
        self._call(work.op, work.group, put, got, phase=phase, layer=layer, waits=waits,
                   asynchronous=not waits)  # fmt: skip

    def _call(
        self, op: str, group: str, put: int, got: int, *, waits: bool, **others: object
    ) -> None:
        reduction = "sum" if op in ("all_reduce", "reduce_scatter") else None
        root = self._groups[group][0] if op == "broadcast" else None
        following = len(self._program.calls) + 1
        call = replace(
            EMPTY_CALL, op=op, function=op, group=group, ranks=self._groups[group],
            input_bytes=put, output_bytes=got, reduction=reduction, root=root,
            waited_before=following if waits else None, **others,  # type: ignore[arg-type]
        )  # fmt: skip
        self._program.call(call)
