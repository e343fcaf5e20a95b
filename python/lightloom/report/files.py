"""Results as files: JSON once at the end, CSV and Parquet rows as runs finish.

A file appears under its name only when it is whole: everything is written beside it first. The
streamed CSV is the exception, since its purpose is that what was finished survives.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lightloom.errors import OutputError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Open a file that takes the place of ``path`` only if the block succeeds.

    Raises
    ------
    OutputError
        If it cannot be written (no folder, no permission, disk full).
    """
    temporary: str | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            temporary = stream.name
            yield stream
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"{path}: cannot write: {reason}; choose another place") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def check_writable(path: Path) -> None:
    """Fail early, before minutes of simulation, if ``path`` cannot be written.

    Raises
    ------
    OutputError
        If the folder is missing or not writable, or the path is a folder.
    """
    folder = path.parent
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; give the name of a file")
    if not folder.is_dir():
        raise OutputError(f"{path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{path}: folder {folder} is not writable; choose another place")


def write_json(content: dict[str, Any], target: str) -> None:
    """Write ``content`` to a file, or to standard output if ``target`` is ``-``."""
    text = json.dumps(content, indent=1, default=str) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    with whole_file(Path(target)) as stream:
        stream.write(text)


class RowWriter:
    """Rows of one run each, written to CSV as they come and to Parquet at the end.

    ``close`` is called in any case, so that an interrupt leaves the finished rows in both.
    """

    def __init__(self, csv_path: Path | None, parquet_path: Path | None) -> None:
        self._csv_path = csv_path
        self._parquet_path = parquet_path
        self._rows: list[dict[str, Any]] = []
        self._stream: IO[str] | None = None

    def write(self, row: dict[str, Any]) -> None:
        """Add one row; all rows have the same keys."""
        self._rows.append(row)
        if self._csv_path is None:
            return
        try:
            if self._stream is None:
                self._stream = self._csv_path.open("w", newline="", encoding="utf-8")
                csv.DictWriter(self._stream, row.keys()).writeheader()
            csv.DictWriter(self._stream, self._rows[0].keys()).writerow(row)
            self._stream.flush()
        except OSError as error:
            raise OutputError(f"{self._csv_path}: cannot write: {error.strerror}") from None

    def close(self) -> None:
        """Finish both files; nothing is written if there was no row."""
        if self._stream is not None:
            self._stream.close()
        if self._parquet_path is None or not self._rows:
            return
        import polars

        partial = self._parquet_path.with_name(f".{self._parquet_path.name}.partial")
        try:
            polars.DataFrame(self._rows).write_parquet(partial)
            os.replace(partial, self._parquet_path)
        except OSError as error:
            raise OutputError(f"{self._parquet_path}: cannot write: {error.strerror}") from None
        finally:
            with contextlib.suppress(OSError):
                partial.unlink()
