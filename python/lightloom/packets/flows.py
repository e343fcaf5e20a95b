"""Flows: from which host to which, how many bytes, from when on.

They come as arrays or from a table in text with the columns ``src``, ``dst``, ``bytes`` and, if
need be, ``start_us`` (otherwise 0), ``route`` (otherwise shortest paths), ``after`` (flows that it
waits for), ``delay_us`` (for how much longer), ``priority`` (0 to 7: ports send packets of
higher ones first) and ``class`` (a transport, or a class of the scenario). The columns that results
add are ignored, so that a result can be simulated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.inputs.arguments import path_of
from lightloom.inputs.files import read_input
from lightloom.inputs.text_table import Columns, Whole, parse_table
from lightloom.packets.foreign_flows import foreign_flows, foreign_remarks
from lightloom.packets.scenario import MAX_SIZE
from lightloom.units import PS_PER_S

if TYPE_CHECKING:
    from lightloom.packets.programs import Programs

#: largest file, maximum number of flows, latest start
MAX_FILE_BYTES, MAX_FLOWS, MAX_START_S = 256 * 10**6, 2**22, 1000.0
#: highest priority of a flow; stands for that of its class
HIGHEST_PRIORITY, OF_CLASS = 7, -(2**62)
#: columns of a file, and what results add to them
COLUMNS = Columns(
    "flows",
    needed=("src", "dst", "bytes"),
    optional=("start_us", "route", "after", "delay_us", "priority", "class"),
    ignored=("flow", "flow_id", "began_us", "fct_us", "slowdown"),
)


@dataclass(frozen=True)
class Flows:
    """Flows of a run, numbered from 0 in this order; all arrays are ``(flows,)``.

    Attributes
    ----------
    source, destination
        Hosts, from 0 on.
    size_bytes
        Payload.
    start_s
        When each begins.
    name
        Where they come from, for messages.
    lines
        Line of the file of each flow, for messages; ``None`` if they come from no file.
    routes
        The nodes of the path of each flow, parted by spaces, its ends among them; empty text, or
        ``None`` for all, leaves the choice to the network.
    after
        Numbers of the flows that each waits for, parted by spaces: it begins when their receivers
        have everything; ``None`` if none waits.
    delay_s
        For how much longer each waits then; ``None`` if for no longer.
    programs
        Operations that decide when flows begin, in the place of ``start_s`` and ``after``.
    priority
        From 0 to 7, of which ports send higher ones first; :data:`OF_CLASS` where a flow has that
        of its class, ``None`` where all have.
    classes
        The class of each flow: the name of a transport or of a class of the scenario, empty for
        the scenario's own; ``None`` where all are of that.
    nics
        Of their hosts, from 0 on, that flows leave and arrive by; ``None`` for the first of each,
        or those that routes say.
    remarks
        What of a list in the form of another simulator is not simulated, a sentence each.

    Examples
    --------
    >>> import lightloom
    >>> len(lightloom.make_flows([0, 1], [2, 3], 1_000_000))
    2
    """

    source: Whole
    destination: Whole
    size_bytes: Whole
    start_s: npt.NDArray[np.float64]
    name: str = "flows"
    lines: Whole | None = None
    routes: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    delay_s: npt.NDArray[np.float64] | None = None
    programs: Programs | None = None
    priority: Whole | None = None
    classes: tuple[str, ...] | None = None
    nics: tuple[Whole, Whole] | None = None
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse columns that are not as :func:`make_flows` makes them."""
        for name, kinds in (("source", "iu"), ("destination", "iu"), ("size_bytes", "iu"),
                            ("start_s", "f")):  # fmt: skip
            column = getattr(self, name)
            fits = isinstance(column, np.ndarray) and column.ndim == 1
            if not fits or column.dtype.kind not in kinds or len(column) != len(self.source):
                raise InputError(
                    f"flows: {name}: expected an array such as make_flows makes, got {echo(column)}"
                )

    def __len__(self) -> int:
        return len(self.source)

    @property
    def start_ps(self) -> npt.NDArray[np.uint64]:
        """Starts in whole picoseconds."""
        return np.rint(self.start_s * PS_PER_S).astype(np.uint64)

    @property
    def priorities(self) -> npt.NDArray[np.uint8]:
        """The priority of each flow, 0 where it has that of its class."""
        if self.priority is None:
            return np.zeros(len(self), np.uint8)
        return np.where(self.priority == OF_CLASS, 0, self.priority).astype(np.uint8)

    def with_priority(self, priority: npt.ArrayLike) -> Flows:
        """The same, with a priority of each flow, or one of all, from 0 to 7.

        Raises
        ------
        InputError
            If there is not one whole number for each flow.

        Examples
        --------
        >>> import lightloom
        >>> lightloom.make_flows([0, 1], [1, 2], 1_000_000).with_priority([0, 7]).priority.tolist()
        [0, 7]
        """
        levels = _as_whole(priority, "priority")
        if levels.shape not in ((), (len(self),)):
            raise InputError(f"{self.name}: priority: expected a number for each of {len(self):,}")
        return replace(self, priority=np.broadcast_to(levels, (len(self),)))

    def with_class(self, classes: str | Sequence[str]) -> Flows:
        """The same, with a class of each flow, or one of all.

        Parameters
        ----------
        classes
            Names of transports, or of classes of the scenario; empty for the scenario's own.

        Raises
        ------
        InputError
            If there is not one text for each flow.

        Examples
        --------
        >>> import lightloom
        >>> lightloom.make_flows([0, 1], [1, 2], 1_000_000).with_class(["roce", "dctcp"]).classes
        ('roce', 'dctcp')
        """
        names = [classes] * len(self) if isinstance(classes, str) else classes
        if not _are_texts(names, len(self)):
            raise InputError(f"{self.name}: class: expected a text for each of {len(self):,} flows")
        return replace(self, classes=tuple(names))

    def joined(self, other: Flows) -> Flows:
        """These flows, and behind them others, which wait for none."""
        counts = len(self), len(other)

        def both(name: str, absent: object) -> Any:
            """A column that either may lack."""
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is None and theirs is None:
                return None
            parts = [
                (absent,) * count if part is None else tuple(part)
                for part, count in zip((mine, theirs), counts, strict=True)
            ]
            return parts[0] + parts[1]

        def numbers(name: str, absent: float = 0) -> Any:
            values = both(name, absent)
            return None if values is None else np.array(values)

        return replace(
            self,
            source=np.concatenate([self.source, other.source]),
            destination=np.concatenate([self.destination, other.destination]),
            size_bytes=np.concatenate([self.size_bytes, other.size_bytes]),
            start_s=np.concatenate([self.start_s, other.start_s]),
            name=f"{self.name} and {other.name}",
            lines=None,
            routes=both("routes", ""),
            after=both("after", ""),
            delay_s=numbers("delay_s", 0.0),
            priority=numbers("priority", OF_CLASS),
            classes=both("classes", ""),
            nics=_joined_nics(self, other),
            remarks=(*self.remarks, *other.remarks),
        )

    def waiting(self, after: Sequence[str], delay_s: Any = 0.0) -> Flows:
        """The same, where flows wait for others.

        Parameters
        ----------
        after
            The numbers of the flows that each waits for, such as ``"0 3"``; empty for none.
        delay_s
            For how much longer it waits; one number stands for all that wait.

        Raises
        ------
        InputError
            If there is not one of each for every flow.

        Examples
        --------
        >>> import lightloom
        >>> lightloom.make_flows([0, 1], [1, 2], 1_000_000).waiting(["", "0"]).after
        ('', '0')
        """
        count, delays = len(self), _as_numbers(delay_s, "delay_s")
        if not _are_texts(after, count) or delays.shape not in ((), (count,)):
            raise InputError(
                f"{self.name}: after, delay_s: expected a text and a number for each of {count:,} "
                "flows"
            )
        waits = np.array([bool(text.strip()) for text in after])
        each = np.where(waits, delays, 0.0) if delays.ndim == 0 else delays
        return replace(self, after=tuple(after), delay_s=each)

    def place(self, flow: int) -> str:
        """Where a flow is written down: the beginning of a message about it."""
        if self.lines is not None:
            return f"{self.name}, line {self.lines[flow]}"
        return f"{self.name}: flow {flow}"


def make_flows(
    source: Any,
    destination: Any,
    size_bytes: Any,
    start_s: Any = 0.0,
    *,
    routes: Sequence[str] | None = None,
    name: str = "flows",
) -> Flows:
    """Flows from arrays; one number stands for all, ``name`` begins messages.

    ``routes`` are the nodes that each flow passes, such as ``"0 tor-0 agg-1 tor-1 5"``.

    Raises
    ------
    InputError
        If they are no whole numbers (``start_s``: no numbers; ``routes``: no text) or differ in
        length.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.make_flows([0, 1], [2, 3], 1_000_000, start_s=[0.0, 1e-6]).start_s.tolist()
    [0.0, 1e-06]
    """
    ends = _as_whole(source, "source"), _as_whole(destination, "destination")
    columns = (*ends, _as_whole(size_bytes, "size_bytes"), _as_numbers(start_s, "start_s"))
    lengths = {column.size for column in columns if column.ndim}
    if any(column.ndim > 1 for column in columns) or len(lengths) > 1:
        shapes = ", ".join(str(column.shape) for column in columns)
        raise InputError(f"{name}: expected arrays of one axis and one length, got {shapes}")
    shape = (lengths.pop() if lengths else 1,)
    first, last, size = (np.broadcast_to(column, shape) for column in columns[:3])
    if routes is not None and not _are_texts(routes, *shape):
        raise InputError(f"{name}: routes: expected a text for each of {shape[0]:,} flows")
    starts = np.broadcast_to(columns[3], shape)
    return Flows(first, last, size, starts, name, None, None if routes is None else tuple(routes))


def _joined_nics(first: Flows, second: Flows) -> tuple[Whole, Whole] | None:
    """The NICs of flows and of those behind them; the first of a host where none is given."""
    if first.nics is None and second.nics is None:
        return None
    none = [(np.zeros(len(it), np.int64),) * 2 for it in (first, second)]
    mine, theirs = first.nics or none[0], second.nics or none[1]
    return np.concatenate([mine[0], theirs[0]]), np.concatenate([mine[1], theirs[1]])


def _are_texts(values: Any, count: int) -> bool:
    """Whether values are a list of so many texts."""
    several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    listed = list(values) if several else []
    return len(listed) == count and all(isinstance(item, str) for item in listed)


def _as_numbers(values: Any, name: str) -> npt.NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise InputError(f"flows: {name}: expected numbers, got {echo(array.dtype)}")
    return array.astype(np.float64)


def _as_whole(values: Any, name: str) -> Whole:
    numbers = _as_numbers(values, name)
    if not (np.abs(numbers) <= 2**53).all() or (numbers != np.floor(numbers)).any():
        raise InputError(f"flows: {name}: expected whole numbers up to 2^53")
    return np.asarray(values).astype(np.int64)


def check_flows(flows: Flows, hosts: int) -> None:
    """Refuse flows that so many hosts cannot have.

    Raises
    ------
    InputError
        Naming the first flow that is wrong, and its line.
    """
    if not len(flows):
        raise InputError(f"{flows.name}: there are no flows; expected at least one")
    if len(flows) > MAX_FLOWS:
        raise InputError(f"{flows.name}: {len(flows):,} flows exceed the limit of {MAX_FLOWS:,}")
    for what, ends in (("src", flows.source), ("dst", flows.destination)):
        _refuse(flows, (ends < 0) | (ends >= hosts), lambda flow, what=what, ends=ends: (
            f"{what} {ends[flow]}: expected a host from 0 to {hosts - 1:,}"
        ))  # fmt: skip
    _refuse(flows, flows.source == flows.destination, lambda flow: (
        f"host {flows.source[flow]} sends to itself; expected another dst"
    ))  # fmt: skip
    if (programs := flows.programs) is not None and (programs.rank >= hosts).any():
        title = programs.title(int(np.argmax(programs.rank >= hosts)))
        raise InputError(f"{flows.name}: {title}: expected ranks from 0 to {hosts - 1:,}")
    sizes = flows.size_bytes
    # programs have messages that only tell
    lowest = 1 if flows.programs is None else 0
    _refuse(flows, (sizes < lowest) | (sizes > MAX_SIZE), lambda flow: (
        f"{sizes[flow]:,} bytes: expected {lowest} to {MAX_SIZE:,}"
    ))  # fmt: skip
    if (priority := flows.priority) is not None:
        is_level = (priority >= 0) & (priority <= HIGHEST_PRIORITY) | (priority == OF_CLASS)
        _refuse(flows, ~is_level, lambda flow: (
            f"priority {priority[flow]}: expected 0 to {HIGHEST_PRIORITY}"
        ))  # fmt: skip
    starts = flows.start_s
    _refuse(flows, ~((starts >= 0) & (starts <= MAX_START_S)), lambda flow: (
        f"starts at {starts[flow] * 1e6:g} us: expected 0 to {MAX_START_S * 1e6:g} us"
    ))  # fmt: skip


def _refuse(flows: Flows, wrong: npt.NDArray[np.bool_], say: Any) -> None:
    if wrong.any():
        flow = int(np.argmax(wrong))
        raise InputError(f"{flows.place(flow)}: {say(flow)}")


def read_flows(path: Path | str) -> Flows:
    """Read flows from a table in text; ``-`` is standard input.

    Raises
    ------
    InputError
        If it cannot be read, is too large, or is no table of flows.

    Examples
    --------
    >>> import lightloom
    >>> flows = lightloom.read_flows("examples/ring/flows.csv")
    >>> flows.name
    'examples/ring/flows.csv'
    """
    path = path_of(path, "flows", "Flows, or the path of a table of them")
    return parse_flows(*read_input(path, "list of flows", MAX_FILE_BYTES))


def parse_flows(content: bytes, name: str) -> Flows:
    """Parse a table of flows, or a list of htsim or of HPCC's ns-3 model; ``name`` and the line
    begin messages.

    Raises
    ------
    InputError
        If it is no such table. Whether hosts and routes exist is not looked at here.
    """
    if (foreign := foreign_flows(content, name)) is not None:
        return Flows(
            source=foreign["source"],
            destination=foreign["destination"],
            size_bytes=foreign["size_bytes"],
            start_s=foreign["start_s"],
            name=name,
            lines=foreign["lines"],
            remarks=foreign_remarks(foreign, name),
        )
    table = parse_table(content, name, COLUMNS)
    starts_us = table.numbers("start_us") if "start_us" in table.places else np.zeros(len(table))
    return Flows(
        source=table.whole("src"),
        destination=table.whole("dst"),
        size_bytes=table.whole("bytes"),
        start_s=starts_us / 1e6,
        name=name,
        lines=table.lines,
        routes=tuple(table.texts("route")) if "route" in table.places else None,
        after=tuple(table.texts("after")) if "after" in table.places else None,
        delay_s=table.numbers("delay_us", 0.0) / 1e6 if "delay_us" in table.places else None,
        priority=table.whole("priority", OF_CLASS) if "priority" in table.places else None,
        classes=tuple(table.texts("class")) if "class" in table.places else None,
    )
