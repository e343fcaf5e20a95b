"""Matrices, circuits and packet simulations of the experiment."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand import rank_matrix, synthetic
from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.packets import Record, Scenario, from_matrix, profile_of, simulate_flows
from lightloom.schedule import decompose
from lightloom.simulate import simulate
from lightloom.units import to_bps
from lightloom.workload.task_graph import (
    Category,
    Kind,
    Layout,
    Program,
    TaskGraph,
    TokenBlocks,
)

HERE = Path(__file__).parent
TUNED = HERE / "tuned.toml"

Matrix = npt.NDArray[np.int64]


def settings() -> dict[str, Any]:
    """The experiment's file."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def tuned() -> dict[str, dict[str, float]]:
    """Parameters that tune.py has found, by the name of the packet simulation."""
    return tomllib.loads(TUNED.read_text(encoding="utf-8"))


def token_matrices(values: dict[str, Any], count: int, seed: int) -> Matrix:
    """Tokens from GPU to GPU, ``(count, experts, experts)``; the diagonal stays where it is."""
    shape = values["matrices"]
    source = synthetic(
        "mixtral",
        ranks=shape["experts"],
        experts=shape["experts"],
        tokens_per_rank=shape["tokens"],
        top_k=1,
        seed=seed,
        logit_sd=shape["logit_sd"],
        logit_sd_start=shape["logit_sd"],
    )
    # Layers are independent draws; the paper takes successive steps and treats them as such.
    drawn = source.tokens(group=0, layers=range(count), micro_batches=1, step=0)[:, 0]
    return np.array([rank_matrix(tokens) for tokens in drawn], dtype=np.int64)


def network_bytes(values: dict[str, Any], tokens: Matrix) -> Matrix:
    """Bytes that leave their GPU, of tokens from GPU to GPU."""
    outside = ~np.eye(tokens.shape[-1], dtype=bool)
    return tokens * outside * values["matrices"]["token_bytes"]


def line_s(values: dict[str, Any], demand: Matrix) -> float:
    """Time in which the busiest port sends or receives its bytes: no network is faster."""
    busiest = max(int(demand.sum(axis=axis).max()) for axis in (0, 1))
    return busiest * 8 / (values["network"]["rate_gbps"] * 1e9)


def circuit_s(values: dict[str, Any], demand: Matrix, delay_s: float) -> float:
    """Length of the schedule of circuits; without delay the paper's sum of weights."""
    found = decompose(demand, delay_s=delay_s, rate_gbps=values["network"]["rate_gbps"])
    return found.length_s


def fluid_s(values: dict[str, Any], tokens: Matrix) -> float:
    """Completion on an ideal packet network: flows share ports max-min fairly, at once."""
    count = len(tokens)
    network = values["network"]
    rate_bps = to_bps(network["rate_gbps"])
    program = Program()
    program.add(Kind.ALL_TO_ALL, Category.EP, bytes=values["matrices"]["token_bytes"])
    outside = tokens * ~np.eye(count, dtype=bool)
    nothing = np.zeros((1, 1, count), np.uint64)
    blocks = TokenBlocks(outside[None, None].astype(np.uint32), nothing, nothing)
    layout = Layout(1, 1, count, 1, np.arange(count, dtype=np.uint32))
    eps = Eps(1, rate_bps, 0, servers_per_tor=count, servers_per_pod=count)
    inside = NvSwitch(gpu_rate_bps=10 * rate_bps, latency_ps=0)
    fabric = Network(count, 1, inside, "flat", eps=eps)
    run = simulate(TaskGraph(layout, [program], [], blocks), fabric)
    return run.step_time_s


@dataclass(frozen=True)
class Matrices:
    """All matrices, and how long all but the packet simulations take for them.

    ``demands`` is ``(matrices, experts, experts)`` in bytes, ``circuits_s`` ``(delays, matrices)``.
    """

    demands: Matrix
    lines_s: npt.NDArray[np.float64]
    fluid_s: npt.NDArray[np.float64]
    circuits_s: npt.NDArray[np.float64]

    @classmethod
    def draw(cls, values: dict[str, Any]) -> Matrices:
        """Those of the settings."""
        shape = values["matrices"]
        tokens = token_matrices(values, shape["count"], shape["seed"])
        demands = network_bytes(values, tokens)
        delays = values["circuits"]["delays_s"]
        return cls(
            demands,
            np.array([line_s(values, demand) for demand in demands]),
            np.array([fluid_s(values, one) for one in tokens]),
            np.array([[circuit_s(values, one, delay) for one in demands] for delay in delays]),
        )


def parameters(values: dict[str, Any], name: str) -> dict[str, float]:
    """Parameters of a DCQCN that are tuned in some simulation, named as in tuned.toml."""
    profile = profile_of("dcqcn", values["network"]["rate_gbps"])
    ecn, own = profile["queue"]["ecn"], profile["transport"]
    published = {f"ecn_{key}": ecn[key] for key in ("min_bytes", "max_bytes", "probability")}
    keys = ("additive_gbps", "hyper_gbps", "gain", "increase_interval_s")
    published |= {key: own[key] for key in keys}
    return published | tuned().get(values["packet"][name].get("as", name), {})


def packet_case(values: dict[str, Any], name: str) -> Scenario:
    """The packet simulation of this name."""
    own = values["packet"][name]
    sizes = {key: own[key] for key in ("mtu_bytes", "header_bytes") if key in own}
    mine = {**values, "network": values["network"] | sizes}
    found = parameters(values, name) if own["transport"] == "dcqcn" else {}
    return scenario(mine, own["transport"], found)


def scenario(values: dict[str, Any], transport: str, found: dict[str, float]) -> Scenario:
    """One non-blocking switch, with parameters named as in tuned.toml."""
    network = values["network"]
    own = {key: value for key, value in found.items() if not key.startswith("ecn_")}
    ecn = {key[4:]: value for key, value in found.items() if key.startswith("ecn_")}
    return Scenario(
        network={
            "topology": "star",
            "hosts": values["matrices"]["experts"],
            "rate_gbps": network["rate_gbps"],
            "link_delay_s": network["link_delay_s"],
        },
        transport={"name": transport, **own},
        packet={
            "mtu_bytes": network["mtu_bytes"],
            "header_bytes": network["header_bytes"],
            "full_tail": False,
        },
        queue={"ecn": ecn},
        seed=1,
    )


def packet_s(case: Scenario, demand: Matrix) -> float:
    """Completion of the all-to-all, packet by packet: the last acknowledgement."""
    run = simulate_flows(from_matrix(demand, "matrix"), case, record=Record(samples=0))
    return float(run.fct_s.max())
