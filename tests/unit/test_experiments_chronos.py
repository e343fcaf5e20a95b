"""Circuits against DCQCN: the parts of the experiment by hand, its committed files recomputed."""

import csv
import importlib
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lightloom.errors import InputError

HERE = Path(__file__).parents[2] / "experiments" / "chronos-fig6"
MODULES = ("settings", "cases", "tables", "results", "run")
#: 4 GPUs, 256 tokens each, two packet simulations of two and three matrices
SMALL = """
[matrices]
count = 3
seed = 1
experts = 4
tokens = 256
token_bytes = 4096
logit_sd = 1.0

[network]
rate_gbps = 800
link_delay_s = "250 ns"
sizes = { mtu_bytes = 4096, header_bytes = 64 }

[circuits]
delays_s = [0.0, 1e-6]

[packet.tuned]
title = "DCQCN"
transport = "dcqcn"
tuned = "tuned"
count = 3

[packet.roce]
title = "RoCE"
transport = "roce"
count = 2

[tuning]
seed = 7
matrices = 1
trials = 1
sampler_seed = 1

[tuning.ranges.tuned]
gain = [0.001, 0.5]
"""


@pytest.fixture(scope="module")
def chronos():
    """The experiment's modules; other experiments have some of the same name."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    path = list(sys.path)
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path[:] = path
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture(scope="module")
def settings(chronos):
    return chronos.settings.load()


@pytest.fixture(scope="module")
def matrices(chronos, settings):
    return chronos.cases.Matrices.draw(settings)


@pytest.fixture
def small(chronos, tmp_path, monkeypatch):
    """The experiment in a folder of its own, with the small settings; returns the folder."""
    settings = load_text(chronos, tmp_path, SMALL)
    monkeypatch.setattr(chronos.run, "load", lambda: settings)
    monkeypatch.setattr(chronos.run, "TABLE", tmp_path / "table.md")
    monkeypatch.setattr(chronos.run, "RUNS", tmp_path / "runs.csv")
    monkeypatch.setattr(chronos.results, "ROOT", tmp_path)
    return tmp_path


def load_text(chronos, folder, text):
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return chronos.settings.load(path)


def main(chronos, monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["run.py", *options])
    return chronos.run.main()


def test_matrices_are_whole_tokens_that_leave_their_gpu(chronos, settings):
    drawn = chronos.cases.demands(settings, 20, 6)
    shape = settings.matrices
    assert drawn.shape == (20, 16, 16)
    assert (drawn >= 0).all()
    assert (drawn % shape.token_bytes == 0).all()
    assert (drawn.diagonal(axis1=1, axis2=2) == 0).all()
    assert (drawn.sum(axis=2) <= shape.tokens * shape.token_bytes).all()
    # what does not leave is for the expert on the GPU itself: on average a sixteenth
    left = drawn.sum() / (20 * 16 * shape.tokens * shape.token_bytes)
    assert left == pytest.approx(15 / 16, abs=0.01)


def test_matrices_depend_on_the_seed_alone(chronos, settings):
    drawn = chronos.cases.demands(settings, 4, 6)
    np.testing.assert_array_equal(drawn[:2], chronos.cases.demands(settings, 2, 6))
    assert (drawn != chronos.cases.demands(settings, 4, 7)).any(axis=(1, 2)).all()
    assert (drawn[0] != drawn[1]).any()


def test_demand_is_as_uneven_as_the_papers(matrices):
    """Figure 4: 4 of 16 experts up to 80 %; Figure 6: circuits take some 10 ms."""
    share = (
        np.sort(matrices.demands.sum(axis=1), axis=1) / matrices.demands.sum(axis=(1, 2))[:, None]
    )
    assert np.percentile(share[:, -4:].sum(axis=1), 99) == pytest.approx(0.8, abs=0.05)
    assert matrices.circuits_s[0].mean() == pytest.approx(10.13e-3, abs=0.5e-3)


def test_circuits_take_the_busiest_ports_time_and_their_switching(chronos, settings):
    """100 B take 1 ns at 800 Gb/s; the second port receives most, 500 kB."""
    demand = np.array([[0, 200, 100], [100, 0, 0], [0, 300, 0]]) * 1000
    line = 500e3 * 8 / 800e9
    assert chronos.cases.line_s(settings, demand) == line
    assert chronos.cases.line_s(settings, demand.T) == line
    assert chronos.cases.circuit_s(settings, demand, 0.0) == line
    # its two senders need two configurations, and no third is needed for the others
    assert chronos.cases.circuit_s(settings, demand, 1e-6) == pytest.approx(line + 2e-6)


def test_fair_flows_take_as_long_as_the_busiest_port(chronos, settings):
    """Pairs that share no port: the greatest of the three; a shared sender: the sum."""
    token = settings.matrices.token_bytes
    second = token * 8 / 800e9
    alone = np.array([[0, 50, 0], [0, 0, 80], [20, 0, 0]]) * token
    shared = np.array([[0, 50, 30], [0, 0, 0], [0, 0, 0]]) * token
    for demand in (alone, shared):
        assert chronos.cases.fluid_s(settings, demand) == pytest.approx(80 * second, rel=1e-6)


def test_one_flow_takes_its_packets_and_a_round_trip(chronos, settings):
    """100 packets of 4,160 B, once more through the switch, 1 us, and acknowledgments of 64 B."""
    demand = np.zeros((16, 16), np.int64)
    demand[3, 5] = 100 * 4096
    own, small = (
        chronos.cases.packet_s(chronos.cases.packet_case(settings, name), demand)
        for name in ("published", "small")
    )
    assert own == pytest.approx((101 * 4160 + 2 * 64) * 8 / 800e9 + 1e-6, abs=1e-9)
    # 410 packets of 1,048 B, but for the last one's 400 B less
    assert small == pytest.approx((411 * 1048 + 2 * 64) * 8 / 800e9 + 1e-6, abs=10e-9)


def test_what_is_tuned_reaches_the_packet_network(chronos, settings):
    case = chronos.cases.packet_case(settings, "timer")
    found = chronos.settings.tuned("timer")
    assert case.transport["increase_interval_s"] == found["increase_interval_s"] == 5.19e-6
    assert case.queue.ecn.max_bytes == found["ecn_max_bytes"] == 3_700_000
    assert chronos.cases.parameters(settings, "tuned")["increase_interval_s"] == 300e-6
    assert chronos.cases.parameters(settings, None)["ecn_max_bytes"] == 12_800_000


def test_gains_are_shares_of_the_packet_networks_time(chronos, tmp_path):
    """By hand: circuits take 9, 8 and 6 ms, packets 10 ms: 10, 20 and 40 % less."""
    settings = load_text(chronos, tmp_path, SMALL)
    circuits = np.array([9e-3, 8e-3, 6e-3])
    matrices = chronos.cases.Matrices(
        np.zeros((3, 4, 4), np.int64), circuits, circuits, np.array([circuits, circuits * 1.5])
    )
    runs = {("tuned", index): 10e-3 for index in range(3)}
    runs |= {("roce", 0): 18e-3, ("roce", 1): 8e-3}
    lines = chronos.tables.table(settings, matrices, runs).splitlines()
    rows = (line[2:-2].partition(" | ") for line in lines)
    cells = {title: text for title, _, text in rows}
    # sd: sqrt((13.33^2 + 3.33^2 + 16.67^2) / 3)
    assert cells["DCQCN"] == "3 | 10.00 | 23.33 | 12.47 | 10.00 | 11.00 | 20.00 | 38.00 | 40.00"
    assert cells["RoCE"] == "2 | 13.00 | 25.00 | 25.00 | 0.00 | 2.50 | 25.00 | 47.50 | 50.00"
    assert cells["ideal: max-min fair flows, no packets"].startswith("3 | 7.67 | 0.00 |")
    assert cells["1000 ns to switch"] == "11.500 | 50.0000 | 50.0000"


def test_a_changed_row_is_out_of_date(chronos, small, monkeypatch, capsys):
    assert main(chronos, monkeypatch, "--check") == 1
    assert main(chronos, monkeypatch, "--write") == 0
    assert main(chronos, monkeypatch, "--check") == 0
    assert main(chronos, monkeypatch, "--check", "--resume") == 0
    path, good = small / "runs.csv", (small / "runs.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(good.splitlines()))
    assert [(row["packets"], row["matrix"]) for row in rows] == [
        *(("tuned", index) for index in "012"),
        *(("roce", index) for index in "01"),
    ]
    longer = f"{float(rows[1]['completion_us']) + 10:.3f}"
    path.write_text(good.replace(rows[1]["completion_us"], longer), encoding="utf-8")
    capsys.readouterr()
    assert main(chronos, monkeypatch, "--check") == 1
    assert capsys.readouterr().err == "differs: runs.csv\n"
    # taken from the file the row is right, and the table is wrong
    assert main(chronos, monkeypatch, "--check", "--resume") == 1
    assert capsys.readouterr().err == "differs: table.md\n"


def test_a_resumed_run_ends_as_one_that_was_never_stopped(chronos, small, monkeypatch):
    assert main(chronos, monkeypatch, "--write") == 0
    whole = {name: (small / name).read_bytes() for name in ("runs.csv", "table.md")}
    lines = whole["runs.csv"].decode().splitlines(keepends=True)
    (small / "runs.csv").write_text("".join(lines[:3]), encoding="utf-8")
    (small / "table.md").unlink()
    assert main(chronos, monkeypatch, "--write", "--resume") == 0
    assert {name: (small / name).read_bytes() for name in whole} == whole


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("rate_gbps = 800", "rate_gbps = 0", "network.rate_gbps = 0: expected at least 1"),
        ("rate_gbps = 800", "", "network.rate_gbps is missing; add it"),
        ('transport = "roce"', 'transport = "rose"', "packet.roce.transport = rose: "),
        ('"tuned"\ncount = 3', '"tuned"\ncount = 4', "packet.tuned.count = 4: expected at most"),
        ('tuned = "tuned"', 'as = "tuned"', "unknown key 'packet.tuned.as'"),
        ('tuned = "tuned"', 'tuned = "tune"', "packet.tuned.tuned = tune: not in tuning.ranges"),
        ("delays_s = [0.0, 1e-6]", "delays_s = []", "circuits.delays_s = "),
        ("[matrices]", "[matrices", "not valid TOML"),
    ],
)
def test_wrong_settings_are_one_clear_line(chronos, tmp_path, good, bad, message):
    assert SMALL.count(good) == 1
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_text(chronos, tmp_path, SMALL.replace(good, bad))
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_the_committed_table_is_that_of_the_committed_runs(chronos, settings, matrices):
    runs = chronos.run.read_runs()
    assert set(runs) == set(chronos.run.jobs(settings))
    assert chronos.run.TABLE.read_text(encoding="utf-8") == chronos.tables.table(
        settings, matrices, runs
    )


def test_a_committed_row_recomputes(chronos, settings, matrices):
    case = chronos.cases.packet_case(settings, "tuned")
    again = chronos.cases.packet_s(case, matrices.demands[3])
    assert round(again, 9) == pytest.approx(chronos.run.read_runs()["tuned", 3], abs=1e-12)


def test_what_the_readme_says_of_the_gains_holds(chronos, settings, matrices):
    """Each row of its table, and the effect of the packets' size on the same matrices."""
    runs, gains = chronos.run.read_runs(), {}
    for name, packets in settings.packet.items():
        times = np.array([runs[name, index] for index in range(packets.count)])
        gains[name] = (1 - matrices.circuits_s[0, : packets.count] / times) * 100
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (?:ours|none).*\| ([\d,]+) \| ([\d.]+) % \| ([\d.]+) % \|$", readme, re.M
    )
    order = ("tuned", "published", "small", "deep", "timer", "roce")
    assert rows == [
        (f"{len(gains[name]):,}", f"{gains[name].mean():.1f}", f"{gains[name].max():.1f}")
        for name in order
    ]
    same = (gains["small"].mean(), gains["tuned"][: len(gains["small"])].mean())
    assert "is {:.1f} % instead of {:.1f} %".format(*same) in readme.replace("\n", " ")
