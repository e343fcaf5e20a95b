"""One name for any demand: a gate by its balance or regime, a token matrix or a routing log."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lightloom.demand.capacity import CappedSource
from lightloom.demand.generator import synthetic
from lightloom.demand.imbalance import DemandName, parse_demand
from lightloom.demand.matrix_file import from_matrix
from lightloom.demand.regime import ALIASES, REGIMES, WORKLOADS, known_regimes
from lightloom.demand.routed_experts import is_routed_experts
from lightloom.demand.routing_log import LogLayout, from_routing_log
from lightloom.demand.solve import imbalanced
from lightloom.demand.source import DemandSource, Shape
from lightloom.errors import DemandError, did_you_mean

Kind = Literal["regime", "matrix", "log"]


def kind_of(name: DemandName) -> Kind:
    """Tell what a name means: a number or a regime first, then a file or a folder.

    A folder, a file whose name ends in ``.jsonl``, or an array of tokens x layers x top-k is a
    routing log.

    Raises
    ------
    DemandError
        If there is neither a regime nor a file of that name, or a number is below 1.
    """
    name = parse_demand(name)
    regimes = (*ALIASES, *REGIMES, *WORKLOADS)
    if isinstance(name, float) or name in regimes:
        return "regime"
    path = Path(name)
    try:
        if path.is_dir() or (path.exists() and path.suffix == ".jsonl"):
            return "log"
        if path.exists() and is_routed_experts(path):
            return "log"
        if path.exists():
            return "matrix"
    except (OSError, ValueError):
        pass
    raise DemandError(
        f"'{name}' is neither a regime ({known_regimes()}) nor a number nor a file"
        f"{did_you_mean(name, regimes)}"
    )


def open_demand(
    name: DemandName,
    shape: Shape,
    *,
    seed: int,
    resample: bool = False,
    scale: bool = False,
    layout: LogLayout = LogLayout(),  # noqa: B008
    capacity_factor: float | None = None,
) -> DemandSource:
    """Make the source that a name means, for a job of a given shape.

    Parameters
    ----------
    name
        An imbalance, a regime or a path, see :func:`kind_of`.
    shape
        The job.
    seed
        Read by what is drawn: regimes and resampled logs.
    resample, layout
        For routing logs, see :func:`~lightloom.demand.routing_log.from_routing_log`.
    scale
        For token matrices, see :func:`~lightloom.demand.matrix_file.from_matrix`.
    capacity_factor
        Capacity of an expert over its even share, beyond which copies are dropped, see
        :class:`~lightloom.demand.capacity.CappedSource`; nothing is dropped by default.

    Raises
    ------
    DemandError
        If the source cannot be read or does not fit the job, or is given an option of another
        kind of source.
    """
    kind = kind_of(name)
    for option, is_given, needs in (
        ("resample", resample, "log"),
        ("layout", layout != LogLayout(), "log"),
        ("scale", scale, "matrix"),
    ):
        if is_given and kind != needs:
            raise DemandError(f"demand '{name}' is a {kind}; '{option}' has no meaning for it")
    source = _open(parse_demand(name), shape, seed, (resample, scale, layout))
    return source if capacity_factor is None else CappedSource(source, capacity_factor)


def _open(
    name: DemandName, shape: Shape, seed: int, options: tuple[bool, bool, LogLayout]
) -> DemandSource:
    if isinstance(name, float):
        return imbalanced(name, shape, seed=seed)
    resample, scale, layout = options
    kind = kind_of(name)
    if kind == "regime":
        return synthetic(name, **vars(shape), seed=seed)
    if kind == "matrix":
        return from_matrix(name, shape, scale=scale)
    drawn = {"seed": seed} if resample else {}
    return from_routing_log(name, shape, resample=resample, layout=layout, **drawn)
