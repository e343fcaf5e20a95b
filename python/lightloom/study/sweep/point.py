"""One point of a sweep: a comparison, and a row for each of its fabrics."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.errors import LightloomError
from lightloom.study.compare.results import Comparison, FabricResult
from lightloom.study.compare.scenario import Scenario
from lightloom.study.compare.shared_work import SharedWork, sharing
from lightloom.study.sweep.identity import code_version
from lightloom.study.workers import Send

#: columns of the inputs that every point has, with what they hold
INPUTS: dict[str, type] = {"model": str, "gpus": int, "gpu": str, "rate_gbps": float}
#: columns of the plan
PLAN: dict[str, type] = {
    **dict.fromkeys(("tp", "pp", "dp", "ep", "etp", "cp", "vpp"), int),
    **dict.fromkeys(("micro_batches", "micro_batch_size", "seq_len"), int),
    "plan_source": str,
}
#: columns of results: what :meth:`FabricResult.to_json` calls so
RESULTS: dict[str, type] = {
    "fabric": str,
    "kind": str,
    **dict.fromkeys(("step_time_s", "step_time_low_s", "step_time_high_s"), float),
    "ratio_to_fastest": float,
    "tied_with_fastest": bool,
    **dict.fromkeys(("tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu"), float),
    **dict.fromkeys(("days_per_trillion_tokens", "network_cost_usd", "cluster_cost_usd"), float),
    **dict.fromkeys(("power_w", "cluster_power_w", "perf_per_usd", "perf_per_cluster_usd"), float),
    **dict.fromkeys(("tokens_per_s_per_w", "energy_per_token_j", "usd_per_token"), float),
    **dict.fromkeys(("straggler_wait_s", "all_to_all_s", "reconfiguration_s"), float),
    "reconfigurations": float,
    "events": int,
    "run_hash": str,
}
#: what a comparison simulates in addition, and no column of a row shows
_NOT_IN_ROWS = {"imbalances": False, "policies": False}


@dataclass(frozen=True)
class PointTask:
    """A point to compute."""

    number: int
    scenario: Scenario


@dataclass(frozen=True)
class PointOutcome:
    """What came of a point: its rows, or why there are none.

    ``is_final`` tells whether the same inputs would fail again.
    """

    number: int
    rows: tuple[dict[str, Any], ...] = ()
    failure: str = ""
    is_final: bool = True


@dataclass(frozen=True)
class TaskOutcomes:
    """What a worker sends back: outcomes, the seconds that they took, what was made and reused."""

    outcomes: tuple[PointOutcome, ...]
    wall_s: float
    made: Mapping[str, int]
    reused: Mapping[str, int]


def plan_source(scenario: Scenario, comparison: Comparison) -> str:
    """Where the plan comes from: ``given``, ``published``, ``searched``; empty for a program."""
    plan = scenario.plan
    if not comparison.inputs.get("plan"):
        return ""
    if comparison.inputs.get("plan_candidates"):
        return "searched"
    return "given" if plan.tp and plan.pp and plan.ep else "published"


def rows_of(scenario: Scenario, comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each fabric; every one has all columns."""
    cluster = scenario.cluster
    job = {
        "model": str(comparison.inputs.get("model", {}).get("name", scenario.model or "")),
        "gpus": comparison.inputs.get("gpus", scenario.gpus),
        "gpu": cluster.gpu,
        "rate_gbps": cluster.rate_gbps,
        "plan_source": plan_source(scenario, comparison),
    }
    return [job | _row(result) for result in comparison.results]


def _row(result: FabricResult) -> dict[str, Any]:
    content = result.to_json()
    mean, change = result.mean_s, result.reconfiguration
    content |= {
        "step_time_low_s": result.step_time_low_s,
        "step_time_high_s": result.step_time_high_s,
        "all_to_all_s": mean.get("ep"),
        "reconfiguration_s": mean.get("reconfiguration"),
        "reconfigurations": change.get("reconfigurations"),
    }
    plan = {name: result.plan.get(name) for name in PLAN if name != "plan_source"}
    return plan | {name: content.get(name) for name in RESULTS}


@functools.cache
def _process_work(cores: int) -> SharedWork:
    """What the points of this process share."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(cores))
    return SharedWork(cores)


@dataclass(frozen=True)
class Evaluate:
    """Computes points with this many cores each; a worker's function.

    Raises nothing: what goes wrong with a point is its outcome.
    """

    cores: int = 1

    def __call__(self, tasks: Sequence[PointTask], send: Send | None = None) -> TaskOutcomes:
        """Compute points one after another."""
        del send
        work, began = _process_work(self.cores), time.perf_counter()
        made, reused = work.made.copy(), work.reused.copy()
        with sharing(work):
            outcomes = tuple(map(_outcome, tasks))
        wall_s = time.perf_counter() - began
        return TaskOutcomes(outcomes, wall_s, work.made - made, work.reused - reused)

    @staticmethod
    def version() -> str:
        """The version of the worker's code."""
        return code_version()


def _outcome(task: PointTask) -> PointOutcome:
    from lightloom.study.compare.run import compare

    try:
        comparison = compare(task.scenario.model_copy(update=_NOT_IN_ROWS))
        return PointOutcome(task.number, tuple(rows_of(task.scenario, comparison)))
    except LightloomError as error:
        return PointOutcome(task.number, failure=_one_line(error))
    except MemoryError:
        return PointOutcome(task.number, failure="not enough memory", is_final=False)
    except Exception as error:  # a defect at one point costs that point alone
        reason = f"a defect of Lightloom: {type(error).__name__}: {_one_line(error)}"
        return PointOutcome(task.number, failure=reason, is_final=False)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500]
