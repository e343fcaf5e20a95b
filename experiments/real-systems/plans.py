"""The plans of public runs and those that a search finds, both predicted.

    python experiments/real-systems/plans.py [--write | --check] [--only TEXT]

A run that was tuned should hardly be beaten: what a search gains over it is what the model of a
step has too cheap, or what the people who tuned it did not try. The search has the run's GPUs,
tokens per step and options (precision, gate, dispatcher, overlaps) and chooses the rest.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from results import command_line, write_or_check  # noqa: E402
from rows import Run, read_runs  # noqa: E402

from lightloom import compare  # noqa: E402
from lightloom.study.compare import PlanOptions  # noqa: E402
from lightloom.study.compare.job import prepare  # noqa: E402
from lightloom.study.compare.memory import job_memory  # noqa: E402
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
found over that of the published one, with as much sharded as there. Memory: the peak by the memory
model of the published plan, of the found one, and what there is, in GB.

| run | published plan | found | gain | memory |
|---|---|---|---:|---|
"""


@dataclass(frozen=True)
class Searched:
    """A run's plan and the one found, with their predicted steps."""

    run: Run
    published: str
    published_s: float
    found: str
    found_s: float
    #: peak of either plan, and what of a GPU's memory is there for it, bytes
    memory: tuple[float, float, float]

    @property
    def gain(self) -> float:
        """By how much the plan found is faster."""
        return self.published_s / self.found_s - 1

    def line(self) -> str:
        """Its row of the table."""
        before, after, room = (f"{each / 1e9:.0f}" for each in self.memory)
        return (
            f"| {self.run.name} | {self.published} | {self.found} | {self.gain:+.0%} |"
            f" {before}, {after} of {room} |\n"
        )


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
            # said, and so not searched: the frameworks of these runs have no ZeRO-2 and ZeRO-3
            "memory": scenario.memory.model_copy(update={"sharded": scenario.memory.sharded}),
        }
    )
    best = planned_job(free, sequences=published.sequences_per_step).candidates[0]
    kept = job_memory(scenario)
    memory = max(stage.total_bytes for stage in kept.fitted.memory), best.peak_memory_bytes
    found_s = best.predicted_step_time_s
    plans = title(published), step_s, title(best), found_s
    return Searched(run, *plans, (*memory, kept.limit_bytes))


def main() -> int:
    """Search the plans of all runs and print the table."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="runs with TEXT in their name")
    options = parser.parse_args()
    text = HEADER
    chosen = [run for run in read_runs()[0] if run.name in RUNS and options.only in run.name]
    with ProcessPoolExecutor() as pool:
        for one in pool.map(searched, chosen):
            print(one.line(), end="", file=sys.stderr, flush=True)
            text += one.line()
    print(text)
    return (
        0
        if options.only
        else write_or_check({HERE / "plans.md": text}, options.write, options.check)
    )


if __name__ == "__main__":
    sys.exit(main())
