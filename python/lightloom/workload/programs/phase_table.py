"""A demand trace: a table of phases, of who sends how many bytes to whom in each.

Columns are ``phase``, ``source``, ``destination``, ``bytes``, and, where ranks compute before they
send, ``compute_s``: seconds of the source before it sends in that phase. Phases are numbered from
0 in their order, ranks from 0; a phase without rows is an empty one. In NumPy a trace is an array
of bytes, ``(phases, ranks, ranks)``. Phases that are alike are found, and kept once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lightloom.demand.byte_matrix import parse_npy
from lightloom.errors import DemandError, echo
from lightloom.inputs.files import first_line, open_file, shown_path
from lightloom.inputs.text_table import Columns, heads_of, parse_table
from lightloom.optional import need
from lightloom.workload.compute_kernels import Kernels
from lightloom.workload.programs.phases import PURPOSE, Phase, PhaseSequence, phase_graph
from lightloom.workload.programs.program import ProgramStep

#: of a file; rows; phases; ranks
MAX_FILE_BYTES, MAX_ROWS, MAX_PHASES, MAX_RANKS = 1 << 30, 20_000_000, 1_000_000, 65_536
_MAX_BYTES = 2**53
_NEEDED = ("phase", "source", "destination", "bytes")
_COLUMNS = Columns("phases", needed=_NEEDED, optional=("compute_s",))
_TEXT, _PARQUET, _NUMPY = (".csv", ".tsv", ".txt"), ".parquet", ".npy"
#: bytes of a file that its header is in
_HEAD_BYTES = 4096

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DemandTrace:
    """The phases of a file.

    Attributes
    ----------
    name
        Of the file.
    phases
        What ranks compute and send.
    """

    name: str
    phases: PhaseSequence

    @property
    def gpus(self) -> int:
        """Ranks up to the last one that sends or receives."""
        return self.phases.ranks

    @property
    def computes(self) -> bool:
        """Whether some rank computes."""
        return any(np.any(phase.compute_s) for phase in self.phases.distinct)

    def check(self, gpus: int) -> None:
        """Refuse fewer ranks than it has.

        Raises
        ------
        DemandError
            If there are.
        """
        if gpus < self.gpus:
            raise DemandError(
                f"gpus = {gpus}: the demand trace has ranks up to {self.gpus - 1}; leave --gpus "
                f"out, or use at least {self.gpus}"
            )

    def opening(self, gpus: int) -> list[str]:
        """How many phases of how many ranks."""
        count, alike = len(self.phases.order), len(self.phases.distinct)
        which = f", {alike:,} of them unlike each other" if alike < count else ""
        return [f"{self.name} (demand trace): {gpus:,} ranks, {count:,} phases{which}"]

    def step(
        self,
        gpus: int,
        gpus_per_server: int,
        kernels: Kernels,  # noqa: ARG002 - compute times are those of the file
        compute_scale: float,
    ) -> ProgramStep:
        """All phases, once."""
        phases = self.phases
        if gpus > phases.ranks:
            order = {id(phase): _widened(phase, gpus) for phase in phases.distinct}
            phases = PhaseSequence(
                gpus, tuple(order[id(phase)] for phase in phases.order), phases.purpose
            )
        graph = phase_graph(phases, gpus_per_server, compute_scale)
        return ProgramStep(graph, gpus_per_server, {"demand": f"{self.name}, as recorded"})


def _widened(phase: Phase, ranks: int) -> Phase:
    """A phase of more ranks, of which the last ones do nothing."""
    if isinstance(phase.compute_s, float | int):
        return phase
    compute = np.zeros(ranks)
    compute[: len(phase.compute_s)] = phase.compute_s
    return Phase(phase.source, phase.destination, phase.size_bytes, compute)


def is_phase_table(path: Path) -> bool:
    """Whether a file is to be read as phases: by its ending, and of text by its header."""
    suffix = path.suffix.lower()
    if suffix in (_PARQUET, _NUMPY):
        return True
    if suffix not in _TEXT or not path.is_file():
        return False
    with path.open("rb") as stream:
        return {"phase", "source"} <= set(heads_of(stream.read(_HEAD_BYTES)))


def read_phases(path: Path) -> DemandTrace:
    """Read a demand trace: CSV and its kin, Parquet, or NumPy.

    Raises
    ------
    DemandError
        If it cannot be read, is too large, or a row of it is wrong: which.
    """
    name, suffix = shown_path(path), path.suffix.lower()
    with open_file(path, "demand trace", MAX_FILE_BYTES, DemandError) as stream:
        if suffix == _NUMPY:
            return DemandTrace(path.name, _from_array(stream.read(), name))
        if suffix == _PARQUET:
            columns = _from_parquet(stream, name)
        else:
            table = parse_table(stream.read(), name, _COLUMNS, DemandError)
            columns = {column: table.whole(column) for column in _NEEDED}
            columns["compute_s"] = table.numbers("compute_s", 0.0)
    _check_rows(columns, name)
    return DemandTrace(path.name, _from_rows(columns))


def _from_parquet(stream: BinaryIO, name: str) -> dict[str, npt.NDArray[Any]]:
    need("polars", "a Parquet table of phases")
    import polars
    from polars.exceptions import PolarsError

    try:
        table = polars.scan_parquet(stream)
        schema = table.collect_schema()
        missing = next((column for column in _NEEDED if column not in schema), None)
        if missing is not None:
            raise DemandError(
                f"{name}: column '{missing}' is missing; expected {', '.join(_COLUMNS.known)}"
            )
        rows = int(table.select(polars.len()).collect().item())
        if rows > MAX_ROWS:
            raise DemandError(f"{name}: {rows:,} rows exceed the limit of {MAX_ROWS:,}")
        kept = [column for column in _COLUMNS.known if column in schema]
        whole = table.select(polars.col(_NEEDED).cast(polars.Int64), *kept[len(_NEEDED) :])
        frame = whole.collect()
    except (PolarsError, OSError, ValueError) as error:
        raise DemandError(f"{name}: not a table of phases: {first_line(str(error))}") from None
    if any(frame.null_count().row(0)):
        raise DemandError(f"{name}: has empty cells: expected whole numbers")
    columns = {column: frame[column].to_numpy() for column in kept}
    columns.setdefault("compute_s", np.zeros(rows))
    return columns


def _check_rows(columns: Mapping[str, npt.NDArray[Any]], name: str) -> None:
    """Refuse the first row with a number out of its range."""
    if not len(columns["phase"]):
        raise DemandError(f"{name}: expected rows below the header")
    limits = {
        "phase": MAX_PHASES - 1, "source": MAX_RANKS - 1, "destination": MAX_RANKS - 1,
        "bytes": _MAX_BYTES, "compute_s": 1e6,
    }  # fmt: skip
    for column, limit in limits.items():
        values = columns[column]
        wrong = ~((values >= 0) & (values <= limit))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DemandError(
                f"{name}: row {row + 1} below the header: {column} is {echo(values[row].item())}, "
                f"expected 0 to {limit:,g}"
            )


def _from_rows(columns: Mapping[str, npt.NDArray[Any]]) -> PhaseSequence:
    """Phases of rows in any order: pairs of a phase add up, and a source computes the longest."""
    ends = columns["source"], columns["destination"]
    ranks = 1 + int(max(ends[0].max(), ends[1].max()))
    number = columns["phase"]
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(int(number.max()) + 2))

    def phases() -> Iterator[Phase]:
        for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            rows = order[first:end]
            source, destination = ends[0][rows], ends[1][rows]
            compute: Floats | float = 0.0
            if columns["compute_s"][rows].any():
                compute = np.zeros(ranks)
                np.maximum.at(compute, source, columns["compute_s"][rows])
            yield _added(source * ranks + destination, columns["bytes"][rows], ranks, compute)

    return PhaseSequence(ranks, _shared(phases()), PURPOSE)


def _added(pairs: Ints, sizes: Ints, ranks: int, compute: Floats | float) -> Phase:
    """A phase whose pairs are there once, ascending."""
    unique, place = np.unique(pairs, return_inverse=True)
    total = np.zeros(len(unique), dtype=np.int64)
    np.add.at(total, place, sizes)
    kept = total > 0
    return Phase(unique[kept] // ranks, unique[kept] % ranks, total[kept], compute)


def _shared(phases: Iterator[Phase]) -> tuple[Phase, ...]:
    """The same phases, where those that are alike are one object."""
    known: dict[bytes, Phase] = {}
    order = []
    for phase in phases:
        arrays = (phase.source, phase.destination, phase.size_bytes, np.asarray(phase.compute_s))
        key = b"|".join(array.tobytes() for array in arrays)
        order.append(known.setdefault(key, phase))
    return tuple(order)


def _from_array(content: bytes, name: str) -> PhaseSequence:
    array = parse_npy(content, name, _check_cube)
    good = (array >= 0) & (array <= _MAX_BYTES) & (array == np.floor(array))
    if not good.all():
        place = tuple(map(int, np.argwhere(~good)[0]))
        raise DemandError(f"{name}: entry {place} is no whole number of bytes from 0 to 2^53")
    ranks = array.shape[1]

    def phases() -> Iterator[Phase]:
        for matrix in array.astype(np.int64):
            source, destination = np.nonzero(matrix)
            yield Phase(source, destination, matrix[source, destination])

    return PhaseSequence(ranks, _shared(phases()), PURPOSE)


def _check_cube(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 3 or shape[1] != shape[2] or not 1 <= shape[1] <= 4096 or shape[0] < 1:
        raise DemandError(
            f"{name}: expected bytes as (phases, ranks, ranks), at most 4,096 ranks, got the shape "
            f"{echo(shape)}"
        )
    if math.prod(shape) > 400_000_000:
        raise DemandError(f"{name}: {math.prod(shape):,} numbers exceed the limit of 400,000,000")
