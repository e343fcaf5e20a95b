"""Laws of phases: bytes are conserved, more of them take longer, and numbers are only names."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.fabric import Cluster, load_fabric
from lightloom.simulate import simulate
from lightloom.workload.programs.phases import Phase, PhaseSequence, phase_graph
from lightloom.workload.traffic import sent_traffic

RANKS = 8
#: bytes, of which some are odd and some have a common divisor
sizes = st.one_of(
    st.just(0), st.integers(1, 50_000_000), st.integers(1, 500).map((1_000_000).__mul__)
)


@st.composite
def phases(draw, most=3):
    order = []
    for _ in range(draw(st.integers(1, most))):
        count = draw(st.integers(0, 12))
        ends = draw(
            st.lists(st.tuples(*[st.integers(0, RANKS - 1)] * 2), min_size=count, max_size=count)
        )
        source, destination = np.array(ends, np.int64).reshape(-1, 2).T
        moved = np.array(draw(st.lists(sizes, min_size=count, max_size=count)), np.int64)
        compute = draw(st.one_of(st.just(0.0), st.floats(0, 1e-3)))
        order.append(Phase(source, destination, moved, compute))
    return PhaseSequence(RANKS, tuple(order), "transfers")


def step_s(made, fabric="fat-tree", gpus_per_server=2):
    cluster = Cluster.of(
        gpus=RANKS, rate_gbps=100, gpu="a100", gpus_per_server=gpus_per_server,
        nics_per_server=gpus_per_server,
    )  # fmt: skip
    network = load_fabric(fabric, {}).network(cluster)
    return simulate(phase_graph(made, gpus_per_server), network).step_time_s


@given(phases(), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=60, deadline=None)
def test_bytes_are_conserved_whatever_the_servers(made, gpus_per_server):
    traffic = sent_traffic(phase_graph(made, gpus_per_server)).get("transfers")
    local = network = 0
    for phase in made.order:
        apart = phase.source // gpus_per_server != phase.destination // gpus_per_server
        moved = phase.size_bytes * (phase.source != phase.destination)
        network += int(moved[apart].sum())
        local += int(moved[~apart].sum())
    found = (traffic.local_bytes, traffic.network_bytes) if traffic else (0, 0)
    assert found == (local, network)


@given(phases(most=2), st.sampled_from(["fat-tree", "rail"]))
@settings(max_examples=25, deadline=None)
def test_the_same_phases_again_take_as_long_again(made, fabric):
    twice = dataclasses.replace(made, order=made.order * 2)
    # servers that have sent their part begin the next one earlier than all others
    assert step_s(twice, fabric) <= 2 * step_s(made, fabric) * (1 + 1e-9) + 1e-9


@given(phases(most=2), st.sampled_from(["fat-tree", "rail"]), st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_more_bytes_take_longer_and_no_longer_than_in_proportion(made, fabric, factor):
    order = tuple(
        dataclasses.replace(phase, size_bytes=phase.size_bytes * factor) for phase in made.order
    )
    before = step_s(made, fabric)
    after = step_s(dataclasses.replace(made, order=order), fabric)
    assert before * (1 - 1e-9) - 1e-9 <= after <= factor * before * (1 + 1e-9) + 1e-9


@given(st.permutations(range(4)), phases(most=2))
@settings(max_examples=25, deadline=None)
def test_servers_may_be_numbered_anyhow(order, made):
    """On a fabric in which all servers are alike."""
    place = np.array(order)

    def renamed(ranks):
        return place[ranks // 2] * 2 + ranks % 2

    moved = tuple(
        dataclasses.replace(
            phase, source=renamed(phase.source), destination=renamed(phase.destination)
        )
        for phase in made.order
    )
    other = dataclasses.replace(made, order=moved)
    assert step_s(other) == pytest.approx(step_s(made), rel=1e-9, abs=1e-11)


def test_one_transfer_takes_its_bytes_over_the_rate():
    """A server with one NIC of 100 Gb/s: the rest is latency and start-up."""
    sent = [
        step_s(
            PhaseSequence(
                RANKS, (Phase(np.array([0]), np.array([7]), np.array([size])),), "transfers"
            ),
            gpus_per_server=1,
        )
        for size in (10**9, 2 * 10**9)
    ]
    goodput = 10**9 / (sent[1] - sent[0])
    assert 0.9 * 12.5e9 < goodput <= 12.5e9
    assert sent[0] - 10**9 / goodput < 1e-4
