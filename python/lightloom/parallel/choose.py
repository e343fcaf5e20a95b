"""Which plan to use when the user does not give one.

The published plan of the model scaled in data parallelism if it divides the GPUs; else the rule:
among all degrees that pass every check and fit the memory, the smallest model replica
(``tp * pp * ep`` least, hence the most data parallelism), then the least PP, then the least TP.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from lightloom.errors import PlanError, did_you_mean
from lightloom.models.model import Model
from lightloom.parallel.grid import RankGrid, place_workers
from lightloom.parallel.memory import MemoryOptions, does_not_fit, memory_per_stage
from lightloom.parallel.plan import DEFAULT_SEQ_LEN, Plan, check_model

GPUS_PER_SERVER = 8
FIELDS = tuple(f.name for f in dataclasses.fields(Plan) if f.name not in ("gpus", "provenance"))


def check_plan(plan: Plan, model: Model, gpus_per_server: int = GPUS_PER_SERVER) -> None:
    """Refuse a plan that cannot divide the model, or whose groups do not align with servers.

    Raises
    ------
    PlanError
        One line: what was given, what was expected, how to fix it.
    """
    check_model(plan, model)
    place_workers(RankGrid(plan), gpus_per_server)


def choose_plan(
    model: Model,
    gpus: int,
    *,
    gpu_memory_bytes: float,
    overrides: Mapping[str, Any] | None = None,
    gpus_per_server: int = GPUS_PER_SERVER,
    memory: MemoryOptions | None = None,
) -> Plan:
    """The plan for a model on a number of GPUs; how it came about is in ``plan.provenance``.

    Parameters
    ----------
    model, gpus
        What to train, on how many GPUs.
    gpu_memory_bytes
        Memory of one GPU.
    overrides
        Fields of :class:`Plan` that the user gave; ``None`` means not given.
    gpus_per_server
        GPUs that share a server.
    memory
        What the memory model assumes.

    Raises
    ------
    PlanError
        If an override is unknown or the plan is impossible; if no plan fits.
    """
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    for name in given:
        if name not in FIELDS:
            raise PlanError(f"unknown plan option '{name}'{did_you_mean(name, FIELDS)}")
    notes = tuple(f"given: {name.replace('_', '-')} {given[name]}" for name in sorted(given))
    published = _published(model, given)
    if published:
        base, note = published
        plan = _scaled(gpus, base)
        if isinstance(plan, Plan):
            check_plan(plan, model, gpus_per_server)
            text = (f"{note}, dp scaled to {plan.dp}", *notes)
            return dataclasses.replace(plan, provenance=text)
        if {"tp", "pp", "ep"} <= given.keys():
            raise plan
    elif {"tp", "pp", "ep"} <= given.keys():
        plan = _scaled(gpus, given)
        if isinstance(plan, PlanError):
            raise plan
        check_plan(plan, model, gpus_per_server)
        return dataclasses.replace(plan, provenance=notes)
    return _by_rule(
        model, gpus, given, notes, (gpu_memory_bytes, gpus_per_server, memory or MemoryOptions())
    )


def _published(model: Model, given: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    plan = model.plan
    if plan is None:
        return None
    base: dict[str, Any] = {
        "tp": plan.tp,
        "pp": plan.pp,
        "ep": plan.ep,
        "seq_len": plan.seq_len,
        "micro_batch_size": plan.micro_batch_size,
    }
    base.update(given)
    if "etp" not in given and plan.etp is not None and plan.etp != base["tp"]:
        base["etp"] = plan.etp
    if base.get("etp") and base["etp"] != base["tp"]:
        base.setdefault("expert_mode", "folded")
    return base, f"published: {plan.source}"


def _scaled(gpus: int, base: Mapping[str, Any]) -> Plan | PlanError:
    """The plan with ``dp`` from ``gpus``, or why there is none."""
    values = dict(base)
    if "dp" not in values:
        values["dp"] = _replicas(gpus, values)
    try:
        return Plan(gpus=gpus, **values)
    except PlanError as error:
        return error


def _replicas(gpus: int, values: Mapping[str, Any]) -> int:
    """Expert replicas that fill ``gpus``, at least 1; Plan checks that they do so exactly."""
    tp, pp, ep, cp = (_whole(values.get(name, 1)) for name in ("tp", "pp", "ep", "cp"))
    if values.get("expert_mode", "axis") == "axis":
        replica = tp * cp * ep * pp
    else:
        replica = _whole(values.get("etp") or 1) * ep * pp
    return max(1, gpus // replica)


def _whole(value: Any) -> int:
    """A usable degree; a wrong one is refused by Plan itself, with its name."""
    return value if isinstance(value, int) and value > 0 else 1


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _candidates(
    model: Model, gpus: int, given: Mapping[str, Any], gpus_per_server: int
) -> Iterator[dict[str, Any]]:
    """Degrees that could work, the smallest model replica first."""
    limit = min(gpus, gpus_per_server)
    tps = [given["tp"]] if "tp" in given else _divisors(limit)
    pps = [given["pp"]] if "pp" in given else _divisors(gpus)
    eps = [given["ep"]] if "ep" in given else _divisors(max(1, model.num_experts))
    triples = [
        (tp * pp * ep, pp, tp, ep)
        for tp in tps
        for pp in pps
        for ep in eps
        if pp <= model.num_layers and tp * pp * ep <= gpus * max(1, given.get("tp", 1))
    ]
    for _, pp, tp, ep in sorted(triples):
        yield {"seq_len": DEFAULT_SEQ_LEN, **given, "tp": tp, "pp": pp, "ep": ep}


def _by_rule(
    model: Model,
    gpus: int,
    given: Mapping[str, Any],
    notes: tuple[str, ...],
    limits: tuple[float, int, MemoryOptions],
) -> Plan:
    gpu_memory_bytes, gpus_per_server, options = limits
    reason = f"no degrees of tp, pp, ep divide {gpus} GPUs and {model.name}"
    for values in _candidates(model, gpus, given, gpus_per_server):
        plan = _scaled(gpus, values)
        if isinstance(plan, PlanError):
            continue
        try:
            check_plan(plan, model, gpus_per_server)
        except PlanError:
            continue
        unfit = does_not_fit(
            memory_per_stage(model, plan, options), gpu_memory_bytes, options.reserve
        )
        if unfit is None:
            text = (
                f"rule: smallest tp x pp x ep that fits {gpu_memory_bytes / 1e9:.0f} GB per GPU",
                *notes,
            )
            return dataclasses.replace(plan, provenance=text)
        reason = f"the largest model replica tried, {plan.describe()}, does not fit: {unfit}"
    raise PlanError(
        f"{model.name} on {gpus} GPUs: {reason}; use more GPUs, or give --tp, --pp and --ep"
    )
