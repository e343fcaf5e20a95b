"""Two threads: the same results as one, and a reason where there are not two."""

import dataclasses

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import (
    NetworkTable,
    PacketScenario,
    Record,
    make_flows,
    permutation,
    simulate_flows,
)
from lightloom.packets.columns import as_json
from lightloom.progress import Monitor
from lightloom.report.packets_table import work_text

NETWORK = NetworkTable(hosts=16, rate_gbps=100)


def scenario(threads, transport="ndp", **keys):
    return PacketScenario(
        **{"network": NETWORK, "transport": transport, "seed": 3, "threads": threads, **keys}
    )


class Shares(Monitor):
    """Keeps the progress of a run and what finished."""

    def __init__(self):
        self.shares, self.flows = [], []

    def progress(self, share, what=""):  # noqa: ARG002
        self.shares.append(share)
        return True

    def finished(self, result):
        self.flows += result.flow.tolist()


@pytest.mark.parametrize("transport", ["roce", "dctcp", "eqds"])
def test_two_threads_have_the_results_of_one(transport):
    flows = permutation(16, 400_000, seed=2)
    one, two = (simulate_flows(flows, scenario(threads, transport)) for threads in (1, 2))
    assert two.undivided is None
    assert two.run_hash == one.run_hash
    for name, values in dataclasses.asdict(one.links).items():
        assert np.array_equal(values, getattr(two.links, name)), name
    assert np.array_equal(two.fct_s, one.fct_s)
    assert (two.events, two.data_hops, two.end_s) == (one.events, one.data_hops, one.end_s)
    assert [as_json(run, run.scenario)["work"]["threads"] for run in (one, two)] == [1, 2]


def test_progress_counts_both_halves():
    seen = Shares()
    simulate_flows(permutation(16, 4_000_000, seed=2), scenario(2), monitor=seen)
    assert seen.shares == sorted(seen.shares)
    assert seen.shares[-1] == 1.0
    assert sorted(seen.flows) == list(range(16))


def test_a_run_that_one_thread_does_alone_says_why():
    flows = make_flows([0], [5], 100_000)
    sampled = simulate_flows(flows, scenario(2), record=Record(samples=8))
    assert sampled.undivided == "queues are sampled over time"
    assert work_text(sampled).endswith(" One thread did it alone: queues are sampled over time.")
    assert as_json(sampled, sampled.scenario)["work"]["threads"] == 1
    star = NetworkTable(hosts=4, rate_gbps=100, topology="star")
    whole = simulate_flows(make_flows([0], [3], 100_000), scenario(2, network=star))
    assert whole.undivided == "all hosts are on one switch"
    assert "alone" not in work_text(simulate_flows(flows, scenario(1)))


@pytest.mark.parametrize("threads", [0, 3])
def test_there_are_one_or_two_threads(threads):
    with pytest.raises((InputError, ValueError), match="threads"):
        scenario(threads)
