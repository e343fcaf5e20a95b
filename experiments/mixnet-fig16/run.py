"""NVL72 against MixNet with optical I/O, with and without de-duplication.

    python experiments/mixnet-fig16/run.py [--write | --check]

Prints the table; ``--write`` puts it into table.md, ``--check`` says whether it is what is there.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from lightloom import Scenario, compare

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import command_line, write_or_check

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


def load() -> dict[str, Any]:
    """The settings."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


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


def rows(values: dict[str, Any]) -> list[str]:
    """The rows of the table."""
    found = []
    for totals in values["totals"]:
        for dispatcher, sent in SENT.items():
            packet, share, optical = step_times(values, totals, dispatcher)
            cells = [
                f"{totals['total_gbps'] / 1000:g}",
                sent,
                f"{packet:.3f}",
                f"{100 * share:.1f}",
                f"{optical:.3f}",
                f"{packet / optical:.3f}",
                str(totals.get("paper", "-")),
            ]
            found.append(f"| {' | '.join(cells)} |")
    return found


def main() -> int:
    """Print, write or check the table."""
    chosen = command_line(__doc__).parse_args()
    text = "\n".join([HEAD, *rows(load())]) + "\n"
    print(text, end="")
    return write_or_check({TABLE: text}, chosen.write, chosen.check)


if __name__ == "__main__":
    sys.exit(main())
