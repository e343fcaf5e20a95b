"""Step time against imbalance: what is nearly balanced takes nearly as long as what is.

    python experiments/continuity/run.py [--write | --check]

Compares the fabrics of experiment.toml at each imbalance, some two minutes, and writes table.md and
docs/images/continuity.svg.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom import Scenario, compare

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs/images/continuity.svg"
sys.path.insert(0, str(HERE.parent))
from drawing import Figure, Line  # noqa: E402
from results import command_line, settings, write_or_check  # noqa: E402

#: step times, s, by imbalance and fabric
Times = Mapping[float, Mapping[str, float]]


def measure(values: Mapping[str, Any]) -> Times:
    """Compare the fabrics at each imbalance."""
    times = {}
    for imbalance in values["imbalances"]:
        demand = {"source": "balanced" if imbalance == 1 else imbalance}
        found = compare(Scenario(**values["scenario"], demand=demand)).results
        times[imbalance] = {one.fabric: one.step_time_s for one in found}
        print(f"imbalance {imbalance:g}", file=sys.stderr)
    return times


def render(times: Times) -> str:
    """Step times, each over that of balanced load and over the fat-tree's."""
    fabrics = list(times[1.0])
    header = ["imbalance", *fabrics]
    parts = {
        "Step time [s]": lambda at, name: f"{times[at][name]:.2f}",
        "Over the step of balanced load": lambda at, name: f"{grown(times, at, name):.3f}",
        "Over the fat-tree": lambda at, name: f"{times[at][name] / times[at]['fat-tree']:.3f}",
    }
    text = "# Step time against imbalance\n"
    for title, cell in parts.items():
        lines = [header, ["---:"] * len(header)]
        lines += [[f"{at:g}", *(cell(at, name) for name in fabrics)] for at in times]
        text += f"\n## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return text


def draw(times: Times) -> str:
    """The figure: a line per fabric."""
    lines = [
        Line(name, [grown(times, at, name) for at in times], number)
        for number, name in enumerate(times[1.0])
    ]
    figure = Figure(
        "A little imbalance makes a step a little longer",
        "busiest EP rank / mean",
        "step / step of balanced load",
        list(times),
        lines,
    )
    return figure.svg(HERE)


def grown(times: Times, imbalance: float, fabric: str) -> float:
    """Step over that of balanced load."""
    return times[imbalance][fabric] / times[1.0][fabric]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write or check the files."""
    options = command_line(__doc__).parse_args(arguments)
    times = measure(settings(HERE))
    text = render(times)
    print(text, end="")
    wanted = {HERE / "table.md": text, FIGURE: draw(times)}
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
