"""Rows of a calibration, kept in a file as they are measured, so that it can go on.

A line is operator, shape and seconds; the first names the device, since rows of another one are
worth nothing here.
"""

from __future__ import annotations

from pathlib import Path

from lightloom.errors import HardwareError
from lightloom.inputs.files import MAX_TEXT_BYTES, read_file
from lightloom.study.calibration.measure import Rows
from lightloom.study.calibration.operations import Operation

_HEAD = "operator,shape,time_s"


def read_rows(path: Path, device: str) -> Rows:
    """The rows that were kept; none if the file is new.

    Raises
    ------
    HardwareError
        If they are of another device, or a line is not a row.
    """
    if not path.exists() or not path.stat().st_size:
        return {}
    text = read_file(path, "rows of a calibration", MAX_TEXT_BYTES, HardwareError)
    lines = text.decode("utf-8", "replace").splitlines()
    if lines[0] != f"# {device}":
        raise HardwareError(
            f"{path}: rows of {lines[0].removeprefix('# ')[:80]}, and this is {device}; remove "
            "the file, or write another profile"
        )
    rows: Rows = {}
    for number, line in enumerate(lines[2:], 3):
        try:
            operator, shape, seconds = line.split(",")
            rows[operator, tuple(map(int, shape.split("x")))] = float(seconds)
        except ValueError:
            raise HardwareError(
                f"{path}:{number}: expected operator,shape,seconds; remove the line"
            ) from None
    return rows


def keep_row(path: Path, device: str, operation: Operation, seconds: float) -> None:
    """Add a row, and the head to a new file."""
    new = not path.exists() or not path.stat().st_size
    with path.open("a", encoding="utf-8") as file:
        if new:
            file.write(f"# {device}\n{_HEAD}\n")
        shape = "x".join(map(str, operation.shape))
        file.write(f"{operation.operator},{shape},{seconds!r}\n")
