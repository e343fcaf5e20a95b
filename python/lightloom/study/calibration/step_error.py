"""How far a predicted step is from one that was recorded, term by term.

The mean GPU of a simulated step (``breakdown_mean_s`` of results) stands beside the mean of the
recorded ranks. Communication counts where nothing computes meanwhile. A kernel of NCCL also waits
for other ranks: what waits for the pipeline is in its messages, what waits for stragglers in the
all-to-alls, in both. Computation holds what GPUs stand idle for their host, as the predicted one
holds launches.

A profile may hold a part of a step, as that which DeepSeek published: a forward and a backward
chunk of four layers. What was recorded is then told by its all-to-alls to experts, of which the
plan says how many a layer and micro-batch has, and stands beside as many layers x micro-batches of
the prediction, without what is no part of layers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from lightloom.errors import InputError
from lightloom.models import Model
from lightloom.practice import Recompute
from lightloom.study.compare.job import model_of
from lightloom.study.compare.scenario import Scenario
from lightloom.trace.check import MESSAGES
from lightloom.trace.importers.imported import Imported
from lightloom.trace.profile import collective_times, step_times

#: what a step is made of: names of the predicted parts, by term; all others are computation
TERMS: dict[str, tuple[str, ...]] = {
    "computation": (),
    "all-to-alls": ("ep", "straggler", "reconfiguration", "transfers"),
    "tensor parallelism": ("tp",),
    "context parallelism": ("cp",),
    "pipeline": ("pp", "bubble"),
    "gradients, parameters": ("dp",),
}

#: all-to-alls to experts of a pass of a layer and micro-batch: dispatch and combine
PER_PASS = 2
#: a profile with a smaller share of the all-to-alls of any stage is of a part of the step
PART = 0.75
#: predicted parts of which a part of the layers has none, and those that it has if they were seen
NO_LAYERS = ("dense_ffn", "head", "optimizer", "bubble")
SEEN = {"pipeline": "pp", "gradients, parameters": "dp"}


@dataclass(frozen=True)
class RecordedPart:
    """How much of a step was recorded, in MoE layers x micro-batches of a GPU.

    Attributes
    ----------
    recorded, predicted
        How many were recorded, and how many a step has.
    """

    recorded: float
    predicted: float

    @property
    def share(self) -> float:
        """Of a step, what was recorded."""
        return self.recorded / self.predicted


@dataclass(frozen=True)
class TermError:
    """One term: predicted and measured seconds of a step."""

    term: str
    predicted_s: float
    measured_s: float

    @property
    def error_s(self) -> float:
        """Predicted less measured."""
        return self.predicted_s - self.measured_s


@dataclass(frozen=True)
class StepError:
    """A step as predicted and as measured.

    Attributes
    ----------
    fabric
        The simulated fabric.
    step
        The whole step.
    terms
        What it consists of; they sum to it.
    idle_s
        Of measured computation, what the GPU was idle.
    ranks, steps
        How many were recorded.
    part
        What was recorded if it is a part of a step, which then stands for the step; ``None`` for
        whole steps.
    """

    fabric: str
    step: TermError
    terms: tuple[TermError, ...]
    idle_s: float
    ranks: int
    steps: int
    part: RecordedPart | None = None

    @property
    def largest(self) -> TermError:
        """The term with the largest error."""
        return max(self.terms, key=lambda term: abs(term.error_s))


def step_error(
    fabric: str,
    predicted_s: Mapping[str, float],
    plan: Mapping[str, int],
    recorded: Imported,
    *,
    model: Model | None = None,
    recompute: Recompute = "none",
) -> StepError:
    """Compare.

    Parameters
    ----------
    fabric
        Name of the simulated fabric.
    predicted_s
        Where the time of its mean GPU goes.
    plan
        The plan of the job, whose degrees tell what groups are for.
    recorded
        Steps of PyTorch's profiler, of some ranks.
    model
        Tells what a step has, so that a part of a step is known from a whole one.
    recompute
        What backward passes compute again: of whole layers, their all-to-alls, too.

    Raises
    ------
    InputError
        If nothing in it has times.
    """
    found = step_times(recorded.spans)
    if not found:
        raise InputError("the trace has no times; expected steps of PyTorch's profiler")
    lengths = _lengths(recorded)
    measured: dict[str, float] = defaultdict(float)
    exposed = _exposed(recorded, plan)
    steps: dict[int, int] = defaultdict(int)
    for step in found:
        steps[step.rank] += 1
    for step in found:
        shares, total = exposed.get(step.rank, {}), sum(exposed.get(step.rank, {}).values())
        for term, seconds in shares.items():
            measured[term] += step.exposed_s * seconds / total if total else 0.0
    count = len(found)
    terms = {term: measured[term] / count for term in TERMS}
    part = _part(model, plan, recorded, count, all_to_alls(plan, recompute))
    if part is not None:
        predicted_s = _part_of(predicted_s, part, model, terms)
    length_s = fmean(lengths[step.rank] for step in found)
    terms["computation"] = length_s - sum(terms.values())
    busy_s = fmean(step.length_s - step.idle_s for step in found)
    rows = [
        TermError(term, _predicted(term, predicted_s), terms[term])
        for term in TERMS
        if terms[term] or _predicted(term, predicted_s)
    ]
    whole = TermError("step", sum(predicted_s.values()), length_s)
    return StepError(
        fabric, whole, tuple(rows), max(0.0, length_s - busy_s), len(steps), max(steps.values()),
        part,
    )  # fmt: skip


def model_of_results(inputs: Mapping[str, object]) -> Model | None:
    """The model that results are of; ``None`` for a recorded program.

    Raises
    ------
    InputError
        If its file, or its name, is gone.
    """
    given = inputs["scenario"]
    assert isinstance(given, Mapping)
    if given.get("model") is None:
        return None
    # other options may be of another version
    job = {key: given.get(key) for key in ("model", "model_shape", "gpus")}
    plan = {"mtp": given.get("plan", {}).get("mtp")}
    return model_of(Scenario.model_validate({**job, "plan": plan, "cluster": {"rate_gbps": 400}}))


def all_to_alls(plan: Mapping[str, int], recompute: Recompute) -> int:
    """All-to-alls to experts of a layer and micro-batch, of all chunks that the plan cuts it into.

    Forward and backward, and forward again where whole layers are recomputed. A number of chunks
    that was left to the planner differs from layer to layer; it is taken as one.
    """
    passes = 3 if recompute == "full" else 2
    chunks = plan.get("overlap_chunks", 1) * max(1, plan.get("strategy_chunks", 0))
    return PER_PASS * passes * chunks


def _part(
    model: Model | None, plan: Mapping[str, int], recorded: Imported, steps: int, per_layer: int
) -> RecordedPart | None:
    """What was recorded of a step, by its all-to-alls; ``None`` if that is all or not known."""
    if model is None or not model.num_moe_layers or plan.get("ep", 1) == 1:
        return None
    calls = sum(
        call.op.startswith("all_to_all")
        for rank in recorded.spans
        for call in recorded.trace.ranks[rank].calls
    )
    micro_batches, stages = plan["micro_batches"], plan["pp"]
    part = RecordedPart(calls / steps / per_layer, model.num_moe_layers * micro_batches / stages)
    # a stage may have all layers without experts
    dense = model.num_layers - model.num_moe_layers
    fewest = max(1, model.num_layers // stages - dense) * micro_batches
    return part if 0 < part.recorded < PART * fewest else None


def _part_of(
    predicted_s: Mapping[str, float],
    part: RecordedPart,
    model: Model | None,
    measured_s: Mapping[str, float],
) -> dict[str, float]:
    """The prediction of a part of the layers: all of them attend, some of them have experts."""
    assert model is not None
    left_out = {*NO_LAYERS, *(name for term, name in SEEN.items() if not measured_s[term])}
    attention = part.share * model.num_moe_layers / model.num_layers
    return {
        name: seconds * (attention if name == "attention" else part.share)
        for name, seconds in predicted_s.items()
        if name not in left_out
    }


def _predicted(term: str, parts: Mapping[str, float]) -> float:
    known = {name for names in TERMS.values() for name in names}
    if term == "computation":
        return sum(seconds for name, seconds in parts.items() if name not in known)
    return sum(parts.get(name, 0.0) for name in TERMS[term])


def _lengths(recorded: Imported) -> dict[int, float]:
    """Seconds of a step by rank: from the begin of one to that of the next, if there are two."""
    lengths = {}
    for rank, spans in recorded.spans.items():
        begins: dict[int, float] = {}
        ends: dict[int, float] = {}
        for span in spans:
            begins[span.step] = min(begins.get(span.step, span.start_s), span.start_s)
            end = span.start_s + span.duration_s
            ends[span.step] = max(ends.get(span.step, end), end)
        first, last = min(begins), max(begins)
        if last > first:
            lengths[rank] = (begins[last] - begins[first]) / (len(begins) - 1)
        else:
            lengths[rank] = ends[first] - begins[first]
    return lengths


def _exposed(recorded: Imported, plan: Mapping[str, int]) -> dict[int, dict[str, float]]:
    """Exposed seconds of all steps by rank and term; what two calls expose counts for both."""
    found: dict[int, dict[str, float]] = {}
    for row in collective_times(recorded.trace, recorded.spans):
        terms = found.setdefault(row.rank, defaultdict(float))
        terms[_term(row.op, row.group, row.group_size, plan)] += row.exposed_s
    return found


def _term(op: str, group: str, size: int, plan: Mapping[str, int]) -> str:
    """What an operation is for."""
    if op.startswith("all_to_all"):
        return "all-to-alls"
    if op in MESSAGES:
        return "context parallelism" if plan.get("pp", 1) == 1 else "pipeline"
    if plan.get("tp", 1) > 1 and size == plan["tp"] and "DATA" not in group.upper():
        return "tensor parallelism"
    if plan.get("cp", 1) > 1 and "CONTEXT" in group.upper() and "DATA" not in group.upper():
        return "context parallelism"
    return "gradients, parameters"
