"""Comparisons whose communication phases are packets."""

import io

import pytest
from rich.console import Console

from lightloom.errors import InputError
from lightloom.progress import Monitor
from lightloom.report.page import render
from lightloom.report.table import print_comparison
from lightloom.study.compare import compare
from lightloom.study.compare import packets as module
from lightloom.study.compare.scenario import ClusterOptions, PacketOptions, Scenario


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
        assert found["simulated"] == "phases"
        assert found["step_time_as_flows_s"] == pytest.approx(other.step_time_s)
        longer = mine.step_time_s / other.step_time_s - 1
        assert found["longer_share"] == pytest.approx(longer)
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


@pytest.fixture
def phases_file(tmp_path):
    """Four servers of which all send to all, in two groups at the same time."""
    path = tmp_path / "phases.csv"
    pairs = [(a, b) for a in range(32) for b in range(32) if a != b and (a - b) % 2 == 0]
    rows = "\n".join(f"0,{a},{b},400000,0" for a, b in pairs)
    path.write_text(f"phase,source,destination,bytes,compute_s\n{rows}\n")
    return path


def of_phases(path, **changes):
    cluster = ClusterOptions(rate_gbps=400)
    return Scenario(workload=path, cluster=cluster, compute_spread=0.0, **changes)


def test_small_steps_are_whole_unless_phases_are_asked_for(phases_file):
    fabrics = ("fat-tree", "oversub")
    found = {}
    for phases in (None, "whole", "all"):
        options = PacketOptions(transport="roce", phases=phases)
        study = of_phases(phases_file, network="packet", packets=options, fabrics=fabrics)
        remarks = Remarks()
        found[phases] = compare(study, monitor=remarks)
        (text,) = (text for text in remarks.texts if text.startswith("packets: "))
        assert ("whole steps" in text) == (phases != "all")
    for default, whole, alone in zip(*(each.results for each in found.values()), strict=True):
        assert default.packets == whole.packets
        assert default.run_hash == whole.run_hash
        assert default.packets["simulated"] == "whole"
        assert default.packets["packet_hops"] > 0 == len(default.packets["phases"])
        assert alone.packets["simulated"] == "phases"
        flows_s = default.packets["step_time_as_flows_s"]
        assert flows_s == alone.packets["step_time_as_flows_s"] < default.step_time_s
        assert any("a whole step of " in note for note in default.notes)
    shown = Console(width=160, record=True, file=io.StringIO())
    print_comparison(found[None], shown)
    text = " ".join(shown.export_text().split())
    assert "as flows" in text
    assert "packets: by how much the step is longer than as flows" in text
    assert "as flows<small>[s]</small>" in render(found[None])
    flows = compare(of_phases(phases_file, fabrics=fabrics))
    assert "as flows<small>" not in render(flows)


def test_phases_are_refused_where_circuits_follow_the_clock(phases_file):
    options = PacketOptions(phases=5)
    study = of_phases(phases_file, network="packet", packets=options, fabrics=("rotornet",))
    with pytest.raises(InputError, match=r"rotornet: its circuits change by the clock.*whole"):
        compare(study)


def test_circuits_that_follow_the_clock_are_in_whole_steps(phases_file):
    options = PacketOptions(transport="ideal")
    fabrics = ("fat-tree", "rotornet", "helios", "x-nest-plus")
    study = of_phases(phases_file, network="packet", packets=options, fabrics=fabrics)
    for result in compare(study).results:
        assert result.packets["simulated"] == "whole"
        assert result.packets["packet_hops"] > 0
        # Helios' circuits are lit by then as flows, and its packets are on the core already
        assert -0.1 < result.packets["longer_share"] < 0.5


def test_long_ones_have_to_be_asked_for(scenario, monkeypatch):
    monkeypatch.setattr(module, "LONG_S", 1e-3)
    changes = {"network": "packet", "seeds": 1, "compute_spread": 0.0, "policies": False}
    remarks = Remarks()
    with pytest.raises(InputError, match="give --phases 5 to simulate 5 of each purpose"):
        compare(scenario(**changes), monitor=remarks)
    whole = PacketOptions(phases="whole")
    with pytest.raises(InputError, match=r"packets: whole steps, .*: give --phases all"):
        compare(scenario(**changes, packets=whole), monitor=remarks)
    assert remarks.rows == []


class Book:
    """Phases of a fabric that are still to be simulated."""

    def __init__(self, hops):
        self.pending = (1, hops)
        self.all_hops = 3 * hops
        self.placed_hops = 2 * hops
        self.all_flows = 0

    def counts(self):
        return {}


@pytest.mark.parametrize(
    ("hops", "text"),
    [(10**8, "about 20 s"), (10**9, "about 3 minutes"), (6 * 10**10, "about 3 hours")],
)
def test_guesses_are_rough(hops, text):
    sampled = PacketOptions(phases=5)
    assert module.prediction({"fat-tree": Book(hops)}, sampled).endswith(text)


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
    assert module.predicted_s(pending, PacketOptions()) == pytest.approx(seconds)


def test_ten_minutes_need_not_be_asked_for(scenario):
    packets = scenario(network="packet")
    module.check_size(packets, {"mixnet": Book(600 * module.RATE_PER_S)})
    longer = {"mixnet": Book(601 * module.RATE_PER_S)}
    with pytest.raises(InputError, match="about 10 minutes: give --phases 5"):
        module.check_size(packets, longer)
    module.check_size(scenario(network="packet", packets=PacketOptions(full=True)), longer)
    module.check_size(scenario(), longer)
    with pytest.raises(InputError, match="about 20 minutes: give fewer layers"):
        module.check_size(packets, {"mixnet": Book(600 * module.RATE_PER_S)}, whole=True)


def test_a_plane_may_fail_during_a_step(phases_file):
    fabric = {"fabrics": ("dual-plane",), "fabric_options": {"dual-plane": {"planes": 8}}}

    def found(failure, phases="whole"):
        options = PacketOptions(transport="uet-nscc", phases=phases, plane_failure=failure)
        study = of_phases(phases_file, network="packet", packets=options, **fabric)
        return compare(study).results[0].step_time_s

    healthy = found(None)
    failed = found(f"3@{healthy / 2}")
    assert healthy < failed < healthy / 2 * (1 + 8 / 7) + 100e-6
    for wrong, text in (("x@1ms", "expected such as 1@2ms"), ("1", "expected WHAT@START")):
        with pytest.raises(InputError, match=text):
            found(wrong)
    with pytest.raises(InputError, match="add --phases whole"):
        found("1@2ms", None)
