"""Write docs/claims.md: every checkable claim of the papers, ours beside it, and a verdict.

MoNTA's numbers, by the names of its claims, are a table of docs/explanation/against-the-papers.md
as well.

Run from anywhere: ``python experiments/claims/run.py --write``. Numbers in braces in claims.toml
are measured here; the others must stand in the file that a claim names as its source.
"""

from __future__ import annotations

import math
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

import monta
from one_sample import one_step
from results import ROOT, command_line, replace_between, settings, write_or_check

from lightloom.cost import PartsCostModel
from lightloom.fabric import Cluster, Counting, load_fabric
from lightloom.hardware import load_gpu, load_prices
from lightloom.hardware.switches import measured_turnaround
from lightloom.inputs.strict import Strict, check
from lightloom.planner.formulas import FormulaJob, FormulaRow
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.schedule import allocate
from lightloom.simulate import simulate
from lightloom.study.compare.equal_cost import fastest_rate_gbps
from lightloom.study.compare.results import FabricResult
from lightloom.workload.programs.phases import Phase, PhaseSequence, phase_graph

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "claims.md"
AGAINST = ROOT / "docs" / "explanation" / "against-the-papers.md"
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


@measure
def public_imbalance() -> float:
    """Tokens of the busiest of eight experts over the mean, in the one matrix that is public."""
    path = ROOT / "experiments" / "mixnet-fig12" / "experiment.toml"
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    received = np.array(values["token_matrix"]["rows"]).sum(axis=0)
    return float(received.max() / received.mean())


# MoNTA: the planner, on the paper's pair of servers of eight GPUs


def monta_equal(strategy: AllToAllStrategy, parts: int) -> float:
    """A strategy over a baseline at the rate that an all-to-all of so many parts reaches."""
    size = monta.volume(8192).between_bytes
    reached = size / parts / monta.all_to_alls().cluster.all_to_all.time_s(size / parts)
    return monta.all_to_alls().time_s(strategy, monta.volume(8192), monta.CHUNKS) / (size / reached)


@measure
def monta_base_ms() -> float:
    """The baseline of table 8."""
    return monta.all_to_alls().time_s(AllToAllStrategy.BASELINE, monta.volume(8192)) * 1e3


def monta_stage_ms(at: int, *, parts: int = monta.CHUNKS, bytes_per_s: float = 0.0) -> float:
    """An all-to-all, gather or copy of table 8, a copy at another rate if wanted."""
    part = monta.volume(8192).part(1 / parts)
    if bytes_per_s:
        return 1e3 * part.gathered_bytes / bytes_per_s
    return 1e3 * monta.all_to_alls().stages_s(AllToAllStrategy.O3, part)[at]


def monta_limit(*, reached: bool) -> float:
    """An all-to-all over its gather in the limit of many bytes, at the rates that are reached."""
    cluster = monta.all_to_alls().cluster
    send_gbps, gather_gbps = (
        (cluster.all_to_all.rate_gbps, cluster.gather.rate_gbps)
        if reached
        else (monta.NIC_GBPS, monta.NVLINK_GBPS)
    )
    sent = (monta.EP - 1) / monta.EP / monta.TP / send_gbps
    return sent / ((monta.TP - 1) / monta.TP / gather_gbps)


def monta_search(*, printed: bool) -> tuple[int, float]:
    """Chunks and milliseconds of Algorithm 1 at 256K, down to 1 MB of an all-to-all.

    As printed it sets the time to the least one, and not the other way round.
    """
    runs, whole = monta.all_to_alls(), monta.volume(2**18)
    best, least_s, chunks, time_s = 0, math.inf, 0, math.inf
    while whole.between_bytes / monta.TP / (chunks + 1) >= 1e6:
        chunks += 1
        time_s = runs.time_s(AllToAllStrategy.O2, whole, chunks)
        if time_s < least_s:
            if printed:
                time_s = least_s
            else:
                best, least_s = chunks, time_s
    return (chunks, 1e3 * time_s) if printed else (best, 1e3 * least_s)


@measure
def monta_chunk_ratio() -> float:
    """A chunk's all-to-all over its gather."""
    return monta_stage_ms(0) / monta_stage_ms(1)


for _name, _parts in (("O1", 8), ("O2", 32), ("O3", 32)):
    _strategy = AllToAllStrategy(_name)
    MEASURES[f"monta_{_name.lower()}"] = lambda s=_strategy: monta.ratio(s, 8192)
    MEASURES[f"monta_equal_{_name.lower()}"] = lambda s=_strategy, n=_parts: monta_equal(s, n)


@measure
def monta_256k() -> float:
    """The third strategy at 256K, with the costs of a chunk that are fitted to the choice."""
    return monta.ratio(AllToAllStrategy.O3, 2**18, fitted=True)


@measure
def monta_speed_up() -> float:
    """How much faster the fastest of the paper's strategies is at most, with four chunks."""
    return 1 / monta.ratio(AllToAllStrategy.O3, 2**18)


@cache
def monta_step(strategy: AllToAllStrategy) -> FabricResult:
    """A step of two experts of 70B on 16 A100, which are A800 but for their NVLink."""
    plan = {"tp": 8, "pp": 1, "ep": 2, "seq_len": 8192, "strategy": strategy.value}
    values = {"gpus": 16, "gpu": "a100", "rate_gbps": 200, "micro_batches": 1}
    model = str(HERE / "two-70b" / "config.json")
    return one_step(values, model, {"fat-tree": {}}, "balanced", plan=plan).results[0]


def monta_share(strategy: AllToAllStrategy) -> float:
    """All-to-alls, % of a step."""
    result = monta_step(strategy)
    return 100 * result.critical_path_s["ep"] / result.step_time_s


def monta_saved(strategy: AllToAllStrategy) -> float:
    """By how many % of the baseline's step another strategy's is shorter."""
    baseline = monta_step(AllToAllStrategy.BASELINE)
    return 100 * (1 - monta_step(strategy).step_time_s / baseline.step_time_s)


MEASURES["monta_share_baseline"] = lambda: monta_share(AllToAllStrategy.BASELINE)
MEASURES["monta_share_o1"] = lambda: monta_share(AllToAllStrategy.O1)
MEASURES["monta_step_saved"] = lambda: monta_saved(AllToAllStrategy.O1)
MEASURES["monta_step_saved_o2"] = lambda: monta_saved(AllToAllStrategy.O2)
MEASURES["monta_step_saved_o3"] = lambda: monta_saved(AllToAllStrategy.O3)


FIGURE_17 = settings(HERE.parent / "monta-fig17")


def monta_shorter(strategy: AllToAllStrategy) -> float:
    """A step over that of the baseline, with the paper's share of all-to-alls."""
    return monta.step(strategy, 1024 * FIGURE_17["length_k"], FIGURE_17["share"])


MEASURES["monta_step_o1"] = lambda: monta_shorter(AllToAllStrategy.O1)
MEASURES["monta_step_o2"] = lambda: monta_shorter(AllToAllStrategy.O2)
MEASURES["monta_step_o3"] = lambda: monta_shorter(AllToAllStrategy.O3)


@measure
def monta_ratio_wanted() -> float:
    """What of the all-to-alls has to be left for the share that the paper measured afterwards."""
    share, after = FIGURE_17["share"], FIGURE_17["share_after"]
    return (1 - share) * after / (1 - after) / share


@measure
def monta_send_speed_up() -> float:
    """The same of the all-to-all alone, at 8K."""
    return monta_base_ms() / monta_stage_ms(0, parts=1)


def monta_switches(fitted: bool) -> list[int]:
    """From how many K tokens on O2, and O3, are chosen among lengths of powers of two; 0: never."""
    runs, lengths = monta.all_to_alls(fitted=fitted), (4, 8, 16, 32, 64, 128, 256)
    chosen = {k: runs.choose(monta.volume(1024 * k), monta.CHUNKS).chosen for k in lengths}
    return [min((k for k, s in chosen.items() if s == name), default=0) for name in ("O2", "O3")]


for _at, _name in enumerate(("o2", "o3")):
    MEASURES[f"monta_{_name}_from"] = lambda n=_at: monta_switches(True)[n]
    MEASURES[f"monta_plain_{_name}_from"] = lambda n=_at: monta_switches(False)[n]


@measure
def monta_states_gb() -> float:
    """ZeRO-3 of two experts of 70B on 16 GPUs, corrected: experts have one copy."""
    return monta_states()[-1].corrected_bytes / 1e9


def monta_states() -> list[FormulaRow]:
    """12.6 G parameters and 112.7 G of experts, over TP 8, EP 2."""
    job = FormulaJob(
        parameters=12.6e9, expert_parameters=112.7e9, layers=80, hidden=8192, heads=64, top_k=1,
        seq=8192, batch=1, pp=1, tp=8, ep=2, dp=2,
    )  # fmt: skip
    return job.states()


# Chronos


@measure
def chronos_mems_mb() -> float:
    """Bytes whose transfer takes three times as long as what is lost."""
    return 3 * (1e-3 + 1e-6) * 400e9 / 8 / 1e6


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
    "monta_eq13": lambda: 7 / 32,
    "monta_o1_send_ms": lambda: monta_stage_ms(0, parts=1),
    "monta_o1_gather_ms": lambda: monta_stage_ms(1, parts=1),
    "monta_send_ms": lambda: monta_stage_ms(0),
    "monta_gather_ms": lambda: monta_stage_ms(1),
    "monta_copy_ms": lambda: monta_stage_ms(2),
    "monta_copy_a100_ms": lambda: monta_stage_ms(
        2, bytes_per_s=0.8e9 / 8 * load_gpu("a100").hbm_rate_gbps
    ),
    "monta_eq12": lambda: monta_limit(reached=False),
    "monta_eq12_reached": lambda: monta_limit(reached=True),
    "monta_eq3_mb": lambda: 8192 * 8192 * 2 / 1e6,
    "monta_printed_chunks": lambda: monta_search(printed=True)[0],
    "monta_printed_ms": lambda: monta_search(printed=True)[1],
    "monta_best_chunks": lambda: monta_search(printed=False)[0],
    "monta_best_ms": lambda: monta_search(printed=False)[1],
    "chronos_chunk_us": lambda: 4 * 2.8e9 / (8 * 128) / (800e9 / 8) * 1e6,
    "xnest_core_4": lambda: core_switches(4),
    "xnest_core_8": lambda: core_switches(8),
    "xnest_optical_6": lambda: 100 * (6 // 4),
    "xnest_servers_6": lambda: 25 * 6,
    "xnest_half": lambda: 10 // 2,
    "tree_over_mixnet_mean": lambda: tree_over_mixnet(100, 200, 400, 800),
    "tree_over_mixnet_large": lambda: tree_over_mixnet(400, gpus=32_768),
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
        "Claims of five papers that can be checked without their hardware, and of other people's"
        " files: the published",
        "number, ours, a verdict, and what decides it. The tables are made by `python"
        " experiments/claims/run.py --write`.",
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


def numbers_of(paper: str) -> str:
    """A table of every number of a paper, by the name of its claim."""
    head = "| number | where | paper | here | verdict | what decides it |"
    lines = [head, "|---|---|---|---|---|---|"]
    lines += [
        f"| {claim.id} | {claim.where} | {claim.published} | {filled(claim.ours)} | "
        f"{claim.verdict} | {filled(claim.decides)} |"
        for claim in claims()
        if claim.paper == paper
    ]
    return "\n".join(lines)


def wanted() -> dict[Path, str]:
    """The page, and the table in the other one."""
    against = AGAINST.read_text(encoding="utf-8")
    return {PAGE: render(), AGAINST: replace_between(against, "MoNTA", numbers_of("MoNTA"))}


if __name__ == "__main__":
    arguments = command_line(__doc__).parse_args()
    files = wanted()
    if not (arguments.write or arguments.check):
        print(files[PAGE])
    raise SystemExit(write_or_check(files, arguments.write, arguments.check))
