"""The committed table of continuity has no jump, and the figure has a line per fabric."""

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "continuity"


@pytest.fixture(scope="module")
def experiment():
    spec = importlib.util.spec_from_file_location("continuity_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_percent_more_imbalance_is_not_two_percent_of_the_step():
    text = (FOLDER / "table.md").read_text(encoding="utf-8")
    grown = text.split("## ")[2]
    rows = re.findall(r"^\| (\d.*) \|$", grown, re.MULTILINE)
    table = np.array([[float(cell) for cell in row.split("|")] for row in rows])
    steps = np.diff(table, axis=0)
    # numbers have three decimals
    assert (np.abs(steps[:, 1:]) <= 1.5 * steps[:, :1] + 0.002).all()


def test_the_figure_has_a_line_for_each_fabric(experiment):
    times = {1.0: {"fat-tree": 2.0, "mixnet": 3.0}, 1.1: {"fat-tree": 2.2, "mixnet": 3.1}}
    assert "| 1.1 | 1.100 | 1.033 |" in experiment.render(times)
    svg = experiment.draw(times)
    elements = list(ET.fromstring(svg).iter())
    assert sum(element.tag.endswith("polyline") for element in elements) == 2
    assert {"fat-tree", "mixnet"} <= {element.text for element in elements}
