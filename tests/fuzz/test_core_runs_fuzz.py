"""Whatever runs are asked of the core, it answers, or refuses in one line; and it can be stopped.

A hundred and fifty requests each, drawn by seed; a hundred thousand under ``make soak``. Of a run
that is told to stop after half a second of processor time no more than three are accepted, and of
requests of a few kilobytes no more than 256 MB.
"""

import os
import random
from types import SimpleNamespace

import numpy as np
import pytest
from tests.fuzz.core_entries import SIZES as SHAPES
from tests.fuzz.core_inputs import EXTREME, SIZES, listed, parts, spoil
from tests.fuzz.outcomes import answered, look, named
from tests.simulate_graphs import Steps, direct, mixnet, one_ring, packet
from tests.simulate_graphs import graph as build_graph

from lightloom import _core
from lightloom.fabric.network import Crossbars, Network, Scheduled
from lightloom.schedule import choices
from lightloom.simulate import Packets

#: inputs of either entry, whatever it is divided over
COUNT = 10_000 * int(os.environ.get("LIGHTLOOM_SOAK", "0")) or 1_500
TRANSPORTS = [*choices("transport")]
NONE = 2**32 - 1


def integers(rng, kind, count, values):
    return np.array([rng.choice(values) for _ in range(count)], kind)


def packet_request(rng, transport):
    """A small run of any kind, nothing wrong with it yet."""
    hosts, rate_bps = rng.choice([2, 4, 8]), rng.choice([10**9, 10**11])
    topology = rng.choice(["star", *SHAPES])
    sizes = {key: 2 if key == "global_links" else values[1 % len(values)]
             for key, values in SHAPES.get(topology, {}).items()}  # fmt: skip
    network = {
        "hosts": hosts,
        "rate_bps": rate_bps,
        "link_delay_ps": rng.choice([0, 1_000, 10**6]),
        "planes": rng.choice([1, 1, 2]),
        "plane_choice": rng.choice([*choices("plane_choice")]),
        "shape": {"topology": topology, **sizes},
    }
    count = rng.randrange(6)
    source = integers(rng, np.uint32, count, range(hosts))
    away = integers(rng, np.uint32, count, range(1, hosts))
    nics = integers(rng, np.uint32, rng.choice([0, count]), [0, 0, 0, 1])
    flows = {
        "source": source,
        "destination": (source + away) % np.uint32(hosts),
        "size_bytes": integers(rng, np.uint64, count, [0, 1, 4_096, 10**5, 10**6]),
        "start_ps": integers(rng, np.uint64, count, [0, 0, 1_000, 10**8]),
        "priority": integers(rng, np.uint8, count, [0, 0, 1, 7]),
        "class": np.zeros(count, np.uint8),
        "source_nic": nics,
        "destination_nic": nics,
        "route_starts": np.zeros(0, np.uint64),
        "route_links": np.zeros(0, np.uint32),
    }
    run = {
        "until_ps": rng.choice([None, 10**8]),
        "sample_every_ps": rng.choice([1, 10**6]),
        "max_samples": rng.choice([0, 10]),
        "max_rows": rng.choice([0, 50]),
        "max_events": rng.choice([0, 100]),
        "traced_flow": None,
        "in_halves": rng.random() < 0.5,
        "hashes_ends": rng.random() < 0.5,
        "failures": failures(rng),
        "detection_ps": rng.choice([0, 10**5]),
        "circuits": circuits(rng),
    }
    config, parameters = _core.packet_profile(transport, rate_bps, None)
    config["routing"], config["seed"] = rng.choice([*choices("routing")]), rng.randrange(3)
    config["flowlet_gap_ps"] = rng.choice([0, 10**5])
    classes = [{"config": config, "transport": parameters}]
    if rng.random() < 0.3:
        classes *= 2
        flows["class"] = flows["priority"] % 2
    return [network, classes, flows, operations(rng, count), run]


def circuits(rng):
    """When links go dark, if they do."""
    count = 0 if rng.randrange(3) else rng.randrange(4)
    times = sorted(rng.choice([0, 10**6, 10**7, 10**9]) for _ in range(count))
    return [(time, rng.randrange(8), place % 2 == 0) for place, time in enumerate(times)]


def failures(rng):
    begins = [rng.choice([0, 10**6, 10**8]) for _ in range(rng.randrange(3))]
    return [(begin, begin + 10 ** rng.randrange(9), [rng.randrange(8)]) for begin in begins]


def operations(rng, flows):
    if not flows or rng.randrange(2):
        return None
    count = flows + rng.randrange(3)
    flow = np.array([*range(flows), *[NONE] * (count - flows)], np.uint32)
    starts = np.arange(-1, count, dtype=np.int64).clip(0).astype(np.uint64)
    waits = np.array([rng.randrange(place + 1) for place in range(count - 1)], np.uint32)
    return {
        "flow": flow,
        "span_ps": np.where(flow == NONE, 1_000_000, 0).astype(np.uint64),
        "unit": np.where(flow == NONE, 0, NONE).astype(np.uint32),
        "wait_starts": starts,
        "waits": waits,
        "milestones": integers(rng, np.uint8, count - 1, range(3)),
    }


def portion(of, among):
    """How many of the inputs one of several gets."""
    return len(range(among.index(of), COUNT, len(among)))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_packet_runs_end_or_are_refused_in_one_line(transport):
    rng = random.Random(f"packet runs {transport} 1")
    inputs = spoiled_packet_requests(rng, transport, portion(transport, TRANSPORTS))
    count = 0
    for number, request in enumerate(inputs):
        with named(f"input {number} of packets over {transport}"):
            count += answered(lambda continues, request=request: simulate(*request, continues))
    assert count > 20


def spoiled_packet_requests(rng, transport, count):
    for _ in range(count):
        request = packet_request(rng, transport)
        spoil(rng, *request)
        make_small(request[0], "hosts", "planes")
        make_small(request[0]["shape"], "spines", "switches_per_group")
        yield request


def make_small(thing, *names):
    """What is large and can be had takes its memory (up to 4 million links): bound these."""
    values = thing if isinstance(thing, dict) else vars(thing)
    for name in names:
        size = values.get(name)
        if isinstance(size, int) and 64 < size < 2**22:
            values[name] = 64


def simulate(network, classes, flows, operations, run, continues):
    report = _core.packet_simulate(network, classes, flows, operations, run, continues)
    look(report)


DECISIONS = np.array([0, 0, 10, 100, 1_000], np.uint64)
TURNS = Crossbars(
    nics=2, nic_rate_bps=400 * 10**9, latency_ps=1_000_000, guard_ps=1_000,
    methods=tuple((name, DECISIONS) for name in ("round-robin", "bvn", "greedy", "threshold")),
    lateness=(1_000_000, 3), failed=((0, 1),),
)  # fmt: skip
FIXED = Crossbars(
    nics=1, nic_rate_bps=400 * 10**9, latency_ps=1_000_000, guard_ps=1_000,
    methods=(("auto", DECISIONS),), slot_ps=10_000_000, aligned=True,
)  # fmt: skip
ROTOR = Scheduled(
    nic_rate_bps=400 * 10**9, link_delay_ps=1_000_000,
    circuits=np.array([[0, 0, 1, 1], [0, 2, 3, 1], [1, 0, 2, 1], [1, 1, 3, 1]], np.uint32),
    dark_ps=np.full(2, 10**6, np.uint64), hold_ps=np.full(2, 10**8, np.uint64),
)  # fmt: skip
CIRCUITS_0_1 = [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1)]
ROUTES = [(a, b) for a, b, _ in CIRCUITS_0_1] + [(b, a) for a, b, _ in CIRCUITS_0_1]
EPS = packet(4)
NETWORKS = {
    "eps": EPS,
    "ocs": mixnet(4),
    "ocs-relaying": mixnet(4, relaying=(1_000, 0), when="break-even"),
    "direct": direct(4, CIRCUITS_0_1, [*ROUTES, (0, 1, 2), (2, 1, 0), (1, 2, 3), (3, 2, 1)]),
    "crossbar": Network(4, 8, EPS.nvswitch, "hierarchical", (TURNS,)),
    "crossbar-fixed": Network(4, 8, EPS.nvswitch, "hierarchical", (FIXED,)),
    "scheduled": Network(4, 8, EPS.nvswitch, "hierarchical", (*EPS.parts, ROTOR)),
}


def step(rng, network):
    """A step, its network and its options, spoiled."""
    tokens = np.arange(8, dtype=np.uint32).reshape(2, 2, 2)
    programs = [Steps().all_to_all(0, first=True).compute(1e-6).send(1, 0, 8).ring(1, 64).wait(1)]
    programs.append(Steps().all_to_all(1).receive(0, 0).ring(1, 64).wait(1))
    graph = listed(parts(build_graph(programs, members=2, tokens=tokens, rings=[one_ring(4)])))
    network = parts(network)
    network.parts = list(network.parts)
    records = {"record_decisions": True, "record_packets": True}
    options = SimpleNamespace(timeline_workers=[0], share_equal_work=True, **records)
    packets = parts(Packets())
    spoil(rng, graph, network, options, packets)
    make_small(network, "servers")
    for part in network.parts if isinstance(network.parts, list) else ():
        make_small(part, "nics", "ports")
    return graph, network, options, packets


def play(request, model, continues):
    graph, network, options, packets = request
    calls = {"progress": continues, "allocator": None, "predictor": None, **vars(options)}
    if model == "phases":
        book = _core.PhaseBook(network, packets, 3, None)
        _core.execute(graph, network, book, **calls)
        book.simulate(continues)
        return
    look(_core.execute(graph, network, packets if model == "packets" else None, **calls))


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_end_or_are_refused_in_one_line(name):
    rng = random.Random(f"steps {name} 1")
    count = 0
    for number in range(portion(name, [*NETWORKS])):
        request, model = step(rng, NETWORKS[name]), rng.choice(["flows", "packets", "phases"])
        with named(f"input {number} of steps over {name}"):
            count += answered(lambda continues, r=request, m=model: play(r, m, continues))
    assert count > 20


def test_spoiled_values_are_of_their_kind_but_for_a_few():
    rng = random.Random(1)
    values = [3, 0.5, True, None, np.arange(4, dtype=np.uint16), [1, 2]]
    others = 0
    for _ in range(500):
        request = SimpleNamespace(values=list(values), inner={"number": 7})
        spoil(rng, request, maximum=1)
        kept = isinstance(request.values, list)
        others += kept and isinstance(request.inner["number"], int)
        if kept and isinstance(request.inner["number"], int):
            assert request.inner["number"] in {-1, 7, 6, 8, 7_000, 0, 2**70, *SIZES, *EXTREME}
    assert 400 < others < 500
