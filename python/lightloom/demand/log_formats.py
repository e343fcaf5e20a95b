"""Per-token routing logs: which experts each token chose, read from JSON lines.

Four forms are read. *simllm* (``simllm-preplay-trace-v1`` and ``-v2``): a header, one line per
token with the experts of every MoE layer, a footer with counts. *Megatron* (``RouterTracer`` of
Megatron Core): one line per router call, ``{"step", "stage", "block", "layer", "rank",
"num_tokens", "topk", "top_indices"}``, one file per rank; router calls of a step repeat per
micro-batch. Lines of blocks other than the decoder are counted and left out. *Tokens*: one line per
token and layer (:mod:`.token_log`). *Arrays* of experts (:mod:`.routed_experts`).

Reading is bounded: file size, line length, number of lines and of choices have limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lightloom.demand.routed_experts import is_routed_experts, read_routed_experts
from lightloom.demand.source import MAX_EXPERTS, MAX_INDEX, whole
from lightloom.demand.token_log import TokenLines
from lightloom.errors import DemandError, echo
from lightloom.inputs.files import lines_of, open_file
from lightloom.inputs.formats import parse_json

#: expert numbers of one router call, ``(tokens, top_k)``
Choices = npt.NDArray[np.uint16]

SIMLLM = ("simllm-preplay-trace-v1", "simllm-preplay-trace-v2")
_TOKEN_ROWS = ("forward-token", "observed-dispatch")
_OTHER_ROWS = ("request", "kv-event")
#: of a line of Megatron-LM's loads (:mod:`.tokens_per_expert`), and of no other log
LOADS_KEY = "tpe"
_MEGATRON_KEYS = ("step", "stage", "block", "layer", "rank", "num_tokens", "topk", "top_indices")


@dataclass(frozen=True)
class Limits:
    """Bounds on what a log may ask of memory and time."""

    file_bytes: int = 64 * 10**9
    line_bytes: int = 256 * 10**6
    lines: int = 50_000_000
    choices: int = 2**31


@dataclass
class RoutingLog:
    """Every router call of a log.

    ``calls[step, rank, layer]`` lists the choices ``(tokens, top_k)`` of the micro-batches in
    order. ``streamed`` is true where the log is one stream of tokens without ranks and steps
    (simllm, tokens); its calls are all under step 0 and rank 0. ``experts`` is ``None`` where the
    log does not say how many there are (Megatron, tokens).
    """

    name: str
    form: str
    top_k: int
    experts: int | None
    streamed: bool
    calls: dict[tuple[int, int, int], list[Choices]]
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> list[int]:
        """Steps in the log, ascending."""
        return sorted({step for step, _, _ in self.calls})

    @property
    def ranks(self) -> list[int]:
        """Ranks in the log, ascending."""
        return sorted({rank for _, rank, _ in self.calls})

    @property
    def layers(self) -> list[int]:
        """MoE layers in the log as numbered there, ascending."""
        return sorted({layer for _, _, layer in self.calls})

    @property
    def largest_expert(self) -> int:
        """Largest expert number that a token chose."""
        largest = (call.max() for calls in self.calls.values() for call in calls if call.size)
        return int(max(largest, default=0))


def read_routing_log(path: Path | str, limits: Limits = Limits()) -> RoutingLog:
    """Read a log: a file, or a folder whose ``*.jsonl`` are the files of one job's ranks.

    Raises
    ------
    DemandError
        Naming the file and the line that cannot be used.
    """
    path = Path(path)
    try:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    except (OSError, ValueError) as error:
        raise DemandError(f"{path}: cannot be read: {error}") from None
    if not files:
        raise DemandError(f"{path}: the folder has no *.jsonl file")
    if is_routed_experts(path):
        return _log_of_array(path)
    reader = LogReader(str(path), limits)
    for file in files:
        with open_file(file, "routing log", limits.file_bytes, DemandError) as stream:
            reader.read(stream, str(file))
    return reader.finish()


def _log_of_array(path: Path) -> RoutingLog:
    layers = read_routed_experts(path)
    return RoutingLog(
        name=str(path),
        form="array of experts",
        top_k=next(iter(layers.values())).shape[1],
        experts=None,
        streamed=True,
        calls={(0, 0, layer): [choices] for layer, choices in layers.items()},
        notes={"form": "array of tokens x layers x top-k"},
    )


class LogReader:
    """Collects the lines of one or several files into a :class:`RoutingLog`."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._limits = limits
        self._lines = 0
        self._choices = 0
        self._top_k: int | None = None
        self._calls: dict[tuple[int, int, int], list[Choices]] = {}
        self._left_out = 0
        self._stream: _Simllm | None = None
        self._tokens: TokenLines | None = None

    def read(self, stream: BinaryIO, name: str) -> None:
        """Read one file; the form is told by its first line.

        Raises
        ------
        DemandError
            Naming the line that cannot be used.
        """
        simllm: _Simllm | None = None
        first = True
        for where, text in lines_of(stream, name, self._limits.line_bytes, DemandError):
            self._lines += 1
            if self._lines > self._limits.lines:
                raise DemandError(f"{where}: more than {self._limits.lines:,} lines")
            row = parse_json(text, where, DemandError)
            if not isinstance(row, dict):
                raise DemandError(f"{where}: expected a JSON object, got {echo(row)}")
            if row.get("type") == "meta" and "topk_ids" not in row:
                # what a run was, ahead of its tokens
                first = False
                continue
            if first and "row_type" in row:
                if self._calls or self._stream or self._tokens:
                    raise DemandError(f"{where}: a simllm log must be the only file")
                simllm = self._stream = _Simllm(row, where)
            elif simllm:
                self._count(simllm.add(row, where), where)
            elif self._stream:
                raise DemandError(f"{where}: a simllm log must be the only file")
            else:
                self._add(row, where)
            first = False
        if first:
            raise DemandError(f"{name}: the file is empty; expected JSON lines of token routing")
        if simllm:
            simllm.check_complete(name)

    def finish(self) -> RoutingLog:
        """The log of all files read.

        Raises
        ------
        DemandError
            If no token was routed.
        """
        if self._stream:
            return self._stream.log(self._name)
        if self._tokens:
            return _log_of_tokens(self._tokens, self._name)
        if not self._choices or self._top_k is None:
            raise DemandError(f"{self._name}: no router call of the decoder; nothing to replay")
        notes = {"form": "megatron"}
        if self._left_out:
            notes["left out"] = f"{self._left_out:,} router calls outside the decoder"
        return RoutingLog(
            name=self._name,
            form="megatron",
            top_k=self._top_k,
            experts=None,
            streamed=False,
            calls=self._calls,
            notes=notes,
        )

    def _add(self, row: dict[str, Any], where: str) -> None:
        """A line of a form without a header: of tokens, if the first one is."""
        if not self._calls and not self._left_out and "topk_ids" in row:
            self._tokens = self._tokens or TokenLines()
        if self._tokens:
            self._count(self._tokens.add(row, where), where)
        else:
            self._add_megatron(row, where)

    def _count(self, choices: int, where: str) -> None:
        self._choices += choices
        if self._choices > self._limits.choices:
            raise DemandError(f"{where}: more than {self._limits.choices:,} expert choices")

    def _add_megatron(self, row: dict[str, Any], where: str) -> None:
        if LOADS_KEY in row:
            raise DemandError(
                f"{where}: has the loads of experts, and not which tokens chose them: "
                "lightloom predict reads it"
            )
        for key in _MEGATRON_KEYS:
            if key not in row:
                raise DemandError(
                    f"{where}: '{key}' of a Megatron router call is missing, and it is neither "
                    "simllm's header nor a token with req_id, token_idx, layer and topk_ids; how "
                    "to convert others: docs/how-to/bring-your-own-routing-logs.md"
                )
        step, layer, rank = (_index(row[key], key, where) for key in ("step", "layer", "rank"))
        if row["block"] != "decoder":
            self._left_out += 1
            return
        tokens, top_k = _index(row["num_tokens"], "num_tokens", where), row["topk"]
        if self._top_k is None:
            if not whole(top_k) or not 1 <= top_k <= MAX_EXPERTS:
                raise DemandError(f"{where}: topk: expected a number above 0, got {echo(top_k)}")
            self._top_k = top_k
        if top_k != self._top_k:
            raise DemandError(
                f"{where}: top-{echo(top_k)} routing, but the lines before are "
                f"top-{self._top_k}; a log is of one model"
            )
        choices = _choices(row["top_indices"], self._top_k, where)
        if len(choices) != tokens:
            raise DemandError(
                f"{where}: num_tokens is {tokens:,}, but top_indices has {len(choices):,}"
            )
        self._count(choices.size, where)
        self._calls.setdefault((step, rank, layer), []).append(choices)


def _log_of_tokens(tokens: TokenLines, name: str) -> RoutingLog:
    layers = tokens.layers(name)
    notes = {"form": "one line per token and layer", "requests": f"{tokens.requests:,}"}
    if tokens.repeated:
        notes["repeated"] = f"{tokens.repeated:,} tokens came before: they were routed again"
    return RoutingLog(
        name=name,
        form="tokens",
        top_k=tokens.top_k,
        experts=None,
        streamed=True,
        calls={(0, 0, layer): [table] for layer, table in layers.items()},
        notes=notes,
    )


class _Simllm:
    """One simllm file: header, then tokens, then a footer that confirms the counts."""

    def __init__(self, header: dict[str, Any], where: str) -> None:
        schema = header.get("schema")
        if header.get("row_type") != "header":
            raise DemandError(
                f"{where}: expected the header of a simllm log, got row_type "
                f"{echo(header.get('row_type'))}"
            )
        if schema not in SIMLLM:
            raise DemandError(
                f"{where}: schema {echo(schema)} is not known; known: {', '.join(SIMLLM)}"
            )
        provenance = header.get("provenance")
        if not isinstance(provenance, dict):
            raise DemandError(f"{where}: the header has no 'provenance'")
        self._schema = schema
        self._experts = _positive(provenance.get("expert_count"), "expert_count", where)
        self._top_k = _positive(provenance.get("top_k"), "top_k", where)
        layers = provenance.get("moe_layer_indices")
        if (
            not isinstance(layers, list)
            or not layers
            or not all(whole(layer) and 0 <= layer < MAX_INDEX for layer in layers)
            or len(set(layers)) != len(layers)
        ):
            raise DemandError(
                f"{where}: moe_layer_indices: expected different layer numbers, got {echo(layers)}"
            )
        self._layers = sorted(layers)
        self._places = {layer: place for place, layer in enumerate(self._layers)}
        self._model = str(provenance.get("model_id", "a model without a name"))[:80]
        self._tokens: list[Choices] = []
        self._phases = {"prefill": 0, "decode": 0}
        self._footer: dict[str, Any] | None = None

    def add(self, row: dict[str, Any], where: str) -> int:
        """Take one line; returns the expert choices it held."""
        kind = row.get("row_type")
        if self._footer is not None:
            raise DemandError(f"{where}: a line after the footer")
        if row.get("schema") != self._schema:
            raise DemandError(
                f"{where}: schema {echo(row.get('schema'))} differs from the header's "
                f"{self._schema}"
            )
        if kind == "footer":
            self._footer = row
            return 0
        if kind in _OTHER_ROWS:
            return 0
        if kind not in _TOKEN_ROWS:
            raise DemandError(f"{where}: row_type {echo(kind)} is not known")
        phase = row.get("phase")
        if not isinstance(phase, str) or phase not in self._phases:
            raise DemandError(f"{where}: phase: expected prefill or decode, got {echo(phase)}")
        self._phases[phase] += 1
        choices = self._token(row.get("routing"), where)
        self._tokens.append(choices)
        return choices.size

    def _token(self, routing: Any, where: str) -> Choices:
        """Choices of one token, ``(layers, top_k)``."""
        if not isinstance(routing, list) or len(routing) != len(self._layers):
            raise DemandError(
                f"{where}: routing: expected {len(self._layers)} layers, got {echo(routing)}"
            )
        choices: list[Any] = [None] * len(self._layers)
        for entry in routing:
            layer = entry.get("layer_index") if isinstance(entry, dict) else None
            if not whole(layer) or layer not in self._places:
                raise DemandError(f"{where}: routing: no layer of the header in {echo(entry)}")
            if choices[self._places[layer]] is not None:
                raise DemandError(f"{where}: routing: layer {layer} occurs twice")
            choices[self._places[layer]] = entry.get("expert_ids")
        table = _choices(choices, self._top_k, where)
        if table.max() >= self._experts:
            raise DemandError(
                f"{where}: expert {table.max()} of a model with {self._experts} experts"
            )
        return table

    def check_complete(self, name: str) -> None:
        """Refuse a file that was cut off or lost lines."""
        if self._footer is None:
            raise DemandError(f"{name}: the footer is missing; the log was cut off")
        for phase, count in self._phases.items():
            keys = (f"{phase}_forward_token_count", f"{phase}_dispatch_count")
            total = next((self._footer[key] for key in keys if key in self._footer), None)
            if not whole(total) or total != count:
                raise DemandError(
                    f"{name}: the footer counts {echo(total)} {phase} tokens, the log has {count}"
                )
        if not self._tokens:
            raise DemandError(f"{name}: no token was routed; nothing to replay")

    def log(self, name: str) -> RoutingLog:
        """The log read."""
        table = np.stack(self._tokens, axis=1)
        calls = {(0, 0, layer): [table[place]] for place, layer in enumerate(self._layers)}
        return RoutingLog(
            name=name,
            form="simllm",
            top_k=self._top_k,
            experts=self._experts,
            streamed=True,
            calls=calls,
            notes={"form": self._schema, "model": self._model},
        )


def _choices(value: Any, top_k: int, where: str) -> Choices:
    """A list of lists of ``top_k`` different expert numbers as an array."""
    if not isinstance(value, list):
        raise DemandError(f"{where}: expected a list of expert lists, got {echo(value)}")
    if not value:
        return np.empty((0, top_k), dtype=np.uint16)
    for row in value:
        if not isinstance(row, list) or len(row) != top_k:
            raise DemandError(f"{where}: expected {top_k} experts per token, got {echo(row)}")
        _check_experts(row, where)
    table = np.array(value, dtype=np.uint16)
    ordered = np.sort(table, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        row = value[int(np.argmax(twice))]
        raise DemandError(f"{where}: a token chooses an expert twice: {echo(row)}")
    return table


def _check_experts(row: Iterable[Any], where: str) -> None:
    for expert in row:
        # `type` and not `isinstance`: this is the inner loop, and truth values are no numbers
        if type(expert) is not int or not 0 <= expert < MAX_EXPERTS:
            raise DemandError(
                f"{where}: expected expert numbers below {MAX_EXPERTS}, got {echo(expert)}"
            )


def _index(value: Any, key: str, where: str) -> int:
    if not whole(value) or not 0 <= value < MAX_INDEX:
        raise DemandError(f"{where}: {key}: expected a whole number, got {echo(value)}")
    return int(value)


def _positive(value: Any, key: str, where: str) -> int:
    if not whole(value) or not 1 <= value <= MAX_EXPERTS:
        raise DemandError(
            f"{where}: {key}: expected a whole number from 1 to {MAX_EXPERTS}, got {echo(value)}"
        )
    return int(value)
