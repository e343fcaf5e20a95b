"""Experiments about crossbars: parts by hand, their committed files recomputed."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from lightloom.hardware import decision_times

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MODULES = ("run", "steps", "cases", "settings", "results")


def loaded(name):
    """The experiment's run.py; other experiments have modules of the same names."""
    before = {module: sys.modules.pop(module, None) for module in MODULES}
    path = list(sys.path)
    sys.path.insert(0, str(EXPERIMENTS / name))
    try:
        return importlib.import_module("run")
    finally:
        sys.path[:] = path
        for module, known in before.items():
            sys.modules.pop(module, None)
            if known is not None:
                sys.modules[module] = known


@pytest.fixture(scope="module")
def table2():
    return loaded("chronos-table2")


@pytest.fixture(scope="module")
def straggler():
    return loaded("chronos-straggler")


@pytest.fixture(scope="module")
def slots():
    return loaded("chronos-slots")


def test_times_are_the_same_in_the_file_the_table_and_the_data(table2):
    values, times = table2.load(), table2.read_times()
    assert table2.times_csv(times) == table2.TIMES.read_text()
    assert table2.table(values, times) == table2.TABLE.read_text()
    assert table2.data(times) in table2.DATA.read_text()
    for (method, ports), seconds in table2.slowest(times).items():
        assert decision_times(method).time_s(ports) == pytest.approx(seconds)
    assert table2.exponent(0.5e-3, 3e-3) == pytest.approx(2.585, abs=1e-3)


def test_our_decomposition_beats_the_papers(table2):
    """CH7 and CH10: Table 2, and below 0.5 ms for 16 ports."""
    worst, paper = table2.slowest(table2.read_times()), table2.load()["paper"]
    for ports, maximum, maximal in zip(
        (16, 32, 64, 128, 256), paper["maximum"], paper["maximal"], strict=True
    ):
        assert worst["bvn", ports] < min(maximum, maximal) / 5


def test_lengths_are_recomputed(table2):
    values, times = table2.load(), table2.read_times()
    values |= {"repeats": 1}
    for regime in values["regimes"]:
        _, length = table2.measure(values, "bvn", regime, 16)
        assert length == times["bvn", regime, 16][1]


def test_the_table_of_stragglers_is_that_of_its_files(straggler):
    values, runs = straggler.load(), straggler.read_runs()
    found = straggler.steps.read(straggler.STEPS)
    assert straggler.runs_csv(runs) == straggler.RUNS.read_text()
    assert straggler.steps.text_of(found) == straggler.STEPS.read_text()
    assert straggler.table(values, runs, found) == straggler.TABLE.read_text()


@pytest.mark.parametrize("late_s", [0.0, 1e-3])
def test_runs_are_recomputed(straggler, late_s):
    values, runs = straggler.load(), straggler.read_runs()
    for name in ("ideal", "tuned", *values["circuits"]):
        found = straggler.completion_s(values, name, (32, late_s, 1))
        assert round(found, 10) == runs[name, 32, late_s, 1]


def test_the_last_member_and_its_lines_by_hand(straggler):
    """Two members: one matching each way, once the later one is ready."""
    values = straggler.load() | {"members": 2}
    tokens = np.array([[0, 100], [50, 0]])
    ready = np.array([3e-6, 40e-6])
    circuits = {"technology": "electronic", "method": "bvn", "known": True}
    graph = straggler.step_of(values, tokens, ready, new=False)
    network = straggler.network_of(values, straggler.crossbars_of(values, circuits))
    run = straggler.simulate(graph, network)
    sending_s = 100 * values["token_bytes"] * 8 / 800e9
    assert run.step_time_s == pytest.approx(40e-6 + sending_s + 0.5e-6 + 10e-9, abs=1e-11)
    # the paper's time for two ports is charged where the demand is new
    charged = circuits | {"known": False, "decision": "paper"}
    network = straggler.network_of(values, straggler.crossbars_of(values, charged))
    new = straggler.simulate(straggler.step_of(values, tokens, ready, new=True), network)
    decision_s = decision_times("paper").time_s(2)
    assert new.step_time_s - run.step_time_s == pytest.approx(decision_s, abs=1e-11)


def test_circuits_never_end_before_ideal_packets(straggler):
    values, runs = straggler.load(), straggler.read_runs()
    for (name, *key), seconds in runs.items():
        if name in values["circuits"]:
            assert seconds >= runs["ideal", *key] * (1 - 1e-9)


def test_the_examples_of_section_6(slots):
    """CH1 to CH4, as computed in the targets: the 22 us and the 95 % need different latencies."""
    values = slots.load()
    text = slots.TABLE.read_text()
    chunks = values["chunks"]
    sizes = [slots.chunk_bytes(chunks, one) for one in chunks["configurations"]]
    assert sizes == [21.875e6, 10.9375e6, 175e6]
    lines = [*slots.examples(values), *slots.efficiencies(values["efficiency"])]
    assert "\n".join(lines) in text
    assert "| 16384 | 8 | 128 | 10.9375 | 109.375 |" in text
    for row in ("119.39 | 91.62 | 8.38", "21.01 | 95.19", "22.01 | 90.87", "4004.00 | 75.00"):
        assert row in text


def test_slots_of_a_step_are_shortest_in_between(slots):
    """Short slots lose their latency, long ones what does not fill them."""
    rows = [line.split(" | ") for line in slots.TABLE.read_text().splitlines() if "us |" in line]
    values = slots.step_values(slots.load()["step"])
    named = {row[0].strip("| "): row for row in rows if len(row) == 6}
    steps = [float(named[name["name"]][1]) for name in values["fabrics"][2:-1]]
    best = steps.index(min(steps))
    assert 0 < best < len(steps) - 1
    assert steps[: best + 1] == sorted(steps[: best + 1], reverse=True)
    assert steps[best:] == sorted(steps[best:])
