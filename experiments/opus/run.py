"""Steps on rails of circuit switches over those on electrical rails, by switching delay (Opus).

    python experiments/opus/run.py [--write | --check | --fast]

Prints the table; ``--write`` puts it into table.md, ``--fast`` checks the first job.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from one_sample import ONE_SAMPLE
from results import markdown, run, settings

from lightloom import Scenario, compare
from lightloom.cost import PartsCostModel
from lightloom.fabric import Cluster, load_fabric
from lightloom.hardware import load_power, load_prices

HERE = Path(__file__).parent
VALUES = settings(HERE)
#: what NICs do with circuits that a collective is done with
KEPT = {"no": "each collective turns", "needed": "kept until others are needed", "ahead": "ahead"}


def step_s(job: dict[str, Any], fabric: str, options: dict[str, Any]) -> float:
    """Seconds of a step."""
    scenario: dict[str, Any] = {
        "model": job["model"],
        "gpus": job["gpus"],
        "cluster": {"gpu": VALUES["gpu"], "rate_gbps": VALUES["rate_gbps"]},
        "plan": job["plan"],
        "fabrics": (fabric,),
        "fabric_options": {fabric: options},
        **ONE_SAMPLE,
    }
    if "load" in job:
        scenario["demand"] = {"source": job["load"]}
    return compare(Scenario(**scenario)).results[0].step_time_s


def longer_percent(job: dict[str, Any], kept: str, delay_s: float, rail_s: float) -> float:
    """By how much a step is longer than on electrical rails."""
    options = {**VALUES["rails"], "kept": kept, "guard_s": delay_s}
    return 100 * (step_s(job, "chronos", options) / rail_s - 1)


def networks() -> str:
    """What networks of the largest job cost and take per GPU, without NICs."""
    cluster = Cluster.of(gpus=VALUES["job"][2]["gpus"], rate_gbps=VALUES["rate_gbps"], gpu="h100")
    kinds = {"electrical rails": ("rail", {}), "photonic rails": ("chronos", VALUES["rails"])}
    found: dict[str, list[float]] = {}
    for name, (kind, options) in kinds.items():
        bill = load_fabric(kind, options).bill_of_materials(cluster)
        usd = PartsCostModel().capital_cost(bill, load_prices()).by_component_usd
        watts = PartsCostModel().power(bill, load_power()).by_component_w
        totals = [
            sum(amount for part, amount in amounts.items() if part not in left_out)
            for amounts in (usd, watts)
            for left_out in ({"nic"}, {"nic", "transceiver"})
        ]
        found[name] = [total / cluster.gpus for total in totals]
    rows = [[name, *(f"{amount:,.2f}" for amount in amounts)] for name, amounts in found.items()]
    ratios = zip(*found.values(), strict=True)
    rows.append(["times as much", *(f"{rail / circuits:.1f}" for rail, circuits in ratios)])
    parts = ["", ", without transceivers"]
    return markdown(["network", *(f"{u}{p}" for u in ("USD", "W") for p in parts)], rows)


def render(*, fast: bool = False) -> dict[Path, str]:
    """The table."""
    delays, rows = VALUES["delays_s"], []
    for job in VALUES["job"][: 1 if fast else None]:
        rail_s = step_s(job, "rail", {})
        for kept, name in KEPT.items():
            longer = [longer_percent(job, kept, delay, rail_s) for delay in delays]
            cells = [f"{percent:+.2f}" for percent in longer]
            rows.append([f"{job['model']}, {job['gpus']:,} GPUs", f"{rail_s:.3f}", name, *cells])
    head = ["job", "on electrical rails [s]", "circuits", *(f"{d * 1e3:g} ms" for d in delays)]
    text = (
        "# Steps on photonic rails, longer than on electrical ones [%]\n\nBy the delay of a"
        f" switch. Made by run.py; see [README.md](README.md).\n\n{markdown(head, rows)}"
        f"\n## Networks of 2,048 GPUs, per GPU and without NICs\n\n{networks()}"
    )
    return {HERE / "table.md": text}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
