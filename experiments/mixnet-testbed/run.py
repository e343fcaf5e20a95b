"""MixNet's prototype on a testbed in the kernel: Figures 10, 20, 21 and 22 as far as that goes.

    python experiments/mixnet-testbed/run.py --measure PYTHON   # six minutes, as root or rootless
    python experiments/mixnet-testbed/run.py [--write | --check | --fast]

``--measure`` writes measured.json, with a Python that has PyTorch; the tables are made of it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.control.emulator.timing import FixedTime, parse_settle_time
from lightloom.report.training_timeline import lit_spans
from lightloom.testbed import Testbed
from lightloom.testbed.layout import ServerLayout
from lightloom.testbed.replay import WARM_UP, ReplayJob, RuntimeDelays, replay
from lightloom.testbed.replay_simulated import simulated
from lightloom.testbed.self_test import SwitchSession, frames_between, optical_nic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from results import markdown, run, settings

HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
VALUES = settings(HERE)
QUANTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
NO_DELAYS = RuntimeDelays(0.0, 0.0, 0.0, 0.0)


def testbed(**sizes: Any) -> Testbed:
    """A testbed that is removed at the end of its context."""
    folder = Path(tempfile.mkdtemp(prefix="lightloom-"))
    values = {key: VALUES[key] for key in ("servers", "nics", "rate_gbps", "settle_time")}
    return Testbed.up(folder, **values | sizes)


def job_of(share: float) -> ReplayJob:
    """A job whose all-to-alls are this share of a step on packet NICs, as the simulator has it."""
    job = ReplayJob.drawn(
        VALUES["servers"],
        rate_gbps=VALUES["rate_gbps"],
        steps=VALUES["steps"],
        layers=VALUES["layers"],
        seed=VALUES["seed"],
        packets_s=VALUES["packets_s"],
    )
    layout = ServerLayout(
        servers=VALUES["servers"],
        nics=VALUES["nics"],
        eps_nics=VALUES["nics"],
        rate_gbps=VALUES["rate_gbps"],
        eps_gbps=VALUES["rate_gbps"],
    )
    job = dataclasses.replace(job, sum_bytes=round(VALUES["sum_share"] * job.sum_bytes / 4) * 4)
    still = dataclasses.replace(job, attention_s=0.0, experts_s=0.0)
    none = simulated(still, layout, policy="packets", settle=FixedTime(0.0), delays=NO_DELAYS)
    compute_s = none.moved_s / share - none.step_time_s
    each_s = round(max(0.0, compute_s) / (6 * job.layers), 4)
    return dataclasses.replace(job, attention_s=each_s, experts_s=each_s)


def measure_steps(python: str) -> list[dict[str, Any]]:
    """Figure 10, and of the first model Figure 20."""
    found = []
    settle = parse_settle_time(VALUES["settle_time"])
    for row in VALUES["jobs"]:
        job = job_of(row["share"])
        facts: dict[str, Any] = {"model": row["model"], "attention_s": job.attention_s}
        for name, eps_nics, policy in (
            ("packets", VALUES["nics"], "packets"),
            ("circuits", 1, "break-even"),
        ):
            with testbed(eps_nics=eps_nics) as bed:
                took, delays, steps = replay(
                    bed,
                    job,
                    policy=policy,
                    python=python,
                    settle_s=settle.expected_s(2),
                )
                expected = simulated(job, bed.layout, policy=policy, settle=settle, delays=delays)
            facts[name] = {
                "measured": dataclasses.asdict(took),
                "simulated": dataclasses.asdict(expected),
                "delays": dataclasses.asdict(delays),
                "load": round(os.getloadavg()[0], 1),
            }
            if policy == "break-even":
                facts["changes"] = changes_of(steps[WARM_UP:], job)
        found.append(facts)
    return found


def changes_of(steps: Any, job: ReplayJob) -> list[dict[str, Any]]:
    """Figure 20: for how long circuits were dark in each change, and what of it exposed a step."""
    ends = {span.down_s for span in lit_spans(steps)}
    starts = sorted({span.up_s for span in lit_spans(steps)})
    found = []
    for step in steps:
        for number, moved in enumerate(step.all_to_alls):
            if not moved["changed"]:
                continue
            up_s = max((at for at in starts if at <= moved["begin_s"]), default=None)
            down_s = max((at for at in ends if up_s is not None and at < up_s), default=None)
            if down_s is None:
                continue
            found.append(
                {
                    "pass": "forward" if number < 2 * job.layers else "backward",
                    "dark_s": up_s - down_s,
                    "exposed_s": moved["waited_s"],
                }
            )
    return found


def measure_turns() -> dict[str, Any]:
    """Figure 21: from a command to its completion, by pairs; and with mirrors of 40 ms."""
    turns, found = VALUES["turns"], {}
    for name, settle_time in (("drawn", "measured"), ("fixed", f"{turns['fixed_ms']}ms")):
        sizes = {"servers": turns["servers"], "nics": turns["nics"], "settle_time": settle_time}
        with testbed(**sizes, rate_gbps=0.02) as bed, SwitchSession(bed) as ocs:
            for count in turns["pairs"]:
                took = [turned_s(ocs, count, bed.layout.ports) for _ in range(turns["draws"])]
                found[f"{name} {count}"] = [round(1e3 * seconds, 3) for seconds in took]
    return found


def turned_s(ocs: SwitchSession, count: int, ports: int) -> float:
    """Seconds in which the switch makes cross-connects that were not there."""
    ocs.clear()
    ingress, egress = (
        "&".join(str(first + port) for port in range(1, count + 1)) for first in (0, ports)
    )
    begin = time.monotonic()
    ocs.tell(f"ENT-PATCH::{ingress},{egress}:2:;")
    return time.monotonic() - begin


def measure_activation() -> list[dict[str, float]]:
    """Figure 22: when mirrors have settled and when the first bytes come, from the command."""
    found = []
    for link_up_s in VALUES["activation"]["link_up_s"]:
        sizes = {"link_up_s": link_up_s, "settle_time": "measured"}
        with testbed(**sizes) as bed, SwitchSession(bed) as ocs:
            draws = range(VALUES["activation"]["draws"])
            found += [{"link_up_s": link_up_s, **activated_s(bed, ocs, link_up_s)} for _ in draws]
    return found


def activated_s(bed: Testbed, ocs: SwitchSession, link_up_s: float) -> dict[str, float]:
    """Seconds from a command until mirrors have settled, and until the first frame comes."""
    ends = optical_nic(bed, 0), optical_nic(bed, 1)
    ocs.clear()
    with frames_between(bed, *ends, link_up_s + 1.0) as frames:
        time.sleep(0.2)
        begin = time.monotonic()
        ocs.connect(ends)
        settled = time.monotonic()
    first_s = frames[0].received["first_s"] - begin
    return {"settled_s": settled - begin, "first_s": first_s}


def steps_table(rows: list[dict[str, Any]]) -> str:
    """Figure 10."""
    cells = []
    for row in rows:
        packets, circuits = row["packets"], row["circuits"]
        measured = [side["measured"]["step_time_s"] for side in (packets, circuits)]
        expected = [side["simulated"]["step_time_s"] for side in (packets, circuits)]
        moved = sum(one["moved_s"] for one in packets["measured"]["all_to_alls"])
        cells.append(
            [
                row["model"],
                f"{100 * moved / measured[0]:.0f}",
                *(f"{seconds:.3f}" for seconds in measured),
                f"{measured[1] / measured[0]:.3f}",
                f"{expected[1] / expected[0]:.3f}",
                f"{max(packets['load'], circuits['load']):.0f}",
            ]
        )
    header = ["all-to-alls like", "share [%]", "4 packet NICs [s]", "1 + 3 on circuits [s]"]
    return markdown([*header, "ratio", "simulated", "load"], cells)


def changes_table(rows: list[dict[str, Any]]) -> str:
    """Figure 20."""
    cells = []
    for row in rows:
        expected = 1e3 * row["circuits"]["simulated"]["exposed_s"]
        for name in ("forward", "backward"):
            changes = [one for one in row["changes"] if one["pass"] == name]
            dark, exposed = (
                f"{1e3 * statistics.median(one[key] for one in changes):.0f}" if changes else "-"
                for key in ("dark_s", "exposed_s")
            )
            simulator = f"{expected:.0f}" if name == "forward" else "0"
            cells.append([f"{row['model']}, {name}", str(len(changes)), dark, exposed, simulator])
    return markdown(["changes", "number", "dark [ms]", "exposed [ms]", "simulated [ms]"], cells)


def turns_table(found: dict[str, list[float]]) -> tuple[str, Figure]:
    """Figure 21."""
    turns, cells, lines = VALUES["turns"], [], []
    published = zip(turns["pairs"], turns["mean_ms"], turns["p99_ms"], strict=True)
    for color, (pairs, mean, p99) in enumerate(published):
        late = np.array(found[f"fixed {pairs}"]) - turns["fixed_ms"]
        drawn = np.array(found[f"drawn {pairs}"]) - late.mean()
        margin = ((drawn.var() + late.var()) / len(drawn)) ** 0.5
        cells.append(
            [
                str(pairs),
                f"{late.mean():.1f}",
                f"{drawn.mean():.1f} ± {margin:.1f}",
                f"{mean}",
                f"{np.quantile(drawn, 0.99):.0f}",
                f"{p99}",
            ]
        )
        quantiles = np.quantile(drawn, [q / 100 for q in QUANTILES])
        lines.append(Line(f"{pairs} pairs", quantiles.tolist(), color))
    figure = Figure(
        "From a command to settled circuits, on the testbed",
        "share of turns that take no longer [%]",
        "time [ms]",
        QUANTILES,
        lines,
    )
    header = ["pairs", "kernel and TL1 [ms]", "without these [ms]", "paper", "99 % below", "paper"]
    return markdown(header, cells), figure


def activation_table(found: list[dict[str, float]]) -> str:
    """Figure 22."""
    cells = []
    for link_up_s in VALUES["activation"]["link_up_s"]:
        rows = [row for row in found if row["link_up_s"] == link_up_s]
        settled, first = (statistics.median(row[key] for row in rows) for key in list(rows[0])[1:])
        share = 100 * link_up_s / first
        cells.append([f"{link_up_s:g}", f"{settled:.3f}", f"{first:.3f}", f"{share:.1f}"])
    header = ["NIC ready after [s]", "mirrors settled [s]", "first bytes [s]", "of it the NIC [%]"]
    return markdown(header, cells)


def render(*, fast: bool) -> dict[Path, str]:
    """The tables and the figure, of what was measured."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    turns, figure = turns_table(measured["turns"])
    text = (
        "# MixNet's prototype on a testbed\n\nMade by run.py of measured.json; see "
        f"[README.md](README.md). {measured['machine']}\n\n## Steps (Figure 10)\n\n"
        f"{steps_table(measured['steps'])}\n## Changes of circuits (Figure 20)\n\n"
        f"{changes_table(measured['steps'])}\n## Turns of mirrors (Figure 21)\n\n{turns}\n"
        f"## From a command to the first bytes (Figure 22)\n\n"
        f"{activation_table(measured['activation'])}"
    )
    files = {HERE / "table.md": text}
    return files if fast else {**files, HERE / "figure.svg": figure.svg(HERE)}


def measure(python: str, *names: str) -> None:
    """Measure all of it, or some parts."""
    parts = {
        "turns": measure_turns,
        "activation": measure_activation,
        "steps": lambda: measure_steps(python),
    }
    found = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    found["machine"] = f"Measured on {os.cpu_count()} cores, on {time.strftime('%Y-%m-%d')}."
    for name in names or parts:
        found[name] = parts[name]()
        MEASURED.write_text(f"{json.dumps(found)}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        sys.exit(measure(*sys.argv[2:]))
    sys.exit(run(__doc__, render))
