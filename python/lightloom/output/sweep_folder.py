"""The folder of a sweep's results: rows as a Parquet data set, and a manifest.

``rows/`` has files that appear whole and never change while a sweep runs, all with the same
columns, so that any reader of Parquet takes them as one table at any moment. ``manifest.json`` says
which points are done, failed and open. What the rows say is what is done: the manifest is made
again from them. See docs/decisions/0019-results-of-a-sweep.md.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom.errors import InputError, OutputError
from lightloom.optional import need
from lightloom.output.files import json_text, write_binary, write_text
from lightloom.study.sweep.design import Values
from lightloom.study.sweep.driver import FinishedPoint, Reuse
from lightloom.study.sweep.identity import Identities, code_version
from lightloom.study.sweep.numbers import NumberSet
from lightloom.study.sweep.point import INPUTS, PLAN, RESULTS
from lightloom.study.sweep.study import SweepStudy

if TYPE_CHECKING:
    import polars

SCHEMA_VERSION = 1
MANIFEST, ROWS, OTHER = "manifest.json", "rows", "other"
#: rows are written this often at most, and later in a long sweep so many times in all of its time
EVERY_S, TIMES = 1.0, 500.0


@dataclass
class _Batch:
    """Rows that will be a file."""

    number: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    points: NumberSet = field(default_factory=NumberSet)


def _name(number: int) -> str:
    return f"{number:06d}.parquet"


class SweepFolder:
    """Results of one sweep on disk.

    Attributes
    ----------
    done, failed, left_out
        Numbers of points.
    """

    def __init__(self, path: Path, study: SweepStudy) -> None:
        need("polars", "a data set of Parquet files")
        self.path, self._study = path, study
        self.done, self.failed, self.left_out = NumberSet(), NumberSet(), NumberSet()
        self.failures: dict[int, dict[str, Any]] = {}
        self._batch = _Batch(0)
        self._began = self._kept_at = time.monotonic()
        self._lock: int | None = None
        self._digest = ""
        self._types = column_types(study)

    # --- opening

    def open(self, *, resume: bool) -> int:
        """Begin, or go on with what is there; returns the points that were done already.

        Raises
        ------
        InputError
            If the folder has results and is not to be resumed, or those of another study.
        OutputError
            If it cannot be written to.
        """
        has_results = (self.path / MANIFEST).exists() or (self.path / ROWS).exists()
        if has_results and not resume:
            raise InputError(
                f"{self.path}: has results of a sweep; go on with --resume, or name another folder"
            )
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"{self.path}: is no folder; name another one")
        if not has_results and self.path.exists() and any(self.path.iterdir()):
            raise InputError(f"{self.path}: has files that are no sweep's; name another folder")
        with _written(self.path):
            (self.path / ROWS).mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._remove_parts()
        self._digest = self._study.digest
        if has_results:
            self._take_up()
        self._leave_out()
        self._write_manifest(0.0, Reuse())
        return len(self.done)

    def _take_lock(self) -> None:
        """Refuse a folder that another sweep writes to."""
        try:
            import fcntl
        except ImportError:  # Windows
            return
        with _written(self.path):
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{self.path}: another sweep writes there; wait, or stop it") from None

    def _remove_parts(self) -> None:
        """Remove temporary files of a process that was killed."""
        for folder in (self.path, self.path / ROWS, self.path / OTHER):
            for part in folder.glob(".*.parquet.*"):
                part.unlink(missing_ok=True)
        for part in self.path.glob(f".{MANIFEST}.*"):
            part.unlink(missing_ok=True)

    def _leave_out(self) -> None:
        design = self._study.design
        if design.count() is not None and design.is_conditional:
            for number in range(design.size):
                if design.values(number) is None:
                    self.left_out.add(number)

    def _take_up(self) -> None:
        """Note what is there; rows of a changed study are given their new numbers first."""
        manifest = read_manifest(self.path)
        if manifest.get("digest") != self._digest:
            self._relabel(manifest)
        files = self._files()
        self._batch = _Batch(self._unused())
        if files:
            import polars

            points = polars.scan_parquet(files).select("point").unique().collect()["point"]
            for number in points.sort().to_list():
                self.done.add(number)
        if manifest.get("digest") == self._digest:
            for failure in manifest["failed"]:
                if failure["is_final"] and failure["point"] not in self.done:
                    self._note_failure(failure)

    def _note_failure(self, failure: Values) -> None:
        self.failures[failure["point"]] = failure
        self.failed.add(failure["point"])

    def _files(self) -> list[Path]:
        return sorted((self.path / ROWS).glob("*.parquet"))

    # --- a changed study

    def _relabel(self, manifest: Values) -> None:
        """Give rows whose inputs are in the changed study its numbers and axes; others go aside.

        Raises
        ------
        InputError
            If the study has none of the points.
        """
        import polars

        old = [*self._files(), *sorted((self.path / OTHER).glob("*.parquet"))]
        wanted: set[str] = set()
        for file in old:
            wanted |= set(polars.read_parquet(file, columns=["id"])["id"].to_list())
        found: dict[str, list[int]] = {}
        design, identities = self._study.design, Identities()
        for number, values in design.points(range(design.size)) if wanted else ():
            with contextlib.suppress(InputError):
                identity = identities.of(self._study.scenario(values))
                if identity in wanted:
                    found.setdefault(identity, []).append(number)
        same_version = manifest.get("lightloom", code_version()) == code_version()
        if wanted and not found and same_version:
            raise InputError(
                f"{self.path}: results of another study, which has none of these points; name"
                " another folder"
            )
        # whatever ends this, the next one relabels again, by identities
        write_text(json_text({**manifest, "digest": ""}), self.path / MANIFEST)
        seen: set[str] = set()
        for file in old:
            self._relabel_file(file, found, seen)

    def _relabel_file(self, file: Path, found: dict[str, list[int]], seen: set[str]) -> None:
        """Write a file anew: first what goes aside, so that no row is ever in neither place."""
        import polars

        frame = polars.read_parquet(file)
        is_aside = file.parent.name == OTHER
        mine = polars.col("id").is_in([identity for identity in found if identity not in seen])
        kept, others = frame.filter(mine), frame.filter(~mine)
        # several points may have the same inputs, and each will have the rows of the first
        kept = kept.filter(polars.col("point") == polars.col("point").first().over("id"))
        others = others.filter(~polars.col("id").is_in(list(found)))
        seen |= set(kept["id"].to_list())
        if not is_aside and len(others):
            (self.path / OTHER).mkdir(exist_ok=True)
            self._write(others, self.path / OTHER / f"{_digest_of(others)}.parquet")
        if len(kept):
            rows = [
                row | self._labels(number) for row in kept.to_dicts() for number in found[row["id"]]
            ]
            place = self.path / ROWS / (_name(self._unused()) if is_aside else file.name)
            self._write(self._frame(rows), place)
        if is_aside and len(others) and len(others) < len(frame):
            self._write(others, file)
        elif (is_aside and not len(others)) or not (is_aside or len(kept)):
            file.unlink()

    def _unused(self) -> int:
        """The number of the next file of rows."""
        numbers = [int(file.stem) for file in self._files() if file.stem.isdecimal()]
        return 1 + max(numbers, default=-1)

    def _labels(self, number: int) -> dict[str, Any]:
        values = self._study.design.values(number)
        assert values is not None
        cells = {axis.name: axis.cell(values[axis.name]) for axis in self._study.design.axes}
        return {"point": number, **cells}

    # --- while a sweep runs

    def add(self, point: FinishedPoint) -> None:
        """Take a point; it is written by :meth:`keep`."""
        outcome = point.outcome
        if outcome.number in self.done or outcome.number in self._batch.points:
            return
        if outcome.failure:
            self._note_failure(
                {
                    "point": outcome.number,
                    "id": point.identity,
                    "values": point.values,
                    "reason": outcome.failure,
                    "is_final": outcome.is_final,
                }
            )
            return
        cells = {axis.name: axis.cell(point.values[axis.name]) for axis in self._study.design.axes}
        labels = {"point": outcome.number, "id": point.identity}
        self._batch.rows += [{**row, **cells, **labels} for row in outcome.rows]
        self._batch.points.add(outcome.number)

    def keep(self, *, wall_s: float, reuse: Reuse, now: bool = False) -> None:
        """Write rows and manifest, if the last time is long enough ago.

        Raises
        ------
        OutputError
            If they cannot be written; files that are there stay as they are.
        """
        clock = time.monotonic()
        every_s = max(EVERY_S, (clock - self._began) / TIMES)
        if not now and clock - self._kept_at < every_s:
            return
        if (batch := self._batch).rows:
            self._write(self._frame(batch.rows), self.path / ROWS / _name(batch.number))
            for numbers in batch.points.ranges():
                self.done.add_range(numbers)
            # after an interrupt before this, the same file is written again
            self._batch = _Batch(batch.number + 1)
        self._write_manifest(wall_s, reuse)
        self._kept_at = time.monotonic()

    def close(self) -> None:
        """Let others write to the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _frame(self, rows: list[Values]) -> polars.DataFrame:
        import polars

        kinds: dict[type, Any] = {
            int: polars.Int64,
            float: polars.Float64,
            bool: polars.Boolean,
            str: polars.String,
        }
        schema = {name: kinds[kind] for name, kind in self._types.items()}
        columns = {
            name: [None if row.get(name) is None else self._types[name](row[name]) for row in rows]
            for name in schema
        }
        return polars.DataFrame(columns, schema=schema)

    @staticmethod
    def _write(frame: polars.DataFrame, path: Path) -> None:
        content = io.BytesIO()
        frame.write_parquet(content)
        write_binary(content.getvalue(), path)

    @property
    def open_points(self) -> NumberSet:
        """Points that are neither done nor failed."""
        every = NumberSet()
        every.add_range(range(self._study.design.size))
        return every.without(self.done, self.failed, self.left_out)

    def _write_manifest(self, wall_s: float, reuse: Reuse) -> None:
        study = self._study
        content = {
            "schema_version": SCHEMA_VERSION,
            "lightloom": code_version(),
            "digest": self._digest,
            "study": {"file": study.name, **study.tables, "sweep": study.options.model_dump()},
            "axes": {axis.name: axis.column_type.__name__ for axis in study.design.axes},
            "points": study.design.size - len(self.left_out),
            "done": len(self.done),
            "done_points": str(self.done),
            "failed": [self.failures[number] for number in sorted(self.failures)],
            "open": len(self.open_points),
            "open_points": str(self.open_points),
            "wall_s": round(wall_s, 1),
            "reuse": {"made": dict(reuse.made), "reused": dict(reuse.reused)},
        }
        write_text(json_text(content), self.path / MANIFEST)


def column_types(study: SweepStudy) -> dict[str, type]:
    """Columns of the rows of a study in their order, with what they hold."""
    axes = {axis.name: axis.column_type for axis in study.design.axes}
    return {"point": int, "id": str, **axes, **INPUTS, **PLAN, **RESULTS}


def _digest_of(frame: polars.DataFrame) -> str:
    import hashlib

    return hashlib.sha256("".join(frame["id"].to_list()).encode()).hexdigest()[:16]


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a folder; empty if there is none.

    Raises
    ------
    InputError
        If it is no manifest of this version.
    """
    file = path / MANIFEST
    if not file.exists():
        return {}
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        version = content["schema_version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{file}: no manifest of a sweep; name another folder") from None
    if version != SCHEMA_VERSION:
        raise InputError(f"{file}: of another version ({version}); run the sweep in a new folder")
    return content


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path}: cannot write: {reason}; choose another place") from None


def rows_of_folder(path: Path) -> polars.LazyFrame:
    """The rows of a data set, sorted, as polars reads them.

    Raises
    ------
    InputError
        If there are none.
    """
    need("polars", "rows of a sweep")
    import polars

    files = sorted((path / ROWS).glob("*.parquet"))
    if not files:
        raise InputError(f"{path}: no rows of a sweep; expected the --out of lightloom sweep")
    try:
        rows = polars.scan_parquet(files)
        columns = rows.collect_schema().names()
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: rows cannot be read: {reason}") from None
    missing = [name for name in ("point", "fabric") if name not in columns]
    if missing:
        raise InputError(
            f"{path}: no rows of a sweep: there is no column {missing[0]}; for another table, name"
            " its file"
        )
    return rows.sort("point", "fabric", maintain_order=True)
