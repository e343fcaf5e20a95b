"""Figures of experiments: how they are drawn and checked, and what their tables must say."""

import argparse
import importlib
import importlib.util
import itertools
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FIGURES = sorted(path.parent.name for path in EXPERIMENTS.glob("*/figure.svg"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def shared():
    """The modules that experiments share."""
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        yield {name: importlib.import_module(name) for name in ("drawing", "results", "one_sample")}
    finally:
        sys.path.remove(str(EXPERIMENTS))


def load(folder):
    """The script of an experiment, under a name of its own."""
    path = EXPERIMENTS / folder / "run.py"
    spec = importlib.util.spec_from_file_location(folder.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module


def rows(folder, first):
    """Cells of the rows of a table whose first cell matches."""
    lines = (EXPERIMENTS / folder / "table.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [row for row in cells if re.fullmatch(first, row[0])]


def drawn(shared, **changes):
    drawing = shared["drawing"]
    values = {
        "title": "a <title>",
        "below": "x",
        "left": "y",
        "positions": [1e-6, 1e-3, 10.0],
        "lines": [drawing.Line("one", [1.0, 2.0, 4.0]), drawing.Line("two", [None, 1.0, 2.0], 1)],
        **changes,
    }
    folder = EXPERIMENTS / "mixnet-fig28"
    return ElementTree.fromstring(drawing.Figure(**values).svg(folder))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_whole(name):
    """A drawing that no reader opens, or a folder without what the drawing shows."""
    assert ElementTree.parse(EXPERIMENTS / name / "figure.svg").getroot().tag == f"{SVG}svg"
    readme = (EXPERIMENTS / name / "README.md").read_text(encoding="utf-8")
    assert "(figure.svg)" in readme
    assert "(table.md)" in readme
    assert "--fast" in readme


@pytest.mark.parametrize(("log_x", "log_y"), [(False, False), (True, False), (True, True)])
def test_points_lie_on_the_paper_and_in_the_order_of_the_values(shared, log_x, log_y):
    root = drawn(shared, log_x=log_x, log_y=log_y)
    points = [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in root.iter(f"{SVG}polyline")
    ]
    assert [len(line) for line in points] == [3, 2]
    drawing = shared["drawing"]
    for line in points:
        assert all(drawing.LEFT <= x <= drawing.WIDTH - drawing.RIGHT for x, _ in line)
        assert all(drawing.TOP <= y <= drawing.BOTTOM for _, y in line)
        # growing values go up, which is down in coordinates
        assert all(a[0] <= b[0] and a[1] > b[1] for a, b in itertools.pairwise(line))
    if log_x:
        (x0, _), (x1, _), (x2, _) = points[0]
        assert (x2 - x1) / (x1 - x0) == pytest.approx(4 / 3, rel=1e-2)


def test_names_of_lines_that_end_together_are_apart(shared):
    line = shared["drawing"].Line
    root = drawn(shared, lines=[line(f"line {n}", [1.0, 1.0, 1.0]) for n in range(5)])
    at = sorted(
        float(text.get("y")) for text in root.iter(f"{SVG}text") if "line" in (text.text or "")
    )
    assert len(at) == 5
    assert min(b - a for a, b in itertools.pairwise(at)) >= 16
    assert at[-1] <= shared["drawing"].BOTTOM + 5


@pytest.mark.parametrize(("row", "status"), [("| a | 1 |", 0), ("| a | 2 |", 1)])
def test_a_few_rows_must_stand_in_the_table(shared, tmp_path, monkeypatch, row, status, capsys):
    monkeypatch.setattr(shared["results"], "ROOT", tmp_path)
    path = tmp_path / "table.md"
    path.write_text("# Title\n\n| x | y |\n| a | 1 |\n| b | 3 |\n", encoding="utf-8")
    options = argparse.Namespace(fast=True, write=False, check=False)
    assert shared["results"].finish({path: f"# Title\n\n| x | y |\n{row}\n"}, options) == status
    assert ("differs" in capsys.readouterr().err) == bool(status)


def test_packet_nics_of_equal_cost():
    """61, 63, 67, 72, 82, 100 and 155 Gb/s for one to seven optical NICs, by hand from Table 4.

    A NIC on the packet network costs n + 5e + 6t + 3f, an optical one n + t + o + f; between 100
    and 200 Gb/s prices are on a line, and below on the same one.
    """
    script = load("mixnet-equal-cost")
    assert script.target() * 8 == pytest.approx(13_844)
    optical = 659 + 99 + 520 + 150
    low, high = 659 + 5 * 187 + 6 * 99 + 3 * 150, 1079 + 5 * 374 + 6 * 239 + 3 * 150
    for degree in range(1, 8):
        each = (13_844 - degree * optical) / (8 - degree)
        rate = 100 + 100 * (each - low) / (high - low)
        assert script.packet_gbps(degree) == pytest.approx(rate, rel=1e-4)


def test_steps_of_equal_cost_never_grow_with_the_degree():
    found = rows("mixnet-equal-cost", "[1-7]")
    assert len(found) == 7
    for column in (4, 5):
        steps = [float(row[column]) for row in found]
        assert all(b <= 1.005 * a for a, b in itertools.pairwise(steps))


def test_break_even_is_never_slower_than_without_switching():
    found = rows("mixnet-fig28", r"\d.*")
    assert len(found) == 9
    assert all(float(row[4]) <= 1.002 * float(row[5]) for row in found)


def test_the_order_of_failures():
    for model in ("mixtral-8x22b", "deepseek-r1"):
        of = {
            row[0].partition(", ")[2]: float(row[1]) for row in rows("mixnet-fig14", f"{model}.*")
        }
        gpu = min(share for name, share in of.items() if name.startswith("GPU"))
        assert of["NIC"] < gpu < of["server"]


def test_uniform_bytes_over_two_pairings_of_eight_hosts():
    """A ring of eight: each circuit has the bytes of 1 + 2 + 3 + 4 / 2 hops in each direction."""
    script = load("xnest-fig3")
    pairings = [matrix[0] for matrix in script.xnest_sub_matrices(8)]
    sent = np.full((8, 8), 10)
    np.fill_diagonal(sent, 0)
    for pair in itertools.combinations(pairings, 2):
        assert script.busiest(sent, pair) == pytest.approx(10 * (1 + 2 + 3 + 4 / 2))
    # the heaviest matching carries 10, the other six leave and enter electrically
    assert script.helios(sent) == pytest.approx(60 * 8 / 25e9)


def test_groups_of_servers_that_faults_leave():
    script = load("infinitehbd-trace")
    up = np.ones(18, dtype=bool)
    assert script.in_blocks(up, 9, whole=False) == 16
    assert script.in_line(up) == 16
    up[[3, 4]] = False
    assert script.in_line(up) == 16
    assert script.in_blocks(up, 9, whole=False) == 4 + 8
    up[5] = False
    # three in a row cut the line: 3 servers before, 12 after
    assert script.in_line(up) == 12
    assert script.in_blocks(up[:16], 8, whole=True) == 8


def test_programs_of_mpi_take_what_loggops_says():
    """A message of s bytes takes o + L + (s - 1) G + o, and the last one comes second or third."""
    script = load("atlahs")
    values = script.VALUES["parameters"]["LogGOPSim"]
    message = values["latency_ns"] + 99 * values["ns_per_byte"] + 2 * values["overhead_ns"]
    for name, ranks, messages in (("broadcast", 4, 2), ("dissemination", 8, 3), ("reduce", 4, 2)):
        programs = [script.Rank(values["overhead_ns"]) for _ in range(ranks)]
        for number, program in enumerate(programs):
            getattr(program, name)(number, ranks, 100)
        last = max(script.ends_ns(programs, values, packet=1))
        # the switch passes on whole packets of a byte
        assert last == pytest.approx(messages * message, abs=18 * messages + 1), name


def test_a_trace_of_mpi_is_computing_and_messages(tmp_path):
    path = tmp_path / "trace.txt"
    calls = ["Init:-:1:2:1000.0", "Send:1500.0:9:3:11,8,8:1:7:0,0,2:1510.0", "Finalize:1600.0:-"]
    path.write_text("# host\n" + "\n".join(f"MPI_{call}" for call in calls) + "\n")
    rank, measured_s, outside_s = load("atlahs").of_trace(path, 0, 2, 1500)
    operations = [line.partition(": ")[2] for line in rank.lines if ":" in line]
    assert operations == ["calc 500000", "calc 1500", "send 24b to 1 tag 7", "calc 90000"]
    assert (measured_s, outside_s) == (pytest.approx(600e-6), pytest.approx(590e-6))
    path.write_text("MPI_Init:0.0\nMPI_Alltoallv:1.0:2.0\n")
    with pytest.raises(SystemExit, match="MPI_Alltoallv is not read"):
        load("atlahs").of_trace(path, 0, 2, 1500)


def test_earlier_schedulers_on_several_switches_by_hand():
    """Four ports that each send a half to two others: two slots, one for each of two switches."""
    script, delay = load("spectra"), 0.01
    one, two = (script.PORT // 2 * np.roll(np.eye(4, dtype=np.int64), n, axis=1) for n in (1, 2))
    demand = one + two
    assert script.divided(demand, 2, delay, "Eclipse") == pytest.approx(0.52, rel=1e-3)
    assert script.whole_pairs(one, 2, delay, "Eclipse") == pytest.approx(0.51, rel=1e-3)
    assert script.divided(one, 2, delay, "Solstice") == pytest.approx(0.26, rel=1e-3)
    assert script.slots_in_turn(demand, 2, delay, "Eclipse") == pytest.approx(0.51, rel=1e-3)
    found = script.measure(demand, 2, delay)
    assert found["over bound"] == 1
    assert found["Eclipse, divided"] == pytest.approx(0.52 / 0.51, rel=1e-3)
    standard = script.standard(1)
    busiest = max(int(standard.sum(axis=axis).max()) for axis in (0, 1))
    assert script.PORT <= busiest < 1.00001 * script.PORT
    assert (standard > 0).sum(axis=1).max() <= 16


def test_photonic_rails_lose_less_the_longer_circuits_are_kept():
    """Fewer turns in the dark, for each job and delay, and no more than 6 % where Opus says so."""
    jobs = [row for row in rows("opus", r".* GPUs") if len(row) == 7]
    assert len(jobs) == 4 * 3
    longer = np.array([[float(cell) for cell in row[3:]] for row in jobs]).reshape(4, 3, 4)
    assert (np.diff(longer, axis=1) <= 0).all()
    assert (np.diff(longer, axis=2) > 0).all()
    assert (longer[:3, 2, :3] < 6).all()
    script = load("opus")
    job = {**script.VALUES["job"][0], "gpus": 32}
    job["plan"] = {**job["plan"], "micro_batches": 4}
    rail_s = script.step_s(job, "rail", {})
    found = [script.longer_percent(job, kept, 1e-3, rail_s) for kept in ("ahead", "needed", "no")]
    assert found == sorted(found)


def test_rings_of_harvest_by_hand_and_by_trying_all():
    """Two GPUs further take two circuits of a ring of neighbors, and one of a ring of its own."""
    script = load("harvest")
    assert [script.hops(2, ring, 8) for ring in (1, 2, 3, 5)] == [2, 1, 6, 2]
    assert script.hops(3, 2, 8) == np.inf
    assert [script.hops(shift, 1, 8) for shift in range(1, 8)] == list(range(1, 8))
    costs = script.costs_ns("all-to-all", 64 * 1024, 8)
    for delay in (0.0, 300.0, 2_000.0, 1e6):
        tried = [
            sum(costs[step, ring] for step, ring in enumerate(rings))
            + delay * sum(a != b for a, b in itertools.pairwise(rings))
            for rings in itertools.product(range(4), repeat=4)
        ]
        found = script.shortest(costs[:4, :4], delay)
        assert found.cost_ns == pytest.approx(min(tried))
        assert found.cost_ns <= min(script.baselines(costs[:4, :4], delay).values()) + 1e-6
    halves = script.steps("recursive doubling", 1024, 8)
    assert halves == [(1, 512), (2, 256), (4, 128), (4, 128), (2, 256), (1, 512)]


def test_efficiencies_of_monta_by_hand():
    """Half of a volume travels to the other server, and seven eighths to TP ranks."""
    found = {row[0]: row[1:] for row in rows("monta-fig13", r"[\d.]+")}
    for size, at, paper in ((8, 0, 42.7), (32, 0, 63.2), (256, 0, 74.1), (64, 2, 72.6)):
        assert float(found[str(size)][at]) == pytest.approx(paper, abs=0.3)
        assert found[str(size)][at + 1] == str(paper)
    sent = 32e6 / 2
    assert float(found["32"][0]) == pytest.approx(
        100 * sent / (163.36e-6 + sent / 18.915e9) / 25e9, abs=0.05
    )


def test_strategies_of_monta_are_those_that_it_publishes():
    found = rows("monta-fig14", r"\d+K")
    assert [row[6] for row in found] == ["O1", "O1", "O2", "O2", "O2", "O2", "O3"]
    assert all(row[7] in (row[6], "-") for row in found)
    assert float(found[-1][4]) == pytest.approx(0.253, abs=0.011)
    assert {row[8] for row in found[1:]} == {"O3"}


def test_steps_of_monta_are_those_of_its_shares():
    """A share of 22 % that a ratio is left of; the rest stays."""
    steps = {row[0]: float(row[1]) for row in rows("monta-fig17", "O[1-3]")}
    ratios = {f"O{n}": float(rows("monta-fig14", "8K")[0][n + 1]) for n in (1, 2, 3)}
    for name, step in steps.items():
        assert step == pytest.approx(0.78 + 0.22 * ratios[name], abs=6e-4)
    assert abs(steps["O1"] - 0.87) < 0.013
    assert abs(steps["O2"] - 0.87) < 0.013
    assert steps["O3"] > max(steps["O1"], steps["O2"])
