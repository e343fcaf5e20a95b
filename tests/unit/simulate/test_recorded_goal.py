"""Recorded steps in GOAL: read by us, and written as the reader of LogGOPSim wants it."""

import re
from collections import Counter

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph, packet
from tests.unit.simulate.test_recording import NETWORKS, random_step, record

from lightloom.output.recordings import write_recording
from lightloom.packets import load_scenario, read_goal, simulate_flows

#: what txt2bin of LogGOPSim reads: tag, cpu and nic in this order, of calc the cpu alone
OPERATION = re.compile(
    r"(l\d+): (?:(?:send \d+b to|recv \d+b from) \d+(?: tag (\d+))?(?: cpu (\d+))?(?: nic (\d+))?"
    r"|calc \d+(?: cpu (\d+))?)"
)
WAIT = re.compile(r"(l\d+) requires (l\d+)")


def played(recording, folder):
    write_recording(recording, folder)
    flows = read_goal(folder / "step.goal")
    return simulate_flows(flows, load_scenario(folder / "scenario.toml"))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("seed", range(3))
def test_a_replay_takes_longer_by_the_latency_of_what_ranks_are_told(seed, network, tmp_path):
    run = record(random_step(seed), NETWORKS[network])
    again = played(run.recording, tmp_path / "step")
    operations, programs = again.operations, again.flows.programs
    path = operations.critical.tolist()
    messages = sum(programs.kind[operation] == "send" for operation in path)
    spans = sum(programs.kind[operation] == "compute" for operation in path)
    # six links of a microsecond there, an acknowledgment back, and half a microsecond for packets;
    # computations are rounded up to nanoseconds
    most_s = messages * 12.5e-6 + spans * 1e-9
    assert run.step_time_s <= operations.makespan_s + 1e-12
    assert operations.makespan_s <= run.step_time_s + most_s
    # a message of one byte apart, every byte is there once, over the same NICs
    sent, flows = run.recording, again.flows
    ends = zip(sent.source, sent.destination, sent.size_bytes, sent.source_nic, strict=True)
    nics = np.zeros(len(flows), int) if flows.nics is None else flows.nics[0]
    kept = zip(flows.source, flows.destination, flows.size_bytes, nics, strict=True)
    kept = Counter(tuple(map(int, row)) for row in kept)
    own = Counter(tuple(map(int, row)) for row in ends)
    assert own <= kept
    assert {size for _, _, size, _ in (kept - own)} <= {1}


def test_ranks_that_only_wait_for_their_own_messages_are_told_nothing(tmp_path):
    first = Steps().compute(20e-6).send(1, 0, 400_000).receive(1, 1)
    second = Steps().receive(0, 0).compute(30e-6).send(0, 1, 400_000)
    run = record(graph([first, second]), packet(2))
    again = played(run.recording, tmp_path / "step")
    assert len(again.flows) == len(run.recording)
    # each send ends with an acknowledgment, for which nobody waits
    assert again.operations.makespan_s == pytest.approx(run.step_time_s, abs=1e-9)


@pytest.mark.parametrize("network", NETWORKS)
def test_every_line_is_one_that_txt2bin_reads(network):
    text = record(random_step(7), NETWORKS[network]).recording.goal_text()
    lines = text.split("\n")
    assert lines[0] == "num_ranks 8"
    known, ranks = set(), []
    for line in filter(None, lines[1:]):
        if (rank := re.fullmatch(r"rank (\d+) \{", line)) is not None:
            ranks.append(int(rank[1]))
            known.clear()
        elif (operation := OPERATION.fullmatch(line)) is not None:
            label, tag, *places = operation.groups()
            assert label not in known
            known.add(label)
            assert int(tag or 0) < 2**32
            assert all(int(place or 0) < 256 for place in places)
        elif (wait := WAIT.fullmatch(line)) is not None:
            # of labels that were there before
            assert known.issuperset(wait.groups())
        else:
            assert line == "}"
    assert ranks == list(range(8))
    # a message without bytes has 2^64 - 1 of them there
    assert not re.search(r" 0b ", text)
    sizes = {size: len(re.findall(rf"\b{size}b ", text)) % 2 for size in ("1",)}
    assert sizes == {"1": 0}


def test_spans_that_overlap_are_on_processors_of_their_own():
    text = record(random_step(3), NETWORKS["rail"]).recording.goal_text()
    cpus = [int(cpu) for cpu in re.findall(r"calc [1-9]\d* cpu (\d+)", text)]
    assert len(cpus) == len(re.findall(r"calc [1-9]", text)) > 0
    assert min(cpus) == 1
    assert len(set(cpus)) > 1
