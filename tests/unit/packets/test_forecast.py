"""What a packet run will cost, told before it begins; runs that would take days are refused."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.forecast import Forecast, forecast
from lightloom.packets.settings import resolve
from lightloom.progress import Monitor


class Remarks(Monitor):
    """Keeps what is said before the run, and stops the run."""

    def __init__(self):
        self.texts, self.shares = [], []

    def remark(self, text):
        assert not self.shares, "said before the run"
        self.texts.append(text)

    def progress(self, share, _activity=""):
        self.shares.append(share)
        return False


def scenario(hosts=4, transport="ndp", **more):
    network = NetworkTable(hosts=hosts, rate_gbps=100, topology="star")
    return PacketScenario(network=network, transport=transport, seed=1, **more)


def begin(flows, described):
    seen = Remarks()
    with pytest.raises(KeyboardInterrupt):
        simulate_flows(flows, described, monitor=seen)
    assert seen.shares == [0.0], "stopped before the first event"
    return seen.texts


def test_work_is_a_hop_for_each_packet_and_link():
    flows = make_flows([0, 1], [2, 3], [4096 * 10, 1], [0, 0])
    described = scenario()
    work = forecast(22, flows, described, resolve(described))
    assert (work.packets, work.hops) == (11, 22)
    assert (work.payload_bytes, work.wire_bytes) == (4096, 4160)
    assert work.seconds == pytest.approx(22 / 3e6)
    assert work.remark() is None
    work.check()


def test_a_run_that_stops_early_is_the_work_until_then():
    flows = make_flows([0, 1], [2, 3], 10**12, [0, 0])
    packets = 2 * np.ceil(10**12 / 4096)
    for until_s, expected in ((1e-3, 2 * 100e9 / 8 * 1e-3 / 4160), (1e3, packets)):
        described = scenario(until_s=until_s)
        work = forecast(int(2 * packets), flows, described, resolve(described))
        assert work.packets == pytest.approx(expected)
        assert work.hops == pytest.approx(2 * expected)


def test_long_runs_are_announced_in_their_own_unit():
    def text(hops):
        return Forecast(1e9, hops, 4096, 4160, stops_early=False).remark()

    assert text(60 * 3e6) is None
    assert text(90 * 3e6) == "1B packets, which cross 270M links in all, about 90 s"
    assert text(150 * 3e6).endswith("about 2.5 minutes")
    assert text(9000 * 3e6).endswith("about 2.5 hours")
    assert text(86_400 * 4.24 * 3e6).endswith("about 4.2 days")


def test_small_packets_are_announced_however_short_the_run():
    flows = make_flows([0], [1], 1000, [0])
    (text,) = begin(flows, scenario(packet={"mtu_bytes": 1}))
    assert text == (
        "packets of 1 B of data and 64 B of header: 1,000 packets, which cross 2,000 links "
        "in all, about 1 s; a larger MTU needs fewer"
    )
    assert begin(flows, scenario(packet={"mtu_bytes": 64})) == []
    # DCTCP's sizes include the header
    (text,) = begin(flows, scenario(transport="dctcp", packet={"mtu_bytes": 10}))
    assert text.startswith("packets of 10 B of data: 100 packets, which cross 200 links")
    assert begin(flows, scenario(transport="dctcp", packet={"mtu_bytes": 64})) == []


def test_days_of_work_are_refused_unless_the_run_ends_by_itself():
    flows = make_flows(np.arange(100), np.arange(100) ^ 1, 4 * 10**12, np.zeros(100))
    small = {"mtu_bytes": 2048}
    with pytest.raises(InputError) as caught:
        simulate_flows(flows, scenario(100, packet=small))
    assert str(caught.value) == (
        "the flows are 195.3B packets, which cross 390.6B links in all, about 36 hours; expected "
        "at most a day: make them smaller, enlarge the MTU, or stop the run at a time (--until, "
        "until_s)"
    )
    assert begin(flows, scenario(100, packet=small, until_s=1e-3)) == []
    (text,) = begin(flows, scenario(100, packet={"mtu_bytes": 16384}))
    assert text == "24.41B packets, which cross 48.83B links in all, about 4.5 hours"


@pytest.mark.parametrize("transport", ["ndp", "eqds", "dctcp", "roce"])
def test_memory_follows_the_packets_in_flight(transport):
    """A flow of 4 TB has a billion packets; a fraction of them is ever in flight."""
    flows = make_flows(np.arange(50), np.arange(50) + 50, 4 * 10**12, np.zeros(50))
    run = simulate_flows(flows, scenario(100, transport, until_s=2e-4))
    assert np.isnan(run.fct_s).all()
    assert run.peak_packets < 50 * 2000


@pytest.mark.parametrize("transport", ["ndp", "eqds"])
def test_what_is_resent_over_a_long_link_is_bounded(transport):
    network = NetworkTable(hosts=4, rate_gbps=100, link_delay_s=0.01)
    described = PacketScenario(network=network, transport=transport, seed=1)
    run = simulate_flows(make_flows([0], [3], 100_000_000, [0]), described)
    packets = 24_415
    assert packets * 4 <= run.data_hops <= packets * 4 * 1.01


def test_the_end_of_a_run_is_its_users_choice():
    days = Forecast(1e13, 1e13, 4096, 4160, stops_early=True)
    assert days.seconds > 86_400
    days.check()
    with pytest.raises(InputError, match="expected at most a day"):
        Forecast(1e13, 1e13, 4096, 4160, stops_early=False).check()
