"""``lightloom demand``: how skewed a demand is, and a picture of its matrix."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lightloom import demand
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, text_outputs, write_each
from lightloom.cli.settings import split_setting
from lightloom.cli.terminal import results_console, terminal
from lightloom.errors import DemandError, echo
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import Name, Number, Strict, Switch, Whole
from lightloom.output.files import STDOUT, csv_text, write_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lightloom.report.demand_table import MatrixPicture

EXAMPLES = (
    "lightloom demand auxiliary",
    "lightloom demand volatile --ranks 16 --experts 64 --experts-per-token 6 --set rho=0.9",
    "lightloom demand routing.jsonl --layer 3 --view server --ranks-per-server 8",
    "lightloom demand pair --view rank --csv - | lightloom schedule - --fixed 1ms",
)
NOTES = (
    "A regime is drawn for 8 ranks, 8 experts, 16384 tokens and 2 experts per token by default; a "
    "matrix or a log has its own numbers."
)

#: regimes that were measured on one model
_MODELS = {"mixtral": "mixtral-8x7b"}
#: what a regime is drawn for unless options say otherwise: the job of the public matrix
_DEFAULTS = {"ranks": 8, "experts": 8, "tokens": 16_384, "experts_per_token": 2}

Index = Annotated[int, Field(strict=True, ge=0, le=10**9)]


def _regimes() -> Sequence[str]:
    from lightloom.demand.regime import ALIASES, REGIMES

    return (*ALIASES, *REGIMES)


class DemandRequest(Strict):
    """A demand and the part of it that is shown."""

    source: Annotated[Name, Choices(_regimes)] = Field(
        description="A regime ({choices}, W0_balanced to W7_burst), the load of the busiest EP "
        "rank over the mean (1.3), a token matrix (JSON) or a routing log (JSONL)."
    )
    ranks: Whole | None = Field(None, description="Number of EP ranks of a group.")
    experts: Whole | None = Field(None, description="Number of experts of an MoE layer.")
    tokens: Whole | None = Field(None, description="Tokens per EP rank and micro-batch.")
    experts_per_token: Whole | None = Field(
        None, description="Number of experts that a token is sent to."
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the random numbers; the first one where several are used."
    )
    set: tuple[str, ...] = Field(
        (), description="Parameter of the regime, such as rho=0.9; repeatable."
    )
    scale: Switch = Field(
        False, description="Scale a token matrix to the tokens per rank of the job."
    )
    resample: Switch = Field(
        False,
        description="Draw the tokens of a routing log with replacement, for a job larger than it.",
    )
    group: Index = Field(0, description="Index of the EP group.")
    layer: Index = Field(
        0, description="Index of the MoE layer; a regime of no model has any number."
    )
    micro_batch: Index = Field(0, description="Index of the micro-batch.")
    step: Index = Field(0, description="Index of the training step.")
    view: Literal["expert", "rank", "server"] = Field(
        "expert", description="What the columns of the matrix are."
    )
    ranks_per_server: Whole | None = Field(
        None, description="Number of EP ranks on a server, for --view server; 1 by default."
    )
    deduplicate: Switch = Field(
        False, description="Send one copy of a token to each destination server."
    )
    node_limit: Name | None = Field(
        None, description="Node-limited routing, such as 4/8, for --deduplicate."
    )
    hidden: Whole = Field(4096, description="Number of elements of a token's hidden state.")
    element_bytes: Annotated[Number, Field(gt=0)] = Field(
        2.0, description="Bytes per element: 1 for FP8, 2 for BF16."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_source(), _view(), Panel("Output", text_outputs())),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _source() -> Panel:
    return Panel(
        "Demand",
        (
            option(DemandRequest, "source", "SOURCE", common=True),
            option(DemandRequest, "ranks", common=True),
            option(DemandRequest, "experts", common=True),
            option(DemandRequest, "tokens", common=True),
            option(DemandRequest, "experts_per_token", common=True),
            option(DemandRequest, "seed", common=True),
            option(DemandRequest, "set", common=True, repeats=True, metavar="NAME=VALUE"),
            option(DemandRequest, "scale"),
            option(DemandRequest, "resample"),
        ),
    )


def _view() -> Panel:
    return Panel(
        "What is shown",
        (
            option(DemandRequest, "view", common=True),
            option(DemandRequest, "group"),
            option(DemandRequest, "layer", common=True),
            option(DemandRequest, "micro_batch"),
            option(DemandRequest, "step", common=True),
            option(DemandRequest, "ranks_per_server", common=True),
            option(DemandRequest, "deduplicate"),
            option(DemandRequest, "node_limit", metavar="TOP/GROUPS"),
            option(DemandRequest, "hidden"),
            option(DemandRequest, "element_bytes", "--element-bytes"),
        ),
    )


def _run(call: CommandCall) -> None:
    outputs = checked_outputs(call)
    _show(call.build(DemandRequest), outputs)


def _show(request: DemandRequest, outputs: Outputs) -> None:
    """Print how skewed a demand is and draw its matrix: who sends how many tokens to whom.

    Raises
    ------
    InputError
        If an option or the demand cannot be used.
    """
    from lightloom.report.demand_table import print_figures, print_picture

    source = _open_source(request, _parameters(request.set))
    _check_layer(request)
    names = ("group", "layer", "micro_batch", "step")
    index = {name: getattr(request, name) for name in names}
    placement = _placement(source.shape, request)
    counts = source.tokens(
        group=request.group,
        layers=[request.layer],
        micro_batches=request.micro_batch + 1,
        step=request.step,
    )[0, request.micro_batch]
    picture = _picture(source, request.view, counts, placement, index)
    token_bytes = demand.bytes_per_token(request.hidden, request.element_bytes)
    figures = demand.statistics(counts)
    if not outputs.on_stdout:
        console = results_console()
        print_figures(console, source, index, figures, with_sources=terminal().verbose)
        print_picture(console, picture, token_bytes, request.hidden, request.element_bytes)
    writers: dict[str, Callable[[], None]] = {}
    if (json := outputs.json_target) is not None:
        content = _as_json(source, index, figures, picture, token_bytes)
        writers[json] = lambda: outputs.write_json(content)
    if (rows := outputs.csv_target) is not None:
        writers[rows] = lambda: _write_csv(picture, token_bytes, rows)
    write_each(writers)


def _check_layer(request: DemandRequest) -> None:
    """Refuse a layer that the model of a regime does not have."""
    from lightloom.models import load_model

    model = _MODELS.get(request.source)
    if model is None:
        return
    layers = load_model(model).num_layers
    if request.layer >= layers:
        raise DemandError(
            f"--layer {request.layer}: {model} has {layers} layers; expected 0 to {layers - 1}"
        )


def _open_source(request: DemandRequest, parameters: dict[str, float]) -> demand.DemandSource:
    """Make the source that a request names, refusing options that it would not read.

    Raises
    ------
    DemandError
        If the name is no regime and no file, or an option does not fit the source.
    """
    from lightloom.demand.open import kind_of
    from lightloom.demand.routing_log import replay

    kind = kind_of(request.source)
    if kind == "regime":
        _refuse(request, "a regime", scale=request.scale, resample=request.resample)
        return _open_regime(request, parameters)
    path = Path(request.source)
    if kind == "log":
        _refuse(request, "a routing log", scale=request.scale, set=bool(parameters))
        log = demand.read_routing_log(path)
        shape_of_log = _log_shape(request, log)
        return replay(log, shape_of_log, resample=request.resample, seed=request.seed)
    _refuse(
        request,
        "a token matrix",
        resample=request.resample,
        set=bool(parameters),
        seed=request.seed is not None,
    )
    return _open_matrix(request, path)


def _open_regime(request: DemandRequest, parameters: dict[str, float]) -> demand.DemandSource:
    from lightloom.demand.imbalance import parse_demand

    sizes = [_given(request, name, default) for name, default in _DEFAULTS.items()]
    shape = demand.Shape(*sizes)
    seed = 0 if request.seed is None else request.seed
    if not parameters:
        return demand.open_demand(request.source, shape, seed=seed)
    name = parse_demand(request.source)
    if isinstance(name, float):
        raise DemandError(f"--set does not apply to an imbalance of {name:g}, which sets the gate")
    return demand.synthetic(
        name,
        ranks=shape.ranks,
        experts=shape.experts,
        tokens_per_rank=shape.tokens_per_rank,
        top_k=shape.top_k,
        seed=seed,
        **parameters,
    )


def _open_matrix(request: DemandRequest, path: Path) -> demand.DemandSource:
    """A matrix of a stated job, or, with neither tokens nor top-k given, as it is."""
    from lightloom.demand.matrix_file import MatrixSource

    matrix = demand.read_matrix(path)
    ranks = _given(request, "ranks", matrix.shape[0])
    experts = _given(request, "experts", matrix.shape[1])
    copies = max(1, int(matrix.sum(axis=1).max()))
    if request.tokens is None and request.experts_per_token is None:
        if request.scale:
            raise DemandError("--scale: give the --tokens and --experts-per-token to scale to")
        shape = demand.Shape(ranks, experts, copies, 1)
        if matrix.shape != (ranks, experts):
            return demand.from_matrix(path, shape)
        notes = {"matrix": str(path), "read": "as it is; tokens and top-k of the job not stated"}
        return MatrixSource(path.name, matrix, shape, provenance=notes, exact=True)
    top_k = _given(request, "experts_per_token", 1)
    tokens = _given(request, "tokens", max(1, copies // max(1, top_k)))
    return demand.from_matrix(
        path, demand.Shape(ranks, experts, tokens, top_k), scale=request.scale
    )


def _log_shape(request: DemandRequest, log: demand.RoutingLog) -> demand.Shape:
    """The job that a log is replayed into: by default the log's own."""
    experts = request.experts if request.experts is not None else log.experts
    if experts is None:
        raise DemandError(f"{log.name}: the log does not say how many experts; give --experts")
    ranks = _given(request, "ranks", 1 if log.streamed else len(log.ranks))
    first = log.calls[log.steps[0], log.ranks[0], log.layers[0]][0]
    tokens = len(first) // max(1, ranks) if log.streamed else len(first)
    return demand.Shape(
        ranks,
        experts,
        _given(request, "tokens", tokens),
        _given(request, "experts_per_token", log.top_k),
    )


def _given(request: DemandRequest, name: str, default: int) -> int:
    value = getattr(request, name)
    return default if value is None else int(value)


def _refuse(request: DemandRequest, kind: str, **given: bool) -> None:
    for name, present in given.items():
        if present:
            raise DemandError(f"--{name} does not apply to {kind} ('{request.source}')")


def _parameters(texts: tuple[str, ...]) -> dict[str, float]:
    values: dict[str, float] = {}
    for text in texts:
        name, value = split_setting(text, "rho=0.9")
        try:
            number = float(value)
        except ValueError:
            raise DemandError(f"--set {echo(text, quoted=False)}: expected a number") from None
        if name in values:
            raise DemandError(
                f"--set {echo(name, quoted=False)} is given twice; leave one of them out"
            )
        values[name] = number
    return values


def _placement(shape: demand.Shape, request: DemandRequest) -> demand.MemberPlacement | None:
    top_groups, num_groups = _parse_node_limit(request.node_limit)
    if request.node_limit is not None and not request.deduplicate:
        raise DemandError("--node-limit needs --deduplicate; nothing else reads it")
    if request.view != "server":
        if request.ranks_per_server is not None or request.deduplicate:
            raise DemandError(
                "--ranks-per-server and --deduplicate need --view server; nothing else reads them"
            )
        return None
    if request.deduplicate and shape.top_k == 1:
        raise DemandError(
            "--deduplicate: tokens of one expert have no duplicates; give --experts-per-token"
        )
    per_server = 1 if request.ranks_per_server is None else request.ranks_per_server
    if shape.ranks % per_server:
        raise DemandError(f"{shape.ranks} EP ranks do not fill servers of {per_server} ranks")
    servers = shape.ranks // per_server
    return demand.MemberPlacement(servers, per_server, request.deduplicate, num_groups, top_groups)


def _parse_node_limit(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    parts = text.split("/")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise DemandError(f"--node-limit: expected TOP/GROUPS such as 4/8, got '{text}'")
    return int(parts[0]), int(parts[1])


def _picture(
    source: demand.DemandSource,
    view: str,
    matrix: npt.NDArray[np.int64],
    placement: demand.MemberPlacement | None,
    index: dict[str, int],
) -> MatrixPicture:
    import numpy as np

    from lightloom.report.demand_table import MatrixPicture

    if placement is not None:
        result = demand.member_tokens(
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
    if view == "rank":
        note = "diagonal: copies to the own rank are left out"
        return MatrixPicture(
            demand.rank_matrix(matrix), "source EP rank", "destination EP rank", note
        )
    return MatrixPicture(matrix, "source EP rank", "expert", "copies to the own rank included")


def _as_json(
    source: demand.DemandSource,
    index: dict[str, int],
    figures: demand.ImbalanceStatistics,
    picture: MatrixPicture,
    token_bytes: int,
) -> dict[str, Any]:
    return {
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
    import numpy as np

    counts = picture.matrix.ravel()
    sources, destinations = np.indices(picture.matrix.shape).reshape(2, -1)
    names = [name.lower().replace(" ", "_") for name in (picture.rows, picture.columns)]
    ends = dict(zip(names, (sources, destinations), strict=True))
    text = csv_text({**ends, "tokens": counts, "size_bytes": counts * token_bytes})
    if target == STDOUT:
        sys.stdout.write(text)
    else:
        write_text(text, Path(target))
