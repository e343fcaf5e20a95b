"""Schedules over several circuit switches: Spectra's three steps against earlier methods.

    python experiments/spectra/run.py [--write | --check | --fast]

Prints the tables; ``--write`` puts them into table.md, ``--fast`` checks one workload.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawn_demand import dispatch_tokens
from results import markdown, run, settings

from lightloom import Scenario
from lightloom.schedule import decompose, decompose_hybrid
from lightloom.study.compare.traffic import job_traffic

HERE = Path(__file__).parent
VALUES = settings(HERE)
#: bytes that the busiest port of a demand has, and sends in a second
PORT = 10**9
#: published for one switch, and for packets beside it
EARLIER = ("Eclipse", "Solstice")
Demand = npt.NDArray[np.int64]


def scaled(demand: npt.NDArray[Any]) -> Demand:
    """The demand, with the busiest port's bytes as they are for all workloads."""
    demand = np.array(demand, dtype=float)
    np.fill_diagonal(demand, 0)
    busiest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
    return np.ceil(demand / busiest * PORT).astype(np.int64)


def standard(seed: int) -> Demand:
    """Large and small flows, each on a permutation that is drawn."""
    values, rng = VALUES["standard"], np.random.default_rng(seed)
    ports = values["ports"]
    demand = np.zeros((ports, ports))
    shares = {"large": values["large_share"], "small": 1 - values["large_share"]}
    for kind, share in shares.items():
        for _ in range(values[kind]):
            demand[np.arange(ports), rng.permutation(ports)] += share / values[kind]
    noise = rng.normal(0, values["noise"], demand.shape)
    return scaled(np.where(demand > 0, np.maximum(demand + noise, 0), 0))


def gpt(_seed: int) -> Demand:
    """What each GPU sends to each other one in a step."""
    values = VALUES["gpt"]
    job = Scenario(
        model=values["model"],
        gpus=values["gpus"],
        cluster={"gpu": values["gpu"], "rate_gbps": 400},
        plan=values["plan"],
    )
    return scaled(job_traffic(job, "gpu").matrix.total)


def moe(regime: str, seed: int) -> Demand:
    """What each EP rank sends to the others in a dispatch."""
    values = VALUES["moe"]
    tokens = dispatch_tokens(
        regime,
        seed,
        ranks=values["ranks"],
        experts=values["experts"],
        tokens_per_rank=values["tokens"],
        top_k=values["top_k"],
    )
    return scaled(tokens)


def workloads() -> Iterator[tuple[str, str, Demand]]:
    """Kind, name and demand of each."""
    for seed in VALUES["seeds"]:
        yield "standard", "standard", standard(seed)
    yield "gpt", VALUES["gpt"]["model"], gpt(0)
    for regime, seed in itertools.product(VALUES["moe"]["regimes"], VALUES["seeds"]):
        yield "moe", f"MoE, {regime}", moe(regime, seed)


# Schedules: lengths in units of what the busiest port takes on one switch


def one_switch(demand: Demand, delay: float, method: str) -> tuple[float, npt.NDArray[np.float64]]:
    """Length of an earlier method's schedule of one switch, and how long each slot is held."""
    plan = decompose_hybrid(
        demand,
        eps_gbps=8e-9 * PORT * VALUES["packet_share"],
        delay_s=delay,
        rate_gbps=8e-9 * PORT,
        method=method.lower(),
    )
    return plan.length_bytes / PORT, np.asarray(plan.holds_bytes, dtype=float) / PORT


def divided(demand: Demand, switches: int, delay: float, method: str) -> float:
    """An equal part of every pair on every switch."""
    return one_switch(-(-demand // switches), delay, method)[0]


def whole_pairs(demand: Demand, switches: int, delay: float, method: str) -> float:
    """Every pair on one switch, the largest first, where its two ports have least."""
    parts = np.zeros((switches, *demand.shape), dtype=np.int64)
    rows, columns = (np.zeros((switches, len(demand))) for _ in range(2))
    order = np.argsort(-demand, axis=None, kind="stable")[: np.count_nonzero(demand)]
    for row, column in zip(*np.unravel_index(order, demand.shape), strict=True):
        chosen = int(np.argmin(np.maximum(rows[:, row], columns[:, column])))
        size = demand[row, column]
        parts[chosen, row, column] = size
        rows[chosen, row] += size
        columns[chosen, column] += size
    return max(one_switch(part, delay, method)[0] for part in parts)


def slots_in_turn(demand: Demand, switches: int, delay: float, method: str) -> float:
    """The slots of one switch, the longest first, where least is; none is divided."""
    ends = np.zeros(switches)
    for hold in sorted(one_switch(demand, delay, method)[1], reverse=True):
        ends[ends.argmin()] += hold + delay
    return float(ends.max())


#: ways to come from one switch to several
SPREADS: Mapping[str, Callable[[Demand, int, float, str], float]] = {
    "divided": divided,
    "whole pairs": whole_pairs,
    "slots in turn": slots_in_turn,
}
BASELINES = [f"{method}, {spread}" for spread in SPREADS for method in EARLIER]


def measure(demand: Demand, switches: int, delay: float) -> dict[str, float]:
    """Length of each baseline over that of Spectra's steps, and of these over the lower bound."""
    ours = decompose(
        demand, delay_s=delay, rate_gbps=8e-9 * PORT, method="critical", switches=switches
    )
    length = ours.length_bytes / PORT
    found = {"over bound": ours.over_bound}
    for (spread, function), method in itertools.product(SPREADS.items(), EARLIER):
        found[f"{method}, {spread}"] = function(demand, switches, delay, method) / length
    return found


def mean(ratios: list[float]) -> str:
    """Their geometric mean."""
    return f"{np.exp(np.mean(np.log(ratios))):.2f}"


def cells(fast: bool) -> dict[tuple[str, str, int, float], dict[str, list[float]]]:
    """Ratios by kind, workload, switches and delay; one workload if in haste."""
    found: dict[tuple[str, str, int, float], dict[str, list[float]]] = {}
    for kind, name, demand in workloads():
        if fast and kind != "gpt":
            continue
        for switches, delay in itertools.product(VALUES["switches"], VALUES["delays"]):
            ratios = found.setdefault((kind, name, switches, delay), {})
            for what, ratio in measure(demand, switches, delay).items():
                ratios.setdefault(what, []).append(ratio)
    return found


def gathered(
    found: Mapping[tuple[str, str, int, float], Mapping[str, list[float]]], place: int, what: str
) -> dict[Any, list[float]]:
    """One ratio by kind, workload, switches or delay."""
    sums: dict[Any, list[float]] = {}
    for key, ratios in found.items():
        sums.setdefault(key[place], []).extend(ratios[what])
    return sums


def render(*, fast: bool = False) -> dict[Path, str]:
    """The tables."""
    found = cells(fast)
    kinds = list(dict.fromkeys(key[0] for key in found))
    published = VALUES["published"]
    rows = [
        [kind, f"{published[kind]}", *(mean(gathered(found, 0, b)[kind]) for b in BASELINES)]
        for kind in kinds
    ]
    bound = {kind: gathered(found, 0, "over bound")[kind] for kind in kinds}
    near = [[k, mean(r), f"{np.quantile(r, 0.9):.2f}", f"{max(r):.2f}"] for k, r in bound.items()]
    more = []
    for kind, s in itertools.product(kinds, VALUES["switches"]):
        of = {key: ratios for key, ratios in found.items() if key[0] == kind and key[2] == s}
        spans = [gathered(of, 3, b) for b in ("Eclipse, divided", "over bound")]
        more += [
            [f"{kind}, {s} switches", what, *(mean(span[delay]) for delay in VALUES["delays"])]
            for what, span in zip(
                ("Eclipse, divided, over ours", "ours over the bound"), spans, strict=True
            )
        ]
    head = ["delay over the busiest port's time", "length", *(f"{d:g}" for d in VALUES["delays"])]
    text = (
        "# Schedules over several circuit switches\n\nMade by run.py; see [README.md](README.md).\n"
        "\n## How many times as long earlier methods are\n\nGeometric mean over"
        f" {len(VALUES['switches'])} numbers of switches, {len(VALUES['delays'])} delays and"
        f" {len(VALUES['seeds'])} draws.\n\n"
        + markdown(["workload", "published", *BASELINES], rows)
        + "\n## Length over the lower bound\n\n"
        + markdown(["workload", "mean", "90 % below", "largest"], near)
        + "\n## By switches and delay\n\n"
        + markdown(head, more)
    )
    return {HERE / "table.md": text}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
