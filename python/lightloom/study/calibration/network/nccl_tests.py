"""Times that NCCL's tests print, as text or as JSON (``-J``), and those of AMD's RCCL likewise.

A table's head names its columns, which differ by version; the first time is that out of place.
Lines that MPI begins with a rank (``[1,0]<stdout>:``) lose it. Which test it was is in newer
versions' own words, else in the command above the table or in the name of the file.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lightloom.errors import InputError, echo
from lightloom.study.calibration.network.readings import (
    MAX_ROWS,
    Given,
    MeasuredSize,
    Reading,
    Servers,
    Test,
    placed,
)

#: our names of the tests that say something of links
TESTS: dict[str, Test] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "broadcast": "broadcast",
    "alltoall": "all-to-all",
    "sendrecv": "send-receive",
}
#: what one of their tables has
_RANK = r"\[\d{1,9}(?:,\d{1,9})?\](?:<std(?:out|err)>)?:?[ \t]?"
MARK = re.compile(rf"^(?:{_RANK})?#?[ \t]*size[ \t]+count[ \t]", re.MULTILINE)
#: characters of a line that are looked at
MAX_LINE = 2_000
#: GPUs of a host at most, where NVLink joins those of one server alone; a rack has more
MAX_HOST = 8
#: bytes and microseconds of a row that are believed
MAX_SIZE, FASTEST, SLOWEST = 2.0**50, 1e-3, 10 * 86_400e6
#: columns that may be blank
_BLANK = 2
_RANK_OF_MPI = re.compile(rf"^{_RANK}")
_NAMED = re.compile(r"\b([a-z_]{1,40})_perf(?:_mpi)?\b")
#: what a command above the table says of the algorithm
_ALGORITHM = re.compile(r"\bNCCL_(?:ALGO=\"?([A-Za-z,:;^]{1,80})|NVLS_ENABLE=\"?(0))")
_DEVICE = re.compile(
    r"^#?\s*Rank\s+(\d{1,7})\s+(?:Group\s+(\d{1,7})\s+)?Pid\s+\d{1,12}\s+on\s+(\S{1,1024})\s+"
    r"device\s+\d{1,4}\s+\[[^\]]{0,64}\]\s*(.{0,200})$"
)


def read_table(text: str, name: str, given: Given, default_per_server: int) -> list[Reading]:
    """Read what tests printed; several may follow each other.

    Parameters
    ----------
    text, name
        Of the file.
    given, default_per_server
        What the user says of GPUs, and GPUs of a server where nobody does.

    Raises
    ------
    InputError
        If it has no table of a test that says something of links.
    """
    reader = _Reader(name, given, default_per_server)
    for line in text.splitlines():
        reader.take(_RANK_OF_MPI.sub("", line[:MAX_LINE], count=1))
    return reader.readings()


@dataclass
class _Table:
    """The rows of one test, and who took part."""

    test: str = ""
    #: server of each rank of the first group, and groups
    hosts: dict[int, str] = field(default_factory=dict)
    groups: set[int] = field(default_factory=set)
    rows: dict[float, float] = field(default_factory=dict)
    is_ring: bool = False


class _Reader:
    """Takes line by line."""

    def __init__(self, name: str, given: Given, default_per_server: int) -> None:
        self._name = name
        self._given = given
        self._default = default_per_server
        found = _NAMED.search(name) or re.search("|".join(TESTS), name.lower())
        self._test = "" if found is None else found[0].partition("_perf")[0]
        self._tables = [_Table()]
        self._head: list[str] = []
        self._is_ring = self._is_exported = False

    def take(self, line: str) -> None:
        """Take a line: of devices, of a head, of a row, or what names the test."""
        table = self._tables[-1]
        self._note_algorithm(line, is_next=bool(table.rows))
        if device := _DEVICE.match(line):
            if table.rows:
                table = self._begin()
            self._add_device(table, device)
        elif MARK.match(line):
            self._head = line.removeprefix("#").split()
            if table.rows:
                # a table of its own, of another test among the same GPUs
                before = table
                table = self._begin()
                table.hosts, table.groups = before.hosts, before.groups
            table.test = table.test or self._test
            table.is_ring = self._is_ring
        elif named := _NAMED.search(line):
            if table.rows:
                table = self._begin()
            self._test = table.test = named[1]
        elif self._head and line[:1] != "#":
            self._add_row(table, line.split())

    def _note_algorithm(self, line: str, *, is_next: bool) -> None:
        """Note what a line forces: of a test that it runs, or of all that follow."""
        named = _NAMED.search(line)
        if said := _ALGORITHM.search(line):
            self._is_ring = said[2] is not None or said[1].lower() in ("ring", "tree")
            if not named:
                self._is_exported = self._is_ring
        elif named and is_next:
            self._is_ring = self._is_exported

    def _begin(self) -> _Table:
        self._tables.append(_Table())
        if len(self._tables) > MAX_ROWS:
            raise InputError(f"{self._name}: has more than {MAX_ROWS:,} tables")
        return self._tables[-1]

    @staticmethod
    def _add_device(table: _Table, device: re.Match[str]) -> None:
        rank, group, host, _ = device.groups()
        table.groups.add(int(group or 0))
        # without MPI each of several processes says that it is rank 0
        table.hosts[int(rank)] = host

    def _add_row(self, table: _Table, words: list[str]) -> None:
        """Add a row; a line with other columns is of something else."""
        # versions of 2021 leave reduction and root blank
        blank = max(0, len(self._head) - len(words))
        if blank > _BLANK or not words or not words[0].isdigit():
            return
        column = next((i for i, word in enumerate(self._head) if word == "time"), None)
        if column is None:
            raise InputError(f"{self._name}: its table has no column 'time' (not of -C); run again")
        try:
            size, micros = float(words[0]), float(words[column - blank])
        except ValueError:
            return
        if size > MAX_SIZE or (size > 0 and micros > 0 and not FASTEST <= micros <= SLOWEST):
            raise InputError(
                f"{self._name}: a row of {echo(words[0], quoted=False, limit=24)} bytes in "
                f"{micros:g} us; expected up to 1 PiB, in 1 ns to 10 days: delete the row"
            )
        if size > 0 and micros > 0:
            # of several cycles (-N) the fastest counts
            table.rows[size] = min(table.rows.get(size, math.inf), micros * 1e-6)
        if len(table.rows) > MAX_ROWS:
            raise InputError(f"{self._name}: has more than {MAX_ROWS:,} rows")

    def readings(self) -> list[Reading]:
        """What was read, each test once."""
        tables = [table for table in self._tables if table.rows]
        if not tables:
            raise InputError(
                f"{self._name}: has no row with a size and a time; expected a table "
                "of all_reduce_perf, alltoall_perf or sendrecv_perf"
            )
        known = [table for table in tables if table.test in TESTS]
        if not known:
            named = ", ".join(sorted({table.test or "an unknown test" for table in tables}))
            raise InputError(
                f"{self._name}: is of {echo(named, quoted=False)}; expected one of "
                f"{', '.join(f'{test}_perf' for test in TESTS)}, in the file or in its name"
            )
        return [self._reading(table) for table in known]

    def _reading(self, table: _Table) -> Reading:
        if len(table.groups) > 1:
            raise InputError(
                f"{self._name}: {len(table.groups)} groups at once (NCCL_TESTS_SPLIT) are not "
                "read; measure one among all GPUs"
            )
        points = tuple(MeasuredSize(size, seconds) for size, seconds in sorted(table.rows.items()))
        test = TESTS[table.test]
        name = f"{self._name}: {table.test}_perf"
        return Reading(name, test, self._servers(table), points, is_ring=table.is_ring)

    def _servers(self, table: _Table) -> Servers:
        if len(table.hosts) < 2:
            return self._given.servers(self._name, self._default)
        counts = Counter(table.hosts.values())
        if len(set(counts.values())) > 1:
            raise InputError(
                f"{self._name}: servers with {min(counts.values())} and {max(counts.values())} "
                "GPUs; expected as many in each"
            )
        host, each = next(iter(counts.items()))
        size = self._given.gpus_per_server or self._default
        if self._given.gpus_per_server is None and len(counts) > 1 and size <= MAX_HOST:
            # some of a server's GPUs may have taken part; no NVLink joins servers
            size = each
        if each > size:
            raise InputError(
                f"{self._name}: names {each} GPUs on {echo(host)}, and servers have {size}; hosts "
                "must have names of their own, or --gpus-per-server that many"
            )
        if len(table.hosts) > size and size % each:
            raise InputError(
                f"{self._name}: hosts of {each} GPUs make no server of {size}; give a multiple of "
                f"{each} with --gpus-per-server"
            )
        return placed(len(table.hosts), size, self._name)


def gpus_named(lines: Iterable[str]) -> set[str]:
    """What the device lines of tables call their GPUs."""
    words = (_RANK_OF_MPI.sub("", line[:MAX_LINE], count=1) for line in lines)
    return {device[4].strip() for line in words if (device := _DEVICE.match(line))}


def read_json(
    content: Mapping[str, object], name: str, given: Given, default_per_server: int
) -> list[Reading]:
    """Read what ``-J`` writes, by making lines of it.

    Raises
    ------
    InputError
        As :func:`read_table`, or if it is something else.
    """
    reader = _Reader(name, given, default_per_server)
    for line in lines_of(content, name):
        reader.take(line)
    return reader.readings()


def lines_of(content: Mapping[str, object], name: str) -> Iterator[str]:
    """The lines of a table with what the JSON holds; its first argument names the test."""
    config, results, called = content.get("config"), content.get("results"), content.get("args")
    if not isinstance(results, list) or not isinstance(config, Mapping):
        raise InputError(f"{name}: expected the text or JSON (-J) of NCCL's tests")
    if isinstance(called, list) and called:
        yield str(called[0])[:MAX_LINE]
    devices = config.get("devices")
    for entry in devices[:MAX_ROWS] if isinstance(devices, list) else ():
        if isinstance(entry, Mapping):
            words = (entry.get(key) for key in ("rank", "group", "hostname", "device_info"))
            yield "Rank {} Group {} Pid 0 on {} device 0 [0] {}".format(*words)[:MAX_LINE]
    yield "size count time"
    for entry in results[: MAX_ROWS + 1]:
        moved = entry.get("out_of_place") if isinstance(entry, Mapping) else None
        if isinstance(moved, Mapping):
            yield f"{entry.get('size')} 0 {moved.get('time')}"[:MAX_LINE]
