"""The journal: what was intended before it was done, and what came of it.

One SQLite file in write-ahead mode. An intent is committed before the first command of a change is
sent, and its outcome after the last reply; an intent without an outcome means that the controller
ended in between, and that only the switches know. Rows are never altered, and each holds a digest
of itself and of the one before it. The lease of each region is in the same file, so that an intent
is only written if the lease is still held, in one transaction.

Circuits are named by server and NIC as the port map counts them, so the map itself is kept, and
each row says by which map it counts. A map that differs from the last one is taken up by a change
of its own (:mod:`lightloom.control.remap`), never by opening the journal.

What cannot be written is a :class:`JournalError`, and then no circuit is touched.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.private_files import keep_private
from lightloom.control.refusals import JournalError, LeaseError
from lightloom.errors import InputError
from lightloom.inputs.files import shown_path

Durability = Literal["process", "power"]

_VERSION = 2
#: the largest integer of SQLite
_MAX_NUMBER = 2**63 - 1
_BUSY_TIMEOUT_S = 5.0
#: changes after which the oldest ones are dropped, beyond those that are kept
_PRUNE_EVERY = 1_000
#: rows of a region are chained in the order of ``seq``, whatever their table
_SCHEMA = """
CREATE TABLE IF NOT EXISTS maps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    region TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL,
    name TEXT NOT NULL, servers TEXT NOT NULL, nics TEXT NOT NULL,
    chain TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS intents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    region TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL,
    revision INTEGER NOT NULL, map INTEGER NOT NULL, kind TEXT NOT NULL, who TEXT NOT NULL,
    job TEXT, step INTEGER, layer INTEGER, reason TEXT NOT NULL,
    before TEXT NOT NULL, wanted TEXT NOT NULL, commands TEXT NOT NULL, expected_s REAL NOT NULL,
    chain TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS outcomes (
    id INTEGER PRIMARY KEY,
    region TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL,
    result TEXT NOT NULL, after TEXT NOT NULL, failed TEXT NOT NULL, timings TEXT NOT NULL,
    chain TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    region TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL,
    map INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
    chain TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS leases (
    region TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    revision INTEGER NOT NULL,
    expires REAL NOT NULL,
    host TEXT,
    boot TEXT,
    namespace INTEGER,
    process INTEGER,
    started INTEGER,
    until REAL
);
CREATE UNIQUE INDEX IF NOT EXISTS maps_by_region ON maps (region, seq);
CREATE UNIQUE INDEX IF NOT EXISTS intents_by_region ON intents (region, seq);
CREATE UNIQUE INDEX IF NOT EXISTS outcomes_by_region ON outcomes (region, seq);
CREATE UNIQUE INDEX IF NOT EXISTS notes_by_region ON notes (region, seq);
CREATE TRIGGER IF NOT EXISTS maps_stay BEFORE UPDATE ON maps
    BEGIN SELECT RAISE(ABORT, 'maps are never altered'); END;
CREATE TRIGGER IF NOT EXISTS intents_stay BEFORE UPDATE ON intents
    BEGIN SELECT RAISE(ABORT, 'intents are never altered'); END;
CREATE TRIGGER IF NOT EXISTS outcomes_stay BEFORE UPDATE ON outcomes
    BEGIN SELECT RAISE(ABORT, 'outcomes are never altered'); END;
CREATE TRIGGER IF NOT EXISTS notes_stay BEFORE UPDATE ON notes
    BEGIN SELECT RAISE(ABORT, 'notes are never altered'); END;
"""
#: columns between ``seq, at`` and ``chain``, by table
_COLUMNS = {
    "maps": ("name", "servers", "nics"),
    "intents": (
        *("revision", "map", "kind", "who", "job", "step", "layer", "reason"),
        *("before", "wanted", "commands", "expected_s"),
    ),
    "outcomes": ("result", "after", "failed", "timings"),
    "notes": ("map", "kind", "text"),
}
_ROW_NAMES = {"maps": "map", "intents": "change", "outcomes": "outcome", "notes": "note"}
#: the condition under which an intent is written
_LEASE_HELD = "SELECT 1 FROM leases WHERE region = ? AND revision = ? AND expires > ?"


@dataclass(frozen=True)
class ChangeReason:
    """On whose behalf, and why, circuits change.

    Attributes
    ----------
    who
        User or program.
    text
        Why, in words.
    job, step, layer
        Of the training job, if it is for one.
    """

    who: str
    text: str = ""
    job: str | None = None
    step: int | None = None
    layer: int | None = None


@dataclass(frozen=True)
class ChangeIntent:
    """A change as it was about to be made.

    Attributes
    ----------
    kind
        ``apply``, ``retry``, ``roll-back``, ``reapply``, ``adopt`` or ``remap``.
    before, wanted
        Circuits before, and those that should be there after.
    commands
        Number of cross-connects deleted and created, by switch.
    """

    kind: str
    reason: ChangeReason
    before: frozenset[NicPair]
    wanted: frozenset[NicPair]
    commands: Mapping[str, tuple[int, int]]
    expected_s: float


@dataclass(frozen=True)
class ChangeOutcome:
    """What came of a change.

    Attributes
    ----------
    result
        ``done``, ``partial``, ``failed``, ``rolled-back``, ``not-applied`` or ``unknown``; after a
        restart with ``recovered-`` before it.
    after
        Circuits that are there.
    failed
        What is wrong, by circuit.
    timings
        Seconds of each part.
    """

    result: str
    after: frozenset[NicPair]
    failed: Mapping[str, str] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class JournalEntry:
    """An intent as the journal has it, and its outcome, if there is one.

    ``map`` is the number of the port map by which its circuits count servers and NICs.
    """

    id: int
    map: int
    at: float
    revision: int
    intent: ChangeIntent
    ended: float | None
    outcome: ChangeOutcome | None


def encode_circuits(circuits: Iterable[NicPair]) -> str:
    """Return circuits as text: ``0/1-2/0 0/2-3/1``, sorted."""
    return " ".join([f"{a}/{x}-{b}/{y}" for a, x, b, y in sorted(circuits)])


def decode_circuits(text: str) -> frozenset[NicPair]:
    """Return the circuits of :func:`encode_circuits`."""
    circuits = set()
    for circuit in text.split():
        ends = [end.split("/") for end in circuit.split("-")]
        circuits.add(NicPair(*(int(number) for end in ends for number in end)))
    return frozenset(circuits)


class Journal:
    """The journal of one region.

    Parameters
    ----------
    path
        The file; made if it is not there, for its owner alone to read. Several regions may share
        it.
    region
        Name of the region.
    durability
        What a committed intent survives: the end of this ``process``, or a loss of ``power`` of
        this machine as well, for which every commit waits for the disk. After a loss of power the
        switches are read back in either case.
    keep_changes
        Changes to keep; older ones are dropped.
    is_read_only
        Whether nothing is written; a file that is not there is then a journal without changes.

    Raises
    ------
    JournalError
        If the file cannot be opened or is no journal.
    """

    def __init__(
        self,
        path: Path,
        region: str,
        *,
        durability: Durability = "process",
        keep_changes: int = 100_000,
        is_read_only: bool = False,
    ) -> None:
        self.path, self.region = path, region
        self._keep = keep_changes
        self._since_prune = 0
        self._data_version: int | None = None
        self._last = (0, "")
        self._map: int | None = None
        #: the circuits after a change are those that were wanted, and those before the next one
        self._encoded: tuple[frozenset[NicPair], str] = (frozenset(), "")
        try:
            self._connection = _open(path, is_read_only=is_read_only)
        except (sqlite3.Error, OSError) as error:
            raise self._refusal("open", error) from None
        try:
            with self._failures("open"):
                self._prepare(durability, is_read_only=is_read_only)
        except JournalError:
            self._connection.close()
            raise

    def _prepare(self, durability: Durability, *, is_read_only: bool) -> None:
        execute = self._connection.execute
        version = execute("PRAGMA user_version").fetchone()[0]
        if version == 1:
            raise JournalError(
                f"{shown_path(self.path)}: a journal of version 1, which has no port map; move it "
                "away, and take what the switches hold with lightloom control apply --adopt"
            )
        if version not in (0, _VERSION):
            raise JournalError(
                f"{shown_path(self.path)}: a journal of version {version}, expected {_VERSION}"
            )
        if version == 0 and execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise JournalError(f"{shown_path(self.path)}: not a journal; name another file")
        if is_read_only and version == _VERSION:
            return
        if not is_read_only and execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise JournalError(
                f"{shown_path(self.path)}: the journal needs a file system with shared memory, on "
                "this machine"
            )
        execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        if version == 0:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT"
            )

    def _last_link(self) -> tuple[int, str]:
        """Number and digest of the last row of the region."""
        tables = " UNION ALL ".join(
            f"SELECT seq, chain FROM (SELECT seq, chain FROM {table} WHERE region = :region "
            "ORDER BY seq DESC LIMIT 1)"
            for table in _COLUMNS
        )
        row = self._connection.execute(
            f"{tables} ORDER BY seq DESC LIMIT 1", {"region": self.region}
        ).fetchone()
        return (0, "") if row is None else (row[0], row[1])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _refusal(self, verb: str, error: Exception) -> JournalError:
        return JournalError(
            f"{shown_path(self.path)}: cannot {verb} the journal: "
            f"{getattr(error, 'strerror', None) or error}; no circuit is touched without it"
        )

    @contextlib.contextmanager
    def _failures(self, verb: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._refusal(verb, error) from None

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._failures("write"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def begin(self, intent: ChangeIntent, revision: int, now: float) -> int:
        """Write an intent, if the lease of this revision is held; return its number.

        Raises
        ------
        LeaseError
            If the lease is not held any more.
        JournalError
            If it cannot be written.
        """
        reason = intent.reason
        row = (
            *(revision, self._map_number(), intent.kind, reason.who),
            *(reason.job, reason.step, reason.layer, reason.text),
            *(self._encode(intent.before), self._encode(intent.wanted)),
            *(json.dumps(dict(intent.commands)), float(intent.expected_s)),
        )
        with self._failures("write"):
            # one statement is a transaction, and faster than the four of a longer one
            condition = (_LEASE_HELD, (self.region, revision, now))
            number = self._append("intents", now, row, condition=condition)
            if number is None:
                raise self._lost_lease(revision)
        return number

    def _append(
        self,
        table: str,
        now: float,
        values: tuple[object, ...],
        *,
        number: int | None = None,
        condition: tuple[str, tuple[object, ...]] = ("SELECT 1", ()),
    ) -> int | None:
        """Write a row and its digest, if a condition holds; return its number."""
        columns = ("id", "region", "seq", "at", *_COLUMNS[table], "chain")
        statement = (
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join('?' * len(columns))} "
            f"WHERE EXISTS ({condition[0]})"
        )
        if self._is_behind():
            self._last = self._last_link()
        seq, chain = self._last
        row = (self.region, seq + 1, now, *values)
        link = (seq + 1, _digest(chain, table, row, number))
        cursor = self._connection.execute(statement, (number, *row, link[1], *condition[1]))
        if not cursor.rowcount:
            return None
        self._last = link
        return cursor.lastrowid

    def _is_behind(self) -> bool:
        """Whether another connection has written since this one did."""
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        before, self._data_version = self._data_version, version
        return bool(before != version)

    def use_map(self, port_map: PortMap, now: float) -> None:
        """Keep the first port map of a region.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        self._map = None
        if self.port_map() is None:
            self.write_map(port_map, now)

    def write_map(self, port_map: PortMap, now: float) -> None:
        """Count servers and NICs by another port map from now on.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        row = (port_map.name, json.dumps(port_map.servers), json.dumps(port_map.rows))
        with self._failures("write"):
            self._map = self._append("maps", now, row)

    def _map_number(self) -> int:
        """Number of the map by which servers and NICs count now; 0 if there is none."""
        if self._map is None:
            row = self._connection.execute(
                "SELECT max(id) FROM maps WHERE region = ?", (self.region,)
            ).fetchone()
            self._map = row[0] or 0
        return self._map

    def port_map(self, number: int | None = None) -> PortMap | None:
        """Return a port map by its number, by default the last one; None if there is none.

        Raises
        ------
        JournalError
            If it cannot be read.
        """
        with self._failures("read"):
            row = self._connection.execute(
                "SELECT id, name, servers, nics FROM maps WHERE region = ? AND id = ?",
                (self.region, self._map_number() if number is None else number),
            ).fetchone()
        if row is None:
            return None
        with self._decoding("map", row[0]):
            return PortMap.from_rows(row[1], json.loads(row[2]), json.loads(row[3]))

    def _encode(self, circuits: frozenset[NicPair]) -> str:
        if circuits != self._encoded[0]:
            self._encoded = (circuits, encode_circuits(circuits))
        return self._encoded[1]

    def _lost_lease(self, revision: int) -> LeaseError:
        """Why an intent of this revision was not written."""
        row = self._connection.execute(
            "SELECT holder, revision FROM leases WHERE region = ?", (self.region,)
        ).fetchone()
        if row is not None and row[1] == revision:
            return LeaseError(f"{self.region}: the lease has expired; it was not renewed in time")
        holder = "nobody" if row is None else row[0]
        return LeaseError(
            f"{self.region}: the lease was lost to {holder}; this controller does nothing more"
        )

    def end(self, intent: int, outcome: ChangeOutcome, now: float) -> None:
        """Write the outcome of an intent.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        row = (
            outcome.result,
            self._encode(outcome.after),
            json.dumps(dict(outcome.failed)),
            json.dumps({name: round(value, 6) for name, value in outcome.timings.items()}),
        )
        with self._failures("write"):
            self._append("outcomes", now, row, number=intent)
        self._since_prune += 1
        if self._since_prune >= _PRUNE_EVERY and not self._connection.in_transaction:
            self._since_prune = 0
            self._prune()

    def _prune(self) -> None:
        """Drop the oldest changes; a chain may begin anywhere, but has no holes."""
        with self._transaction() as connection:
            last = connection.execute(
                "SELECT seq FROM intents WHERE region = ? ORDER BY seq DESC LIMIT 1 OFFSET ?",
                (self.region, self._keep),
            ).fetchone()
            if last is None:
                return
            for table in ("intents", "outcomes"):
                connection.execute(
                    f"DELETE FROM {table} WHERE region = ? AND seq <= ?", (self.region, last[0])
                )

    def note(self, kind: str, text: str, now: float) -> None:
        """Write that something was noticed: a failure, drift, an adoption.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        with self._failures("write"):
            self._append("notes", now, (self._map_number(), kind, text))

    def notes(self, kind: str, limit: int = 1_000) -> list[tuple[float, str]]:
        """Return when and what was noted, newest first."""
        with self._failures("read"):
            return self._connection.execute(
                "SELECT at, text FROM notes WHERE region = ? AND kind = ? ORDER BY seq DESC "
                "LIMIT ?",
                (self.region, kind, limit),
            ).fetchall()

    def unfinished(self) -> list[JournalEntry]:
        """Return intents without outcome, oldest first."""
        return self._entries("outcomes.id IS NULL", (), "intents.seq", 1_000)

    def last(self, limit: int = 20, *, skips_damaged: bool = False) -> list[JournalEntry]:
        """Return the last changes, newest first.

        Raises
        ------
        JournalError
            If one is damaged, unless those are skipped.
        """
        return self._entries("1", (), "intents.seq DESC", limit, skips_damaged=skips_damaged)

    def rows_after(self, number: int, limit: int = 1_000) -> list[dict[str, Any]]:
        """Return the newest changes of a higher number, oldest first, as they were written.

        Keys are those of :class:`ChangeReason`, and ``id``, ``map``, ``at``, ``kind``, ``before``,
        and of the outcome ``ended``, ``result``, ``after``, ``failed`` and ``timings``.
        """
        columns = ("id", "map", "at", "kind", "who", "job", "step", "layer", "reason", "before")
        of_outcome = {"at": "ended", **{name: name for name in _COLUMNS["outcomes"]}}
        selected = [f"intents.{name}" for name in columns]
        selected += [f"outcomes.{name}" for name in of_outcome]
        with self._failures("read"):
            rows = self._connection.execute(
                f"SELECT {', '.join(selected)} FROM intents "
                "LEFT JOIN outcomes ON outcomes.id = intents.id "
                "WHERE intents.region = ? AND intents.id > ? ORDER BY intents.seq DESC LIMIT ?",
                (self.region, number, limit),
            ).fetchall()
        names = (*columns, *of_outcome.values())
        return [dict(zip(names, row, strict=True)) for row in reversed(rows)]

    def entry(self, number: int) -> JournalEntry:
        """Return one change.

        Raises
        ------
        JournalError
            If there is none of this number in this region.
        """
        rows = (
            self._entries("intents.id = ?", (number,), "intents.seq", 1)
            if number <= _MAX_NUMBER
            else []
        )
        if not rows:
            raise JournalError(f"{shown_path(self.path)}: {self.region} has no change {number}")
        return rows[0]

    def held(self) -> frozenset[NicPair] | None:
        """Return the circuits after the change that ended last; None if there was none."""
        return self._circuits_of_last_outcome("after")

    def left(self) -> frozenset[NicPair]:
        """Return the circuits that the change that ended last made or deleted only in part."""
        return self._circuits_of_last_outcome("failed") or frozenset()

    def _circuits_of_last_outcome(self, column: str) -> frozenset[NicPair] | None:
        with self._failures("read"):
            row = self._connection.execute(
                f"SELECT id, {column} FROM outcomes WHERE region = ? ORDER BY seq DESC LIMIT 1",
                (self.region,),
            ).fetchone()
        if row is None:
            return None
        with self._decoding("change", row[0]):
            text = row[1] if column == "after" else " ".join(json.loads(row[1]))
            return decode_circuits(text)

    def _entries(
        self,
        condition: str,
        values: tuple[object, ...],
        order: str,
        limit: int,
        *,
        skips_damaged: bool = False,
    ) -> list[JournalEntry]:
        columns = ", ".join(
            f"{table}.{column}"
            for table in ("intents", "outcomes")
            for column in ("id", "at", *_COLUMNS[table])
        )
        with self._failures("read"):
            rows = self._connection.execute(
                f"SELECT {columns} FROM intents LEFT JOIN outcomes ON outcomes.id = intents.id "
                f"WHERE intents.region = ? AND {condition} ORDER BY {order} LIMIT ?",
                (self.region, *values, limit),
            ).fetchall()
        entries = []
        for row in rows:
            try:
                with self._decoding("change", row[0]):
                    entries.append(_entry(row))
            except JournalError:
                if not skips_damaged:
                    raise
        return entries

    @contextlib.contextmanager
    def _decoding(self, kind: str, number: int) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, InputError):
            raise JournalError(
                f"{shown_path(self.path)}: {kind} {number} is damaged; lightloom control audit "
                "names every damaged row"
            ) from None

    def damages(self) -> list[str]:
        """Return a line for each row that is not as it was written, and for each gap.

        Changes that were dropped because they are old are no gap.

        Raises
        ------
        JournalError
            If the file cannot be read.
        """
        rows: list[tuple[int, str, int, tuple[object, ...], object]] = []
        with self._failures("read"):
            for table, names in _COLUMNS.items():
                columns = ", ".join(("id", "region", "seq", "at", *names, "chain"))
                cursor = self._connection.execute(
                    f"SELECT {columns} FROM {table} WHERE region = ?", (self.region,)
                )
                rows += [(row[2], table, row[0], row[1:-1], row[-1]) for row in cursor]
        rows.sort(key=lambda row: (isinstance(row[0], int), row[0] if row[0] else 0))
        begins = min((row[0] for row in rows if row[1] == "intents"), default=0)
        lines, last, chain = [], 0, ""
        for seq, table, number, values, digest in rows:
            what = f"{_ROW_NAMES[table]} {number}"
            if seq != last + 1:
                if seq > begins and last:
                    lines.append(f"{seq - last - 1} rows before {what} are missing")
            elif digest != _digest(chain, table, values, number):
                lines.append(f"{what} is not as it was written")
            last, chain = seq, str(digest)
        return lines

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write all that is written within, or nothing of it.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        before = self._last, self._map
        try:
            with self._transaction():
                yield
        except BaseException:
            self._last, self._map = before
            raise

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return the rows of a statement that only reads.

        Raises
        ------
        JournalError
            If the file cannot be read.
        """
        with self._failures("read"):
            return self._connection.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def altering(self) -> Iterator[sqlite3.Connection]:
        """A transaction for rows that may be altered: that of the lease, and losses.

        Raises
        ------
        JournalError
            If the file cannot be written.
        """
        with self._transaction() as connection:
            yield connection


def _open(path: Path, *, is_read_only: bool) -> sqlite3.Connection:
    """Open a file; what is only read may be on a full disk, and may not be there."""

    def connect(target: str, *, is_uri: bool) -> sqlite3.Connection:
        return sqlite3.connect(
            target,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            uri=is_uri,
        )

    if not is_read_only:
        keep_private(path, "journal", JournalError)
        return connect(str(path), is_uri=False)
    if not path.exists():
        return connect(":memory:", is_uri=False)
    address = path.absolute().as_uri()
    connection = connect(f"{address}?mode=ro", is_uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        # the memory that writers share cannot be made: nobody writes, or the disk is full
        connection.close()
        connection = connect(f"{address}?mode=ro&immutable=1", is_uri=True)
    return connection


def _digest(chain: str, table: str, row: Iterable[object], number: int | None = None) -> str:
    """Digest of a row and of the one before it; the number is known before only of an outcome."""
    facts = [chain, table, *row, *((number,) if table == "outcomes" else ())]
    return sha256(json.dumps(facts, default=repr).encode()).hexdigest()


def _entry(row: tuple[Any, ...]) -> JournalEntry:
    number, at, revision, map_number, kind, who, job, step, layer, reason = row[:10]
    before, wanted, commands, expected_s, _, ended, result, after, failed, timings = row[10:]
    intent = ChangeIntent(
        kind,
        ChangeReason(who, reason, job, step, layer),
        decode_circuits(before),
        decode_circuits(wanted),
        {switch: (counts[0], counts[1]) for switch, counts in json.loads(commands).items()},
        float(expected_s),
    )
    outcome = None
    if result is not None:
        outcome = ChangeOutcome(
            result,
            decode_circuits(after),
            dict(json.loads(failed)),
            {name: float(value) for name, value in json.loads(timings).items()},
        )
    return JournalEntry(
        number, map_number, float(at), revision, intent, ended and float(ended), outcome
    )


def entry_as_json(entry: JournalEntry) -> dict[str, Any]:
    """Return a change as plain values."""
    intent, outcome = entry.intent, entry.outcome
    result: dict[str, Any] = {
        "id": entry.id,
        "at": entry.at,
        "revision": entry.revision,
        "map": entry.map,
        "kind": intent.kind,
        "reason": vars(intent.reason),
        "before": encode_circuits(intent.before).split(),
        "wanted": encode_circuits(intent.wanted).split(),
        "commands": dict(intent.commands),
        "expected_s": intent.expected_s,
        "ended": entry.ended,
        "outcome": None,
    }
    if outcome is not None:
        result["outcome"] = {
            "result": outcome.result,
            "after": encode_circuits(outcome.after).split(),
            "failed": dict(outcome.failed),
            "timings": dict(outcome.timings),
        }
    return result
