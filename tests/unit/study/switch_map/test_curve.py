"""Curves of step times over the delay: exact where simulated, near in between, borders right."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.study.switch_map.curve import LONGEST_S, SHORTEST_S, StepCurve, refined


def smooth(knee, height):
    """A step that becomes longer around a delay."""

    def step_s(delay_s):
        return 1 + height / (1 + (knee / delay_s) ** 0.7)

    return step_s


@settings(max_examples=60, deadline=None)
@given(knee=st.floats(1e-5, 1.0), height=st.floats(0.0, 2.0), place=st.floats(0, 1))
def test_interpolated_steps_are_as_near_as_asked(knee, height, place):
    step_s, asked = smooth(knee, height), []

    def simulate(delays):
        asked.extend(delays)
        return [step_s(delay) for delay in delays]

    curve = refined(simulate, step_s(1e6), 0.002)
    assert len(asked) == len(set(asked)) == len(curve.steps_s)
    for delay, step in curve.steps_s.items():
        assert curve.step_s(delay) == pytest.approx(step)
    delay = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** place
    # what was found to be off at a middle bounds a smooth curve beside it, nearly
    assert curve.step_s(delay) == pytest.approx(step_s(delay), rel=0.004)
    assert curve.error <= 0.01


def test_a_flat_curve_takes_three_simulations():
    curve = refined(lambda delays: [5.0 for _ in delays], 5.0, 0.002)
    assert (len(curve.steps_s), curve.checks, curve.error) == (3, 1, 0.0)
    assert set(curve.steps_s) >= {SHORTEST_S, LONGEST_S}


@given(border=st.floats(-5.5, 0.9))
def test_a_border_is_where_the_step_crosses(border):
    curve = StepCurve({SHORTEST_S: 1.0, LONGEST_S: 2.0}, never_s=2.0)
    limit = curve.step_s(10**border)
    assert curve.border_s(lambda step: step <= limit) == pytest.approx(10**border, rel=1e-3)


def test_a_border_may_be_nowhere_or_everywhere():
    curve = StepCurve({SHORTEST_S: 1.0, LONGEST_S: 2.0}, never_s=2.0)
    assert curve.border_s(lambda step: step < 1.0) == 0.0
    assert curve.border_s(lambda step: step <= 2.0) == math.inf
    # a policy may lose more with slow switches than fixed circuits do, or less
    longer = StepCurve({SHORTEST_S: 1.0, LONGEST_S: 2.0}, never_s=3.0)
    assert longer.border_s(lambda step: step <= 2.0) == LONGEST_S
