"""A byte matrix from a file: row sends to column, entries are whole bytes.

Read are NumPy files (``.npy``, ``.npz``), text tables (``.csv``, ``.tsv``, ``.txt``), Parquet
(:mod:`.byte_table`) and the token matrices of :mod:`.matrix_file`. Whatever a file holds, it is
measured before it is loaded, nothing in it is ever executed (no pickle), and what cannot be read
becomes one line. It assumes that values are bytes up to 2^53, so that floats hold them exactly.
"""

from __future__ import annotations

import ast
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lightloom.demand.byte_table import parse_text_table, read_parquet_table
from lightloom.demand.matrix_file import parse_matrix
from lightloom.demand.placement import rank_matrix
from lightloom.demand.source import whole
from lightloom.errors import DemandError, echo
from lightloom.inputs.arguments import path_of
from lightloom.inputs.files import STDIN, first_line, open_file, read_input

#: largest file, side of a matrix and entry
MAX_FILE_BYTES, MAX_SIDE, MAX_ENTRY = 256 * 10**6, 4096, 2**53

_MAGIC = b"\x93NUMPY"
_MAX_HEADER = 10_000
_NUMBERS = re.compile(r"[<>|=]?[iuf][1248]")
_SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".txt", ".json", ".parquet")


def read_byte_matrix(path: Path | str, *, token_bytes: int | None = None) -> npt.NDArray[np.uint64]:
    """Read who sends how many bytes to whom, ``(sources, destinations)``.

    Parameters
    ----------
    path
        The file; what it holds is told by its suffix. ``-`` is text on standard input.
    token_bytes
        Bytes of a token copy, by which a token matrix (JSON) is multiplied; without it, token
        matrices are refused.

    Raises
    ------
    DemandError
        If the file cannot be read, is too large, or holds no matrix of whole bytes.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.read_byte_matrix("tests/golden/schedule_demand.csv").shape
    (6, 6)
    """
    path = path_of(path, "demand", "the path of a file", DemandError)
    name = "standard input" if str(path) == STDIN else str(path)
    return check_bytes(_read(path, name, "demand", token_bytes), name)


def read_whole_matrix(path: Path | str, key: str) -> npt.NDArray[Any]:
    """Read a matrix of any numbers, such as circuits; ``key`` is its name in an ``.npz``.

    Raises
    ------
    DemandError
        As :func:`read_byte_matrix`.
    """
    return _read(path, str(path), key, None)


def read_arrays(path: Path | str, keys: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Read arrays of numbers, of one or two axes, from an ``.npz``.

    Raises
    ------
    DemandError
        If the file cannot be read or is too large, or an array is missing.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise DemandError(f"{path}: expected the .npz file of an earlier --out")
    with open_file(path, "schedule", MAX_FILE_BYTES, DemandError) as stream:
        return {key: _parse_npz(stream, str(path), key, _check_axes) for key in keys}


def check_bytes(matrix: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint64]:
    """Return a matrix of whole bytes; ``name`` begins error messages.

    Raises
    ------
    DemandError
        If it has not two axes of 1 to :data:`MAX_SIDE` each, or an entry is no whole number from
        0 to :data:`MAX_ENTRY`.
    """
    _check_shape(matrix.shape, name)
    if matrix.dtype.kind == "f":
        matrix = matrix.astype(np.float64)  # the smaller ones do not reach 2^53
    if not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))  # NumPy before 2.2.2 may crash
    good = (matrix >= 0) & (matrix <= MAX_ENTRY)
    if matrix.dtype.kind == "f":
        good &= matrix == np.floor(matrix)
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise DemandError(
            f"{name}: entry [{row}, {column}] is {matrix[row, column]}: expected whole bytes "
            f"from 0 to 2^53"
        )
    return np.ascontiguousarray(matrix.astype(np.uint64))


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2 or not all(1 <= side <= MAX_SIDE for side in shape):
        raise DemandError(
            f"{name}: expected a matrix of 1 to {MAX_SIDE:,} rows and columns, got the shape "
            f"{echo(shape)}"
        )


def _check_axes(shape: tuple[int, ...], name: str) -> None:
    if len(shape) not in {1, 2}:
        raise DemandError(f"{name}: expected one or two axes, got the shape {echo(shape)}")


def _read(path: Path | str, name: str, key: str, token_bytes: int | None) -> npt.NDArray[Any]:
    if str(path) == STDIN:
        content, name = read_input(path, "demand", MAX_FILE_BYTES, DemandError)
        return _parse_text(content, name, token_bytes)
    path = Path(path)
    suffix = path.suffix.lower()
    with open_file(path, "matrix", MAX_FILE_BYTES, DemandError) as stream:
        if suffix == ".npy":
            return parse_npy(stream.read(), name)
        if suffix == ".npz":
            return _parse_npz(stream, name, key, _check_shape)
        if suffix == ".parquet":
            return read_parquet_table(stream, name)
        if suffix in _SUFFIXES:
            return _parse_text(stream.read(), name, token_bytes)
    raise DemandError(f"{name}: expected a name that ends in {', '.join(_SUFFIXES)}")


def _parse_text(text: bytes, name: str, token_bytes: int | None) -> npt.NDArray[Any]:
    """A table, or a token matrix if it begins as JSON does."""
    if text.lstrip()[:1] == b"{":
        raise DemandError(
            f"{name}: expected a table or a token matrix (a JSON list of lists); 'lightloom demand "
            "... --view rank --csv -' writes one"
        )
    if text.lstrip()[:1] != b"[":
        return parse_text_table(text, name)
    if token_bytes is None:
        raise DemandError(f"{name}: expected a table of whole numbers, got JSON")
    if not whole(token_bytes) or not 1 <= token_bytes <= MAX_ENTRY:
        raise DemandError(
            f"bytes per token: expected a whole number above 0, got {echo(token_bytes)}"
        )
    tokens = rank_matrix(parse_matrix(text, name))
    top = int(tokens.max())
    if top * token_bytes > MAX_ENTRY:
        raise DemandError(f"{name}: {top:,} tokens of {token_bytes:,} bytes exceed 2^53 bytes")
    return tokens * token_bytes


def parse_npy(
    content: bytes, name: str, check: Callable[[tuple[int, ...], str], None] = _check_shape
) -> npt.NDArray[Any]:
    """Parse a NumPy file of numbers; ``name`` begins error messages, ``check`` refuses shapes.

    The header is read here and not by NumPy: its reader allocates what a header claims, and warns
    of old files on standard error.

    Raises
    ------
    DemandError
        If it is no such file, holds anything but numbers, or less than its header says.
    """
    if not content:
        raise DemandError(f"{name}: the file is empty; expected a matrix saved by numpy.save")
    width = 2 if content[6:7] == b"\x01" else 4
    start = 8 + width
    if content[:6] != _MAGIC or content[6:7] not in {b"\x01", b"\x02", b"\x03"}:
        raise DemandError(f"{name}: not a NumPy file; expected a matrix saved by numpy.save")
    end = start + int.from_bytes(content[8:start], "little")
    if end - start > _MAX_HEADER or end > len(content):
        raise DemandError(f"{name}: not a NumPy file: its header is cut off or too long")
    kind, fortran, shape = _parse_header(content[start:end], name)
    check(shape, name)
    count = math.prod(shape)
    if len(content) - end < count * kind.itemsize:
        raise DemandError(
            f"{name}: cut off: {shape} numbers take {count * kind.itemsize:,} bytes, "
            f"there are {len(content) - end:,}"
        )
    values = np.frombuffer(content, kind, count, end)
    return values.reshape(shape, order="F" if fortran else "C")


def _parse_header(text: bytes, name: str) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    try:
        header = ast.literal_eval(text.decode("utf-8").strip())
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise DemandError(f"{name}: not a NumPy file: its header cannot be read") from None
    if isinstance(descr, str) and descr.endswith("O"):
        raise DemandError(
            f"{name}: holds Python objects (pickle), which are never loaded; "
            "save whole numbers, such as numpy.save(file, matrix.astype('uint64'))"
        )
    if not isinstance(descr, str) or not _NUMBERS.fullmatch(descr) or descr[-2:] == "f1":
        raise DemandError(f"{name}: expected whole numbers, got entries of type {echo(descr)}")
    sides = isinstance(shape, tuple) and all(whole(side) and side >= 0 for side in shape)
    if not sides or not isinstance(fortran, bool):
        raise DemandError(f"{name}: not a NumPy file: its header cannot be read")
    return np.dtype(descr), fortran, shape


def _parse_npz(
    stream: BinaryIO, name: str, key: str, check: Callable[[tuple[int, ...], str], None]
) -> npt.NDArray[Any]:
    """One array of an archive; its size is checked before it is unpacked."""
    try:
        with zipfile.ZipFile(stream) as archive:
            names = [entry.removesuffix(".npy") for entry in archive.namelist()]
            if key not in names:
                raise DemandError(
                    f"{name}: expected an array '{key}', there is "
                    f"{', '.join(echo(entry) for entry in names[:5]) or 'none'}"
                )
            entry = archive.infolist()[names.index(key)]
            if entry.file_size > MAX_FILE_BYTES:
                raise DemandError(
                    f"{name}: '{key}' of {entry.file_size:,} bytes exceeds the limit of "
                    f"{MAX_FILE_BYTES:,}"
                )
            content = archive.read(entry)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DemandError(f"{name}: not an archive of NumPy: {first_line(str(error))}") from None
    except (NotImplementedError, RuntimeError, ValueError) as error:
        raise DemandError(f"{name}: cannot be unpacked: {first_line(str(error))}") from None
    return parse_npy(content, f"{name}, '{key}'", check)


def write_npz(arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """Content of an ``.npz`` file that :func:`read_byte_matrix` reads."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    return content.getvalue()
