"""``lightloom demand``: how skewed a demand is, and a picture of its matrix."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console

from lightloom.demand import (
    REGIMES,
    DemandSource,
    Placement,
    RoutingLog,
    Shape,
    SkewStatistics,
    bytes_per_token,
    from_matrix,
    member_tokens,
    rank_matrix,
    read_matrix,
    read_routing_log,
    statistics,
    synthetic,
)
from lightloom.demand.matrix_file import MatrixSource
from lightloom.demand.open import kind_of
from lightloom.demand.routing_log import replay
from lightloom.errors import DemandError, InputError
from lightloom.output.files import whole_file, write_json
from lightloom.report.demand_table import MatrixPicture, print_figures, print_picture

SCHEMA_VERSION = 1

#: the job that a regime is drawn for unless options say otherwise: that of the public matrix
_DEFAULTS = {"ranks": 8, "experts": 8, "tokens": 16_384, "top_k": 2}


class View(StrEnum):
    """What the columns of the matrix are."""

    expert = "expert"
    rank = "rank"
    server = "server"


@dataclass(frozen=True)
class _Request:
    """The options of one call; ``None`` where not given."""

    source: str
    ranks: int | None
    experts: int | None
    tokens: int | None
    top_k: int | None
    seed: int | None
    parameters: dict[str, float]
    scale: bool
    resample: bool


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("demand")(demand)


def demand(  # noqa: PLR0913 - one parameter per option of the command line
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|REGIME",
            help=f"A regime ({', '.join(REGIMES)}), a matrix (JSON) or a routing log (JSONL).",
        ),
    ],
    ranks: Annotated[int | None, typer.Option(help="EP ranks of a group.")] = None,
    experts: Annotated[int | None, typer.Option(help="Experts of the layer.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens per EP rank and micro-batch.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Experts that a token chooses.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of what is drawn; 0 for regimes.")] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a parameter of the regime."),
    ] = None,
    scale: Annotated[bool, typer.Option("--scale", help="Scale a matrix to --tokens.")] = False,
    resample: Annotated[
        bool, typer.Option("--resample", help="Draw a log's tokens with replacement.")
    ] = False,
    group: Annotated[int, typer.Option(help="EP group.")] = 0,
    layer: Annotated[int, typer.Option(help="MoE layer, from 0.")] = 0,
    micro_batch: Annotated[int, typer.Option(help="Micro-batch, from 0.")] = 0,
    step: Annotated[int, typer.Option(help="Training step, from 0.")] = 0,
    view: Annotated[View, typer.Option(help="Columns of the matrix.")] = View.expert,
    ranks_per_server: Annotated[
        int | None, typer.Option(help="EP ranks on a server, for --view server.")
    ] = None,
    deduplicate: Annotated[
        bool, typer.Option("--deduplicate", help="Send a token once per server, for --view server.")
    ] = False,
    node_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TOP/GROUPS", help="Node-limited routing, such as 4/8, for --deduplicate."
        ),
    ] = None,
    hidden: Annotated[int, typer.Option(help="Elements of a token.")] = 4096,
    element_bytes: Annotated[float, typer.Option(help="Bytes per element: FP8 1, BF16 2.")] = 2,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Write everything as JSON.")
    ] = None,
    csv_path: Annotated[
        str | None, typer.Option("--csv", metavar="PATH|-", help="Write the matrix as CSV.")
    ] = None,
) -> None:
    """Print how skewed a demand is and draw its matrix: who sends how many tokens to whom."""
    if json_path == "-" and csv_path == "-":
        raise InputError("--json - and --csv - both ask for standard output; name a file for one")
    if micro_batch < 0:
        raise DemandError(f"micro-batch: expected at least 0, got {micro_batch}")
    changes = _parse_parameters(parameter or [])
    made = open_source(
        _Request(source, ranks, experts, tokens, top_k, seed, changes, scale, resample)
    )
    index = {"group": group, "layer": layer, "micro_batch": micro_batch, "step": step}
    placement = _placement(made.shape, view, ranks_per_server, deduplicate, node_limit)
    counts = made.tokens(group=group, layers=[layer], micro_batches=micro_batch + 1, step=step)
    picture = _picture(made, view, counts[0, micro_batch], placement, index)
    token_bytes = bytes_per_token(hidden, element_bytes)
    figures = statistics(counts[0, micro_batch])
    if json_path is not None:
        write_json(_as_json(made, index, figures, picture, token_bytes), json_path)
    if csv_path is not None:
        _write_csv(picture, token_bytes, csv_path)
    if "-" not in {json_path, csv_path}:
        console = Console(highlight=False)
        print_figures(console, made, index, figures)
        print_picture(console, picture, token_bytes, hidden, element_bytes)


def open_source(request: _Request) -> DemandSource:
    """Make the source that a request names, refusing options that it would not read.

    Raises
    ------
    DemandError
        If the name is no regime and no file, or an option does not fit the source.
    """
    kind = kind_of(request.source)
    if kind == "regime":
        _refuse(request, "a regime", scale=request.scale, resample=request.resample)
        shape = {name: _given(request, name, default) for name, default in _DEFAULTS.items()}
        return synthetic(
            request.source,
            ranks=shape["ranks"],
            experts=shape["experts"],
            tokens_per_rank=shape["tokens"],
            top_k=shape["top_k"],
            seed=0 if request.seed is None else request.seed,
            **request.parameters,
        )
    path = Path(request.source)
    if kind == "log":
        _refuse(request, "a routing log", scale=request.scale, set=bool(request.parameters))
        log = read_routing_log(path)
        shape_of_log = _log_shape(request, log)
        return replay(log, shape_of_log, resample=request.resample, seed=request.seed)
    _refuse(
        request,
        "a token matrix",
        resample=request.resample,
        set=bool(request.parameters),
        seed=request.seed is not None,
    )
    return _open_matrix(request, path)


def _open_matrix(request: _Request, path: Path) -> DemandSource:
    """A matrix of a stated job, or, with neither tokens nor top-k given, as it is."""
    matrix = read_matrix(path)
    ranks = _given(request, "ranks", matrix.shape[0])
    experts = _given(request, "experts", matrix.shape[1])
    copies = max(1, int(matrix.sum(axis=1).max()))
    if request.tokens is None and request.top_k is None:
        if request.scale:
            raise DemandError("--scale: give the --tokens and --top-k to scale to")
        shape = Shape(ranks, experts, copies, 1)
        if matrix.shape != (ranks, experts):
            return from_matrix(path, shape)
        notes = {"matrix": str(path), "read": "as it is; tokens and top-k of the job not stated"}
        return MatrixSource(path.name, matrix, shape, provenance=notes, exact=True)
    top_k = _given(request, "top_k", 1)
    tokens = _given(request, "tokens", max(1, copies // max(1, top_k)))
    return from_matrix(path, Shape(ranks, experts, tokens, top_k), scale=request.scale)


def _log_shape(request: _Request, log: RoutingLog) -> Shape:
    """The job that a log is replayed into: by default the log's own."""
    experts = request.experts if request.experts is not None else log.experts
    if experts is None:
        raise DemandError(f"{log.name}: the log does not say how many experts; give --experts")
    ranks = _given(request, "ranks", 1 if log.streamed else len(log.ranks))
    first = log.calls[log.steps[0], log.ranks[0], log.layers[0]][0]
    own = len(first) // max(1, ranks) if log.streamed else len(first)
    return Shape(
        ranks, experts, _given(request, "tokens", own), _given(request, "top_k", log.top_k)
    )


def _given(request: _Request, name: str, default: int) -> int:
    value = getattr(request, name)
    return default if value is None else int(value)


def _refuse(request: _Request, kind: str, **given: bool) -> None:
    for name, present in given.items():
        if present:
            raise DemandError(f"--{name} has no meaning for {kind} ('{request.source}')")


def _parse_parameters(texts: list[str]) -> dict[str, float]:
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise DemandError(f"--set: expected NAME=VALUE with a number, got '{text}'")
    return values


def _placement(
    shape: Shape,
    view: View,
    ranks_per_server: int | None,
    deduplicate: bool,
    node_limit: str | None,
) -> Placement | None:
    top_groups, num_groups = _parse_node_limit(node_limit)
    if node_limit is not None and not deduplicate:
        raise DemandError("--node-limit needs --deduplicate; nothing else reads it")
    if view is not View.server:
        if ranks_per_server is not None or deduplicate:
            raise DemandError(
                "--ranks-per-server and --deduplicate need --view server; nothing else reads them"
            )
        return None
    if deduplicate and shape.top_k == 1:
        raise DemandError("--deduplicate: tokens of one expert have no duplicates; give --top-k")
    per_server = 1 if ranks_per_server is None else ranks_per_server
    if per_server < 1 or shape.ranks % per_server:
        raise DemandError(f"{shape.ranks} EP ranks do not fill servers of {per_server} ranks")
    return Placement(shape.ranks // per_server, per_server, deduplicate, num_groups, top_groups)


def _parse_node_limit(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    parts = text.split("/")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise DemandError(f"--node-limit: expected TOP/GROUPS such as 4/8, got '{text}'")
    return int(parts[0]), int(parts[1])


def _picture(
    source: DemandSource,
    view: View,
    matrix: npt.NDArray[np.int64],
    placement: Placement | None,
    index: dict[str, int],
) -> MatrixPicture:
    if placement is not None:
        result = member_tokens(
            source,
            placement,
            group=index["group"],
            layers=[index["layer"]],
            micro_batches=index["micro_batch"] + 1,
            step=index["step"],
        )
        folded = result.tokens[0, index["micro_batch"]].astype(np.int64)
        note = "diagonal: copies between ranks of one server"
        if placement.deduplicate:
            how = "expected from counts" if result.expected else "exact, token by token"
            note += f"; each token once per server ({how})"
        return MatrixPicture(folded, "source server", "destination server", note)
    if view is View.rank:
        note = "diagonal: copies to the own rank are left out"
        return MatrixPicture(rank_matrix(matrix), "source EP rank", "destination EP rank", note)
    return MatrixPicture(matrix, "source EP rank", "expert", "copies to the own rank included")


def _as_json(
    source: DemandSource,
    index: dict[str, int],
    figures: SkewStatistics,
    picture: MatrixPicture,
    token_bytes: int,
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "inputs": {
            "source": source.name,
            "exact": source.exact,
            "provenance": source.provenance,
            "shape": vars(source.shape),
            **index,
            "bytes_per_token": token_bytes,
        },
        "statistics": figures.as_dict(),
        "matrix": {
            "rows": picture.rows,
            "columns": picture.columns,
            "note": picture.note,
            "tokens": picture.matrix.tolist(),
        },
    }


def _write_csv(picture: MatrixPicture, token_bytes: int, target: str) -> None:
    """Write one line per entry: source, destination, tokens, bytes."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [name.lower().replace(" ", "_") for name in (picture.rows, picture.columns)]
    writer.writerow([*names, "tokens", "size_bytes"])
    for (row, column), count in np.ndenumerate(picture.matrix):
        writer.writerow([row, column, int(count), int(count) * token_bytes])
    if target == "-":
        sys.stdout.write(buffer.getvalue())
        return
    with whole_file(Path(target)) as stream:
        stream.write(buffer.getvalue())
