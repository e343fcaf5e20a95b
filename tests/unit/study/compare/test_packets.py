"""Comparisons whose communication phases are packets."""

import pytest

from lightloom.errors import InputError
from lightloom.progress import Monitor
from lightloom.study.compare import compare
from lightloom.study.compare import packets as module
from lightloom.study.compare.scenario import PacketOptions


class Remarks(Monitor):
    def __init__(self):
        self.texts, self.rows = [], []

    def remark(self, text):
        self.texts.append(text)

    def finished(self, row):
        self.rows.append(row)


@pytest.fixture(scope="module")
def sampled(scenario):
    options = PacketOptions(transport="ideal", phases=1)
    changes = {"seeds": 1, "compute_spread": 0.0, "policies": False}
    remarks = Remarks()
    found = compare(scenario(network="packet", packets=options, **changes), monitor=remarks)
    return found, compare(scenario(**changes)), remarks


def test_phases_are_stated_and_slower_than_flows(sampled):
    packets, flows, remarks = sampled
    for mine, other in zip(packets.results, flows.results, strict=True):
        found = mine.packets
        assert found["transport"] == "ideal"
        assert found["step_time_as_flows_s"] == pytest.approx(other.step_time_s)
        ep = found["phases"]["ep"]
        assert ep["simulated"] == 1 < ep["distinct"]
        assert ep["stretch_interval"] == [ep["stretch"]] * 2
        # headers alone are 64 bytes of 4,096
        assert 1 + 64 / 4096 < ep["stretch"] < 1.2
        assert mine.step_time_s > other.step_time_s
        assert mine.carried_bytes == other.carried_bytes
        assert any(note.startswith("packets of 4,096 B by ideal: EP 1 of ") for note in mine.notes)
        assert other.packets == {}
    assert any("1 of each purpose once" in line for line in packets.inputs["summary"])
    (text,) = remarks.texts
    assert text.startswith("packets: ")
    assert "distinct phases" in text
    assert "about" in text
    assert {row["network"] for row in remarks.rows} == {"packet"}


def test_long_ones_have_to_be_asked_for(scenario, monkeypatch):
    monkeypatch.setattr(module, "LONG_S", 1e-3)
    changes = {"network": "packet", "seeds": 1, "compute_spread": 0.0, "policies": False}
    remarks = Remarks()
    with pytest.raises(InputError, match="give --phases 5 to simulate 5 of each purpose"):
        compare(scenario(**changes), monitor=remarks)
    assert remarks.rows == []


class Book:
    """Phases of a fabric that are still to be simulated."""

    def __init__(self, hops):
        self.pending = (1, hops)

    def counts(self):
        return {}


@pytest.mark.parametrize(
    ("hops", "text"),
    [(10**8, "about 50 s"), (10**9, "about 8 minutes"), (6 * 10**10, "about 8 hours")],
)
def test_guesses_are_rough(hops, text):
    assert module.prediction({"fat-tree": Book(hops)}).endswith(text)


@pytest.mark.parametrize(
    ("cores", "hops", "seconds"),
    [
        (1, (10, 20, 30), 60),
        # a fabric is on one core
        (2, (10, 20, 30), 30),
        (2, (20, 20, 20), 30),
        (64, (10, 20, 30), 30),
        (64, (30,), 30),
    ],
)
def test_fabrics_share_the_cores(monkeypatch, cores, hops, seconds):
    monkeypatch.setattr(module.os, "cpu_count", lambda: cores)
    pending = {str(place): Book(count * module.RATE_PER_S) for place, count in enumerate(hops)}
    assert module.predicted_s(pending) == pytest.approx(seconds)


def test_ten_minutes_need_not_be_asked_for(scenario):
    packets = scenario(network="packet")
    module.check_size(packets, {"mixnet": Book(600 * module.RATE_PER_S)})
    longer = {"mixnet": Book(601 * module.RATE_PER_S)}
    with pytest.raises(InputError, match="about 10 minutes: give --phases 5"):
        module.check_size(packets, longer)
    module.check_size(scenario(network="packet", packets=PacketOptions(full=True)), longer)
    module.check_size(scenario(), longer)
