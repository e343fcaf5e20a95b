"""A run from Python: closed forms, what is recorded, how it is watched and stopped."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import (
    Finished,
    NetworkTable,
    PacketScenario,
    Record,
    incast,
    make_flows,
    permutation,
    simulate_flows,
)
from lightloom.packets.spread import spread
from lightloom.progress import Monitor

NETWORK = NetworkTable(hosts=128, rate_gbps=100)


class Seen(Monitor):
    """Keeps what a run tells, and stops it after some calls if asked to."""

    def __init__(self, stop_after=None):
        self.shares, self.texts, self.flows = [], [], []
        self._stop_after = stop_after

    def progress(self, share, what=""):
        self.shares.append(share)
        self.texts.append(what)
        return len(self.shares) != self._stop_after

    def finished(self, result):
        assert isinstance(result, Finished)
        self.flows += result.flow.tolist()


ONE = make_flows([0, 0, 0], [1, 4, 127], 2_000_000, [0.0, 1e-3, 2e-3])


def scenario(transport="roce", **more):
    return PacketScenario(**{"network": NETWORK, "transport": transport, "seed": 1, **more})


def test_one_flow_takes_what_the_closed_form_says():
    # 489 packets of 4,160 B over 2, 4 and 6 links, and an acknowledgment of 64 B back
    for name in ("roce", "ndp", "ideal"):
        run = simulate_flows(ONE, scenario({"name": name, "preset": "published"}))
        links = np.array([2, 4, 6])
        expected = (488 + links) * 0.3328 + links + links * 0.00512 + links
        assert run.fct_s * 1e6 == pytest.approx(expected, rel=1e-12)
        assert run.slowdown == pytest.approx(np.ones(3))
        assert run.data_hops == 489 * 12


def test_subflows_take_several_paths():
    leaves = NetworkTable(
        hosts=8, rate_gbps=100, topology="leaf-spine", hosts_per_leaf=4, oversubscription=1
    )

    def spines(subflows):
        transport = {"name": "mptcp", "subflows": subflows, "initial_window": 400}
        run = simulate_flows(
            make_flows(0, 4, 894 * 8936), scenario(transport, network=leaves, until_s=1e-3)
        )
        above = run.links.layer == run.layers.index("tor up")
        # whichever subflows there are, the host sends at its rate
        assert run.fct_s[0] * 1e6 == pytest.approx((893 + 4) * 0.72 + 8 + 4 * 0.00512)
        return np.count_nonzero(run.links.sent_bytes[above])

    assert spines(1) == 2, "there and back"
    assert spines(8) > 4


def test_early_drops_keep_a_queue_short():
    flows = incast(128, 8, 1_000_000)

    def queue(**early):
        run = simulate_flows(flows, scenario("mptcp", queue={"early_drop": early}))
        return run.links.peak_queue_bytes.max()

    assert queue(on=False) == 900_000, "all of it"
    assert 180_000 < queue(share=0.2, probability=1) < 850_000


def test_the_hops_that_will_be_are_known_before():
    for topology in ({}, {"topology": "star"}, {"topology": "leaf-spine", "hosts_per_leaf": 4},
                     {"topology": "rail"}):  # fmt: skip
        network = NetworkTable(hosts=128, rate_gbps=100, **topology)
        seen = Seen()
        simulate_flows(ONE, scenario(network=network), monitor=seen)
        assert seen.shares[-1] == 1.0


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
    assert plain.run_hash == run.run_hash


def test_series_add_up_to_what_links_and_flows_did():
    flows = incast(16, 8, 300_000)
    network = NetworkTable(hosts=16, rate_gbps=100)
    plain = simulate_flows(flows, scenario("dctcp", network=network))
    for rows in (1, 500, 1_000_000):
        run = simulate_flows(flows, scenario("dctcp", network=network), record=Record(series=rows))
        assert (plain.series, plain.run_hash) == (None, run.run_hash)
        series = run.series
        for is_flow, totals in ((False, run.links.sent_bytes), (True, flows.size_bytes)):
            part = series.is_flow == is_flow
            count = np.bincount(
                series.number[part], series.carried_bytes[part], minlength=len(totals)
            )
            assert count.tolist() == totals.tolist()
        longest = np.zeros(len(run.links.layer), np.uint64)
        np.maximum.at(
            longest, series.number[~series.is_flow], series.max_queue_bytes[~series.is_flow]
        )
        assert longest.tolist() == run.links.peak_queue_bytes.tolist()
        assert (series.end_s <= run.end_s).all()
        assert len(series.number) <= rows or (series.begin_s == 0).all()


def test_a_monitor_has_every_flow_once_and_may_stop():
    seen = Seen()
    simulate_flows(permutation(128, 100_000, seed=1), scenario(), monitor=seen)
    assert sorted(seen.flows) == list(range(128))
    assert seen.shares == sorted(seen.shares)
    assert seen.shares[-1] == 1.0
    assert "128/128 flows, " in seen.texts[-1]
    assert seen.texts[-1].endswith(" data hops/s")
    with pytest.raises(KeyboardInterrupt):
        simulate_flows(permutation(128, 50_000_000, seed=1), scenario(), monitor=Seen(stop_after=1))


def test_the_share_is_of_the_time_where_a_run_stops_early():
    seen = Seen()
    simulate_flows(ONE, scenario(until_s=1e-4), monitor=seen)
    assert seen.shares[-1] == pytest.approx(1.0, rel=0.05)


def test_the_share_is_of_the_hops_where_a_run_ends_before_its_time():
    seen = Seen()
    simulate_flows(ONE, scenario(until_s=1.0), monitor=seen)
    assert seen.shares[-1] == 1.0


def test_a_period_begins_as_long_as_asked_for():
    run = simulate_flows(ONE, scenario(), record=Record(samples=1000, sample_s=3e-6))
    whole = run.samples.end_s < run.end_s
    assert whole.any()
    assert (run.samples.end_s - run.samples.begin_s)[whole] == pytest.approx(3e-6)


def test_a_run_stops_at_its_time():
    run = simulate_flows(ONE, scenario(until_s=1.5e-3))
    assert run.end_s <= 1.5e-3
    assert run.unfinished.tolist() == [2]


def test_a_paused_link_sends_nothing():
    hosts = NetworkTable(hosts=16, rate_gbps=100, topology="leaf-spine", hosts_per_leaf=4)
    run = simulate_flows(incast(16, 12, 1_000_000), scenario("roce", network=hosts))
    links = run.links
    assert ((links.paused_s > 0) == (links.pauses > 0)).all()
    assert links.pauses.any()
    # but the packet that it is sending when it is paused
    sending_s = (links.sent_bytes - 4160.0 * links.pauses) * 8 / (links.rate_gbps * 1e9)
    assert (sending_s + links.paused_s <= run.end_s).all()
    longest = run.layer_use()
    assert sum(layer.paused_s for layer in longest) == pytest.approx(links.paused_s.sum())


def test_layers_are_the_sums_of_their_own_links():
    star = NetworkTable(hosts=4, rate_gbps=100, topology="star")
    # two senders of one payload: each fills its link up, and the third host's link down twice
    flows = make_flows([0, 1], [2, 2], 10 * 4096)
    run = simulate_flows(flows, scenario("ideal", network=star))
    up, down = run.layer_use()
    could = 100e9 / 8 * run.end_s
    sent = run.links.sent_bytes[run.links.layer == 0]
    assert up.links == down.links == 4
    assert up.max_utilization == pytest.approx(sent.max() / could)
    assert up.mean_utilization == pytest.approx(sent.sum() / could / 4)
    assert down.max_utilization <= 1
    assert down.max_utilization == pytest.approx(2 * up.max_utilization, rel=0.02)
    assert down.peak_queue_bytes > up.peak_queue_bytes


def test_counters_of_a_layer_are_its_own():
    hosts = NetworkTable(hosts=16, rate_gbps=100, topology="leaf-spine", hosts_per_leaf=4)
    run = simulate_flows(incast(16, 12, 1_000_000), scenario("ndp", network=hosts))
    for place, layer in enumerate(run.layer_use()):
        own = run.links.layer == place
        for name in ("drops", "control_drops", "trims", "marks", "pauses"):
            assert getattr(layer, name) == getattr(run.links, name)[own].sum(), (layer.name, name)
    # what is trimmed waits for the one receiver
    assert run.layer_use()[0].trims == 0 < run.links.trims.sum()


def test_quantiles_are_values_that_occurred():
    hundred = np.append(np.arange(1.0, 101.0), [np.nan] * 7)
    expected = {"min": 1, "mean": 50.5, "p50": 50, "p99": 99, "max": 100}
    assert spread(hundred[::-1]) == expected
    assert spread(np.array([3.0])) == dict.fromkeys(expected, 3.0)
    assert spread(np.array([np.nan])) is None


def test_what_a_monitor_raises_ends_the_run():
    class Fails(Monitor):
        def progress(self, _share, _what=""):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simulate_flows(ONE, scenario(), monitor=Fails())


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (Record(samples=1), "samples 1: expected 0, or 2 to 100,000 periods"),
        (Record(series=-1), "series -1: expected 0 to 100,000,000 rows"),
        (Record(samples=5, sample_s=0.0), "sample_s 0: expected 1e-12 to 1 s"),
        (Record(trace=-1), "trace -1: expected 0 to 10,000,000 events"),
        (Record(trace=9, trace_flow=3), "trace of flow 3: expected 0 to 2"),
    ],
)
def test_wrong_records(record, line):
    with pytest.raises(InputError) as caught:
        simulate_flows(ONE, scenario(), record=record)
    assert str(caught.value) == line


def test_bursts_of_dctcp_send_flow_by_flow():
    # five flows of 20 packets each from one host: 8,936 B at 100 Gb/s, 1 us per link
    flows = make_flows([0] * 5, [1, 2, 3, 4, 5], 20 * 8936, [0.0] * 5)
    network = NetworkTable(hosts=6, rate_gbps=100, topology="star")

    def received_us(bursts):
        transport = {"name": "dctcp", "bursts": bursts, "initial_window": 20}
        run = simulate_flows(flows, scenario(transport, network=network))
        acknowledgment_us = 2 * (1 + 0.00008)
        return run.fct_s * 1e6 - acknowledgment_us

    one_by_one = (np.arange(1, 6) * 20 + 1) * 0.71488 + 2
    assert received_us(bursts=True) == pytest.approx(one_by_one, rel=1e-9)
    in_turns = received_us(bursts=False)
    assert in_turns.max() == pytest.approx(one_by_one[-1], rel=1e-9)
    assert in_turns.min() > one_by_one[-1] - 10 * 0.71488


def test_flows_of_a_higher_priority_go_first():
    """Two senders share the port of a receiver: whose flow is urgent is as fast as alone."""
    both = make_flows([0, 1], [2, 2], 1_000_000)
    alone_s = simulate_flows(make_flows([0], [2], 1_000_000), scenario("dctcp")).fct_s[0]
    equal = simulate_flows(both, scenario("dctcp")).fct_s
    for urgent in (0, 1):
        priority = [5 * (flow == urgent) for flow in (0, 1)]
        found = simulate_flows(both.with_priority(priority), scenario("dctcp")).fct_s
        assert found[urgent] == pytest.approx(alone_s, rel=0.1)
        assert found[urgent] < 0.8 * equal[urgent]
        assert found[1 - urgent] > found[urgent]
    same = simulate_flows(both.with_priority(3), scenario("dctcp")).fct_s
    assert same.tolist() == equal.tolist()
