"""The plans of public runs and those that a search finds, both predicted.

    python experiments/real-systems/plans.py [--write | --check] [--only TEXT]

A run that was tuned should hardly be beaten: what a search gains over it is what the model of a
step has too cheap, or what the people who tuned it did not try. The search has the run's GPUs,
tokens per step and options (precision, gate, dispatcher, overlaps) and chooses the rest.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from results import command_line, write_or_check  # noqa: E402
from rows import Run, read_runs  # noqa: E402

from lightloom import compare  # noqa: E402
from lightloom.study.compare import PlanOptions  # noqa: E402
from lightloom.study.compare.job import prepare  # noqa: E402
from lightloom.study.compare.plan_search import planned_job, title  # noqa: E402

#: runs of the tuned recipes of their time, one per model, cluster and precision
RUNS = (
    "mixtral-8x22b-128-h100",
    "mixtral-8x22b-1024-h100",
    "qwen2-57b-64-h100",
    "mixtral-g8t8-128-h100",
    "llama-3-8x70b-256-h100",
    "grok-1-512-h100-bf16",
    "grok-1-512-h100-bf16-etp1",
    "qwen3-30b-16-h100-fp8",
    "llama-3-70b-64-h100-bf16",
    "llama-3-405b-1024-h100-fp8",
    "nemotron-4-340b-2048-h100-bf16",
)
#: what the search chooses
SEARCHED = (
    *("tp", "pp", "dp", "ep", "etp", "cp", "vpp", "pp_layout", "expert_mode"),
    *("micro_batches", "micro_batch_size"),
)
HEADER = """# Plans of public runs, and those that a search finds

Written by `python experiments/real-systems/plans.py --write`. Gain: the predicted speed of the plan
found over that of the published one.

| run | published plan | found | gain |
|---|---|---|---:|
"""


@dataclass(frozen=True)
class Searched:
    """A run's plan and the one found, with their predicted steps."""

    run: Run
    published: str
    published_s: float
    found: str
    found_s: float

    @property
    def gain(self) -> float:
        """By how much the plan found is faster."""
        return self.published_s / self.found_s - 1


def searched(run: Run) -> Searched:
    """Search a plan for the GPUs, tokens and options of a run."""
    scenario = run.scenario()
    published = prepare(scenario).plan
    step_s = compare(scenario).results[0].step_time_s
    rest = {k: v for k, v in scenario.plan.degrees.items() if k not in SEARCHED}
    free = scenario.model_copy(
        update={
            "plan": PlanOptions(**{**rest, "source": "search"}),
            "recompute": "auto",
            "memory_check": True,
        }
    )
    best = planned_job(free, sequences=published.sequences_per_step).candidates[0]
    return Searched(run, title(published), step_s, title(best), best.predicted_step_time_s)


def main() -> int:
    """Search the plans of all runs and print the table."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="runs with TEXT in their name")
    options = parser.parse_args()
    text = HEADER
    for run in read_runs()[0]:
        if run.name not in RUNS or options.only not in run.name:
            continue
        one = searched(run)
        line = f"| {run.name} | {one.published} | {one.found} | {one.gain:+.0%} |\n"
        print(line, end="", file=sys.stderr, flush=True)
        text += line
    print(text)
    return (
        0
        if options.only
        else write_or_check({HERE / "plans.md": text}, options.write, options.check)
    )


if __name__ == "__main__":
    sys.exit(main())
