"""Training programs other than Megatron's step, written by hand, against closed forms."""

import dataclasses

import numpy as np
import pytest
from tests.simulate_graphs import LINK_S, NIC, mixnet, packet

from lightloom.errors import InputError
from lightloom.simulate import Packets, simulate
from lightloom.workload import Block, Entry, TaskGraphBuilder

NICS = 8
COMPUTE, COMMUNICATION = 0, 1


def ring_s(size, n):
    """All-gather or reduce-scatter of a buffer over a ring of n servers on a packet fabric."""
    return size * (n - 1) / n / (NICS * NIC) + (n - 1) * 2 * LINK_S


# Fully sharded data parallelism: all-gathers and reduce-scatters on a separate stream.


def fsdp(workers, layers, size, forward_s, backward_s):
    """A step: gathers one layer ahead, gradients scattered while earlier layers are computed."""
    step = TaskGraphBuilder(range(workers), gpus_per_worker=8)
    shards = step.family("shards", [range(workers)])
    trainer = step.role("trainer", range(workers))

    def gather(name):
        trainer.all_gather(shards, size, "fsdp", handle=name, stream=COMMUNICATION)

    def scatter(layer):
        trainer.wait(("backward", layer), "fsdp", stream=COMMUNICATION)
        trainer.reduce_scatter(
            shards, size, "fsdp", handle=("scatter", layer), stream=COMMUNICATION
        )

    for layer in range(layers):
        gather(("forward", layer))
        trainer.wait(("forward", layer), "fsdp")
        trainer.compute("forward", forward_s, layer=layer)
    for layer in reversed(range(layers)):
        gather(("again", layer))
        if layer + 2 < layers:
            scatter(layer + 2)
        trainer.wait(("again", layer), "fsdp")
        trainer.compute("backward", backward_s, layer=layer, handle=("backward", layer))
    for layer in reversed(range(min(2, layers))):
        scatter(layer)
    for layer in range(layers):
        trainer.wait(("scatter", layer), "fsdp")
    return step.build()


@pytest.mark.parametrize(("workers", "layers"), [(2, 3), (4, 6), (8, 4)])
def test_fsdp_hides_all_but_the_first_gather_and_the_last_scatter(workers, layers):
    size = 80_000_000
    once = ring_s(size, workers)
    forward_s, backward_s = 1.5 * once, 2.5 * once
    run = simulate(fsdp(workers, layers, size, forward_s, backward_s), packet(workers))
    exposed = 2 * once
    assert run.step_time_s == pytest.approx(exposed + layers * (forward_s + backward_s), rel=1e-9)
    assert run.mean_s["fsdp"] == pytest.approx(exposed, rel=1e-6)
    assert run.mean_s["bubble"] == 0
    moved = 3 * layers * size * (workers - 1)
    assert run.purpose_bytes["fsdp"]["eps"] == moved


def test_fsdp_bound_by_its_gathers_takes_as_long_as_they_do():
    workers, layers, size = 4, 5, 80_000_000
    once = ring_s(size, workers)
    run = simulate(fsdp(workers, layers, size, once / 10, once / 10), packet(workers))
    # three collectives per layer, one after the other, which hide all computation
    assert run.step_time_s == pytest.approx(3 * layers * once)
    timeline = simulate(
        fsdp(workers, 1, size, once, once), packet(workers), timeline_workers=[0]
    ).timeline
    assert set(timeline.stream.tolist()) == {COMPUTE, COMMUNICATION}
    assert [timeline.categories[c] for c in timeline.category[timeline.stream == COMPUTE]] == [
        "fsdp", "forward", "backward", "fsdp",
    ]  # fmt: skip


# DualPipe: DeepSeek-V3 technical report (2024), section 3.2.1, Table 2. F and B are times of a
# forward and a backward chunk, W of a backward for weights alone, F&B of both overlapped. The
# bubble (PP/2 - 1)(F&B + B - 3W) supposes that F = W = B - W and that messages take no time.


def operations(rank, ranks, chunks):
    """What a rank computes, in order: pass and direction of one chunk, or of two overlapped.

    ``i`` is a backward for inputs alone, whose ``w`` for weights follows later. Micro-batches go
    through the ranks in both directions, half of them each.
    """
    place, turned = min(rank, ranks - 1 - rank), rank >= ranks // 2
    before = ranks // 2 - place - 1
    listed = ["f0"] * (2 * before) + ["f0", "f1"] * (place + 1) + ["i1", "w", "f1"] * before
    for number in range(chunks // 2 - ranks + place + 1):
        apart = number == 0 and before == 0
        listed += [*(["f0", "b1"] if apart else ["f0b1"]), "f1b0"]
    listed += ["b1", "f1b0"] * before
    # the second half of the last backwards leaves weights for later
    last = [direction for _ in range(place + 1) for direction in "10"]
    kept = place + 1
    listed += [("b" if n < kept else "i") + direction for n, direction in enumerate(last)]
    listed += ["w", "i0"] * before + ["w"] * (place + 1)
    return [one.translate({48: 49, 49: 48}) for one in listed] if turned else listed


def dualpipe(ranks, chunks, times):
    """One rank per server; messages take no time but tell the order."""
    step = TaskGraphBuilder(range(ranks), gpus_per_worker=8)
    for rank in range(ranks):
        program = step.role(f"rank {rank}", [rank])
        counts = {}
        for one in operations(rank, ranks, chunks):
            parts = []
            for pass_, direction in zip(one[::2], one[1::2], strict=False):
                key = ("f" if pass_ == "f" else "b", int(direction))
                counts[key] = counts.get(key, -1) + 1
                onwards = 1 if key in {("f", 0), ("b", 1)} else -1
                tag = 4 * counts[key] + 2 * key[1] + (key[0] == "b")
                parts.append((onwards, tag))
            for onwards, tag in parts:
                if 0 <= rank - onwards < ranks:
                    program.receive(rank - onwards, tag, "pp")
            program.compute("chunk", times["".join(c for c in one if c.isalpha())])
            for onwards, tag in parts:
                if 0 <= rank + onwards < ranks:
                    program.send(rank + onwards, tag, 0, "pp")
        assert set(counts.values()) == {chunks // 2 - 1}
    return step.build()


def bubbles(ranks, chunks, times):
    base = packet(ranks)
    parts = tuple(dataclasses.replace(part, link_delay_ps=0) for part in base.parts)
    network = dataclasses.replace(base, parts=parts)
    run = simulate(dualpipe(ranks, chunks, times), network)
    return [run.role_s[f"rank {rank}"]["bubble"] for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("more", [0, 6])
def test_the_bubble_of_dualpipe(ranks, more):
    # backwards take twice as long as forwards, half of it for weights
    times = {"f": 1.0, "b": 2.0, "i": 1.0, "w": 1.0, "fb": 3.0}
    expected = (ranks / 2 - 1) * (times["fb"] + times["b"] - 3 * times["w"])
    found = bubbles(ranks, 2 * ranks + more, times)
    assert found == pytest.approx([expected] * ranks)
    # one direction alone, 1F1B: (PP - 1)(F + B)
    assert max(found) < (ranks - 1) * (times["f"] + times["b"])


@pytest.mark.parametrize("ranks", [4, 8])
def test_the_bubble_of_dualpipe_with_faster_overlapped_chunks(ranks):
    times = {"f": 1.0, "b": 2.0, "i": 1.0, "w": 1.0, "fb": 2.5}
    expected = (ranks / 2 - 1) * (times["fb"] + times["b"] - 3 * times["w"])
    assert max(bubbles(ranks, 2 * ranks, times)) == pytest.approx(expected)


# Two all-to-alls at once.


def overlapping(sizes, priorities, between_s=0.0):
    """Two servers, both all-to-alls from server 0 to server 1, on separate streams."""
    step = TaskGraphBuilder(range(2), gpus_per_worker=8)
    pair = step.family("ep", [range(2)])
    counts = np.zeros((1, 2, 2, 2))
    counts[0, :, 0, 1] = sizes
    demand = step.demand("tokens", pair, counts)
    role = step.role("expert", range(2))
    for block, priority in enumerate(priorities):
        moved = Block(demand, block)
        role.all_to_all(
            pair, moved, "ep", handle=block, asynchronous=True, priority=priority, layer=block
        )
        if between_s and block == 0:
            role.compute("between", between_s)
    for block in reversed(range(2)):
        role.wait(block, "ep")
        role.compute("after", 1e-9, layer=block)
    return step.build()


def ends(graph, **options):
    """When each all-to-all was done, as server 1 saw it."""
    run = simulate(graph, packet(2, "hierarchical"), timeline_workers=[1], **options)
    line = run.timeline
    spans = [line.stream == 1, line.category == line.categories.index("ep")]
    chosen = np.logical_and.reduce(spans)
    return dict(zip(line.layer[chosen].tolist(), line.end_s[chosen].tolist(), strict=True))


def test_equal_all_to_alls_share_the_links():
    sizes = [80_000_000, 40_000_000]
    found = ends(overlapping(sizes, (0, 0)))
    rate = NICS * NIC
    assert found[1] == pytest.approx(2 * sizes[1] / rate + 2 * LINK_S)
    assert found[0] == pytest.approx(sum(sizes) / rate + 2 * LINK_S)


def test_the_higher_priority_goes_first_and_the_other_takes_what_is_left():
    sizes = [80_000_000, 40_000_000]
    rate = NICS * NIC
    urgent = ends(overlapping(sizes, (0, 3)))
    assert urgent[1] == pytest.approx(sizes[1] / rate + 2 * LINK_S)
    assert urgent[0] == pytest.approx(sum(sizes) / rate + 2 * LINK_S)
    other = ends(overlapping(sizes, (3, 0)))
    assert other[0] == pytest.approx(sizes[0] / rate + 2 * LINK_S)
    assert other[1] == pytest.approx(sum(sizes) / rate + 2 * LINK_S)


def test_an_urgent_all_to_all_interrupts_one_under_way():
    sizes, between_s = [80_000_000, 40_000_000], 1e-5
    rate = NICS * NIC
    found = ends(overlapping(sizes, (0, 1), between_s))
    assert found[1] == pytest.approx(between_s + sizes[1] / rate + 2 * LINK_S)
    assert found[0] == pytest.approx(sum(sizes) / rate + 2 * LINK_S)


def test_overlapping_all_to_alls_run_on_regional_circuits_too():
    graph = overlapping([60_000_000, 60_000_000], (0, 0))
    run = simulate(graph, mixnet(2))
    carried = run.purpose_bytes["ep"]
    assert carried["eps"] + carried["ocs"] == 120_000_000
    assert carried["ocs"] > 0


# The traffic of experts and gradients of one server together (MoNTA, arXiv 2411.00662).


def experts_and_gradients(experts, gradients, priority):
    """Both leave server 0 at once, each to another server."""
    step = TaskGraphBuilder(range(3), gpus_per_worker=8)
    trainer = step.role("trainer", range(3))
    everyone = step.family("all", [range(3)])
    counts = np.zeros((1, 2, 3, 3))
    counts[0, 0, 0, 1], counts[0, 1, 0, 2] = experts, gradients
    demand = step.demand("bytes", everyone, counts)
    for block, (name, of_block) in enumerate((("ep", priority), ("dp", 0))):
        moved = Block(demand, block)
        more = {"handle": block, "asynchronous": True, "layer": block, "priority": of_block}
        trainer.all_to_all(everyone, moved, name, **more)
    for block, name in enumerate(("ep", "dp")):
        trainer.wait(block, name)
    return step.build()


def two_ends(graph, model):
    """When servers 1 and 2 have what they get."""
    run = simulate(
        graph, packet(3, "hierarchical"), network_model=model, timeline_workers=[0, 1, 2]
    )
    line = run.timeline
    return [
        max(line.end_s[(line.layer == block) & (line.stream == 1)].tolist()) for block in range(2)
    ]


@pytest.mark.parametrize("model", ["flow", Packets("ideal", full=True)], ids=["flow", "packet"])
@pytest.mark.parametrize(
    ("experts", "gradients"), [(8_000_000, 8_000_000), (4_000_000, 24_000_000)]
)
def test_experts_go_first_and_gradients_end_when_they_did(experts, gradients, model):
    rate = NICS * NIC
    #: headers, and packets that fill a path
    slack = 1 if model == "flow" else 1.03
    shared = two_ends(experts_and_gradients(experts, gradients, 0), model)
    strict = two_ends(experts_and_gradients(experts, gradients, 3), model)
    both = (experts + gradients) / rate + 2 * LINK_S
    found = [shared[0], shared[1], strict[0], strict[1]]
    expected = [2 * experts / rate + 2 * LINK_S, both, experts / rate + 2 * LINK_S, both]
    for time_s, closed_s in zip(found, expected, strict=True):
        assert closed_s * (1 - 1e-6) <= time_s <= closed_s * slack + 1e-6, (found, expected)


def test_packets_have_eight_priorities():
    sizes = [8_000] * 9
    step = TaskGraphBuilder(range(2), gpus_per_worker=8)
    pair = step.family("pair", [range(2)])
    role = step.role("sender", range(2))
    for priority, size in enumerate(sizes):
        role.all_to_all(pair, size, "ep", priority=20 * priority)
    packets = Packets("ideal", full=True)
    with pytest.raises(InputError, match="packets have 8 priorities, the task graph has 9"):
        simulate(step.build(), packet(2, "hierarchical"), network_model=packets)


def test_one_priority_is_none_for_packets():
    packets = Packets("dctcp", full=True)
    hashes = {
        simulate(
            overlapping([80_000, 80_000], (priority, priority)),
            packet(2, "hierarchical"),
            network_model=packets,
        ).run_hash
        for priority in (0, 5)
    }
    assert len(hashes) == 1


# A parameter server: workers push gradients to one server and pull parameters from it.


@pytest.mark.parametrize("workers", [1, 3, 7])
def test_a_parameter_server_is_an_incast(workers):
    size, compute_s = 100_000_000, 1e-3
    step = TaskGraphBuilder(range(workers + 1), gpus_per_worker=8)
    star = step.family("star", [range(workers + 1)])
    trainer = step.role("trainer", range(1, workers + 1))
    server = step.role("parameter server", [0])
    trainer.compute("work", compute_s)
    trainer.send((star, 0), 1, size, "push")
    for place in range(1, workers + 1):
        server.receive((star, place), 1, "push")
    server.compute("update", 2 * compute_s)
    for place in range(1, workers + 1):
        server.send((star, place), 2, size, "pull")
    trainer.receive((star, 0), 2, "pull")
    run = simulate(step.build(), packet(workers + 1))
    # all pushes share the server's NICs, and so do all pulls
    pushes_s = workers * size / (NICS * NIC) + 2 * LINK_S
    assert run.step_time_s == pytest.approx(3 * compute_s + 2 * pushes_s)
    assert run.purpose_bytes["push"]["eps"] == run.purpose_bytes["pull"]["eps"] == workers * size
    assert run.critical_path_s["push"] == pytest.approx(pushes_s)
    assert run.critical_path_s["pull"] == pytest.approx(pushes_s)


def test_sizes_and_times_may_differ_between_workers():
    step = TaskGraphBuilder(range(3), gpus_per_worker=8)
    star = step.family("star", [range(3)])
    table = step.table("of workers", np.array([[0, 0], [10**9, 40_000_000], [2 * 10**9, 0]]))
    trainer = step.role("trainer", [1, 2])
    trainer.compute("work", Entry(table, 0))
    trainer.send((star, 0), 0, Entry(table, 1), "push")
    server = step.role("parameter server", [0])
    server.receive((star, 1), 0, "push")
    server.receive((star, 2), 0, "push")
    run = simulate(step.build(), packet(3))
    # the second worker sends nothing, but later
    assert run.step_time_s == pytest.approx(2e-3 + 2 * LINK_S)
    assert run.purpose_bytes["push"]["eps"] == 40_000_000


def test_a_broadcast_goes_along_the_chain():
    step = TaskGraphBuilder(range(4), gpus_per_worker=8)
    everybody = step.family("all", [[2, 0, 1, 3]])
    step.role("trainer", range(4)).broadcast(everybody, 80_000_000, "dp")
    run = simulate(step.build(), packet(4))
    assert run.step_time_s == pytest.approx(80_000_000 / (NICS * NIC) + 3 * 2 * LINK_S)
    assert run.purpose_bytes["dp"]["eps"] == 3 * 80_000_000


def test_a_buffer_is_sent_in_equal_parts():
    step = TaskGraphBuilder(range(4), gpus_per_worker=8)
    everybody = step.family("all", [range(4)])
    step.role("trainer", range(4)).all_to_all(everybody, 80_000_000, "ep")
    run = simulate(step.build(), packet(4))
    assert run.step_time_s == pytest.approx(60_000_000 / (NICS * NIC) + 2 * LINK_S)
    assert run.purpose_bytes["ep"]["eps"] == 3 * 80_000_000
