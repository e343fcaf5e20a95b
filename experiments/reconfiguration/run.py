"""What each policy of switching circuits gains over circuits that are never switched.

    python experiments/reconfiguration/run.py [--write | --check]

Runs one sample of every case of ``experiment.toml`` on MixNet under each policy, with first
all-to-alls that reuse circuits and with predicted ones, and prints the table; ``--write`` puts it
into table.md, ``--check`` says whether it is what is there.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightloom

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import command_line, write_or_check  # noqa: E402

TABLE = HERE / "table.md"
#: policy and treatment of first all-to-alls, by column; all are held against the first
NEVER = ("never", "reuse")
COLUMNS = (
    ("always", "reuse"),
    ("per-layer", "reuse"),
    ("break-even", "reuse"),
    ("always", "predict"),
    ("break-even", "predict"),
    ("oracle", "reuse"),
)


def steps(
    values: Mapping[str, Any], case: Mapping[str, Any], delay_s: float
) -> dict[tuple[str, str], float]:
    """Step time of a case with a switching delay, s, by policy and first all-to-alls."""
    found: dict[tuple[str, str], float] = {}
    for first in ("reuse", "predict"):
        options = {
            "fixed_s": delay_s,
            "link_up_s": values["link_up_s"],
            "first": first,
            "split": True,
            "switch_ports": 64,
        }
        comparison = lightloom.compare(
            case["model"],
            gpus=values["gpus"],
            rate=case["rate_gbps"],
            fabrics=["mixnet"],
            cluster={"gpu": values["gpu"]},
            plan={"micro_batches": values["micro_batches"], **case.get("plan", {})},
            demand={"source": case["demand"]},
            fabric_options={"mixnet": options},
            seeds=1,
            compute_spread=0.0,
            imbalances=False,
            whole_steps=True,
        )
        (result,) = comparison.results
        found |= {(one.when, first): one.step_time_s for one in result.policies}
    return found


def row(case: Mapping[str, Any], delay_s: float, found: Mapping[tuple[str, str], float]) -> str:
    """A row of the table: seconds of ``never``, and the change of the others in percent."""
    never = found[NEVER]
    changes = [100 * (found[column] / never - 1) for column in COLUMNS]
    delay = f"{1e3 * delay_s:g} ms" if delay_s >= 1e-3 else f"{1e6 * delay_s:g} us"
    cells = [f"{case['model']}, {case['demand']}", str(case["rate_gbps"]), delay, f"{never:.2f}"]
    # no minus in front of a zero
    cells += [f"{change:+.2f}" if abs(change) >= 0.005 else "0.00" for change in changes]
    return f"| {' | '.join(cells)} |"


def render(values: Mapping[str, Any]) -> str:
    """Run all cases and show them."""
    titles = [f"{policy}, {first}" for policy, first in COLUMNS[:-1]]
    lines = [
        "# What switching circuits gains",
        "",
        "Step time relative to that of circuits that are never switched, in percent; negative is"
        " faster. Made by run.py.",
        "",
        f"| model, demand | rate [Gb/s] | delay | never [s] | {' | '.join(titles)} | oracle |",
        f"|---|---:|---:|---:|{'---:|' * len(COLUMNS)}",
    ]
    for case in values["cases"]:
        for delay_s in case["delays_s"]:
            lines.append(row(case, delay_s, steps(values, case, delay_s)))
            print(lines[-1], file=sys.stderr)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print, write or check the table."""
    arguments = command_line(__doc__).parse_args()
    values = tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))
    text = render(values)
    print(text)
    return write_or_check({TABLE: text}, arguments.write, arguments.check)


if __name__ == "__main__":
    sys.exit(main())
