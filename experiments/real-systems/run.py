"""Predicted speed of public training runs, compared with what was published.

    python experiments/real-systems/run.py [--write | --check] [--only TEXT]

Every run of runs.toml goes through ``lightloom.compare`` with the options that it had; nothing is
adjusted per run. ``--write`` puts the tables into table.md, the speeds into predictions.csv and the
errors into the page of the documentation, ``--check`` says whether they are what is there,
``--only`` predicts the runs whose name contains a text, and prints them alone.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from predictions import FILE, as_csv  # noqa: E402
from results import ROOT, command_line, replace_between, write_or_check  # noqa: E402
from rows import Run, read_runs  # noqa: E402
from summary import errors, tables  # noqa: E402

from lightloom import compare  # noqa: E402
from lightloom.errors import InputError  # noqa: E402
from lightloom.study.compare.memory import job_memory  # noqa: E402

PAGE = ROOT / "docs" / "explanation" / "against-real-systems.md"


@dataclass(frozen=True)
class Prediction:
    """One run's predicted speed, tokens/s per GPU, and shares of its step; or why there is none."""

    run: Run
    predicted: float = 0.0
    shares: dict[str, float] | None = None
    refused: str = ""
    #: what the memory model says of it, in GB: the peak and what is there for it
    memory: tuple[float, float] = (0.0, 0.0)

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.predicted / self.run.published


def predict(run: Run) -> Prediction:
    """Predict one run by the product's own path."""
    scenario = run.scenario()
    kept = job_memory(scenario)
    peak = max(stage.total_bytes for stage in kept.fitted.memory)
    try:
        result = compare(scenario).results[0]
    except InputError as error:
        return Prediction(run, refused=str(error))
    shares = {name: s / result.step_time_s for name, s in result.mean_s.items()}
    memory = (peak / 1e9, kept.limit_bytes / 1e9)
    return Prediction(run, result.tokens_per_s / run.gpus, shares, memory=memory)


def main() -> int:
    """Predict every run and print the tables."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="runs with TEXT in their name")
    options = parser.parse_args()
    runs, sources = read_runs()
    chosen = [run for run in runs if options.only in run.name]
    found = []
    with ProcessPoolExecutor() as pool:
        for prediction in pool.map(predict, chosen):
            found.append(prediction)
            line = prediction.refused or f"{prediction.ratio:.2f}"
            print(f"{prediction.run.name}: {line}", file=sys.stderr, flush=True)
    text = tables(found, sources)
    print(text)
    if options.only:
        return 0
    page = replace_between(PAGE.read_text(encoding="utf-8"), "errors", errors(found))
    speeds = {p.run.name: 0.0 if p.refused else p.predicted for p in found}
    wanted = {
        HERE / "table.md": text,
        PAGE: page,
        FILE: as_csv(runs, speeds),
    }
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
