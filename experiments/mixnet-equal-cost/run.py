"""MixNet at equal cost: by optical degree (D.6), and against a rail (mFabric, Figure 18).

    python experiments/mixnet-equal-cost/run.py [--write | --check | --fast]

Prints the tables; ``--write`` puts them into table.md and draws figure.svg.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lightloom.cost import PartsCostModel
from lightloom.fabric import Cluster, Counting, load_fabric
from lightloom.hardware import load_prices

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from one_sample import one_step
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)
RATE = float(VALUES["rate_gbps"])
#: a skewed load is named by its regime
WORDS = {"balanced": "balanced", "mixtral": "skewed"}


@cache
def cost(name: str, own: bool = False, **options: Any) -> float:
    """Network cost of a GPU, $: by the paper's counting, or by ours."""
    cluster = Cluster.of(gpus=VALUES["gpus"], rate_gbps=RATE, gpu=VALUES["gpu"])
    counting = Counting() if own else Counting(tiers=VALUES["tiers"])
    base = VALUES["mixnet" if name == "mixnet" else "tree"]
    bill = load_fabric(name, {**base, **options}).bill_of_materials(cluster, counting)
    return PartsCostModel().capital_cost(bill, load_prices().affine()).per_gpu_usd


def solve(cost_of: Callable[[float], float], target: float, ends: tuple[float, float]) -> float:
    """Where costs that grow from the first end to the other reach the target."""
    low, high = ends
    while abs(high - low) > 1e-9 * abs(high):
        middle = (low + high) / 2
        low, high = (middle, high) if cost_of(middle) <= target else (low, middle)
    return low


@cache
def target() -> float:
    """What all networks are to cost: MixNet with every NIC at the same rate."""
    return cost("mixnet", ports=VALUES["degree"]["equal_to"])


@cache
def packet_gbps(degree: int) -> float:
    """Rate of the packet NICs with which a degree costs what the others cost."""

    def cost_of(rate: float) -> float:
        return cost("mixnet", ports=degree, eps_nic_gbps=rate)

    return float(f"{solve(cost_of, target(), (10.0, 400.0)):.6g}")


def step_s(model: str, gpus: int, load: str, fabric: str, options: Mapping[str, Any]) -> float:
    """Seconds of a step."""
    base = VALUES["mixnet" if fabric == "mixnet" else "tree"]
    counting = {"tiers": VALUES["tiers"], "between_rates": "affine"}
    fabrics = {fabric: {**base, **options}}
    return (
        one_step(VALUES, model, fabrics, load, gpus=gpus, counting=counting).results[0].step_time_s
    )


def degrees(*, fast: bool) -> tuple[str, Figure]:
    """Steps by optical degree, at equal cost and with equal NICs."""
    values = VALUES["degree"]
    chosen = values["degrees"][:: 6 if fast else 1]
    found: dict[tuple[str, bool], list[float]] = {}
    rows = []
    for degree in chosen:
        rate = packet_gbps(degree)
        options = {"ports": degree, "eps_nic_gbps": rate}
        own = cost("mixnet", own=True, **options) * VALUES["gpus"] / 1e6
        cells = [str(degree), str(values["nics"] - degree), f"{rate:.1f}", f"{own:.2f}"]
        for is_equal in (True, False):
            for load in VALUES["loads"]:
                nics = options if is_equal else {"ports": degree}
                time_s = step_s(values["model"], VALUES["gpus"], load, "mixnet", nics)
                found.setdefault((load, is_equal), []).append(time_s)
                cells.append(f"{time_s:.2f}")
        rows.append(cells)
    header = ["optical degree", "packet NICs", "packet NICs [Gb/s]", "our counting [M$]"]
    header += [f"{WORDS[load]}, equal cost [s]" for load in VALUES["loads"]]
    header += [f"{WORDS[load]}, equal NICs [s]" for load in VALUES["loads"]]
    lines = [
        Line(
            f"{WORDS[load]}, {'equal cost' if is_equal else 'equal NICs'}",
            [time_s / times[0] for time_s in times],
            VALUES["loads"].index(load),
            is_dashed=not is_equal,
        )
        for (load, is_equal), times in found.items()
    ]
    figure = Figure(
        "More circuits shorten steps at equal cost, and lengthen them with equal NICs",
        "optical NICs of a server",
        "step / step with one optical NIC",
        chosen,
        lines,
    )
    return markdown(header, rows), figure


def rail_networks() -> dict[str, tuple[str, dict[str, Any], float]]:
    """Packet networks that cost what MixNet does: fabric, options, and the bound of the gain.

    The bound is MixNet as fast as a full rail and nothing but communication: the rate of the NICs
    over that of the network's narrowest links.
    """

    def cost_at(rate: float) -> float:
        return cost("rail", rate_gbps=rate)

    def cost_with(ratio: float) -> float:
        return cost("oversub", ratio=ratio)

    affine = float(f"{solve(cost_at, target(), (10.0, RATE)):.6g}")
    share = float(f"{RATE * target() / cost('rail'):.6g}")
    ratio = float(f"{solve(cost_with, target(), (20.0, 1.0)):.6g}")
    return {
        f"rail of {affine:.1f} Gb/s: prices on the line through 100 and 200 Gb/s": (
            "rail", {"rate_gbps": affine}, RATE / affine,
        ),
        f"rail of {share:.1f} Gb/s: prices in proportion to the rate": (
            "rail", {"rate_gbps": share}, RATE / share,
        ),
        f"tree of 100 Gb/s, {ratio:.2f}:1 at the ToR": ("oversub", {"ratio": ratio}, ratio),
    }  # fmt: skip


def rails(*, fast: bool) -> str:
    """MixNet's tokens per second over those of packet networks of the same cost."""
    values = VALUES["rail"]
    rows = []
    for gpus in values["gpus"][: 1 if fast else None]:
        ours = {load: step_s(values["model"], gpus, load, "mixnet", {}) for load in VALUES["loads"]}
        for name, (fabric, options, bound) in rail_networks().items():
            gains = [
                step_s(values["model"], gpus, load, fabric, options) / ours[load]
                for load in VALUES["loads"]
            ]
            cells = [name, f"{gpus:,}", *(f"{gain:.3f}" for gain in gains), f"{bound:.2f}"]
            rows.append([*cells, f"{values['published']}"])
    header = ["packet network", "GPUs", *(WORDS[load] for load in VALUES["loads"])]
    return markdown([*header, "at most", "paper"], rows)


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    text, figure = degrees(fast=fast)
    model = VALUES["degree"]["model"]
    text = (
        "# MixNet at equal cost\n\nMade by run.py; see [README.md](README.md).\n\n"
        f"## Optical degree (MixNet, D.6), {model}\n\n"
        f"By the paper's counting each network costs ${target() * 8:,.0f} a server where costs"
        f" are equal.\n\n{text}\n"
        f"## Tokens per second over packet networks of equal cost (mFabric, Figure 18), "
        f"{VALUES['rail']['model']}\n\n{rails(fast=fast)}"
    )
    return figure.beside(HERE, text, fast=fast)


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
