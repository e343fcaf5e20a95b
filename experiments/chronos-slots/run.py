"""The length of time slots and what they lose: Chronos, section 6.

    python experiments/chronos-slots/run.py [--write | --check]

The examples of the paper, the efficiency by guard time and size, and a step of the job of
experiments/chronos-straggler with slots of several lengths (a minute or two).
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "chronos-straggler")]
import steps  # noqa: E402
from results import command_line, write_or_check  # noqa: E402

from lightloom.trace.slots import SlotTiming  # noqa: E402
from lightloom.units import show_time  # noqa: E402

TABLE = HERE / "table.md"
STRAGGLER = HERE.parent / "chronos-straggler" / "experiment.toml"
Values = dict[str, Any]


def load() -> Values:
    """The settings."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def chunk_bytes(chunks: Values, one: Values) -> float:
    """Bytes of the smallest transfer: gradients of a layer in FP32, over TP and DP."""
    return float(4 * chunks["layer_parameters"] / (one["tp"] * one["dp"]))


def examples(values: Values) -> list[str]:
    """What section 6 says, and what its formulas give."""
    chunks = values["chunks"]
    rate = SlotTiming(chunks["rate_gbps"], 0.0, 0.0)
    lines = [
        "## The smallest transfer (CH1)",
        "",
        "| GPUs | TP | DP | b [MB] | b/c [us] |",
        "|---:|---:|---:|---:|---:|",
    ]
    for one in chunks["configurations"]:
        size = chunk_bytes(chunks, one)
        cells = (
            one["gpus"],
            one["tp"],
            one["dp"],
            f"{size / 1e6:g}",
            f"{rate.sending_s(size) * 1e6:g}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "## Examples (CH2 to CH4)",
        "",
        "| example | the paper | slot [us] | efficiency [%] | lost [%] |",
        "|---|---:|---:|---:|---:|",
    ]
    for one in values["examples"]:
        timing = SlotTiming(one["rate_gbps"], one["latency_s"], one["guard_s"])
        share = 100 * timing.efficiency(one["size_bytes"])
        slot_us = timing.slot_s(one["size_bytes"]) * 1e6
        lines.append(
            f"| {one['what']} | {one['paper']} | {slot_us:.2f} | {share:.2f} | {100 - share:.2f} |"
        )
    return lines


def efficiencies(options: Values) -> list[str]:
    """The share of a slot in which data is sent, and the size for nine tenths."""
    sizes = options["sizes_bytes"]
    heads = " | ".join(f"{size / 1e6:g} MB" for size in sizes)
    lines = [
        "",
        f"## Efficiency [%] at {options['rate_gbps']} Gb/s",
        "",
        f"| to turn | latency | {heads} | 90 % from [MB] |",
        f"|---|---|{'---:|' * (len(sizes) + 1)}",
    ]
    for guard_s in options["guards_s"]:
        for latency_s in options["latencies_s"]:
            timing = SlotTiming(options["rate_gbps"], latency_s, guard_s)
            cells = " | ".join(f"{100 * timing.efficiency(size):.1f}" for size in sizes)
            needed = timing.size_for(0.9) / 1e6
            ends = f"{show_time(guard_s)} | {show_time(latency_s)}"
            lines.append(f"| {ends} | {cells} | {needed:.3g} |")
    return lines


def step_values(options: Values) -> Values:
    """The job of the other experiment, on a fat-tree and with slots of these lengths."""
    values: Values = tomllib.loads(STRAGGLER.read_text(encoding="utf-8"))["step"]
    values["jobs"] = [job for job in values["jobs"] if job["name"] == options["job"]]
    values["fabrics"] = [{"name": "fat-tree", "kind": "fat-tree"}]
    for slot_s in options["slots_s"]:
        own = {"slot_s": slot_s} if slot_s else {}
        name = show_time(slot_s) if slot_s else "as needed"
        values["fabrics"].append({"name": name, "kind": "chronos", "options": own})
    return values


def step_lines(found: steps.Steps) -> list[str]:
    """A step by the length of its slots."""
    job = next(iter(found))[0]
    base, fitted = found[job, "fat-tree"][0], found[job, "as needed"][0]
    lines = [
        "",
        f"## A whole step by the length of slots: {job}",
        "",
        "| slots | step [s] | over fat-tree | lost to one length [%] | all-to-all [s] | rings [s]"
        " |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for (_, name), (step, all_to_all, rings, *_others) in found.items():
        lost = "" if name == "fat-tree" else f"{100 * (step / fitted - 1):.1f}"
        lines.append(
            f"| {name} | {step:.3f} | {step / base:.3f} | {lost} | {all_to_all:.3f} | {rings:.3f} |"
        )
    return lines


def main() -> int:
    """Calculate, simulate, print, write or check."""
    options = command_line(__doc__).parse_args()
    values = load()
    found = steps.simulate_all(step_values(values["step"]), {})
    lines = ["# Time slots", "", *examples(values), *efficiencies(values["efficiency"])]
    text = "\n".join([*lines, *step_lines(found), ""])
    print(text, end="")
    return write_or_check({TABLE: text}, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
