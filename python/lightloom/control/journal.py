"""The journal: what was intended before it was done, and what came of it.

One SQLite file in write-ahead mode. An intent is committed before the first command of a change is
sent, and its outcome after the last reply; an intent without an outcome means that the controller
ended in between, and that only the switches know. Rows are never altered. The lease of each region
is in the same file, so that an intent is only written if the lease is still held, in one
transaction.

What cannot be written is a :class:`JournalError`, and then no circuit is touched.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lightloom.control.port_map import NicPair
from lightloom.control.refusals import JournalError, LeaseError
from lightloom.inputs.files import shown_path

Durability = Literal["process", "power"]

_VERSION = 1
#: the largest integer of SQLite
_MAX_NUMBER = 2**63 - 1
_BUSY_TIMEOUT_S = 5.0
#: changes after which the oldest ones are dropped, beyond those that are kept
_PRUNE_EVERY = 1_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS intents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    region TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    who TEXT NOT NULL,
    job TEXT,
    step INTEGER,
    layer INTEGER,
    reason TEXT NOT NULL,
    before TEXT NOT NULL,
    wanted TEXT NOT NULL,
    commands TEXT NOT NULL,
    expected_s REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS outcomes (
    intent INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    result TEXT NOT NULL,
    after TEXT NOT NULL,
    failed TEXT NOT NULL,
    timings TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    region TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
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
CREATE INDEX IF NOT EXISTS intents_by_region ON intents (region, id);
CREATE INDEX IF NOT EXISTS notes_by_region ON notes (region, id);
CREATE TRIGGER IF NOT EXISTS intents_stay BEFORE UPDATE ON intents
    BEGIN SELECT RAISE(ABORT, 'intents are never altered'); END;
CREATE TRIGGER IF NOT EXISTS outcomes_stay BEFORE UPDATE ON outcomes
    BEGIN SELECT RAISE(ABORT, 'outcomes are never altered'); END;
"""
#: writes an intent, if the lease of its revision is held
_WRITE_INTENT = """
INSERT INTO intents (region, revision, at, kind, who, job, step, layer, reason, before, wanted,
    commands, expected_s)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE EXISTS (SELECT 1 FROM leases WHERE region = ? AND revision = ? AND expires > ?)
"""


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
        ``apply``, ``retry``, ``roll-back`` or ``reapply``.
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
    """An intent as the journal has it, and its outcome, if there is one."""

    id: int
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
        The file; made if it is not there. Several regions may share it.
    region
        Name of the region.
    durability
        What a committed intent survives: the end of this ``process``, or a loss of ``power`` of
        this machine as well, for which every commit waits for the disk. After a loss of power the
        switches are read back in either case.
    keep_changes
        Changes to keep; older ones are dropped.

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
    ) -> None:
        self.path, self.region = path, region
        self._keep = keep_changes
        self._since_prune = 0
        #: the circuits after a change are those that were wanted, and those before the next one
        self._encoded: tuple[frozenset[NicPair], str] = (frozenset(), "")
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._refusal("open", error) from None
        try:
            with self._failures("open"):
                self._prepare(durability)
        except JournalError:
            self._connection.close()
            raise

    def _prepare(self, durability: Durability) -> None:
        execute = self._connection.execute
        mode = execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise JournalError(
                f"{shown_path(self.path)}: the journal needs a file system with shared memory, on "
                "this machine"
            )
        execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise JournalError(
                f"{shown_path(self.path)}: a journal of version {version}, expected {_VERSION}"
            )
        if version == 0:
            if execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise JournalError(f"{shown_path(self.path)}: not a journal; name another file")
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT"
            )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _refusal(self, verb: str, error: sqlite3.Error) -> JournalError:
        return JournalError(
            f"{shown_path(self.path)}: cannot {verb} the journal: {error}; no circuit is touched "
            "without it"
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
            self.region,
            revision,
            now,
            intent.kind,
            reason.who,
            reason.job,
            reason.step,
            reason.layer,
            reason.text,
            self._encode(intent.before),
            self._encode(intent.wanted),
            json.dumps(dict(intent.commands)),
            intent.expected_s,
        )
        with self._failures("write"):
            # one statement is a transaction, and faster than the four of a longer one
            cursor = self._connection.execute(_WRITE_INTENT, (*row, self.region, revision, now))
            if not cursor.rowcount:
                raise self._lost_lease(revision)
        assert cursor.lastrowid is not None
        return cursor.lastrowid

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
            intent,
            now,
            outcome.result,
            self._encode(outcome.after),
            json.dumps(dict(outcome.failed)),
            json.dumps({name: round(value, 6) for name, value in outcome.timings.items()}),
        )
        with self._transaction() as connection:
            connection.execute("INSERT INTO outcomes VALUES (?,?,?,?,?,?)", row)
        self._since_prune += 1
        if self._since_prune >= _PRUNE_EVERY:
            self._since_prune = 0
            self._prune()

    def _prune(self) -> None:
        with self._transaction() as connection:
            last = connection.execute(
                "SELECT id FROM intents WHERE region = ? ORDER BY id DESC LIMIT 1 OFFSET ?",
                (self.region, self._keep),
            ).fetchone()
            if last is None:
                return
            which = "SELECT id FROM intents WHERE region = ? AND id <= ?"
            connection.execute(
                f"DELETE FROM outcomes WHERE intent IN ({which})", (self.region, last[0])
            )
            connection.execute(
                "DELETE FROM intents WHERE region = ? AND id <= ?", (self.region, last[0])
            )

    def note(self, kind: str, text: str, now: float) -> None:
        """Write that something was noticed: a failure, drift, an adoption.

        Raises
        ------
        JournalError
            If it cannot be written.
        """
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO notes (region, at, kind, text) VALUES (?,?,?,?)",
                (self.region, now, kind, text),
            )

    def notes(self, kind: str, limit: int = 1_000) -> list[tuple[float, str]]:
        """Return when and what was noted, newest first."""
        with self._failures("read"):
            return self._connection.execute(
                "SELECT at, text FROM notes WHERE region = ? AND kind = ? ORDER BY id DESC LIMIT ?",
                (self.region, kind, limit),
            ).fetchall()

    def unfinished(self) -> list[JournalEntry]:
        """Return intents without outcome, oldest first."""
        return self._entries("outcomes.intent IS NULL", (), "intents.id", 1_000)

    def last(self, limit: int = 20) -> list[JournalEntry]:
        """Return the last changes, newest first."""
        return self._entries("1", (), "intents.id DESC", limit)

    def entry(self, number: int) -> JournalEntry:
        """Return one change.

        Raises
        ------
        JournalError
            If there is none of this number in this region.
        """
        rows = (
            self._entries("intents.id = ?", (number,), "intents.id", 1)
            if number <= _MAX_NUMBER
            else []
        )
        if not rows:
            raise JournalError(f"{shown_path(self.path)}: {self.region} has no change {number}")
        return rows[0]

    def held(self) -> frozenset[NicPair] | None:
        """Return the circuits after the last change that ended; None if there was none."""
        with self._failures("read"):
            row = self._connection.execute(
                "SELECT after FROM outcomes JOIN intents ON intent = intents.id WHERE region = ? "
                "ORDER BY intents.id DESC LIMIT 1",
                (self.region,),
            ).fetchone()
        return None if row is None else decode_circuits(row[0])

    def _entries(
        self, condition: str, values: tuple[object, ...], order: str, limit: int
    ) -> list[JournalEntry]:
        columns = (
            "id, intents.at, revision, kind, who, reason, job, step, layer, before, wanted, "
            "commands, expected_s, outcomes.at, result, after, failed, timings"
        )
        with self._failures("read"):
            rows = self._connection.execute(
                f"SELECT {columns} FROM intents LEFT JOIN outcomes ON outcomes.intent = intents.id "
                f"WHERE region = ? AND {condition} ORDER BY {order} LIMIT ?",
                (self.region, *values, limit),
            ).fetchall()
        return [_entry(row) for row in rows]

    @contextlib.contextmanager
    def lease_transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction in which :class:`Lease` looks at its row and alters it."""
        with self._transaction() as connection:
            yield connection


def _entry(row: tuple[Any, ...]) -> JournalEntry:
    number, at, revision, kind, who, reason, job, step, layer = row[:9]
    before, wanted, commands, expected_s, ended, result, after, failed, timings = row[9:]
    intent = ChangeIntent(
        kind,
        ChangeReason(who, reason, job, step, layer),
        decode_circuits(before),
        decode_circuits(wanted),
        {switch: (counts[0], counts[1]) for switch, counts in json.loads(commands).items()},
        expected_s,
    )
    outcome = None
    if result is not None:
        outcome = ChangeOutcome(
            result, decode_circuits(after), json.loads(failed), json.loads(timings)
        )
    return JournalEntry(number, at, revision, intent, ended, outcome)


def entry_as_json(entry: JournalEntry) -> dict[str, Any]:
    """Return a change as plain values."""
    intent, outcome = entry.intent, entry.outcome
    result: dict[str, Any] = {
        "id": entry.id,
        "at": entry.at,
        "revision": entry.revision,
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
