"""Results as files: JSON once at the end, CSV and Parquet rows as runs finish.

A file appears under its name only when it is whole: everything is written to a temporary file
first. Two exceptions: the streamed CSV, whose purpose is that finished rows survive, and what is no
regular file (a pipe, a terminal, ``/dev/null``), which is written to directly and never replaced.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lightloom.errors import OutputError
from lightloom.optional import need

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars

#: the name that stands for standard output
STDOUT = "-"


def _failure(place: object, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(f"{place}: cannot write: {reason}; choose another place")


def _is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder."""
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Open a text file that takes the place of ``path`` only if the block succeeds.

    A file whose name ends in ``.gz`` is compressed; equal texts are equal files.

    Raises
    ------
    OutputError
        If it cannot be written (no folder, no permission, disk full).
    """
    with _whole(path) as part:
        if path.suffix != ".gz":
            with part.open("w", encoding="utf-8") as stream:
                yield stream
            return
        with (
            part.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8") as stream,
        ):
            yield stream


def write_text(content: str, path: Path) -> None:
    """Write text to a file, which appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    with whole_file(path) as stream:
        stream.write(content)


def write_binary(content: bytes, path: Path) -> None:
    """Write bytes to a file, which appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    with _whole(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of ``path`` if the block succeeds.

    A link is followed, so that the file that it points to is replaced and not the link.
    """
    try:
        if _is_special(path):
            yield path
            return
        target = _resolved(path)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
        os.close(handle)
        try:
            yield Path(name)
            os.chmod(name, _mode(target))
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise _failure(path, error) from None


def _resolved(path: Path) -> Path:
    """The file that a link leads to.

    Raises
    ------
    OutputError
        If links lead to one another.
    """
    try:
        return path.resolve()
    except RuntimeError:
        raise OutputError(f"{path}: symbolic links lead to one another") from None
    except ValueError:
        raise OutputError(f"{path}: cannot write: not a usable path") from None


def _mode(path: Path) -> int:
    """Permissions that a file has, or that a new one would have."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def check_writable(path: Path) -> None:
    """Fail early, before minutes of simulation, if a path cannot be written.

    Raises
    ------
    OutputError
        If the folder is missing or not writable, or the path is a folder.
    """
    folder = path.parent
    try:
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; give the name of a file")
        if not folder.is_dir():
            raise OutputError(f"{path}: there is no folder {folder}; make it first")
        if not _is_special(path) and not os.access(folder, os.W_OK):
            raise OutputError(f"{path}: folder {folder} is not writable; choose another place")
    except OSError as error:
        raise _failure(path, error) from None
    except ValueError:
        raise OutputError(f"{path}: cannot write: not a usable path") from None


def check_all_writable(paths: Iterable[Path]) -> None:
    """Fail early if any of several outputs cannot be written, or two are the same file.

    Raises
    ------
    OutputError
        Naming the first.
    """
    seen = set()
    for path in paths:
        check_writable(path)
        place = _resolved(path)
        if place in seen and not _is_special(path):
            raise OutputError(f"{path}: named for two outputs; give each a file of its own")
        seen.add(place)


def write_json(content: dict[str, Any], target: str) -> None:
    """Write ``content`` to a file, or to standard output if ``target`` is ``-``.

    A file whose name ends in ``.gz`` is compressed.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    text = json_text(content)
    if target == STDOUT:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _failure("standard output", error) from None
        return
    write_text(text, Path(target))


def json_text(content: dict[str, Any]) -> str:
    """Text of a JSON file, with ``null`` for numbers that are not finite."""
    return json.dumps(_finite(content), indent=1, allow_nan=False, default=str) + "\n"


def json_line(content: dict[str, Any]) -> str:
    """One line of a stream of JSON, as :func:`json_text` is a file."""
    return json.dumps(_finite(content), allow_nan=False, default=str) + "\n"


def _finite(value: Any) -> Any:
    """The value with ``null`` for what JSON cannot say: infinite, or not a number."""
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def csv_text(
    columns: Mapping[str, npt.NDArray[Any] | Sequence[Any]], *, with_header: bool = True
) -> str:
    """Text of a CSV file with these columns, which are equally long.

    What is ``None`` or not a number is an empty cell; truth is ``true`` or ``false``.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    if with_header:
        table.writerow(columns)
    cells = (map(_cell, values) for values in map(_plain, columns.values()))
    table.writerows(zip(*cells, strict=True))
    return text.getvalue()


def _plain(values: npt.NDArray[Any] | Sequence[Any]) -> Sequence[Any]:
    """The values of a column as Python's own."""
    if isinstance(values, Sequence):
        return values
    plain: list[Any] = values.tolist()
    return plain


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or value != value else value  # noqa: PLR0124 (not a number)


class TextSink:
    """Text that is written as it comes: to a file, or to standard output.

    Parameters
    ----------
    target
        A path, ``-`` for standard output, or ``None`` for nowhere.
    """

    def __init__(self, target: Path | str | None) -> None:
        self._target = None if target is None else str(target)
        self._stream: IO[str] | None = None

    @property
    def wanted(self) -> bool:
        """Whether anyone will read what is written."""
        return self._target is not None

    @property
    def begun(self) -> bool:
        """Whether something was written already."""
        return self._stream is not None

    def write(self, text: str) -> None:
        """Write a piece, so that others see it.

        Raises
        ------
        OutputError
            If it cannot be written; nothing more is tried then.
        """
        if self._target is None:
            return
        try:
            if self._stream is None:
                # opened late, so that wrong input leaves no empty file
                self._stream = self._open(self._target)
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            failure = self._failure(error)
            self._abandon()
            raise failure from None

    @staticmethod
    def _open(target: str) -> IO[str]:
        if target == STDOUT:
            return sys.stdout
        if target.endswith(".gz"):
            return gzip.open(target, "wt", newline="", encoding="utf-8")
        return Path(target).open("w", newline="", encoding="utf-8")

    def _failure(self, error: OSError) -> OutputError:
        place = "standard output" if self._target == STDOUT else self._target
        return _failure(place, error)

    def _abandon(self) -> None:
        """Close without complaining once more about what is still in the buffer."""
        stream, self._stream, self._target = self._stream, None, None
        if stream is not None and stream is not sys.stdout:
            with contextlib.suppress(OSError):
                stream.close()

    def close(self) -> None:
        """Finish the file.

        Raises
        ------
        OutputError
            If that fails.
        """
        stream, self._stream = self._stream, None
        if stream is not None and stream is not sys.stdout:
            try:
                stream.close()
            except OSError as error:
                raise self._failure(error) from None


class _TableWriter:
    """A table that is written to CSV as its rows come and to Parquet at the end.

    ``close`` is called in any case, so that an interrupt leaves the finished rows in both.

    Parameters
    ----------
    csv_target
        A path, ``-`` for standard output, or ``None``.
    parquet_path
        A path or ``None``.
    """

    def __init__(self, csv_target: Path | str | None, parquet_path: Path | None) -> None:
        if parquet_path is not None:
            need("polars", "a Parquet file")
        self._sink = TextSink(csv_target)
        self._parquet_path = parquet_path
        #: the targets that are files, not standard output
        self.files = [str(t) for t in (csv_target, parquet_path) if t not in (None, STDOUT)]
        self._parts: list[Any] = []

    def close(self) -> None:
        """Finish both files; nothing is written if there was no row.

        Raises
        ------
        OutputError
            If one of them cannot be written.
        """
        self._sink.close()
        path, self._parquet_path = self._parquet_path, None
        if path is not None and self._parts:
            _write_parquet(self._frame(), path)

    def _frame(self) -> polars.DataFrame:
        raise NotImplementedError


class RowWriter(_TableWriter):
    """Rows of one run each."""

    @property
    def count(self) -> int:
        """Rows so far."""
        return len(self._parts)

    def write(self, row: dict[str, Any]) -> None:
        """Add one row; all rows have the same keys.

        Raises
        ------
        OutputError
            If the CSV cannot be written.
        """
        self._parts.append(row)
        if not self._sink.wanted:
            return
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, self._parts[0].keys())
        if not self._sink.begun:
            table.writeheader()
        table.writerow(row)
        self._sink.write(text.getvalue())

    def _frame(self) -> polars.DataFrame:
        import polars

        return polars.DataFrame(self._parts, infer_schema_length=None)


class ColumnWriter(_TableWriter):
    """Many rows at a time, as columns."""

    count = 0

    def write(self, columns: Mapping[str, npt.NDArray[Any] | list[Any]]) -> None:
        """Add rows; not a number is an empty cell. All batches have the same columns.

        Raises
        ------
        OutputError
            If the CSV cannot be written.
        """
        self.count += max((len(column) for column in columns.values()), default=0)
        if self._parquet_path is not None:
            import polars

            self._parts.append(polars.DataFrame(dict(columns), nan_to_null=True))
        if self._sink.wanted:
            self._sink.write(csv_text(columns, with_header=not self._sink.begun))

    def _frame(self) -> polars.DataFrame:
        import polars

        # a column may be empty in one batch and not in another
        frame: polars.DataFrame = polars.concat(self._parts, how="vertical_relaxed")
        return frame


def write_columns(
    columns: Mapping[str, npt.NDArray[np.generic] | Sequence[object]], path: Path
) -> None:
    """Write columns as Parquet if the name says so, else as CSV.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    if path.suffix.lower() != ".parquet":
        return write_text(csv_text(columns), path)
    need("polars", "a Parquet file")
    import polars

    return _write_parquet(polars.DataFrame(dict(columns), nan_to_null=True), path)


def _write_parquet(rows: Any, path: Path) -> None:
    # polars would turn a full disk into an error of its own
    content = io.BytesIO()
    rows.write_parquet(content)
    write_binary(content.getvalue(), path)
