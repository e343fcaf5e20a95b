"""Tables of expert loads by step and layer: CSV, Parquet or JSON lines.

One row per count, with the columns ``step``, ``layer``, ``expert``, ``load`` and, if sources are
told apart, ``rank``. ``load`` is tokens, or any other non-negative number in proportion to them.
Experts and ranks are numbered from 0; steps and layers have any whole numbers and are taken in
ascending order. A row that is absent is a load of zero, but a layer absent from a step is an
error. Reading is bounded by file size and by the size of the table of loads.

A table of ``layer`` and ``expert`` alone has a row for each choice, as ``moe-trace`` of llama.cpp
writes it (ggml-org/llama.cpp, pull request 28544): a step begins where layers begin again. Loads
that Megatron-LM logged are read by :mod:`.tokens_per_expert`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.load_history import LoadHistory, check_entries
from lightloom.demand.source import MAX_EXPERTS, MAX_INDEX, MAX_RANKS
from lightloom.demand.tokens_per_expert import read_tokens_per_expert, tokens_per_expert_files
from lightloom.errors import DemandError, did_you_mean
from lightloom.inputs.files import first_line, lines_of, open_file
from lightloom.inputs.formats import parse_json
from lightloom.optional import need

if TYPE_CHECKING:
    import polars

#: endings of tables that are no routing logs whatever is in them
TABLE_ENDINGS = (".csv", ".parquet")

_COLUMNS = ("step", "layer", "expert", "load")
#: of a table with a row for each choice
_CHOICES = ["layer", "expert"]
_INDICES = {"step": MAX_INDEX, "layer": MAX_INDEX, "rank": MAX_RANKS, "expert": MAX_EXPERTS}
_MAX_BYTES = 8 * 10**9
_LINE_BYTES = 256 * 10**6


def is_load_file(path: Path) -> bool:
    """Whether it has loads: a table by its ending or first line, or a log of Megatron-LM's loads.

    Raises
    ------
    DemandError
        If it cannot be read.
    """
    if path.suffix.lower() in TABLE_ENDINGS:
        return True
    if path.is_dir() or tokens_per_expert_files(path):
        return bool(tokens_per_expert_files(path))
    if path.suffix != ".jsonl":
        return False
    with open_file(path, "table of loads", _MAX_BYTES, DemandError) as stream:
        for where, text in lines_of(stream, str(path), _LINE_BYTES, DemandError):
            row = parse_json(text, where, DemandError)
            return isinstance(row, dict) and "load" in row
    return False


def read_load_file(
    path: Path | str, *, experts: int | None = None, stages: int | None = None
) -> LoadHistory:
    """Read a table of loads.

    Parameters
    ----------
    path
        ``.csv``, ``.parquet``; anything else is read as JSON lines.
    experts
        Number of experts; by default the largest one in the table and those below it.
    stages
        Pipeline stages in a log of ranks, see :mod:`.tokens_per_expert`; tables have none.

    Raises
    ------
    DemandError
        Naming what cannot be used: a column, a row, or a layer that a step lacks.
    """
    path = Path(path)
    if path.suffix.lower() not in TABLE_ENDINGS and (files := tokens_per_expert_files(path)):
        return read_tokens_per_expert(path, files, experts=experts, stages=stages or 1)
    if stages is not None:
        raise DemandError(f"{path}: a table of loads has no pipeline stages")
    table = _read(path)
    if sorted(table.columns) == sorted(_CHOICES):
        return _trace_of_choices(path, table, experts)
    unknown = [name for name in table.columns if name not in {*_COLUMNS, "rank"}]
    for name in _COLUMNS:
        if name not in table.columns:
            hint = did_you_mean(name, unknown)
            raise DemandError(
                f"{path}: column '{name}' is missing{hint}; expected {', '.join(_COLUMNS)} and "
                "perhaps rank, or layer and expert alone"
            )
    if unknown:
        raise DemandError(f"{path}: column '{unknown[0]}' is not known; leave it out")
    if not len(table):
        raise DemandError(f"{path}: the table has no rows")
    indices = {
        name: _index(path, table[name], maximum)
        for name, maximum in _INDICES.items()
        if name in table.columns
    }
    return _trace(path, indices, _loads(path, table["load"]), experts)


def _read(path: Path) -> polars.DataFrame:
    need("polars", "a table of loads")
    import polars

    with open_file(path, "table of loads", _MAX_BYTES, DemandError) as stream:
        try:
            if path.suffix.lower() == ".parquet":
                return polars.read_parquet(stream)
            if path.suffix.lower() == ".csv":
                return polars.read_csv(stream)
            return polars.read_ndjson(stream, infer_schema_length=None)
        except (polars.exceptions.PolarsError, OSError, ValueError) as error:
            reason = first_line(str(error)) or type(error).__name__
            raise DemandError(f"{path}: not a readable table: {reason}") from None
        except polars.exceptions.PanicException:  # damaged Parquet, in some versions
            raise DemandError(f"{path}: not a readable table: the file is damaged") from None


def _index(path: Path, column: polars.Series, maximum: int) -> npt.NDArray[np.int64]:
    """A column of whole numbers from 0 to below ``maximum``."""
    _no_gaps(path, column)
    if not column.dtype.is_integer():
        raise DemandError(
            f"{path}: column '{column.name}': expected whole numbers, got {column.dtype}"
        )
    # compared before it is converted: polars has integers of 128 bits, numpy has not
    wrong = ~column.is_between(0, maximum - 1)
    if wrong.any():
        row = int(np.argmax(wrong.to_numpy()))
        raise DemandError(
            f"{path}: column '{column.name}', row {row + 1}: expected 0 to {maximum - 1}, "
            f"got {column[row]}"
        )
    import polars

    values: npt.NDArray[np.int64] = column.cast(polars.Int64).to_numpy()
    return values


def _loads(path: Path, column: polars.Series) -> npt.NDArray[np.float64]:
    _no_gaps(path, column)
    if not column.dtype.is_numeric():
        raise DemandError(f"{path}: column 'load': expected numbers, got {column.dtype}")
    import polars

    values: npt.NDArray[np.float64] = column.cast(polars.Float64).to_numpy()
    wrong = ~((values >= 0) & (values < 1e15))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DemandError(
            f"{path}: column 'load', row {row + 1}: expected 0 to 1e15, got {values[row]:g}"
        )
    return values


def _no_gaps(path: Path, column: polars.Series) -> None:
    if column.null_count():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise DemandError(f"{path}: column '{column.name}', row {row + 1}: the value is missing")


def _trace_of_choices(path: Path, table: polars.DataFrame, experts: int | None) -> LoadHistory:
    """Loads of a table with a row for each choice; a step is a pass through the layers."""
    if not len(table):
        raise DemandError(f"{path}: the table has no rows")
    layer, expert = (_index(path, table[name], _INDICES[name]) for name in _CHOICES)
    step = np.concatenate([[0], np.cumsum(layer[1:] < layer[:-1])])
    keys = np.stack([step, layer, expert])
    places, loads = np.unique(keys, axis=1, return_counts=True)
    indices = dict(zip(("step", *_CHOICES), places, strict=True))
    return _trace(path, indices, loads.astype(np.float64), experts)


def _trace(
    path: Path,
    indices: dict[str, npt.NDArray[np.int64]],
    loads: npt.NDArray[np.float64],
    experts: int | None,
) -> LoadHistory:
    steps, step = np.unique(indices["step"], return_inverse=True)
    layers, layer = np.unique(indices["layer"], return_inverse=True)
    rank = indices.get("rank", np.zeros(len(loads), dtype=np.int64))
    needed = int(indices["expert"].max()) + 1
    width = needed if experts is None else experts
    if width < needed:
        raise DemandError(f"{path}: a table of at least {needed} experts, {width} were given")
    if width > MAX_EXPERTS:
        raise DemandError(f"experts: expected 1 to {MAX_EXPERTS}, got {width}")
    shape = (len(steps), len(layers), int(rank.max()) + 1, width)
    check_entries(str(path), shape)
    flat = np.ravel_multi_index((step, layer, rank, indices["expert"]), shape)
    first = np.unique(flat, return_index=True)[1]
    if len(first) < len(flat):
        row = int(np.setdiff1d(np.arange(len(flat)), first)[0])
        place = ", ".join(f"{name} {values[row]}" for name, values in indices.items())
        raise DemandError(f"{path}: {place} occurs more than once")
    counts = np.zeros(shape)
    counts.ravel()[flat] = loads
    empty = np.argwhere(counts.sum(axis=(2, 3)) <= 0)
    if len(empty):
        raise DemandError(
            f"{path}: step {steps[empty[0][0]]} has no loads of layer {layers[empty[0][1]]}"
        )
    notes: dict[str, Any] = {"loads": str(path)}
    return LoadHistory(path.name, counts, "rank" in indices, provenance=notes)
