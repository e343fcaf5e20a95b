"""The committed tables of the prediction experiment are whole, labeled, and recompute."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from lightloom.demand.predictors import PREDICTORS, make_predictor
from lightloom.study.prediction import score

FOLDER = Path(__file__).parents[2] / "experiments" / "mixnet-fig19"


@pytest.fixture(scope="module")
def experiment():
    spec = importlib.util.spec_from_file_location("fig19_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables():
    """Cells of each table by its title."""
    text = (FOLDER / "table.md").read_text(encoding="utf-8")
    found = {}
    for part in text.split("\n## ")[1:]:
        rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
        cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
        found[part.splitlines()[0]] = {name: values for name, *values in cells}
    return found


def test_every_size_region_and_regime_has_a_table(tables):
    values = tomllib.loads((FOLDER / "experiment.toml").read_text(encoding="utf-8"))
    expected = [
        f"{experts} experts on {servers} servers, {regime} (synthetic)"
        for experts, regions in values["sizes"].items()
        for servers in regions
        for regime in values["regimes"]
    ]
    assert list(tables) == expected


def test_tables_say_that_the_figure_is_not_reproduced():
    text = (FOLDER / "table.md").read_text(encoding="utf-8")
    assert "SYNTHETIC" in text.splitlines()[0]
    assert "Figure 19 is not reproduced" in text
    assert "only on a real multi-step" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_rows_are_the_predictors_that_fit(tables):
    for title, rows in tables.items():
        experts, servers = map(int, re.findall(r"\d+", title))
        names = [name for name in PREDICTORS if name in rows]
        assert [*names, "static circuits"] == list(rows)
        assert ("copilot" in rows) == (experts == 8)
        assert ("copilot-gradient" in rows) == (experts <= 64 and servers == 8)


def test_uniform_finds_a_quarter_and_ridge_is_near_the_best(tables):
    for rows in tables.values():
        assert rows["uniform"][0] == "0.250"
        errors = [float(cells[1]) for name, cells in rows.items() if cells[1] != "-"]
        assert float(rows["ridge"][1]) <= 1.05 * min(errors)


@pytest.mark.parametrize(("regime", "experts", "servers"), [("drifting", 16, 16), ("calm", 8, 8)])
def test_accuracy_recomputes(experiment, tables, regime, experts, servers):
    """Overlap and L1 of what is fast; regret also depends on the allocator of the day."""
    values = experiment.load()
    trace = experiment.trace_of(values, regime, experts, servers)
    made = {name: make_predictor(name, experts, window=32) for name in ("last-step", "ridge")}
    rows = tables[f"{experts} experts on {servers} servers, {regime} (synthetic)"]
    for found in score(trace, made, window=values["window"]):
        assert rows[found.predictor][:2] == [f"{found.top_k_overlap:.3f}", f"{found.l1:.3f}"]
