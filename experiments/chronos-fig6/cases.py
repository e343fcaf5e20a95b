"""Matrices, circuits and packet simulations of the experiment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from settings import Parameters, Settings, Sizes, tuned

from lightloom.demand import rank_matrix, synthetic
from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.packets import PacketScenario, Record, from_matrix, profile_of, simulate_flows
from lightloom.schedule import decompose
from lightloom.simulate import simulate
from lightloom.units import to_bps
from lightloom.workload import Block, TaskGraphBuilder

Matrix = npt.NDArray[np.int64]


def demands(settings: Settings, count: int, seed: int) -> Matrix:
    """Bytes from GPU to GPU, ``(count, experts, experts)``; what stays on its GPU is left out."""
    shape = settings.matrices
    source = synthetic(
        "mixtral",
        ranks=shape.experts,
        experts=shape.experts,
        tokens_per_rank=shape.tokens,
        top_k=1,
        seed=seed,
        logit_sd=shape.logit_sd,
        logit_sd_start=shape.logit_sd,
    )
    # Layers are independent draws; the paper takes successive steps and treats them as such.
    drawn = source.tokens(group=0, layers=range(count), micro_batches=1, step=0)[:, 0]
    return np.array([rank_matrix(tokens) for tokens in drawn]) * shape.token_bytes


def line_s(settings: Settings, demand: Matrix) -> float:
    """Time in which the busiest port sends or receives its bytes: no network is faster."""
    busiest = max(int(demand.sum(axis=axis).max()) for axis in (0, 1))
    return busiest * 8 / (settings.network.rate_gbps * 1e9)


def circuit_s(settings: Settings, demand: Matrix, delay_s: float) -> float:
    """Length of the schedule of circuits; without delay the paper's sum of weights."""
    found = decompose(demand, delay_s=delay_s, rate_gbps=settings.network.rate_gbps)
    return found.length_s


def fluid_s(settings: Settings, demand: Matrix) -> float:
    """Completion on an ideal packet network: flows share ports max-min fairly, at once."""
    count, token_bytes = len(demand), settings.matrices.token_bytes
    rate_bps = to_bps(settings.network.rate_gbps)
    step = TaskGraphBuilder(range(count), gpus_per_worker=1)
    group = step.family("ep", [range(count)])
    tokens = step.demand("tokens", group, (demand // token_bytes)[None, None])
    step.role("expert", range(count)).all_to_all(group, Block(tokens, 0, token_bytes), "ep")
    eps = Eps(1, rate_bps, 0, servers_per_tor=count, servers_per_pod=count)
    inside = NvSwitch(gpu_rate_bps=10 * rate_bps, latency_ps=0)
    fabric = Network(count, 1, inside, "flat", (eps,))
    run = simulate(step.build(), fabric)
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
    def draw(cls, settings: Settings) -> Matrices:
        """Those of the settings."""
        shape = settings.matrices
        drawn = demands(settings, shape.count, shape.seed)
        delays = settings.circuits.delays_s
        return cls(
            drawn,
            np.array([line_s(settings, one) for one in drawn]),
            np.array([fluid_s(settings, one) for one in drawn]),
            np.array([[circuit_s(settings, one, delay) for one in drawn] for delay in delays]),
        )


def parameters(settings: Settings, section: str | None) -> Parameters:
    """Every parameter of DCQCN that is tuned somewhere, named as in tuned.toml."""
    profile = profile_of("dcqcn", settings.network.rate_gbps)
    ecn, own = profile["queue"]["ecn"], profile["transport"]
    published = {f"ecn_{key}": ecn[key] for key in ("min_bytes", "max_bytes", "probability")}
    keys = ("additive_gbps", "hyper_gbps", "gain", "increase_interval_s")
    return published | {key: own[key] for key in keys} | tuned(section)


def packet_case(settings: Settings, name: str) -> PacketScenario:
    """The packet simulation of this name."""
    own = settings.packet[name]
    return scenario(settings, own.transport, tuned(own.tuned), own.sizes)


def scenario(
    settings: Settings, transport: str, found: Parameters, sizes: Sizes | None = None
) -> PacketScenario:
    """One non-blocking switch, with parameters named as in tuned.toml."""
    network = settings.network
    own = {key: value for key, value in found.items() if not key.startswith("ecn_")}
    ecn = {key[4:]: value for key, value in found.items() if key.startswith("ecn_")}
    return PacketScenario(
        network={
            "topology": "star",
            "hosts": settings.matrices.experts,
            "rate_gbps": network.rate_gbps,
            "link_delay_s": network.link_delay_s,
        },
        transport={"name": transport, **own},
        packet={**dict(sizes or network.sizes), "full_tail": False},
        queue={"ecn": ecn} if ecn else {},
        seed=1,
    )


def packet_s(case: PacketScenario, demand: Matrix) -> float:
    """Completion of the all-to-all, packet by packet: the last acknowledgment."""
    run = simulate_flows(from_matrix(demand, "matrix"), case, record=Record(samples=0))
    return float(run.fct_s.max())
