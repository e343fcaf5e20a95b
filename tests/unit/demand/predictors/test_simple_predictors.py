"""Uniform, previous layer, last step, EWMA: what they say, and what every predictor refuses."""

import numpy as np
import pytest

from lightloom.demand.predictors import (
    PREDICTORS,
    Copilot,
    Ewma,
    LastStep,
    PreviousLayer,
    Ridge,
    Uniform,
    make_predictor,
)
from lightloom.demand.predictors.protocol import as_shares, project
from lightloom.errors import DemandError

A, B, C = (np.array(loads) / 10 for loads in ([1, 2, 3, 4], [4, 3, 2, 1], [7, 1, 1, 1]))


@pytest.fixture(params=PREDICTORS)
def predictor(request):
    return make_predictor(request.param, 4, window=4)


def test_uniform_says_the_same_whatever_happened():
    made = Uniform(4)
    made.observe(0, 0, C)
    assert made.predict(1, 0) == pytest.approx(np.full(4, 0.25))


def test_previous_layer_repeats_the_layer_before_at_the_same_step():
    made = PreviousLayer(4)
    made.observe(0, 0, A)
    assert made.predict(0, 1) == pytest.approx(A)
    made.observe(0, 1, B)
    # layer 0 of step 1 is not known: that of step 0 is another step
    assert made.predict(1, 1) == pytest.approx(np.full(4, 0.25))
    made.observe(1, 0, C)
    assert made.predict(1, 1) == pytest.approx(C)


def test_previous_layer_of_the_first_layer_is_uniform():
    made = PreviousLayer(4)
    made.observe(0, 0, A)
    assert made.predict(1, 0) == pytest.approx(np.full(4, 0.25))


def test_last_step_repeats_the_layer_itself():
    made = LastStep(4)
    made.observe(0, 0, A)
    made.observe(0, 1, B)
    made.observe(1, 0, C)
    assert made.predict(1, 1) == pytest.approx(B)
    assert made.predict(2, 0) == pytest.approx(C)


def test_last_step_starts_with_the_previous_layer_or_uniform():
    made = LastStep(4)
    assert made.predict(0, 0) == pytest.approx(np.full(4, 0.25))
    made.observe(0, 0, A)
    assert made.predict(0, 1) == pytest.approx(A)


def test_ewma_is_the_plain_mean_until_the_rate_takes_over():
    made = Ewma(4, rate=0.4)
    made.observe(0, 0, A)
    made.observe(1, 0, B)
    assert made.predict(2, 0) == pytest.approx((A + B) / 2)
    made.observe(2, 0, C)
    assert made.predict(3, 0) == pytest.approx(0.6 * (A + B) / 2 + 0.4 * C)


def test_ewma_of_rate_one_is_the_last_step():
    made = Ewma(4, rate=1)
    for step, loads in enumerate((A, B, C)):
        made.observe(step, 0, loads)
    assert made.predict(3, 0) == pytest.approx(C)


def test_loads_may_have_any_scale(predictor):
    predictor.observe(0, 0, np.array([10, 20, 30, 40]))
    predictor.observe(1, 0, np.array([1e300, 2e300, 3e300, 4e300]))
    predictor.observe(2, 0, A)
    assert predictor.predict(3, 0).sum() == pytest.approx(1)


def test_what_was_returned_can_be_written_to(predictor):
    for step in range(3):
        predictor.observe(step, 0, A)
        predictor.predict(step, 1)[:] = 7
        predictor.observe(step, 1, B)
        predictor.predict(step + 1, 0)[:] = 7
    assert predictor.predict(3, 0).sum() == pytest.approx(1)


def test_without_history_loads_are_uniform(predictor):
    assert predictor.predict(0, 0) == pytest.approx(np.full(4, 0.25))
    assert predictor.predict(5, 3) == pytest.approx(np.full(4, 0.25))


def test_a_step_that_was_observed_is_not_predicted(predictor):
    predictor.observe(3, 1, A)
    with pytest.raises(DemandError, match=r"^layer 1 was observed at step 3; expected a"):
        predictor.predict(3, 1)
    with pytest.raises(DemandError, match="expected a later step, got 2"):
        predictor.observe(2, 1, A)


@pytest.mark.parametrize(
    ("loads", "message"),
    [
        ([1, 2, 3], r"loads: expected 4 numbers, got int64 of shape \(3,\)"),
        ([[1, 2, 3, 4]], "expected 4 numbers"),
        (["a", "b", "c", "d"], "expected 4 numbers"),
        ([1, 2, -1, 3], "expected finite numbers of at least 0, not all of them 0"),
        ([0, 0, 0, 0], "not all of them 0"),
        ([1, 2, np.nan, 3], "expected finite numbers"),
        ([1, 2, np.inf, 3], "expected finite numbers"),
    ],
)
def test_loads_that_are_none(predictor, loads, message):
    with pytest.raises(DemandError, match=message):
        predictor.observe(0, 0, loads)
    assert predictor.predict(0, 0).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("step", "layer", "message"),
    [
        (-1, 0, "^step: expected a whole number from 0"),
        (0, -1, "^layer: expected a whole number from 0 to 65536, got -1"),
        (0.5, 0, "^step: expected a whole number"),
        (0, True, "^layer: expected a whole number"),
    ],
)
def test_indices_that_are_none(predictor, step, layer, message):
    with pytest.raises(DemandError, match=message):
        predictor.predict(step, layer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_predictor("ridg", 4), "unknown predictor 'ridg'; did you mean 'ridge'?"),
        (lambda: make_predictor("uniform", 0), "experts: expected a whole number from 1 to 65535"),
        (lambda: make_predictor("ridge", 4, window=1), "window: expected a whole number from 2"),
        (lambda: Ridge(4, window=10**6), "window: expected a whole number from 2 to 1024"),
        (lambda: Ewma(4, rate=0), "rate: expected a number above 0 and up to 1, got 0"),
        (lambda: Ewma(4, rate=1.5), "rate: expected a number above 0 and up to 1, got 1.5"),
        (lambda: Ewma(4, rate=np.nan), "rate: expected a number above 0 and up to 1, got nan"),
        (lambda: Copilot(17), "copilot with the solver slsqp takes at most 16 experts, got 17: it "
         "fits experts^2 numbers; use ridge"),
        (lambda: Copilot(513, solver="gradient"), "takes at most 512 experts, got 513"),
        (lambda: Copilot(4, solver="slqp"), "solver 'slqp': expected one of slsqp, gradient; did "
         "you mean 'slsqp'?"),
        (lambda: Copilot(4).transition(1), "layer 1: no step with its previous layer was observed"),
    ],
)  # fmt: skip
def test_settings_that_are_none(make, message):
    with pytest.raises(DemandError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shares_and_projection():
    assert as_shares([1, 3], 2) == pytest.approx([0.25, 0.75])
    assert project(np.array([-1.0, 1, 3])) == pytest.approx([0, 0.25, 0.75])
    rows = project(np.array([[-1.0, -2], [0, 5]]))
    assert rows == pytest.approx(np.array([[0.5, 0.5], [0, 1]]))
