"""Which plan to use when the user does not give one.

The published plan of the model, scaled in data parallelism, if it is possible on the GPUs; else the
rule. Experts hold most of the parameters, so EP goes first (at least 8 ways, or as near to that as
the experts allow), PP and TP only as far as memory demands: of all plans that pass every check and
fit the GPU's memory, the one with the least TP x PP, then the least PP, then the least EP. The rule
uses ZeRO-1, one sequence per micro-batch and 4,096 tokens per sequence (fewer for a model that has
fewer positions) unless told otherwise.

What the published run overlaps is part of its plan. On other degrees some of it may be impossible:
that is left out, unless the user requested it, and noted in ``plan.provenance``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from lightloom.errors import PlanError, did_you_mean
from lightloom.models.model import Model
from lightloom.parallel.grid import RankGrid, check_servers, unfilled_servers
from lightloom.parallel.memory import MemoryOptions, does_not_fit, memory_per_stage
from lightloom.parallel.overlap import impossible, impossible_for
from lightloom.parallel.plan import (
    DEFAULT_CHUNKS,
    MICRO_BATCHES_PER_STAGE,
    Plan,
    check_model,
    check_numbers,
    folds,
    usual_length,
)
from lightloom.units import show_option

GPUS_PER_SERVER = 8
#: the rule's least EP, where the experts allow it: as many ways as a usual server has GPUs
MIN_EP = 8
FIELDS = tuple(
    f.name for f in dataclasses.fields(Plan) if f.name not in ("gpus", "origin", "provenance")
)
#: fields of the published run that a plan of other degrees may have to leave out
PRACTICE = (
    *("schedule", "overlap_all_to_all", "overlap_chunks", "overlap_shared_experts", "overlap_tp"),
    *("communication_sms", "vpp", "micro_batches"),
)
#: the sequences of a step, from which micro-batches follow
BATCH = "global_batch_size"
DEGREES = ("tp", "pp", "dp", "ep", "etp", "cp", "vpp", "expert_mode", "order", "pp_layout")


class TooFewGpusError(PlanError):
    """No plan of this many GPUs fits their memory; ``closest`` says what the smallest one needs."""

    def __init__(self, closest: str) -> None:
        self.closest = closest
        super().__init__(
            f"{closest}; use more GPUs, recompute activations, or give --tp, --pp and --ep"
        )


def check_plan(plan: Plan, model: Model, gpus_per_server: int = GPUS_PER_SERVER) -> None:
    """Refuse a plan that cannot divide the model, or whose groups do not align with servers.

    Raises
    ------
    PlanError
        One line: what was given, what was expected, how to fix it.
    """
    check_model(plan, model)
    check_servers(RankGrid(plan), gpus_per_server)


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
        Fields of :class:`Plan` that the user gave, and ``global_batch_size``, the sequences of a
        step, in place of ``micro_batches``; ``None`` means not given.
    gpus_per_server
        GPUs that share a server.
    memory
        What the memory model assumes.

    Raises
    ------
    PlanError
        If an override is unknown or the plan is impossible; if no plan fits.
    """
    degrees = _given(gpus, overrides)
    plan, notes = _stated(model, gpus, degrees, gpus_per_server)
    if plan is not None:
        return plan
    if gpus > gpus_per_server and gpus % gpus_per_server:
        raise PlanError(unfilled_servers(gpus, gpus_per_server))
    limits = (gpu_memory_bytes, gpus_per_server, memory or MemoryOptions())
    plan = _by_rule(model, gpus, degrees, limits)
    text = f"rule: EP first, then the least TP x PP that fits {gpu_memory_bytes / 1e9:.0f} GB"
    return dataclasses.replace(plan, provenance=(text, *notes, *_fold_note(plan, degrees)))


def stated_plan(
    model: Model,
    gpus: int,
    *,
    overrides: Mapping[str, Any] | None = None,
    gpus_per_server: int = GPUS_PER_SERVER,
) -> Plan | None:
    """The plan whose degrees the user gives or the model's publication has, whether it fits or not.

    ``None`` if there is neither, or the GPUs are no multiple of what the publication needs.

    Raises
    ------
    PlanError
        If an override is unknown or the plan is impossible.
    """
    return _stated(model, gpus, _given(gpus, overrides), gpus_per_server)[0]


def _given(gpus: int, overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    degrees = {name: value for name, value in (overrides or {}).items() if value is not None}
    for name in degrees:
        if name not in (*FIELDS, BATCH):
            raise PlanError(f"unknown plan option '{name}'{did_you_mean(name, FIELDS)}")
    check_numbers({"gpus": gpus, **degrees})
    return degrees


def _stated(
    model: Model, gpus: int, degrees: Mapping[str, Any], gpus_per_server: int
) -> tuple[Plan | None, tuple[str, ...]]:
    """The plan that is given or published, if any, and notes on what is not."""
    texts = ", ".join(
        f"{name.replace('_', '-')} {show_option(degrees[name])}" for name in sorted(degrees)
    )
    notes = (f"given: {texts}",) if degrees else ()
    has_ep = "ep" in degrees or (model.plan is None and not model.num_moe_layers)
    if has_ep and {"tp", "pp"} <= degrees.keys():
        values, left_out = _with_published(model, gpus, degrees)
        plan = _checked(gpus, _folded(gpus, values, degrees), model, gpus_per_server)
        provenance = (_scaling(plan, degrees), *notes, *_fold_note(plan, degrees), *left_out)
        return dataclasses.replace(plan, provenance=provenance), notes
    if model.plan is None:
        return None, notes
    try:
        values, left_out = _with_published(model, gpus, degrees)
        plan = _checked(gpus, _folded(gpus, values, degrees), model, gpus_per_server)
    except PlanError as error:
        if not degrees.keys().isdisjoint(DEGREES):
            raise
        return None, (*notes, f"not the published plan ({model.plan.source}): {error}")
    text = f"published: {model.plan.source}; {_scaling(plan, degrees)}"
    provenance = (text, *notes, *_fold_note(plan, degrees), *left_out)
    return dataclasses.replace(plan, origin="published", provenance=provenance), notes


def _scaling(plan: Plan, degrees: Mapping[str, Any]) -> str:
    return "dp as given" if "dp" in degrees else f"dp scaled to {plan.dp}"


def _with_published(
    model: Model, gpus: int, degrees: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the model's publication says, overridden by what the user gave; what was left out."""
    values: dict[str, Any] = {}
    published = model.plan
    if published is None:
        values = {"zero1": True, "seq_len": usual_length(model), **degrees}
        return _with_batch(gpus, _with_mode(values)), ()
    names = ("tp", "pp", "ep", "seq_len", "micro_batch_size")
    values = {name: getattr(published, name) for name in names}
    if published.etp is not None and published.etp != degrees.get("tp", published.tp):
        values["etp"] = published.etp
    # sharded optimizer states are what everybody trains with
    values["zero1"] = published.zero1 is not False
    values = _with_batch(gpus, _with_mode({**values, **degrees}))
    practice = {name: getattr(published, name) for name in PRACTICE}
    practice = {
        name: value for name, value in practice.items() if value is not None and name not in values
    }
    changed = [name for name in ("tp", "pp", "ep") if values[name] != getattr(published, name)]
    if changed:
        # another way of dividing the model is another run, of which nothing was published
        left_out = ", ".join(name.replace("_", "-") for name in practice)
        note = f"not the published {left_out}: that run had another {changed[0]}"
        return values, (note,) if practice else ()
    return _with_practice(model, values, practice)


def _with_practice(
    model: Model, values: dict[str, Any], practice: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Add what the published run does in addition to its degrees, as far as that is possible."""
    if "vpp" in practice and (
        values["pp"] == 1
        or practice["vpp"] * values["pp"] > model.num_layers
        or values.get("schedule", "1f1b") != "1f1b"
    ):
        del practice["vpp"]
    if "vpp" in practice and practice.get("micro_batches", 0) % values["pp"]:
        del practice["micro_batches"]
    left_out: list[str] = []
    while True:
        together = {**values, **practice}
        reasons = _reasons(model, together)
        unsuited = next((pair for pair in reasons if pair[0] in practice), None)
        if unsuited is None:
            return together, tuple(left_out)
        name, reason = unsuited
        left_out.append(f"not the published {name.replace('_', '-')}: {reason}")
        del practice[name]


def _reasons(model: Model, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is impossible about overlaps, with the defaults of a plan for what is absent."""
    defaults: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Plan)}
    whole = defaults | dict(values)
    axis = whole["expert_mode"] == "axis"
    whole["etp"] = whole["etp"] or (whole["tp"] if axis else 1)
    whole["micro_batches"] = whole["micro_batches"] or MICRO_BATCHES_PER_STAGE * whole["pp"]
    if not whole["overlap_chunks"]:
        whole["overlap_chunks"] = DEFAULT_CHUNKS if whole["overlap_all_to_all"] == "chunks" else 1
    return [*impossible(whole), *impossible_for(model, whole)]


def _with_mode(values: dict[str, Any]) -> dict[str, Any]:
    """Fill what follows from other fields unless the user chose it.

    An expert-TP of its own implies folded ranks; that every TP rank sends all tokens implies that
    each has them all, without sequence parallelism. Parameters sharded by ZeRO-1 are gathered
    during the forward pass, as all frameworks do today.
    """
    values.setdefault("overlap_parameters", bool(values.get("zero1")))
    if values.get("etp") and values["etp"] != values.get("tp", 1):
        values.setdefault("expert_mode", "folded")
    if values.get("strategy") == "baseline":
        values.setdefault("sequence_parallel", False)
    return values


def _with_batch(gpus: int, values: dict[str, Any]) -> dict[str, Any]:
    """Turn the sequences of a step into micro-batches.

    Raises
    ------
    PlanError
        If the ranks that read different sequences cannot share them evenly.
    """
    values = dict(values)
    sequences = values.pop(BATCH, None)
    if sequences is None:
        return values
    size = values.get("micro_batch_size", 1)
    ranks = max(1, gpus // math.prod(values.get(name, 1) for name in ("tp", "pp", "cp")))
    multiple = ranks * size
    count, rest = divmod(sequences, multiple)
    if rest or not count:
        fitting = f"{count * multiple} or {(count + 1) * multiple}" if count else f"{multiple}"
        raise PlanError(
            f"global-batch-size {sequences}: {ranks} data-parallel ranks with micro-batches of"
            f" {size} take multiples of {multiple}; give {fitting}, or another micro-batch size"
        )
    values["micro_batches"] = count
    return values


def _folded(gpus: int, values: dict[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """The values with experts folded over TP and CP, where the user's degrees fit no other way.

    Since 2024 Megatron-Core folds them: a user who names TP and EP means the same GPUs.
    """
    named = "ep" in stated and ("tp" in stated or "cp" in stated)
    if not named or not stated.keys().isdisjoint({"expert_mode", "etp", "dp"}):
        return values
    degrees = [values.get(name, 1) for name in ("tp", "cp", "ep", "pp")]
    if values.get("etp") or gpus % math.prod(degrees) == 0 or not folds({**values, "gpus": gpus}):
        return values
    return {**values, "expert_mode": "folded", "etp": 1}


def _fold_note(plan: Plan, degrees: Mapping[str, Any]) -> tuple[str, ...]:
    if plan.expert_mode == "axis" or not degrees.keys().isdisjoint({"expert_mode", "etp"}):
        return ()
    if "ep" not in degrees or plan.etp != 1:
        return ()
    return ("experts share the GPUs of TP and CP, as --ep-mode folded --etp 1",)


def _scaled(gpus: int, values: Mapping[str, Any]) -> Plan:
    """The plan with ``dp`` from ``gpus`` unless given."""
    return Plan(gpus=gpus, **{"dp": _replicas(gpus, values), **values})


def _checked(gpus: int, values: Mapping[str, Any], model: Model, gpus_per_server: int) -> Plan:
    plan = _scaled(gpus, values)
    check_plan(plan, model, gpus_per_server)
    return plan


def _replicas(gpus: int, values: Mapping[str, Any]) -> int:
    """Expert replicas that fill ``gpus``, at least 1; Plan checks that they do so exactly."""
    tp, pp, ep, cp, etp = (values.get(name, 1) for name in ("tp", "pp", "ep", "cp", "etp"))
    axis = values.get("expert_mode", "axis") == "axis"
    replica: int = (tp * cp if axis else etp) * ep * pp
    return max(1, gpus // replica)


def divisors(number: int) -> list[int]:
    """All divisors of a number, ascending."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _candidates(
    model: Model, gpus: int, degrees: Mapping[str, Any], gpus_per_server: int
) -> Iterator[dict[str, Any]]:
    """Degrees that could work, the most wanted first."""
    experts = model.num_experts if model.num_moe_layers else 1
    tps = [degrees["tp"]] if "tp" in degrees else divisors(min(gpus, gpus_per_server))
    pps = [d for d in divisors(gpus) if d <= model.num_layers]
    pps = [degrees["pp"]] if "pp" in degrees else pps
    eps = [degrees["ep"]] if "ep" in degrees else divisors(experts)
    base = {"seq_len": usual_length(model), "zero1": True, **degrees}
    triples = [(tp, pp, ep) for tp in tps for pp in pps for ep in eps]

    def unwanted(triple: tuple[int, int, int]) -> tuple[int, ...]:
        tp, pp, ep = triple
        return max(0, MIN_EP - ep), tp * pp, pp, ep

    for tp, pp, ep in sorted(triples, key=unwanted):
        values = _with_mode({**base, "tp": tp, "pp": pp, "ep": ep})
        yield _folded(gpus, values, degrees)


def _by_rule(
    model: Model,
    gpus: int,
    degrees: Mapping[str, Any],
    limits: tuple[float, int, MemoryOptions],
) -> Plan:
    gpu_memory_bytes, gpus_per_server, options = limits
    impossible: PlanError | None = None
    too_large: list[tuple[float, str, Plan]] = []
    for values in _candidates(model, gpus, degrees, gpus_per_server):
        try:
            plan = _scaled(gpus, _with_batch(gpus, values))
            check_model(plan, model)
            stages = memory_per_stage(model, plan, options)
            unfit = does_not_fit(stages, gpu_memory_bytes, options.reserve)
            if unfit is None:
                # placing ranks takes longest, so it comes last
                check_servers(RankGrid(plan), gpus_per_server)
                return plan
        except PlanError as error:
            impossible = impossible or error
        else:
            too_large.append((max(stage.total_bytes for stage in stages), unfit, plan))
    for _, unfit, plan in sorted(too_large, key=lambda entry: entry[0]):
        try:
            check_servers(RankGrid(plan), gpus_per_server)
        except PlanError:
            continue
        raise TooFewGpusError(
            f"{model.name} does not fit on {gpus} GPUs; the closest plan is "
            f"{plan.describe(gpus=False)}: {unfit}"
        )
    raise PlanError(f"no plan for {model.name} on {gpus} GPUs is possible: {impossible}")
