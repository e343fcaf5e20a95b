"""X-NEST+ against Helios and presets on eight hosts (X-NEST+, Figure 3).

    python experiments/xnest-fig3/run.py [--write | --check | --fast]

Prints the tables; ``--write`` puts them into table.md and draws figure.svg.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.fabric import Cluster, load_fabric
from lightloom.fabric.network import EpochRules, Network, RackCircuits
from lightloom.schedule import xnest_plan, xnest_sub_matrices
from lightloom.simulate import simulate
from lightloom.units import to_ps
from lightloom.workload.programs.nas import nas_named
from lightloom.workload.programs.phases import Phase, PhaseSequence, phase_graph

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)
HOSTS = int(VALUES["hosts"])
CIRCUIT, ELECTRICAL = (int(VALUES[f"{kind}_gbps"]) for kind in ("circuit", "electrical"))
SCENARIOS = ("S1", "S2", "S3")
Ints = npt.NDArray[np.int64]


def phases(name: str) -> list[Phase]:
    """What ranks send in an iteration."""
    size, rank = VALUES["transfer_bytes"], np.arange(HOSTS)
    if name == "ring":
        return [Phase(rank, (rank + 1) % HOSTS, np.full(HOSTS, size))] * 2
    if name == "parameter server":
        server, workers = np.zeros(HOSTS - 1, dtype=np.int64), rank[1:]
        sizes = np.full(HOSTS - 1, size)
        return [Phase(workers, server, sizes), Phase(server, workers, sizes)]
    benchmark = nas_named(name)
    assert benchmark is not None
    return list(benchmark.phases(HOSTS).order)


def numbering(seed: int) -> Ints:
    """The host of each rank."""
    return np.random.default_rng(seed).permutation(HOSTS)


def demand(order: Sequence[Phase], host: Ints) -> Ints:
    """Bytes from host to host."""
    total = np.zeros((HOSTS, HOSTS), dtype=np.int64)
    for phase in order:
        np.add.at(total, (host[phase.source], host[phase.destination]), phase.size_bytes)
    np.fill_diagonal(total, 0)
    return total


# Bytes alone: the busiest circuit, with relays over shortest paths


def busiest(sent: Ints, configurations: Sequence[Ints]) -> float:
    """Bytes of the busiest circuit; those of a pair are divided over its shortest paths."""
    circuits = np.zeros((HOSTS, HOSTS))
    for configuration in configurations:
        circuits[np.arange(HOSTS), configuration] += 1
    load = np.zeros((HOSTS, HOSTS))
    for source in range(HOSTS):
        load += carried(sent[source], circuits, source)
    return float((load[circuits > 0] / circuits[circuits > 0]).max())


def carried(sent: Ints, circuits: npt.NDArray[np.float64], source: int) -> npt.NDArray[np.float64]:
    """Bytes over each pair of hosts that a source sends."""
    hops, paths = np.full(HOSTS, HOSTS), np.zeros(HOSTS)
    hops[source], paths[source] = 0, 1
    queue, order = deque([source]), []
    while queue:
        host = queue.popleft()
        order.append(host)
        for peer in np.flatnonzero(circuits[host]):
            if hops[peer] == HOSTS:
                hops[peer] = hops[host] + 1
                queue.append(int(peer))
            if hops[peer] == hops[host] + 1:
                paths[peer] += paths[host] * circuits[host, peer]
    assert len(order) == HOSTS, "two pairings of the circle method join all hosts"
    load, through = np.zeros_like(circuits), sent.astype(float)
    for host in reversed(order):
        for before in np.flatnonzero((hops == hops[host] - 1) & (circuits[:, host] > 0)):
            share = through[host] * paths[before] * circuits[before, host] / paths[host]
            load[before, host] += share
            through[before] += share
    return load


def matchings(hosts: tuple[int, ...]) -> Iterator[list[tuple[int, int]]]:
    """All ways to pair hosts."""
    if not hosts:
        yield []
        return
    first, rest = hosts[0], hosts[1:]
    for peer in rest:
        left = tuple(host for host in rest if host != peer)
        yield from ([(first, peer), *others] for others in matchings(left))


def helios(sent: Ints) -> float:
    """Seconds with the heaviest matching on circuits, and the rest over electrical links."""
    both = sent + sent.T
    best = max(matchings(tuple(range(HOSTS))), key=lambda pairs: sum(both[p] for p in pairs))
    one, other = np.array(best).T
    rest = sent.copy()
    rest[one, other] = rest[other, one] = 0
    on_circuits = max(sent[one, other].max(), sent[other, one].max())
    electrical = max(rest.sum(0).max(), rest.sum(1).max())
    return max(on_circuits / CIRCUIT, electrical / ELECTRICAL) * 8e-9


def by_bytes(name: str) -> list[float]:
    """Seconds over those of two circuits of each host without any relaying, mean of numberings."""
    order = phases(name)
    pairings = [matrix[0] for matrix in xnest_sub_matrices(HOSTS)]
    presets = [*pairwise(pairings), (pairings[-1], pairings[0])]
    found = []
    for seed in range(VALUES["numberings"]):
        sent = demand(order, numbering(seed))
        least = max(sent.sum(0).max(), sent.sum(1).max()) / (2 * CIRCUIT) * 8e-9
        plan = xnest_plan(sent, switches=2)
        chosen = busiest(sent, [pairings[matrix] for matrix, _ in plan.settings])
        preset = float(np.mean([busiest(sent, pair) for pair in presets]))
        seconds = (helios(sent), preset / CIRCUIT * 8e-9, chosen / CIRCUIT * 8e-9)
        found.append([value / least for value in seconds])
    return np.mean(found, axis=0).tolist()


# Simulated: the same hosts as racks whose circuits change


def network(scenario: str, epoch_s: float) -> Network:
    """A pod of eight racks, of one host each."""
    half, hosts = HOSTS // 2, tuple(range(HOSTS))
    shared: dict[str, Any] = {
        "nics": 1,
        "nic_rate_bps": 2 * CIRCUIT * 10**9,
        "link_delay_ps": to_ps(1e-6),
        "servers_per_rack": 1,
        "racks": HOSTS,
        "circuit_rate_bps": CIRCUIT * 10**9,
        "epoch_ps": to_ps(epoch_s),
        "dark_ps": to_ps(VALUES["dark_s"]),
        "hello_ps": to_ps(VALUES["dark_s"]),
    }
    if scenario == "S1":
        part = RackCircuits(
            **shared,
            banks=((hosts, 1),),
            rules=EpochRules("helios"),
            core_rate_bps=ELECTRICAL * 10**9,
            circuits_per_path=1,
        )
    else:
        part = RackCircuits(
            **shared,
            banks=((hosts, 2),),
            rules=EpochRules("x-nest-plus"),
            cables=tuple((low, high) for low in range(half) for high in range(half, HOSTS)),
            cable_rate_bps=ELECTRICAL * 10**9,
            circuits_per_path=2,
        )
    cluster = Cluster.of(
        gpus=HOSTS, rate_gbps=2 * CIRCUIT, gpu="a100", gpus_per_server=1, nics_per_server=1
    )
    base = load_fabric("x-nest-plus", {"interconnect": "ideal", "k": 4}).network(cluster)
    return dataclasses.replace(base, parts=(part,))


def simulated(name: str) -> list[float]:
    """Seconds of a run over those that the NICs need, mean of numberings."""
    order, found = phases(name), []
    for seed in range(VALUES["simulated"]):
        host = numbering(seed)
        renamed = {
            id(phase): Phase(host[phase.source], host[phase.destination], phase.size_bytes)
            for phase in order
        }
        run = [renamed[id(phase)] for phase in order] * VALUES["iterations"]
        graph = phase_graph(PhaseSequence(HOSTS, tuple(run), "transfers"), 1)
        # an epoch that no run reaches the end of: presets
        preset = simulate(graph, network("S2", 1e5)).step_time_s
        epoch = preset / VALUES["epochs"]
        sent = demand(run, host)
        least = max(sent.sum(0).max(), sent.sum(1).max()) / (2 * CIRCUIT) * 8e-9
        others = {s: simulate(graph, network(s, epoch)).step_time_s for s in ("S1", "S3")}
        found.append([others["S1"] / least, preset / least, others["S3"] / least])
    return np.mean(found, axis=0).tolist()


def render(*, fast: bool) -> dict[Path, str]:
    """The tables and the figure."""
    programs = VALUES["programs"][2 if fast else 0 : 3 if fast else None]
    tables, lines = [], []
    for number, (what, times) in enumerate((("bytes", by_bytes), ("simulated", simulated))):
        rows, changes = [], []
        for program in programs:
            found = times(program["name"])
            changes.append(100 * (found[2] / found[1] - 1))
            # no minus in front of a zero
            change = f"{changes[-1]:+.1f}" if abs(changes[-1]) >= 0.05 else "0.0"
            cells = [*(f"{value:.2f}" for value in found), change]
            rows.append([program["name"], *cells, f"{-program['published']:+d}"])
        lines.append(Line(what, changes, number))
        tables.append(markdown(["", *SCENARIOS, "S3 / S2 [%]", "paper [%]"], rows))
    text = (
        "# X-NEST+, Helios and presets on eight hosts\n\n"
        "Communication alone, over what the two circuits of the busiest host need. Made by run.py;"
        f" see [README.md](README.md).\n\n## Bytes of an iteration\n\n{tables[0]}\n"
        f"## Simulated, {VALUES['iterations']} iterations\n\n{tables[1]}"
    )
    files = {HERE / "table.md": text}
    if fast:
        return files
    published = [-float(program["published"]) for program in programs]
    figure = Figure(
        "X-NEST+ over presets: the published gain of FT is not there",
        "program",
        "S3 over S2 [%]",
        ["CG", "MG", "FT", "ring", "server"],
        [*lines, Line("paper", published, 6, is_dashed=True)],
    )
    return {**files, HERE / "figure.svg": figure.svg(HERE)}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
