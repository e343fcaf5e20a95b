"""TopoOpt and a fat-tree over MixNet by micro-batch size (MixNet, D.4).

    python experiments/mixnet-fig25/run.py [--write | --check | --fast]

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


def over_mixnet(model: str, size: int, rate: int) -> dict[str, float]:
    """Steps of the other fabrics over that of MixNet."""
    fabrics = {name: VALUES["options"][name] for name in VALUES["fabrics"]}
    plan = {"micro_batch_size": size}
    found = one_step(VALUES, model, fabrics, VALUES["load"], rate_gbps=rate, plan=plan).results
    steps = {result.fabric: result.step_time_s for result in found}
    return {name: steps[name] / steps["mixnet"] for name in VALUES["fabrics"][1:]}


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    rows, lines = [], []
    sizes = VALUES["micro_batch_sizes"]
    for number, model in enumerate(VALUES["models"][: 1 if fast else None]):
        means: dict[str, list[float]] = {name: [] for name in VALUES["fabrics"][1:]}
        published = VALUES["published"].get(model)
        for place, size in enumerate(sizes[: 1 if fast else None]):
            found = [over_mixnet(model, size, rate) for rate in VALUES["rates_gbps"]]
            for name, line in means.items():
                ratios = [ratio[name] for ratio in found]
                line.append(sum(ratios) / len(ratios))
                paper = f"{published[place]}" if published and name == "topoopt" else "-"
                cells = [f"{model}, {name}", str(size), *(f"{ratio:.3f}" for ratio in ratios)]
                rows.append([*cells, f"{line[-1]:.3f}", paper])
        lines += [Line(f"{model}, {name}", line, number) for name, line in means.items()]
        if published:
            lines.append(Line(f"{model}, topoopt, paper", published, number, is_dashed=True))
    header = ["over MixNet", "micro-batch", *(f"{rate} Gb/s" for rate in VALUES["rates_gbps"])]
    files = {
        HERE / "table.md": (
            "# Steps over those of MixNet by micro-batch size\n\n"
            "Made by run.py; see [README.md](README.md).\n\n"
            f"{markdown([*header, 'mean', 'paper'], rows)}"
        )
    }
    if fast:
        return files
    figure = Figure(
        "Larger micro-batches gain MixNet nothing over TopoOpt here",
        "sequences of a micro-batch",
        "step / step of MixNet, mean over rates",
        [str(size) for size in sizes],
        lines,
    )
    return {**files, HERE / "figure.svg": figure.svg(HERE)}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
