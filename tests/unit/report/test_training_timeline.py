"""The timeline of a run over circuits: a lane per circuit, and nothing that is not measured."""

import json

import numpy as np
import pytest

from lightloom.report.training_timeline import LitSpan, lit_spans, write_training_timeline
from lightloom.testbed.training import TrainedStep

A, B, C = (0, 0, 1, 0), (0, 1, 2, 0), (1, 1, 2, 1)


def step(number, begin_s, length_s, changes):
    moved = {
        "name": "all_to_all", "layer": 0, "begin_s": begin_s + 0.2, "end_s": begin_s + 0.3,
        "waited_s": 0.1, "remote_bytes": 7, "circuits": 2,
    }  # fmt: skip
    return TrainedStep(
        number, 1.5, length_s, 0.1, 0.1, 2, [moved], begin_s, 28, [list(one) for one in changes]
    )


def test_circuits_carry_traffic_from_change_to_change():
    steps = [
        step(0, 10.0, 1.0, [[(9.0, [A, B]), (10.5, [B])], [(9.0, [A, C])], []]),
        step(1, 11.0, 1.0, [[(11.2, [A, B])], [(11.1, [A])], []]),
    ]
    assert lit_spans(steps) == [
        LitSpan(A, 9.0, 10.5), LitSpan(A, 11.2, 12.0), LitSpan(B, 9.0, 12.0), LitSpan(C, 9.0, 11.1),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_what_was_seen(seed):
    """At any time the spans that cover it are the circuits of the latest change."""
    rng = np.random.default_rng(seed)
    rows = [(0, nic, 1 + nic % 2, nic) for nic in range(4)]
    times = np.sort(rng.uniform(0, 8, 20)).tolist()
    changes = [(at, [row for row in rows if rng.random() < 0.5]) for at in times]
    split = int(rng.integers(0, 20))
    steps = [step(0, 0.0, 4.0, [changes[:split]]), step(1, 4.0, 4.0, [changes[split:]])]
    spans = lit_spans(steps)
    for at in rng.uniform(times[0], 8, 50):
        seen = next(lit for when, lit in reversed(changes) if when <= at)
        assert [s.circuit for s in spans if s.up_s <= at < s.down_s] == seen


def test_lanes_are_steps_a_rank_and_circuits(tmp_path):
    path = tmp_path / "run.json"
    steps = [step(0, 10.0, 1.0, [[(9.0, [A]), (10.5, [B])], [(9.0, [A])], []])]
    write_training_timeline(steps, path, name="testbed, never")
    events = json.loads(path.read_text())["traceEvents"]
    lanes = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert lanes == ["steps", "rank 0 · all-to-alls", "circuit 0/0-1/0", "circuit 0/1-2/0"]
    spans = {(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert spans == {
        ("step 0", 0, 1e6), ("waits for circuits", 1e5, 1e5), ("dispatch", 2e5, 1e5),
        ("carries traffic", 0, 5e5), ("carries traffic", 5e5, 5e5),
    }  # fmt: skip
    counts = [e["args"]["circuits"] for e in events if e["ph"] == "C"]
    assert counts[-1] == 0
    assert min(counts) >= 0
