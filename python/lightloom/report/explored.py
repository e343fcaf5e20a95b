"""Tables that the explorer shows: the rows of a sweep, or a file of rows."""

from __future__ import annotations

import shlex
from pathlib import Path

from lightloom.errors import InputError
from lightloom.optional import need
from lightloom.output.sweep_results import SweepResults
from lightloom.report.page_explore import ExploredData

#: inputs that other tables of this package have
_INPUTS = ("gpus", "rate_gbps", "gpu", "fabric", "fixed_s", "link_up_s", "seed", "step")


def explored_sweep(results: SweepResults) -> ExploredData:
    """The rows of a sweep.

    Raises
    ------
    InputError
        If there are none yet.
    """
    rows = results.to_polars()
    if not results.manifest:
        return ExploredData(rows, str(results.path))
    study = results.manifest["study"]
    done, points = results.manifest["done"], results.manifest["points"]
    return ExploredData(
        rows,
        f"{done:,} points of a sweep",
        f"{study['file']}: {', '.join(results.axes)}; {done:,} of {points:,} points are done",
        tuple(results.axes),
        f"lightloom run {shlex.quote(study['file'])} --point",
    )


def explored(path: Path) -> ExploredData:
    """The rows of a Parquet or CSV file.

    Raises
    ------
    InputError
        If it is no such file.
    """
    need("polars", "a table")
    import polars

    if not path.is_file():
        raise InputError(f"{path}: no such file or folder; expected the --out of lightloom sweep")
    if path.suffix not in {".parquet", ".csv"}:
        raise InputError(f"{path}: expected the folder of a sweep, or a .parquet or .csv file")
    try:
        rows = polars.read_csv(path) if path.suffix == ".csv" else polars.read_parquet(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: cannot be read as a table: {reason}") from None
    inputs = tuple(name for name in rows.columns if name in _INPUTS)
    return ExploredData(rows, path.name, f"{len(rows):,} rows", inputs)
