"""Whatever an entry of the core is given, it answers, or refuses it in one line.

A thousand inputs each, drawn by seed; a million under ``make soak``. None takes 3 s of processor
time, though inputs of a few kilobytes may ask for long work, nor makes the process 256 MB larger.
The two runs, which take packets or steps, are in ``test_core_runs_fuzz.py``.
"""

import inspect
import itertools
import os

import numpy as np
import pytest
from tests.fuzz import core_targets
from tests.fuzz.core_targets import ENTRIES, inputs, try_inputs
from tests.fuzz.draws import Draws
from tests.fuzz.outcomes import refusal

from lightloom import _core

COUNT = 10_000 * int(os.environ.get("LIGHTLOOM_SOAK", "0")) or 1_000
#: the least share of inputs that is answered, where it is not half of them
ANSWERED = {
    "record_fields": 0.4,
    "record_values": 0.3,
    "schedule_build_on_planes": 0.25,
    "schedule_check_route": 0.33,
    "schedule_check_assignment": 0.33,
    "schedule_check_decomposition": 0.36,
    "schedule_check_general": 0.42,
    "schedule_check_hybrid": 0.43,
    "schedule_check_chunks": 0.44,
    "schedule_check_rotornet": 0.44,
    "schedule_rotornet": 0.46,
    "packet_topology": 0.36,
    "Decider": 0.36,
    "Held": 0.36,
    "LoadPredictor": 0.42,
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_answers_or_refuses_in_one_line(entry):
    assert try_inputs(entry, COUNT) > ANSWERED.get(entry, 0.5) * COUNT


def test_every_entry_of_the_core_is_tried():
    entries = {
        name
        for name, value in vars(_core).items()
        if inspect.isbuiltin(value) or (inspect.isclass(value) and is_made(value))
    }
    assert entries == {*ENTRIES, "execute", "packet_simulate", "PhaseBook"}


def is_made(kind):
    """Whether Python can make an object of a class, by a call or by one of its functions."""
    if any(isinstance(value, staticmethod) for value in vars(kind).values()):
        return True
    return not issubclass(kind, BaseException) and "cannot create" not in str(refusal(kind))


def test_inputs_are_the_same_every_time():
    for entry in ("schedule_relay", "schedule_check_route"):
        first, second = (
            [repr(call.args) for call in itertools.islice(inputs(entry), 50)] for _ in range(2)
        )
        assert first == second
        assert len(set(first)) > 25


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (ValueError("a\nb"), "refused, but not in one line"),
        (SystemError("index out of bounds"), "index out of bounds"),
    ],
)
def test_what_is_wrong_names_the_entry_and_the_input(monkeypatch, fault, text):
    calls = iter(range(9))

    def fails(_):
        if next(calls) == 4:
            raise fault

    monkeypatch.setitem(core_targets.OBJECTS, "Held", fails)
    with pytest.raises(AssertionError, match=f"^input 4 of Held: .*{text}"):
        try_inputs("Held", 9)


def test_half_of_the_inputs_have_nothing_odd_and_all_kinds_of_arrays_occur():
    draw, seen, plain = Draws("1"), set(), 0
    for _ in range(2_000):
        draw.begin()
        plain += draw.oddness == 0
        array = draw.matrix(np.uint64, "bytes")
        if not isinstance(array, np.ndarray):
            seen.add("not an array")
            continue
        seen.add(array.dtype.name)
        seen.add(f"{array.ndim} dimensions")
        seen |= {name for name in ("C_CONTIGUOUS", "ALIGNED") if not array.flags[name]}
        if draw.oddness == 0:
            assert array.shape == (draw.side, draw.side)
    assert 900 < plain < 1_500
    assert {"bool", "float64", "int32", "C_CONTIGUOUS", "ALIGNED", "3 dimensions"} < seen
    assert "not an array" in seen
