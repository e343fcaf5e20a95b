"""What the choice of uplinks costs, by size of messages and by degree of all-to-alls.

    python experiments/routing/run.py [--write | --check]

128 hosts under eight leaves with as many uplinks; all groups, each spread over the leaves, begin an
all-to-all at once. The *efficiency* is the time of the same flows under one switch, where there is
nothing to choose, over that under leaves and spines: what is missing to 1 was lost at uplinks.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

from lightloom.packets import Flows, PacketScenario, make_flows, simulate_flows

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import markdown, run_table  # noqa: E402

TABLE = HERE / "table.md"
HOSTS, HOSTS_PER_LEAF, RATE_GBPS = 128, 16, 400
DEGREES = (4, 8, 32)
SIZES = {"64 kB": 64_000, "512 kB": 512_000, "2 MB": 2_000_000}
SEEDS = (1, 2, 3)


class Choice(NamedTuple):
    """A transport, and how switches choose among equal paths for it."""

    transport: str
    routing: str
    title: str


CHOICES = (
    Choice("roce", "ecmp", "roce, ecmp"),
    Choice("dctcp", "ecmp", "dctcp, ecmp"),
    Choice("roce", "flowlet", "roce, flowlet"),
    Choice("roce", "adaptive", "roce, adaptive"),
    Choice("ndp", "ecmp", "ndp, sprayed"),
    Choice("uet-nscc", "ecmp", "uet-nscc, sprayed"),
)


def all_to_alls(degree: int, size: int, seed: int) -> Flows:
    """One all-to-all of every group; members of a group are as far apart as can be.

    Messages have half to one and a half times the size, and begin in the time that one takes. All
    alike and at once they would never meet, however switches choose for flows.
    """
    members = np.arange(HOSTS).reshape(degree, HOSTS // degree).T
    source, destination = np.broadcast_arrays(members[:, :, None], members[:, None, :])
    sends = source != destination
    draw = np.random.default_rng(seed)
    sizes = np.round(size * draw.uniform(0.5, 1.5, sends.sum())).astype(np.int64)
    starts = draw.uniform(0, 8 * size / (RATE_GBPS * 1e9), sends.sum())
    return make_flows(source[sends], destination[sends], sizes, starts)


def scenario(choice: Choice, seed: int, *, is_one_switch: bool) -> PacketScenario:
    """The network of a run."""
    network: dict[str, object] = {"hosts": HOSTS, "rate_gbps": RATE_GBPS, "topology": "star"}
    if not is_one_switch:
        network |= {"topology": "leaf-spine", "hosts_per_leaf": HOSTS_PER_LEAF}
        network |= {"routing": choice.routing}
    values = {"network": network, "transport": {"name": choice.transport}, "seed": seed}
    return PacketScenario.model_validate(values)


def efficiency(choice: Choice, degree: int, size: int, seed: int) -> float:
    """Time under one switch over that under leaves and spines, until the last flow ends."""
    flows = all_to_alls(degree, size, seed)
    one_switch, leaves = (
        simulate_flows(flows, scenario(choice, seed, is_one_switch=each)).end_s
        for each in (True, False)
    )
    return one_switch / leaves


def render() -> str:
    """Measure all cases and show them."""
    rows = []
    for degree in DEGREES:
        for name, size in SIZES.items():
            found = [
                mean(efficiency(choice, degree, size, seed) for seed in SEEDS) for choice in CHOICES
            ]
            rows.append([f"{degree} x {name}", *(f"{value:.2f}" for value in found)])
    header = ["members x message", *(choice.title for choice in CHOICES)]
    return (
        "# What the choice of uplinks costs\n\n"
        f"Efficiency: time under one switch over that under leaves and spines. {HOSTS} hosts of"
        f" {RATE_GBPS} Gb/s,\n{HOSTS_PER_LEAF} under each leaf, 1:1, all groups at once; messages"
        f" of 0.5 to 1.5\ntimes the size; mean of {len(SEEDS)} seeds.\n\n{markdown(header, rows)}"
    )


if __name__ == "__main__":
    sys.exit(run_table(__doc__, TABLE, render))
