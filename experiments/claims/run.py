"""Write docs/claims.md: every checkable claim of the papers, ours beside it, and a verdict.

Run from anywhere: ``python experiments/claims/run.py --write``. Numbers in braces in claims.toml
are measured here; the others must stand in the file that a claim names as its source.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from results import ROOT, command_line, write_or_check

from lightloom.cost import PartsCostModel
from lightloom.fabric import Cluster, Counting, load_fabric
from lightloom.hardware import load_prices
from lightloom.hardware.switches import measured_turnaround
from lightloom.inputs.strict import Strict, check
from lightloom.schedule import allocate
from lightloom.simulate import simulate
from lightloom.study.compare.equal_cost import fastest_rate_gbps
from lightloom.workload.programs.phases import Phase, PhaseSequence, phase_graph

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "claims.md"
PORTS = {"switch_ports": 64}

Text = Annotated[str, Field(min_length=1)]
Measure = Callable[[], float]
#: numbers of claims by name
MEASURES: dict[str, Measure] = {}


class Claim(Strict):
    """A claim and what comes of it."""

    id: Text
    paper: Text
    where: Text
    claim: Text
    published: Text
    ours: Text
    verdict: Literal["reproduced", "in part", "refuted", "not tested"]
    decides: Text
    source: Text | None = None
    command: Text | None = None


def measure(function: Measure) -> Measure:
    """Let claims name a function's result."""
    MEASURES[function.__name__] = function
    return function


# MixNet: costs by the paper's counting


@cache
def cost(name: str, rate_gbps: float, gpus: int = 1024, **counting: Any) -> float:
    """Network cost of a GPU, USD."""
    options = {"topoopt": {"panel": "flat"}}.get(name, PORTS)
    cluster = Cluster.of(gpus=gpus, rate_gbps=rate_gbps, gpu="a100")
    bill = load_fabric(name, options).bill_of_materials(
        cluster, Counting(**{"tiers": 3, **counting})
    )
    return PartsCostModel().capital_cost(bill, load_prices().affine()).per_gpu_usd


def tree_over_mixnet(*rates_gbps: float, gpus: int = 1024, **counting: Any) -> float:
    """The mean ratio of costs over rates."""
    ratios = [
        cost("fat-tree", rate, gpus, **counting) / cost("mixnet", rate, gpus, **counting)
        for rate in rates_gbps
    ]
    return float(np.mean(ratios))


@measure
def rail_gbps() -> float:
    """The rate at which a rail costs what MixNet of 100 Gb/s does."""
    return fastest_rate_gbps(lambda rate: cost("rail", rate), cost("mixnet", 100))


@measure
def rail_of_equal_cost() -> float:
    """A step that is communication alone, over a network that is as fast by the rate."""
    return 100 / rail_gbps()


@measure
def circuits_of_eight() -> int:
    """Circuits of a balanced demand of eight servers, as many as their ports have."""
    demand = np.full((8, 8), 10**8)
    np.fill_diagonal(demand, 0)
    found = allocate(demand, ports=6, circuit_gbps=400, eps_gbps=800)
    return int(np.triu(found.circuits).sum())


# MoNTA: the paper's own equations, with a pair of nodes of eight GPUs (e = 2, t = 8)

MB, SLOW, FAST, COPY = 1e6, 25e9, 200e9, 1.6e12


def all_to_all(size: float, efficiency: float) -> float:
    """Half of a buffer leaves the node."""
    return size / 2 / (SLOW * efficiency)


def gather(size: float, efficiency: float) -> float:
    """Seven eighths of a buffer come from the other GPUs of a node."""
    return size * 7 / 8 / (FAST * efficiency)


CHUNK = all_to_all(8 * MB, 0.427), gather(64 * MB, 0.726), 64 * MB / (COPY * 0.8)


def pipeline(stages: tuple[float, ...], chunks: int) -> float:
    """Chunks through stages that run side by side."""
    return sum(stages) + (chunks - 1) * max(stages)


STRATEGIES = {
    "o1": all_to_all(32 * MB, 0.632) + gather(256 * MB, 0.776),
    "o2": pipeline((CHUNK[0], CHUNK[1] + CHUNK[2]), 4),
    "o3": pipeline(CHUNK, 4),
}


for _name, _seconds in STRATEGIES.items():
    MEASURES[f"monta_{_name}"] = lambda s=_seconds: s / all_to_all(256 * MB, 0.741)
for _name, _efficiency in {"o1": 0.632, "o2": 0.427, "o3": 0.427}.items():
    MEASURES[f"monta_equal_{_name}"] = lambda s=STRATEGIES[_name], r=_efficiency: (
        s / all_to_all(256 * MB, r)
    )


def monta_ratio(tokens: int) -> float:
    """The third strategy over the baseline, with efficiencies as start-up times (four chunks)."""
    size = 256 * MB * tokens / 8192

    def first(bytes_: float) -> float:
        return all_to_all(bytes_, 0.7566 / (1 + 6.18 * MB / bytes_))

    def second(bytes_: float) -> float:
        return gather(bytes_, 0.794 / (1 + 6.02 * MB / bytes_))

    chunk = first(size / 32), second(size / 4), size / 4 / (COPY * 0.8)
    return pipeline(chunk, 4) / first(size)


@measure
def monta_states_gb() -> float:
    """16 bytes of each parameter: dense ones over d = 2 with ZeRO-3, experts over d / e = 1.

    Both over TP 8: 12.6 G dense parameters, and 112.7 G of experts, of which a rank has half.
    """
    return (12.6 / 8 / 2 + 112.7 / 8 / 2) * 16


# Chronos


@measure
def chronos_mems_mb() -> float:
    """Bytes whose transfer takes three times as long as what is lost."""
    return 3 * (1e-3 + 1e-6) * 400e9 / 8 / MB


@measure
def chronos_top_four() -> float:
    """The share of the four most popular of 16 experts, of lognormal popularity (sigma 1)."""
    popularity = np.sort(np.exp(np.random.default_rng(0).standard_normal((200_000, 16))), axis=1)
    shares = popularity[:, -4:].sum(axis=1) / popularity.sum(axis=1)
    return float(np.quantile(shares, 0.99))


@measure
def ideal_packets() -> float:
    """Max-min fair flows of six GPUs over the busiest port, which circuits need no longer than."""
    demand = np.array(
        [[0, 1, 3, 0, 0, 1], [1, 0, 0, 0, 0, 2], [2, 2, 0, 0, 1, 2],
         [3, 3, 0, 0, 0, 3], [2, 0, 3, 0, 0, 1], [1, 1, 3, 0, 2, 0]]
    )  # fmt: skip
    size, rate = 10**10, 100e9 / 8
    source, destination = np.nonzero(demand)
    phase = Phase(source, destination, size * demand[source, destination])
    cluster = Cluster.of(gpus=6, rate_gbps=100, gpu="a100", gpus_per_server=1, nics_per_server=1)
    network = load_fabric("fat-tree", {"interconnect": "ideal"}).network(cluster)
    step = simulate(phase_graph(PhaseSequence(6, (phase,), "transfers"), 1), network)
    busiest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
    return step.step_time_s / (float(busiest) * size / rate)


# X-NEST+


def core_switches(k: int) -> int:
    """Switches of the fabric that join ToRs of several pods, of k each."""
    cluster = Cluster.of(gpus=k**2, rate_gbps=25, gpu="a100", gpus_per_server=1, nics_per_server=1)
    network = load_fabric("x-nest-plus", {"k": k, "servers_per_rack": 1}).network(cluster)
    (racks,) = network.parts
    return sum(count for joined, count in racks.banks if joined[0] // k != joined[-1] // k)


@measure
def xnest_rounded() -> int:
    """Half to even, as the function of that name rounds."""
    return sum(round(share * 10 / 2) for share in (0.5, 0.2, 0.15, 0.1, 0.05))


# Numbers that are one expression

MEASURES |= {
    "tree_over_mixnet_400": lambda: tree_over_mixnet(400),
    "mixnet_over_topoopt_400": lambda: cost("mixnet", 400) / cost("topoopt", 400),
    "two_nics_percent": lambda: 100 * 5.7e-4**2,
    "turn_ms_1": lambda: 1e3 * measured_turnaround(1).mean_s,
    "turn_ms_4": lambda: 1e3 * measured_turnaround(4).mean_s,
    "turn_ms_16": lambda: 1e3 * measured_turnaround(16).mean_s,
    "monta_base_ms": lambda: 1e3 * all_to_all(256 * MB, 0.741),
    "monta_eq13": lambda: 7 / 32,
    "monta_chunk_ratio": lambda: CHUNK[0] / CHUNK[1],
    "monta_256k": lambda: monta_ratio(262_144),
    "monta_speed_up": lambda: 1 / monta_ratio(262_144),
    "chronos_chunk_us": lambda: 4 * 2.8e9 / (8 * 128) / (800e9 / 8) * 1e6,
    "xnest_core_4": lambda: core_switches(4),
    "xnest_core_8": lambda: core_switches(8),
    "xnest_optical_6": lambda: 100 * (6 // 4),
    "xnest_servers_6": lambda: 25 * 6,
    "xnest_half": lambda: 10 // 2,
    "tree_over_mixnet_mean": lambda: tree_over_mixnet(100, 200, 400, 800),
    "tree_over_mixnet_dac": lambda: tree_over_mixnet(400, gpus=4096, host_links="dac"),
    "chronos_loss_percent": lambda: 100 / (1 + 109.375e-6 / (10e-6 + 10e-9)),
}

# The page


def number_of(name: str) -> float:
    """A measure, which claims and each other use."""
    if name not in MEASURES:
        raise SystemExit(f"no measure '{name}'; known: {', '.join(sorted(MEASURES))}")
    return MEASURES[name]()


class Numbers(dict[str, float]):
    """Measures that are taken when they are asked for."""

    def __missing__(self, name: str) -> float:
        return number_of(name)


def filled(text: str) -> str:
    """The text with its measures."""
    return text.format_map(Numbers())


def quoted(claim: Claim) -> None:
    """Refuse numbers that neither are measured nor stand in the source of a claim."""
    numbers = re.findall(r"\d[\d,.]*\d|\d", re.sub(r"\{[^}]*\}", "", claim.ours))
    if not numbers or claim.source is None:
        return
    source = (ROOT / claim.source).read_text(encoding="utf-8")
    missing = [number for number in numbers if number not in source]
    if missing:
        raise SystemExit(f"{claim.id}: {', '.join(missing)} is not in {claim.source}")


def claims() -> list[Claim]:
    """All claims, checked."""
    rows = tomllib.loads((HERE / "claims.toml").read_text(encoding="utf-8"))["claim"]
    found = [check(Claim, row, "claims.toml") for row in rows]
    for claim in found:
        quoted(claim)
    return found


def render() -> str:
    """The page."""
    found = claims()
    counts = Counter(claim.verdict for claim in found)
    total = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    lines = [
        "# Claims, and what comes of them",
        "",
        "Claims of five papers that can be checked without their hardware: the published number,"
        " ours, a verdict, and",
        "what decides it. The tables are made by `python experiments/claims/run.py --write`.",
        "",
        f"{len(found)} claims: {total}. *In part*: it holds under some of the assumptions that the"
        " paper allows.",
        "",
    ]
    for paper in dict.fromkeys(claim.paper for claim in found):
        head = "| where | claim | published | here | verdict | what decides it |"
        lines += [f"## {paper}", "", head, "|---|---|---|---|---|---|"]
        for claim in (claim for claim in found if claim.paper == paper):
            decides = filled(claim.decides)
            links = []
            if claim.source is not None:
                links.append(f"[source](../{claim.source})")
            if claim.command is not None:
                links.append(f"`{claim.command}`")
            more = f" ({'; '.join(links)})" if links else ""
            lines.append(
                f"| {claim.where} | {claim.claim} | {claim.published} | {filled(claim.ours)} | "
                f"{claim.verdict} | {decides}{more} |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    arguments = command_line(__doc__).parse_args()
    text = render()
    if not (arguments.write or arguments.check):
        print(text)
    raise SystemExit(write_or_check({PAGE: text}, arguments.write, arguments.check))
