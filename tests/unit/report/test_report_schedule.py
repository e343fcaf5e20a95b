"""Schedules as text, drawings and a page: they show what was found, and fit 80 columns."""

import base64
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lightloom.demand import rank_matrix, synthetic
from lightloom.report import plots_schedule
from lightloom.report.grid import Grid
from lightloom.report.page_schedule import (
    render_schedule,
    write_schedule_drawing,
    write_schedule_page,
)
from lightloom.report.plots_schedule import color, gantt
from lightloom.report.schedule_table import grids, print_scheduling, profile_text, verdict
from lightloom.report.schedule_text import print_circuits, print_gantt
from lightloom.study.scheduling import (
    MethodChoice,
    PortBudget,
    Problem,
    ScheduleComparison,
    compare_schedules,
    profile_of,
)
from lightloom.study.scheduling.other_systems import SYSTEMS
from lightloom.study.scheduling.port_times import DARK, PortTimes, port_times
from lightloom.units import time_unit

ALL = MethodChoice(
    methods=("auto",), allocators=("static", "best"), systems=tuple(SYSTEMS), relay=True
)


def drawn(regime, servers, **more):
    source = synthetic(
        regime, ranks=servers, experts=servers, tokens_per_rank=4096, top_k=2, seed=1
    )
    tokens = source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0]
    demand = rank_matrix(tokens).astype(np.uint64) * np.uint64(8192)
    return Problem(f"{regime} <{servers}>", demand, 400.0, 10e-6, **more)


@pytest.fixture(scope="module")
def found():
    return compare_schedules(drawn("pair", 8, budget=PortBudget(4, 800.0)), ALL)


def text_of(call, *arguments):
    stream = io.StringIO()
    call(*arguments, Console(file=stream, width=80, no_color=True, highlight=False))
    return stream.getvalue()


def spans(*rows, sources=2, length_s=1e-3):
    source, destination, start, end = (np.array(column) for column in zip(*rows, strict=True))
    return PortTimes(source, destination, start.astype(float), end.astype(float), sources, length_s)


HALVES = spans((0, DARK, 0, 1e-4), (0, 1, 1e-4, 5e-4), (1, 70, 0, 1e-3), (0, 10, 5e-4, 8e-4))


def test_gantt_in_characters():
    lines = text_of(print_gantt, HALVES, np.array([0, 9]), "Title").splitlines()
    assert lines[0] == "Title"
    assert lines[1] == "      time [ms]"
    assert lines[2].split() == ["'0.0", "'0.2", "'0.4", "'0.6", "'0.8"]
    first, second = lines[3], lines[4]
    assert re.fullmatch(r" {4}0 \|{7,8}1{28,30}a{21,23}\.{14,16}", first)
    assert re.fullmatch(r" {4}9 #{73}", second)
    assert lines[5].endswith("a is 10, A is 36; # one of 62 or above; | reconfiguring; . idle")


def test_everything_fits_the_width(found):
    winner = found.schedules[found.winner]
    times = port_times(winner, found.problem.demand, np.arange(8))
    text = text_of(print_gantt, times, np.arange(8), "Title")
    text += text_of(print_circuits, found.best_allocation.split.circuits, "Circuits")
    for line in text.splitlines():
        if not line.startswith("rows:"):
            assert len(line) <= 80
    tables = text_of(print_scheduling, found).splitlines()
    assert [line for line in tables if re.match(r" \* |\* ", line)]
    assert all(
        len(line) <= 80 for line in tables if not line.startswith(("pair", "The", "Keep", "Re"))
    )


def test_circuits_in_numbers_and_shades():
    circuits = np.array([[0, 12, 0], [12, 0, 3], [0, 3, 0]], dtype=np.uint16)
    lines = text_of(print_circuits, circuits, "Title").splitlines()
    assert lines == [
        "Title",
        "        0  1  2",
        "    0   . 12  .",
        "    1  12  .  3",
        "    2   .  3  .",
    ]
    many = np.ones((200, 200), dtype=np.uint16)
    lines = text_of(print_circuits, many, "Title").splitlines()
    assert len(lines) <= 70
    assert lines[1].startswith("    0 █")
    assert lines[-1] == "darkest: 12 circuits in 4 x 3 pairs"
    heads = text_of(print_circuits, np.zeros((12, 12), np.uint16), "Title").splitlines()[1]
    assert heads.split() == ["0", "5", "10"]
    assert heads.index("5") - heads.index("0") == 10


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(2, "s"), (1, "s"), (0.5, "ms"), (2e-6, "us"), (3e-9, "ns"), (0, "ns"), (1e-12, "ns")],
)
def test_units(seconds, expected):
    assert time_unit(seconds)[1] == expected


def test_profile_in_words(found):
    text = profile_text(found)
    assert text.startswith("pair <8>: 8 x 8, ")
    assert text.endswith("each source has a mix of its own")
    alike = drawn("mixtral", 8)
    calm = ScheduleComparison(alike, profile_of(alike.demand))
    assert profile_text(calm).endswith("every source has nearly the same mix")


def test_verdict_in_words(found):
    shortest, sentence, relaying = verdict(found)
    assert re.fullmatch(
        r"The shortest schedule of permutations is by [\w-]+( \([\w-]+\))?: [\d.]+ us, "
        r"([\d.]+ times|within 0\.1% of) the bound of [\d.]+ us\.",
        shortest,
    )
    assert re.fullmatch(
        r"Relaying: [\d.]+ [mu]s instead of [\d.]+ [mu]s over the static circulant, [\d.]+ [mu]s "
        r"over the circuits of \w+, where [\d.]+ MB take two hops; [\d.]+ [mu]s over circuits "
        r"chosen for relaying \(.+\)\.",
        relaying,
    )
    assert re.fullmatch(
        r"Reconfigure: best saves [\d.]+ us against the static circulant, more than the delay of "
        r"10 us\.",
        sentence,
    )
    slow = compare_schedules(
        Problem("x", found.problem.demand, 400.0, 25e-3, budget=PortBudget(4, 800.0)), ALL
    )
    assert re.fullmatch(
        r"Keep the static circulant: best saves [\d.]+ us per all-to-all, less than the delay of "
        r"25 ms\. Switching pays if the delay is hidden, or if this demand repeats more than "
        r"[\d.]+ times\.",
        verdict(slow)[1],
    )
    held = found.best_allocation.split.circuits
    same = compare_schedules(
        Problem("x", found.problem.demand, 400.0, 0.0, budget=PortBudget(4, 800.0, held)), ALL
    )
    assert verdict(same)[1] == (
        "Keep the circuits given: no other circuits are faster for this demand."
    )
    same.interrupted = True
    assert verdict(same)[-1] == "Interrupted: only finished results are shown."


def test_a_time_limit_is_said_in_the_table(found):
    short = compare_schedules(found.problem, MethodChoice(("auto",), (), time_limit_s=0.0))
    lines = [line for line in text_of(print_scheduling, short).splitlines() if "critical" in line]
    assert lines[0].split() == ["critical", "-", "-", "-", "-", "time", "limit"]
    cut = ScheduleComparison(found.problem, found.profile, systems=dict(found.systems))
    row = cut.systems.pop("Helios")
    cut.not_begun = ["Helios"]
    lines = [line for line in text_of(print_scheduling, cut).splitlines() if "Helios" in line]
    assert lines[0].split() == ["Helios", "-", "-", "-", "-", "-", "time", "limit"]
    assert row.length_s > 0


def ring(neighbors, pairs):
    demand = np.zeros((6, 6), dtype=np.uint64)
    for source, destination in pairs:
        demand[source, destination] = 10**6
    held = np.zeros((6, 6), dtype=np.uint16)
    for a, b in neighbors:
        held[a, b] = held[b, a] = 1
    problem = Problem("x", demand, 400.0, 1e-6, budget=PortBudget(2, 0.0, held))
    return compare_schedules(
        problem, MethodChoice(("bvn",), ("static", "best", "exact"), relay=True)
    )


def test_pairs_without_a_route_are_reported():
    line = [(0, 1), (1, 2), (2, 3)]
    many = ring(line, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)])
    assert verdict(many)[1] == (
        "No circuits suffice: without an EPS every pair needs a circuit; more ports or an EPS rate "
        "would help."
    )
    assert "never" in text_of(print_scheduling, many)
    far = ring(line, [(0, 3)])
    assert "Reconfigure: over the circuits given some pairs have no route at all." in verdict(far)
    for found in (many, far, ring(line, [(0, 2)])):
        assert not re.search(r"\b(nan|inf)\b", " ".join(verdict(found)))


def test_relaying_that_does_not_pay_says_why():
    demand = np.full((3, 3), 10**6, dtype=np.uint64)
    problem = Problem("x", demand, 400.0, 1e-6, budget=PortBudget(2, 800.0))
    found = compare_schedules(problem, MethodChoice(("bvn",), ("static",), relay=True))
    assert verdict(found)[-1] == (
        "Relaying does not pay: no routing with relays is faster than one hop."
    )


def test_drawing_has_every_span_of_one_switch(found):
    one = compare_schedules(replace(found.problem, switches=1), MethodChoice(("critical",), ()))
    times = port_times(one.schedules["critical"], one.problem.demand, np.arange(8))
    made = gantt(times, np.arange(8))
    rects = [part for part in made.parts if part.startswith("<rect")]
    assert len(rects) == 8 + len(times.joined().source)
    assert made.legend == [("dark", "reconfiguring")]


def test_long_schedules_are_drawn_in_bins(monkeypatch):
    monkeypatch.setattr(plots_schedule, "MAX_SPANS", 3)
    monkeypatch.setattr(plots_schedule, "_BINS", 2)
    three = spans((0, 1, 0, 3e-4), (0, 2, 3e-4, 6e-4), (0, 3, 6e-4, 1e-3), (1, 1, 0, 4e-4))
    made = gantt(three, np.arange(2))
    assert ("several", "several destinations in 500 us") in made.legend
    text = "".join(made.parts)
    assert "0 sends to 3: 500 us from 500 us" in text
    assert "1 sends to 1: 500 us from 0 s" in text


def test_svg_file_is_well_formed(found, tmp_path):
    path = tmp_path / "a.svg"
    write_schedule_drawing(found, path)
    root = ET.fromstring(path.read_text())
    assert root.tag.endswith("svg")
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert texts[0].startswith(f"Schedule by {found.winner}: ")
    assert texts[-1].startswith("pair <8>; 8 sources; numbers: destinations")
    assert "prefers-color-scheme: dark" in path.read_text()


def test_page_has_tables_and_drawings(found, tmp_path):
    path = tmp_path / "a.html"
    write_schedule_page(found, path, "lightloom schedule pair.npy --html a.html")
    text = path.read_text()
    assert text == render_schedule(found, "lightloom schedule pair.npy --html a.html")
    assert "lightloom schedule pair.npy --html a.html</code>" in text
    files = dict(re.findall(r'href="data:[\w/]+;base64,([^"]+)" download="([^"]+)"', text))
    held = {name: base64.b64decode(content).decode() for content, name in files.items()}
    assert json.loads(held["schedule.json"])["winner"] == found.winner
    assert held["schedule.csv"].startswith("kind,method,best,length_s,lower_bound_s,")
    assert "pair &lt;8&gt;" in text
    assert "<8>" not in text
    assert text.count("<table>") == 3
    assert text.count("<svg") >= 4
    assert not re.search(r"(src|href)=.http", text)
    assert f"* {found.winner}" in text


def test_page_and_drawing_of_nothing(tmp_path):
    problem = drawn("pair", 4)
    cut = ScheduleComparison(problem, profile_of(problem.demand), interrupted=True)
    write_schedule_drawing(cut, tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()
    text = render_schedule(cut)
    assert "Interrupted" in text
    assert "schedule.csv" not in text


def test_rectangles_have_a_page_without_matrices():
    problem = Problem("wide", np.array([[1, 2, 3], [4, 5, 6]], np.uint64), 400.0, 1e-6)
    text = render_schedule(compare_schedules(problem, MethodChoice(("bvn",), ())))
    assert "Rows: 2 sources" in text
    assert "row sends to column" not in text


@given(st.integers(0, 4095))
def test_colors_are_light_enough_for_dark_numbers(destination):
    parts = [int(color(destination)[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    ink = 0.006  # of #10131a
    assert (luminance + 0.05) / (ink + 0.05) >= 4.5  # WCAG 2.2, 1.4.3


def test_best_values_are_marked_cell_by_cell():
    grid = Grid(
        "t", [("by", ""), ("length", "ms"), ("over\nbound", ""), ("sent", "GB")],
        [["a", "1,000", "2.0", "1"], ["b", "999", "2.0", "2"], ["c", "-", "2.0", "3"]], 0, "",
        ("length", "over bound"),
    )  # fmt: skip
    # the shortest, not the marked row; equal ones are not better; others are not compared
    assert grid.best_cells() == {(1, 1)}


def test_methods_are_compared_with_what_auto_has_proved():
    demand = np.random.default_rng(7).integers(0, 10**6, (5, 5)).astype(np.uint64)
    problem = Problem("five lines", demand, 400.0, 1e-6)
    methods = ("round-robin", "critical", "auto")
    found = compare_schedules(problem, MethodChoice(methods=methods, allocators=(), systems=()))
    auto, others = found.schedules["auto"], ("round-robin", "critical")
    assert auto.is_optimal
    (grid,) = grids(found)
    shown = {row[0].split()[0]: row[2] for row in grid.texts}
    assert shown["auto"] == "optimal"
    for name in others:
        row = found.schedules[name]
        assert row.lower_bound_bytes < auto.length_bytes < row.length_bytes
        assert shown[name] == f"{row.length_bytes / auto.length_bytes:.3f}"
    by_name = {row[0].split()[0]: number for number, row in enumerate(grid.rows)}
    assert (by_name["auto"], 2) in grid.best_cells()


def test_all_tables_of_a_page_have_one_unit_of_time(found):
    headers = [header for grid in grids(found) for header in grid.headers]
    units = {unit for words, unit in headers if words in {"length", "split"}}
    assert len(units) == 1


def test_neighboring_destinations_have_colors_that_can_be_told_apart():
    assert len({color(destination) for destination in range(16)}) == 16
    assert color(16) == color(0)
