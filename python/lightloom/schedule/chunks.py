"""Chunks of an all-to-all: sent once compute has produced them, in time for those who need them.

Demand is divided into chunks. Each has a *release*, the time at which compute has produced it, and
perhaps a *deadline*, the time at which compute needs it. No byte is sent before the release of its
chunk. Circuits are those of :mod:`lightloom.schedule.hybrid`, with or without packet switches (EPS)
alongside; a slot may begin later than the one before ends. Relaying and several switches are left
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError, echo
from lightloom.schedule.arrays import as_array, one_of, optional_seconds, rate_bps, time_bytes
from lightloom.schedule.arrays import whole_matrix as _whole_matrix
from lightloom.schedule.named_sets import choices
from lightloom.schedule.results import Result, ResultTable, summary
from lightloom.schedule.served import MAX_BYTES
from lightloom.units import PS_PER_S, parse_quantity, show_bytes, show_time, to_ps

#: methods of :func:`decompose_chunks`: ours, then the references
CHUNK_METHODS = tuple(choices("chunk method"))

_NO_DEADLINE = 2**64 - 1
_DIMENSIONS = 3

Times = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ChunkSchedule(Result):
    """Matchings over time, and what is sent of which chunk when.

    Attributes
    ----------
    permutations
        Column that each row is joined to in each slot, or -1, ``(s, rows)``.
    starts_bytes, holds_bytes
        When the circuits of each slot begin to send, and how long they are held, ``(s,)``; the
        crossbar turns in the delay before. All times are in bytes of a circuit.
    transfers
        Rows of chunk, row, column, slot or -1 for packets, start, end, bytes, ``(t, 7)``.
    ends_bytes
        When the last byte of each part is sent, ``(chunks, rows, columns)``.
    releases_bytes, deadlines_bytes
        When each part is released, and needed, of the same shape; ``None`` without deadlines.
    length_bytes, lower_bound_bytes
        When the last byte of all is sent, and what no schedule can beat.
    lateness_bytes, lateness_bound_bytes
        The largest time from a deadline to the last byte, below 0 if all are met, and what no
        schedule can beat; ``None`` without deadlines.
    delay_bytes, circuit_bps, eps_bps
        The delay, and what a port sends per second over a circuit and into the EPS.
    method
        Whose schedule it is.
    time_spent_s
        Seconds that it took to find it.

    Examples
    --------
    >>> from lightloom.schedule import decompose_chunks
    >>> two = [[[0, 500], [500, 0]]] * 2
    >>> plan = decompose_chunks(two, ["10 ns", "20 ns"], delay_s="4 ns")
    >>> plan.starts_bytes.tolist(), plan.holds_bytes.tolist(), plan.length_s
    ([500], [1000], 3e-08)
    """

    permutations: npt.NDArray[np.int32]
    starts_bytes: Times
    holds_bytes: Times
    transfers: npt.NDArray[np.int64]
    ends_bytes: Times
    releases_bytes: Times
    deadlines_bytes: Times | None
    length_bytes: int
    lower_bound_bytes: int
    lateness_bytes: int | None
    lateness_bound_bytes: int | None
    delay_bytes: int
    circuit_bps: int
    eps_bps: int
    method: str
    time_spent_s: float = field(compare=False)

    def seconds(self, size_bytes: int) -> float:
        """Return the seconds in which a circuit carries so many bytes."""
        return size_bytes * 8 / self.circuit_bps

    @property
    def length_s(self) -> float:
        """Seconds until the last byte is sent."""
        return self.seconds(self.length_bytes)

    @property
    def lower_bound_s(self) -> float:
        """Seconds that no schedule can beat."""
        return self.seconds(self.lower_bound_bytes)

    @property
    def over_bound(self) -> float:
        """Length over lower bound; 1 is optimal (and 1 if there is nothing to send)."""
        return self.length_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0

    @property
    def lateness_s(self) -> float | None:
        """Largest time from a deadline to the last byte, in seconds."""
        return None if self.lateness_bytes is None else self.seconds(self.lateness_bytes)

    @property
    def lateness_bound_s(self) -> float | None:
        """Lateness that no schedule can beat, in seconds."""
        bound = self.lateness_bound_bytes
        return None if bound is None else self.seconds(bound)

    @property
    def late(self) -> npt.NDArray[np.bool_]:
        """Which parts end after their deadline, ``(chunks, rows, columns)``."""
        if self.deadlines_bytes is None:
            return np.zeros(self.ends_bytes.shape, dtype=np.bool_)
        sent = np.zeros(self.ends_bytes.shape, dtype=np.bool_)
        sent[tuple(self.transfers[:, :3].T)] = True
        return sent & (self.ends_bytes > self.deadlines_bytes)

    @property
    def late_chunks(self) -> list[int]:
        """Chunks of which a part ends after its deadline."""
        return [int(chunk) for chunk in np.flatnonzero(self.late.any(axis=(1, 2)))]

    @property
    def configurations(self) -> int:
        """How often the crossbar is set."""
        return len(self.holds_bytes)

    @property
    def packet_bytes(self) -> int:
        """Bytes that go as packets."""
        return int(self.transfers[self.transfers[:, 3] < 0, 6].sum())

    def tables(self) -> list[ResultTable]:
        """Return the table that is printed."""
        late = {}
        if self.lateness_s is not None:
            late = {
                "lateness": show_time(self.lateness_s),
                "late_chunks": f"{len(self.late_chunks)}",
            }
        return [
            summary(
                "Schedule of chunks",
                method=self.method,
                configurations=f"{self.configurations:,}",
                length=show_time(self.length_s),
                over_lower_bound=f"{self.over_bound:.3f}",
                **late,
                as_packets=show_bytes(self.packet_bytes),
            )
        ]

    def check(self, chunks: npt.ArrayLike) -> None:
        """Replay slots and transfers, independently of how the schedule was found.

        Every slot is a matching with a delay before it, every byte is sent once and not before its
        release, over circuits that are there or within the rate of every port of the EPS; length,
        lateness and bounds are as stated.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        cube = _cube(chunks)
        if cube.shape != self.ends_bytes.shape:
            size = " x ".join(map(str, self.ends_bytes.shape))
            raise InputError(f"chunks: expected {size}, got shape {cube.shape}")
        places = np.argwhere(cube > 0)
        number = np.zeros(cube.shape, dtype=np.int64)
        number[tuple(places.T)] = np.arange(len(places))
        transfers = np.column_stack((number[tuple(self.transfers[:, :3].T)], self.transfers[:, 3:]))
        ports = {name: getattr(self, name) for name in ("delay_bytes", "circuit_bps", "eps_bps")}
        request = _request(cube, self.releases_bytes, self.deadlines_bytes, ports)
        claim = replace(self, transfers=transfers, ends_bytes=self.ends_bytes[tuple(places.T)])
        try:
            _core.schedule_check_chunks(**request, schedule=claim)
        except ValueError as error:
            raise InputError(str(error)) from None


def decompose_chunks(  # noqa: PLR0913
    chunks: npt.ArrayLike,
    releases_s: npt.ArrayLike | Sequence[float | str],
    *,
    deadlines_s: npt.ArrayLike | Sequence[float | str] | None = None,
    eps_gbps: float = 0.0,
    delay_s: float | str = 0.0,
    rate_gbps: float = 400.0,
    method: str = "pipelined",
    time_limit_s: float | str | None = None,
) -> ChunkSchedule:
    """Schedule chunks over circuits, and packets if there is an EPS, as compute produces them.

    Parameters
    ----------
    chunks
        Whole bytes of each chunk from row to column, ``(chunks, rows, columns)``.
    releases_s
        When compute has produced each chunk: a time per chunk, or an array such as
        ``(chunks, rows, 1)`` where sources differ. Numbers, or text such as ``"1 ms"``.
    deadlines_s
        When compute needs each chunk, likewise. The schedule is then the least late, and of
        those short; else it is short.
    eps_gbps
        Rate of a port into the EPS, and out of it; 0 for circuits alone.
    delay_s
        Time that one reconfiguration takes; the first one may begin at time 0.
    rate_gbps
        Rate of a circuit.
    method
        ``"pipelined"``: slots for the chunks that are there and those to come; ``"in-order"``: one
        release time after the other; ``"together"``: once all are released.
    time_limit_s
        Time until which the search goes on.

    Returns
    -------
    ChunkSchedule
        Never worse than the other two if ``"pipelined"``: some 0.1 s at 8 lines, 0.5 s at 16. It
        replays plans of k slots, O(chunks k) each and 4 million steps in all without a limit; what
        is ours and what is not: ``docs/explanation/scheduling.md``. ``"in-order"`` as Lina (Li et
        al., USENIX ATC 2023).

    Raises
    ------
    DemandError
        If chunks are no such array, or have more than 256 lines.
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import decompose_chunks
    >>> two = [[[0, 500], [500, 0]]] * 2
    >>> decompose_chunks(two, [0, "20 ns"], deadlines_s=["15 ns", "40 ns"]).late_chunks
    []
    """
    one_of(method, "method", CHUNK_METHODS)
    limit_s = optional_seconds(time_limit_s, "time_limit_s")
    ports = eps_gbps, delay_s, rate_gbps
    cube, times, request = chunk_arguments(chunks, releases_s, deadlines_s, ports)
    try:
        schedule = _core.schedule_chunk_plan(**request, method=method, time_limit_s=limit_s)
    except ValueError as error:
        raise DemandError(str(error)) from None
    made_for = {"releases_bytes": times[0], "deadlines_bytes": times[1], **request["ports"]}
    by_part = _by_part(cube, times[0], schedule)
    return ChunkSchedule(method=method, **{**schedule, **made_for, **by_part})


def _by_part(cube: Times, releases: Times, found: Mapping[str, Times]) -> dict[str, Any]:
    """Transfers by chunk, row and column, and when each part ends, of the core's by number."""
    places, sent, ends = np.argwhere(cube > 0), found["transfers"], releases.copy()
    ends[tuple(places.T)] = found["ends_bytes"]
    transfers = np.column_stack((places[sent[:, 0]], sent[:, 1:]))
    return {"transfers": transfers, "ends_bytes": ends}


def chunk_arguments(
    chunks: npt.ArrayLike,
    releases_s: npt.ArrayLike | Sequence[float | str],
    deadlines_s: npt.ArrayLike | Sequence[float | str] | None,
    ports: tuple[float, float | str, float],
) -> tuple[Times, tuple[Times, Times | None], dict[str, Any]]:
    """Check chunks, their times and ports (EPS rate, delay, rate); return them for the core."""
    eps_gbps, delay_s, rate_gbps = ports
    circuit = rate_bps(rate_gbps, "rate_gbps", minimum=1e-9)
    none = isinstance(eps_gbps, int | float) and eps_gbps == 0
    eps = 0 if none else rate_bps(eps_gbps, "eps_gbps", minimum=1e-9)
    delay = time_bytes(delay_s, "delay_s", circuit)
    sizes = {"delay_bytes": delay, "circuit_bps": circuit, "eps_bps": eps}
    cube = _cube(chunks)
    releases = _times(releases_s, "releases_s", cube, circuit, up=True)
    deadlines = None
    if deadlines_s is not None:
        deadlines = _times(deadlines_s, "deadlines_s", cube, circuit, up=False)
    return cube, (releases, deadlines), _request(cube, releases, deadlines, sizes)


def _cube(chunks: npt.ArrayLike) -> Times:
    """Bytes of each chunk as one array."""
    array = as_array(chunks, "chunks", DemandError)
    if array.ndim != _DIMENSIONS:
        raise DemandError(f"chunks: expected chunks x rows x columns, got shape {array.shape}")
    flat = array.reshape(array.shape[0] * array.shape[1], array.shape[2])
    return _whole_matrix(flat, "chunks", MAX_BYTES, DemandError).reshape(array.shape)


def _times(values: Any, name: str, cube: Times, circuit_bps: int, *, up: bool) -> Times:
    """Times of each part in bytes of a circuit, rounded up or down."""
    array = np.asarray(as_array(values, name, InputError), dtype=object)
    each = array[:, np.newaxis, np.newaxis] if array.ndim == 1 else array
    try:
        # numpy would repeat a list of one time as well
        if array.ndim == 1 and len(array) != len(cube):
            raise ValueError
        each = np.broadcast_to(each, cube.shape)
    except ValueError:
        raise InputError(
            f"{name}: expected {len(cube)} times, one per chunk, or an array that fits "
            f"{' x '.join(map(str, cube.shape))}, got shape {array.shape}"
        ) from None
    bytes_of: dict[Any, int] = {}
    for value in each.flat:
        if not isinstance(value, int | float | str | np.generic):
            raise InputError(f"{name}: expected numbers or text with a unit, got {echo(value)}")
        if value not in bytes_of:
            time = value.item() if isinstance(value, np.generic) else value
            bytes_of[value] = time_bytes(time, name, circuit_bps)
            if not up:
                time_ps = to_ps(parse_quantity(time, "second", name))
                bytes_of[value] = time_ps * circuit_bps // (8 * PS_PER_S)
    times = [bytes_of[value] for value in each.flat]
    return np.array(times, dtype=np.uint64).reshape(cube.shape)


def _request(
    cube: Times, releases: Times, deadlines: Times | None, ports: dict[str, int]
) -> dict[str, Any]:
    """Chunks as rows of row, column, bytes, release and deadline, and all that goes with them."""
    places = np.argwhere(cube > 0)
    at = tuple(places.T)
    due = np.full(len(places), _NO_DEADLINE, dtype=np.uint64)
    if deadlines is not None:
        due = deadlines[at]
    rows, columns = places[:, 1].astype(np.uint64), places[:, 2].astype(np.uint64)
    table = np.column_stack((rows, columns, cube[at], releases[at], due))
    return {"chunks": np.ascontiguousarray(table), "lines": cube.shape[1:], "ports": ports}
