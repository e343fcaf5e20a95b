"""NVL72 against MixNet with optical I/O, with and without de-duplication.

    python experiments/mixnet-fig16/run.py [--write | --check | --fast]

Prints the table; ``--write`` puts it into table.md and draws figure.svg, ``--check`` says whether
they are what is there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lightloom import Scenario, compare

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from results import run, settings

HERE = Path(__file__).parent
TABLE = HERE / "table.md"
FABRICS = ("nvl72", "mixnet-optical-io")
#: dispatchers by what they send
SENT = {"alltoall": "every copy", "flex": "a token once to each rack"}

HEAD = """# NVL72 against MixNet with optical I/O

A balanced step. All-to-alls: their share of the critical path of NVL72. Speed-up: its step over
that with optical I/O. See [README.md](README.md).

| total of a GPU [Tb/s] | sent | NVL72 [s] | all-to-alls [%] | optical I/O [s] | speed-up | paper |
|---:|---|---:|---:|---:|---:|---:|"""


def step_times(values: dict[str, Any], totals: dict[str, float], dispatcher: str) -> list[float]:
    """Step of NVL72, share of all-to-alls on its critical path, and step with optical I/O."""
    scenario = Scenario(
        model=values["model"],
        gpus=values["gpus"],
        cluster={"gpu": values["gpu"], "rate_gbps": values["rate_gbps"]},
        plan={
            **values["plan"],
            "micro_batches": values["micro_batches"],
            "seq_len": values["seq_len"],
        },
        demand={"source": "balanced", "dispatcher": dispatcher},
        fabrics=FABRICS,
        fabric_options={
            "all": {"interconnect": "ideal"},
            "nvl72": {"nvlink_gbps": totals["nvlink_gbps"]},
            "mixnet-optical-io": {"total_gbps": totals["total_gbps"]},
        },
        seeds=1,
        compute_spread=0.0,
        policies=False,
        imbalances=False,
        memory_check=False,
        recompute="none",
    )
    packet, optical = compare(scenario).results
    share = packet.critical_path_s["ep"] / packet.step_time_s
    return [packet.step_time_s, share, optical.step_time_s]


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    values = settings(HERE)
    rows = []
    gains: dict[str, list[float]] = {sent: [] for sent in SENT.values()}
    totals = values["totals"][: 1 if fast else None]
    for total in totals:
        for dispatcher, sent in SENT.items():
            packet, share, optical = step_times(values, total, dispatcher)
            gains[sent].append(packet / optical)
            cells = [
                f"{total['total_gbps'] / 1000:g}",
                sent,
                f"{packet:.3f}",
                f"{100 * share:.1f}",
                f"{optical:.3f}",
                f"{packet / optical:.3f}",
                str(total.get("paper", "-")),
            ]
            rows.append(f"| {' | '.join(cells)} |")
    files = {TABLE: "\n".join([HEAD, *rows]) + "\n"}
    if fast:
        return files
    lines = [Line(sent, line, number) for number, (sent, line) in enumerate(gains.items())]
    published = [total.get("paper") for total in totals]
    figure = Figure(
        "Optical I/O gains where every copy of a token crosses to the other rack",
        "total of a GPU [Tb/s]",
        "step of NVL72 / step with optical I/O",
        [f"{total['total_gbps'] / 1000:g}" for total in totals],
        [*lines, Line("paper", published, 6, is_dashed=True)],
    )
    return {**files, HERE / "figure.svg": figure.svg(HERE)}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
