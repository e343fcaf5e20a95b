"""Loads of experts over layers and steps: what predictors are compared on.

A history is made from the generator (or any other source of demand), from a per-token routing log,
or from a table of loads (:mod:`.load_file`). Its *steps* are forward passes: micro-batches of one
training step follow each other. It assumes that the sources of a log are one EP group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lightloom.demand.log_formats import Choices, RoutingLog
from lightloom.demand.source import MAX_EXPERTS, DemandSource, whole
from lightloom.errors import DemandError, echo
from lightloom.progress import Progress

#: numbers in a history at most: 1 GB
MAX_ENTRIES = 2**27


@dataclass(frozen=True)
class LoadHistory:
    """Token copies by step, layer, source and expert.

    Attributes
    ----------
    name
        Where it comes from.
    counts
        ``(steps, layers, sources, experts)``; no layer of a step is without copies.
    sources_known
        False if the history has loads alone: then there is one source, which stands for all.
    synthetic
        Whether the counts were drawn by the generator.
    provenance
        Settings and origins in words.
    """

    name: str
    counts: npt.NDArray[np.float64]
    sources_known: bool
    synthetic: bool = False
    provenance: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.counts.ndim == 4
        empty = np.argwhere(self.counts.sum(axis=(2, 3)) <= 0)
        if len(empty):
            step, layer = empty[0]
            raise DemandError(f"{self.name}: no tokens in layer {layer} of step {step}")

    @property
    def steps(self) -> int:
        """Forward passes."""
        return int(self.counts.shape[0])

    @property
    def layers(self) -> int:
        """MoE layers of each."""
        return int(self.counts.shape[1])

    @property
    def sources(self) -> int:
        """Ranks, or other sources of tokens, that are told apart."""
        return int(self.counts.shape[2])

    @property
    def experts(self) -> int:
        """Experts of each layer."""
        return int(self.counts.shape[3])

    @property
    def copies_per_step(self) -> float:
        """Token copies of the smallest step of a layer, over all sources."""
        return float(self.counts.sum(axis=(2, 3)).min())

    def sampling_noise(self) -> float:
        """Mean L1 distance between loads and the shares that tokens were drawn from, about.

        A predictor that knew these shares would come this close and no closer. Copies are taken
        as independent, so that the share p of an expert among n of them has the mean absolute
        deviation sqrt(2 p (1 - p) / (pi n)); a token's choices all differ, which makes it a
        little less.
        """
        total = self.counts.sum(axis=(2, 3))
        shares = self.counts.sum(axis=2) / total[..., np.newaxis]
        spread = np.sqrt(2 * shares * (1 - shares) / (np.pi * total[..., np.newaxis]))
        return float(spread.sum(axis=-1).mean())


def history_of_source(
    source: DemandSource,
    *,
    steps: int,
    layers: int,
    synthetic: bool,
    progress: Progress | None = None,
) -> LoadHistory:
    """Loads of EP group 0 of a source, one micro-batch per step.

    Parameters
    ----------
    source
        For instance :func:`lightloom.demand.synthetic` of a regime whose layers are tied
        (``calm``, ``volatile``, ``extreme``, ``drifting``).
    steps, layers
        How many of each, from 0.
    synthetic
        Whether the source draws its counts, as the generator does.
    progress
        Called with the share that is done.

    Raises
    ------
    DemandError
        If a number is not above 0 or the history would be too large.
    """
    for name, value in (("steps", steps), ("layers", layers)):
        if not whole(value) or value < 1:
            raise DemandError(f"{name}: expected a whole number above 0, got {echo(value)}")
    shape = (steps, layers, source.shape.ranks, source.shape.experts)
    check_entries(source.name, shape)
    counts = np.empty(shape)
    for step in range(steps):
        tokens = source.tokens(group=0, layers=range(layers), micro_batches=1, step=step)
        counts[step] = tokens[:, 0]
        if progress is not None:
            progress((step + 1) / steps, "drawing loads")
    return LoadHistory(source.name, counts, True, synthetic, dict(source.provenance))


def history_of_log(
    log: RoutingLog,
    *,
    experts: int | None = None,
    tokens_per_step: int | None = None,
    stages: int = 1,
) -> LoadHistory:
    """Loads of a per-token routing log.

    Parameters
    ----------
    log
        See :func:`lightloom.demand.read_routing_log`.
    experts
        Number of experts, for logs that do not say (Megatron).
    tokens_per_step
        Tokens that make a step, for logs that are one stream without steps (simllm); tokens left
        at the end are not used. By default the whole stream is one step.
    stages
        Pipeline stages in a log with ranks, see :class:`lightloom.demand.LogLayout`.

    Raises
    ------
    DemandError
        If an option does not fit the log, or ranks or layers of a step are not all there.
    """
    number = _experts(log, experts)
    if log.streamed:
        if stages != 1:
            raise DemandError(f"{log.name}: the log is one stream; it has no pipeline stages")
        return _of_stream(log, number, tokens_per_step)
    if tokens_per_step is not None:
        raise DemandError(f"{log.name}: the log has steps; leave out the tokens per step")
    return _of_ranks(log, number, stages)


def _experts(log: RoutingLog, number: int | None) -> int:
    minimum = log.largest_expert + 1
    if number is None:
        if log.experts is None:
            raise DemandError(
                f"{log.name}: the log does not say how many experts there are (at least "
                f"{minimum}); give their number (--experts)"
            )
        return log.experts
    if not whole(number) or not 1 <= number <= MAX_EXPERTS:
        raise DemandError(f"experts: expected 1 to {MAX_EXPERTS}, got {echo(number)}")
    if number < minimum or log.experts not in {None, number}:
        raise DemandError(
            f"{log.name}: a log of {log.experts or f'at least {minimum}'} experts, "
            f"{number} were given"
        )
    return number


def _of_stream(log: RoutingLog, experts: int, tokens_per_step: int | None) -> LoadHistory:
    calls = [log.calls[0, 0, layer][0] for layer in log.layers]
    tokens = len(calls[0])
    size = tokens if tokens_per_step is None else tokens_per_step
    if not whole(size) or not 1 <= size <= tokens:
        raise DemandError(
            f"{log.name}: tokens per step: expected 1 to the {tokens:,} of the log, "
            f"got {echo(size)}"
        )
    steps = tokens // size
    shape = (steps, len(calls), 1, experts)
    check_entries(log.name, shape)
    counts = np.empty(shape)
    for step, layer in np.ndindex(shape[:2]):
        part = calls[layer][step * size : (step + 1) * size]
        counts[step, layer, 0] = np.bincount(part.ravel(), minlength=experts)
    notes = {"log": log.name, **log.notes, "steps": f"cut every {size:,} tokens of one stream"}
    return LoadHistory(Path(log.name).name, counts, False, provenance=notes)


def _of_ranks(log: RoutingLog, experts: int, stages: int) -> LoadHistory:
    ranks = log.ranks
    if not whole(stages) or stages < 1 or len(ranks) % stages:
        raise DemandError(
            f"{log.name}: {len(ranks)} ranks in the log are not of {echo(stages)} stages"
        )
    sources = len(ranks) // stages
    columns = [ranks[stage * sources : (stage + 1) * sources] for stage in range(stages)]
    layers = []
    for members in columns:
        inside = set(members)
        numbers = sorted({layer for _, rank, layer in log.calls if rank in inside})
        layers += [(members, number) for number in numbers]
    passes = [(step, _passes(log, step, layers)) for step in log.steps]
    shape = (sum(count for _, count in passes), len(layers), sources, experts)
    check_entries(log.name, shape)
    counts = np.empty(shape)
    row = 0
    for step, count in passes:
        for place, (members, number) in enumerate(layers):
            for source, rank in enumerate(members):
                calls = log.calls[step, rank, number]
                counts[row : row + count, place, source] = [_loads(c, experts) for c in calls]
        row += count
    notes = {"log": log.name, **log.notes}
    return LoadHistory(Path(log.name).name, counts, True, provenance=notes)


def _passes(log: RoutingLog, step: int, layers: list[tuple[list[int], int]]) -> int:
    """Micro-batches of a step, the same for every rank and layer."""
    wanted = len(log.calls.get((step, layers[0][0][0], layers[0][1]), []))
    for members, layer in layers:
        for rank in members:
            calls = len(log.calls.get((step, rank, layer), []))
            if calls != wanted or not calls:
                raise DemandError(
                    f"{log.name}: step {step} has {calls} router calls of layer {layer} by rank "
                    f"{rank}, and {wanted} of layer {layers[0][1]} by rank {layers[0][0][0]}; "
                    "expected as many (a log cut off, or pipeline stages that were not stated)"
                )
    return wanted


def _loads(choices: Choices, experts: int) -> npt.NDArray[np.int64]:
    counted: npt.NDArray[np.int64] = np.bincount(choices.ravel(), minlength=experts)
    return counted


def check_entries(name: str, shape: tuple[int, ...]) -> None:
    """Refuse a history that is too large to hold.

    Raises
    ------
    DemandError
        Naming its shape.
    """
    size = 1
    for length in shape:
        size *= length
    if size > MAX_ENTRIES:
        text = " x ".join(f"{length:,}" for length in shape)
        raise DemandError(
            f"{name}: {text} (steps, layers, sources, experts) numbers exceed {MAX_ENTRIES:,}; "
            "use fewer steps or layers"
        )
