"""Cells of the packet experiments recompute to the committed values."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def loaded(name, monkeypatch):
    """The module of an experiment and its settings."""
    folder = EXPERIMENTS / name
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), folder / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, tomllib.loads((folder / "experiment.toml").read_text(encoding="utf-8"))


def test_an_all_to_all_as_packets_takes_what_the_table_says(monkeypatch):
    run, values = loaded("packet-against-flow", monkeypatch)
    options = values["scenario"]["fabric_options"]
    values["scenario"]["fabric_options"] = {name: options[name] for name in ("all", "mixnet")}
    values |= {"fabrics": ["mixnet"], "transports": ["ideal"]}
    found = dict(run.measure(values, "mixtral-8x7b"))
    key = ("mixtral-8x7b", "ideal", "mixnet")
    assert found == {key: run.read_rows()[key]}


def test_a_step_as_flows_takes_what_the_table_says(monkeypatch):
    run, values = loaded("mixnet-fig12-packet", monkeypatch)
    values |= {"fabrics": ["fat-tree", "mixnet"], "transports": []}
    known = run.read_steps()
    for key, (step_s, stretch) in run.step_times(values, 400):
        assert step_s == pytest.approx(known[key][0], rel=1e-3)
        assert stretch == known[key][1] == 1
