"""Loads of experts as Megatron-LM logs them (``--save-tokens-per-expert-interval``).

A folder ``tokens_per_expert`` of ``rankR.jsonl``; a line per iteration, block and layer, ``{"iter":
100, "block": "decoder", "layer": 3, "tpe": [[128, 64], [96, 80]]}``, has for each micro-batch what
each of the rank's experts receives (``save_tpe`` in ``megatron/training/activation_logging.py``).
Micro-batches are added up. Layers of multi-token prediction (``mtp``) are counted and left out.
Experts are numbered by rank, then by place; where there are several EP groups, as the number of
experts tells, their loads are added up. Who sent the tokens is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.load_history import LoadHistory, check_entries
from lightloom.demand.log_formats import LOADS_KEY as KEY
from lightloom.demand.source import MAX_COPIES, MAX_EXPERTS, MAX_INDEX, MAX_RANKS, whole
from lightloom.errors import DemandError, echo
from lightloom.inputs.files import lines_of, open_file
from lightloom.inputs.formats import parse_json

FOLDER = "tokens_per_expert"
_NAME = re.compile(r"rank(\d{1,7})\.jsonl")
_MAX_BYTES, _LINE_BYTES = 8 * 10**9, 64 * 10**6

Loads = npt.NDArray[np.float64]


def tokens_per_expert_files(path: Path) -> dict[int, Path]:
    """Files of ranks by their numbers; none where a path is of something else.

    Raises
    ------
    DemandError
        If it cannot be read, or is one of several files.
    """
    if path.is_dir():
        inner = path / FOLDER
        folder = inner if inner.is_dir() else path
        files = sorted(folder.glob("*.jsonl"))
        named = {int(match[1]): file for file in files if (match := _NAME.fullmatch(file.name))}
        return named if named and all(map(_is_one, named.values())) else {}
    if path.suffix != ".jsonl" or not _is_one(path):
        return {}
    named = {int(match[1]): path for match in [_NAME.fullmatch(path.name)] if match}
    others = [file for file in path.parent.glob("rank*.jsonl") if _NAME.fullmatch(file.name)]
    if named and len(others) > 1:
        raise DemandError(
            f"{path}: has the experts of one rank of {len(others)}; give the folder {path.parent}"
        )
    return named or {0: path}


def _is_one(path: Path) -> bool:
    for _, row in _rows(path):
        return isinstance(row, dict) and KEY in row
    return False


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    with open_file(path, "log of loads", _MAX_BYTES, DemandError) as stream:
        for where, text in lines_of(stream, str(path), _LINE_BYTES, DemandError):
            yield where, parse_json(text, where, DemandError)


def read_tokens_per_expert(
    path: Path, files: dict[int, Path], *, experts: int | None = None, stages: int = 1
) -> LoadHistory:
    """Read such a log; a step of the loads is an iteration.

    Parameters
    ----------
    path
        What was given, for messages.
    files
        Of the ranks, see :func:`tokens_per_expert_files`.
    experts
        Of a layer; by default as many as all ranks of a stage have together.
    stages
        Pipeline stages: ranks are those of one after the other, and each numbers its own layers.

    Raises
    ------
    DemandError
        Naming the line that cannot be used, or what a rank lacks.
    """
    if not whole(stages) or stages < 1 or len(files) % stages:
        raise DemandError(f"{path}: {len(files)} ranks in the log are not of {stages} stages")
    if max(files) >= MAX_RANKS:
        raise DemandError(f"{path}: rank {max(files):,}; the limit is {MAX_RANKS:,}")
    left_out = 0
    loads: dict[tuple[int, int], dict[int, Loads]] = {}
    for rank, file in sorted(files.items()):
        for where, row in _rows(file):
            if not isinstance(row, dict):
                raise DemandError(f"{where}: expected a JSON object, got {echo(row)}")
            if row.get("block") != "decoder":
                left_out += 1
                continue
            key, batches = _line(row, where)
            if rank in loads.setdefault(key, {}):
                raise DemandError(
                    f"{where}: iteration {key[0]}, layer {key[1]} occurs more than once: a run "
                    "that was started again?"
                )
            loads[key][rank] = batches
    if not loads:
        raise DemandError(f"{path}: no layer of the decoder; nothing to read")
    notes = {"loads": f"{path} (Megatron-LM's tokens per expert)"}
    if left_out:
        notes["left out"] = f"{left_out:,} lines of layers outside the decoder"
    ranks = sorted(files)
    size = len(ranks) // stages
    of_stages = [ranks[place * size : (place + 1) * size] for place in range(stages)]
    counts = _together(str(path), loads, of_stages, experts)
    return LoadHistory(path.name, counts, False, provenance=notes)


def _line(row: dict[str, Any], where: str) -> tuple[tuple[int, int], Loads]:
    for key in ("iter", "layer", KEY):
        if key not in row:
            raise DemandError(f"{where}: '{key}' is missing; expected iter, block, layer and {KEY}")
    step, layer, batches = row["iter"], row["layer"], row[KEY]
    for key, value in (("iter", step), ("layer", layer)):
        if not whole(value) or not 0 <= value < MAX_INDEX:
            raise DemandError(f"{where}: {key}: expected a whole number, got {echo(value)}")
    width = len(batches[0]) if isinstance(batches, list) and batches and batches[0] else 0
    for batch in batches if width else [batches]:
        if (
            not width
            or not isinstance(batch, list)
            or len(batch) != width
            or not all(whole(count) and 0 <= count <= MAX_COPIES for count in batch)
        ):
            raise DemandError(
                f"{where}: {KEY}: expected a list of counts for each micro-batch, got {echo(batch)}"
            )
    loads: Loads = np.array(batches, dtype=np.float64).sum(axis=0)
    return (step, layer), loads


def _together(
    name: str,
    loads: dict[tuple[int, int], dict[int, Loads]],
    stages: list[list[int]],
    experts: int | None,
) -> Loads:
    """Loads ``(steps, layers, 1, experts)`` of all ranks and stages."""
    widths = {len(row) for by_rank in loads.values() for row in by_rank.values()}
    if len(widths) > 1:
        raise DemandError(
            f"{name}: ranks have {' and '.join(map(str, sorted(widths)))} experts; expected as many"
        )
    (local,) = widths
    number = local * len(stages[0]) if experts is None else experts
    if number % local or len(stages[0]) % (number // local or 1) or not 0 < number <= MAX_EXPERTS:
        raise DemandError(
            f"{name}: {len(stages[0])} ranks of {local} experts each are not EP groups of "
            f"{number} experts"
        )
    group = number // local
    steps = sorted({step for step, _ in loads})
    layers = [
        (members, layer)
        for members in stages
        for layer in sorted({layer for (_, layer), row in loads.items() if set(members) & set(row)})
    ]
    shape = (len(steps), len(layers), 1, number)
    check_entries(name, shape)
    counts = np.zeros(shape)
    for row, step in enumerate(steps):
        for column, (members, layer) in enumerate(layers):
            by_rank = loads.get((step, layer), {})
            missing = [rank for rank in members if rank not in by_rank]
            if missing:
                raise DemandError(
                    f"{name}: iteration {step} has no loads of layer {layer} by rank {missing[0]}: "
                    "a log cut off, or pipeline stages that were not stated (--stages)"
                )
            for place, rank in enumerate(members):
                first = place % group * local
                counts[row, column, 0, first : first + local] += by_rank[rank]
    return counts
