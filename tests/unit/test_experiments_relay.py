"""The committed table of the relaying experiment is whole, and a cell recomputes to it."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "experiments" / "relay-wide-regions"


@pytest.fixture(scope="module")
def experiment():
    spec = importlib.util.spec_from_file_location("relay_wide_regions", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def values():
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def test_the_table_is_that_of_the_committed_steps(experiment, values):
    cells = experiment.read_cells()
    names = [fabric["name"] for fabric in values["fabrics"]]
    expected = {
        (job["name"], name, rate)
        for job in values["jobs"]
        for name in names
        for rate in values["rates_gbps"]
    }
    assert set(cells) == expected
    assert (HERE / "table.md").read_text(encoding="utf-8") == experiment.table(values, cells)
    assert (HERE / "steps.csv").read_text(encoding="utf-8") == experiment.steps_csv(cells)


def test_what_the_readme_says_of_the_gains_holds(experiment, values):
    cells = experiment.read_cells()
    for job in values["jobs"]:
        for rate in values["rates_gbps"]:
            step = {
                fabric["name"]: cells[job["name"], fabric["name"], rate][0]
                for fabric in values["fabrics"]
            }
            relayed = step["ours, relaying"]
            if job["servers"] > 8:
                assert step["ours"] / relayed > 1.19
                assert step["paper"] / relayed > 1.34
                assert relayed / step["fat-tree"] < 1.105
            else:
                assert 1 <= step["ours"] / relayed < 1.005


def test_a_cell_recomputes_to_what_the_table_says(experiment, values):
    job = next(job for job in values["jobs"] if job["name"] == "Mixtral 8x22B")
    name = "static, relaying"
    fabrics = [fabric for fabric in values["fabrics"] if fabric["name"] == name]
    cells = experiment.simulate_job({**values, "rates_gbps": [400], "fabrics": fabrics}, job)
    assert cells == {(job["name"], name, 400): experiment.read_cells()[job["name"], name, 400]}
