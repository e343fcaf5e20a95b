"""Steps of MixNet by switching delay and policy (MixNet, D.7).

    python experiments/mixnet-fig28/run.py [--write | --check | --fast]

Prints the table; ``--write`` puts it into table.md and draws figure.svg.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from one_sample import one_step
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)


def steps_s(delay_s: float, first: str) -> dict[str, float]:
    """Seconds of a step by when circuits are changed."""
    options = {**VALUES["mixnet"], "fixed_s": delay_s, "first": first}
    (result,) = one_step(
        VALUES,
        VALUES["model"],
        {"mixnet": options},
        VALUES["load"],
        policies=True,
        whole_steps=True,
    ).results
    return {policy.when: policy.step_time_s for policy in result.policies}


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    delays = VALUES["delays_s"][:: 8 if fast else 1]
    firsts = sorted({row["first"] for row in VALUES["policies"]})
    found = {(delay, first): steps_s(delay, first) for delay in delays for first in firsts}
    steps = {
        row["name"]: [found[delay, row["first"]][row["when"]] for delay in delays]
        for row in VALUES["policies"]
    }
    header = ["delay [s]", *(f"{name} [s]" for name in steps)]
    rows = [
        [f"{delay:g}", *(f"{times[place]:.3f}" for times in steps.values())]
        for place, delay in enumerate(delays)
    ]
    files = {
        HERE / "table.md": (
            f"# Steps of {VALUES['model']} on MixNet by switching delay\n\n"
            "When circuits are changed, and what the first all-to-all of a forward pass does."
            f" Made by run.py; see [README.md](README.md).\n\n{markdown(header, rows)}"
        )
    }
    if fast:
        return files
    lines = [
        Line(name, [t / steps["never"][0] for t in times], number, is_dashed=name == "never")
        for number, (name, times) in enumerate(steps.items())
    ]
    figure = Figure(
        "Who counts what switching costs needs no fast switch",
        "switching delay [s]",
        "step / step without switching",
        delays,
        lines,
        log_x=True,
        log_y=True,
    )
    return {**files, HERE / "figure.svg": figure.svg(HERE)}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
