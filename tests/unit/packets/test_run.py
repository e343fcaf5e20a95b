"""A run from Python: closed forms, what is recorded, how it is watched and stopped."""

import io

import numpy as np
import pytest
from rich.console import Console

from lightloom.errors import InputError
from lightloom.output.packet_progress import PacketWatcher
from lightloom.packets import (
    Finished,
    Network,
    Progress,
    Record,
    Scenario,
    make_flows,
    permutation,
    simulate_flows,
)

NETWORK = Network(hosts=128, rate_gbps=100)
ONE = make_flows([0, 0, 0], [1, 4, 127], 2_000_000, [0.0, 1e-3, 2e-3])


def scenario(transport="roce", **more):
    return Scenario(**{"network": NETWORK, "transport": transport, "seed": 1, **more})


def test_one_flow_takes_what_the_closed_form_says():
    # 489 packets of 4,160 B over 2, 4 and 6 links, and an acknowledgement of 64 B back
    for name in ("roce", "ndp", "ideal"):
        run = simulate_flows(ONE, scenario(name))
        links = np.array([2, 4, 6])
        expected = (488 + links) * 0.3328 + links + links * 0.00512 + links
        assert run.fct_s * 1e6 == pytest.approx(expected, rel=1e-12)
        assert run.slowdown == pytest.approx(np.ones(3))
        assert run.data_hops == 489 * 12


def test_the_hops_that_will_be_are_known_before():
    for topology in ({}, {"topology": "star"}, {"topology": "leaf-spine", "hosts_per_leaf": 4},
                     {"topology": "rail"}):  # fmt: skip
        network = Network(hosts=128, rate_gbps=100, **topology)
        seen = []
        run = simulate_flows(ONE, scenario(network=network), progress=seen.append)
        assert run.data_hops == seen[-1].expected_hops


def test_what_is_recorded():
    run = simulate_flows(
        ONE, scenario(), record=Record(samples=64, sample_s=1e-6, trace=1000, trace_flow=1)
    )
    assert set(run.trace.flow.tolist()) == {1}
    assert len(run.trace.time_s) == 1000
    assert run.trace.event[0] == "sent"
    assert run.samples is not None
    periods = len(run.samples.layer) / len(run.layers)
    assert 32 <= periods <= 65
    carried = run.samples.carried_bytes.sum()
    assert carried == run.links.sent_bytes.sum()
    plain = simulate_flows(ONE, scenario())
    assert plain.samples is None
    assert not plain.trace.event
    assert plain.trace_hash == run.trace_hash


def test_progress_has_every_flow_once_and_may_stop():
    seen = []
    flows = permutation(128, 100_000, seed=1)
    run = simulate_flows(flows, scenario(), progress=seen.append)
    assert sorted(flow for at in seen for flow in at.finished.flow.tolist()) == list(range(128))
    assert seen[-1].data_hops == seen[-1].expected_hops == run.data_hops
    with pytest.raises(KeyboardInterrupt):
        simulate_flows(permutation(128, 50_000_000, seed=1), scenario(), progress=lambda _at: False)


def test_what_a_watcher_raises_ends_the_run():
    def fail(_at):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simulate_flows(ONE, scenario(), progress=fail)


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (Record(samples=1), "samples 1: expected 0, or 2 to 100,000 periods"),
        (Record(samples=5, sample_s=0.0), "sample_s 0: expected 1e-12 to 1 s"),
        (Record(trace=-1), "trace -1: expected 0 to 10,000,000 events"),
        (Record(trace=9, trace_flow=3), "trace of flow 3: expected 0 to 2"),
    ],
)
def test_wrong_records(record, line):
    with pytest.raises(InputError) as caught:
        simulate_flows(ONE, scenario(), record=record)
    assert str(caught.value) == line


def test_a_terminal_sees_progress_after_a_moment(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("lightloom.output.packet_progress.time.monotonic", lambda: now[0])
    shown, rows = io.StringIO(), []
    console = Console(file=shown, force_terminal=True, width=80)
    none = np.zeros(0)
    with PacketWatcher(console, 4, rows.append, until_s=None) as watcher:
        watcher.progress(Progress(1e-6, 10, 100, Finished(np.array([2]), none, none)))
        assert not shown.getvalue()
        now[0] = 2.0
        watcher.progress(Progress(2e-6, 50_000, 100_000, Finished(np.array([], int), none, none)))
    assert len(rows) == 1
    assert watcher.done.tolist() == [False, False, True, False]
    assert "2 us, 1/4 flows, 25,000 data hops/s" in shown.getvalue()
    assert "50 %" in shown.getvalue()
