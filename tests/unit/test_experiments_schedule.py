"""The figure of docs/explanation/scheduling.md agrees with its table and with the text."""

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "schedule-methods"


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("schedule_methods_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lengths(run):
    return run.measure()


def numbers(text):
    rows = re.findall(r"^\| (\d.*) \|$", text, re.MULTILINE)
    return np.array([[float(cell) for cell in row.split("|")] for row in rows])


def test_the_table_is_what_is_measured(run, lengths):
    committed = numbers((FOLDER / "table.md").read_text())
    # schedules that got a little shorter need no new figure
    np.testing.assert_allclose(committed, numbers(run.table(lengths)), rtol=0.05)


def test_the_figure_is_drawn_from_the_table(run, lengths):
    committed = run.FIGURE.read_text()
    made = run.figure(lengths)
    lines = [ET.fromstring(text).findall(".//{*}polyline") for text in (committed, made)]
    assert len(lines[0]) == len(lines[1]) == 2 * len(run.settings()["drawn"])
    strip = re.compile(r"[\d.,-]+")
    assert strip.sub("", committed) == strip.sub("", made)


def column(run, lengths, regime, method):
    return lengths[regime][:, run.settings()["methods"].index(method)]


def test_what_the_page_says(run, lengths):
    ratios = np.array(run.settings()["ratios"])
    assert (column(run, lengths, "mixtral", "round-robin") < 1.01).all()
    small = ratios <= 1e-3
    for method in ("bvn", "threshold", "critical"):
        assert (column(run, lengths, "pair", method)[small] < 1.05).all()
    middle = (ratios >= 1e-3) & (ratios < 1)
    critical = column(run, lengths, "pair", "critical")[middle]
    for method in ("round-robin", "bvn", "threshold", "maximal"):
        assert (critical <= column(run, lengths, "pair", method)[middle]).sum() >= len(critical) - 1
    large = ratios > 1
    robin = column(run, lengths, "pair", "round-robin")[large]
    for method in ("bvn", "threshold", "open-shop"):
        assert (robin < column(run, lengths, "pair", method)[large]).all()


def test_clipped_lines_stay_in_the_frame(run):
    names = run.settings()["drawn"]
    text = run.draw([0.1, 1.0], names, {"x": np.full((2, len(names)), 1e6)}, [(0.5, "w")], "note")
    for line in ET.fromstring(text).findall(".//{*}polyline"):
        heights = [float(point.split(",")[1]) for point in line.get("points").split()]
        assert min(heights) >= 100
