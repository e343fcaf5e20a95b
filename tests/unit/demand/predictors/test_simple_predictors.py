"""Uniform, previous layer, last step, EWMA: what they say, and what every predictor refuses."""

import numpy as np
import pytest

from lightloom.demand.predictors import PREDICTORS, make_predictor
from lightloom.errors import DemandError

A, B, C = (np.array(loads) / 10 for loads in ([1, 2, 3, 4], [4, 3, 2, 1], [7, 1, 1, 1]))


@pytest.fixture(params=PREDICTORS)
def predictor(request):
    return make_predictor(request.param, 4, window=4)


def test_uniform_says_the_same_whatever_happened():
    predictor = make_predictor("uniform", 4)
    predictor.observe(0, 0, C)
    assert predictor.predict(1, 0) == pytest.approx(np.full(4, 0.25))


def test_previous_layer_repeats_the_layer_before_at_the_same_step():
    predictor = make_predictor("previous-layer", 4)
    predictor.observe(0, 0, A)
    assert predictor.predict(0, 1) == pytest.approx(A)
    predictor.observe(0, 1, B)
    # layer 0 of step 1 is not known: that of step 0 is another step
    assert predictor.predict(1, 1) == pytest.approx(np.full(4, 0.25))
    predictor.observe(1, 0, C)
    assert predictor.predict(1, 1) == pytest.approx(C)


def test_previous_layer_of_the_first_layer_is_uniform():
    predictor = make_predictor("previous-layer", 4)
    predictor.observe(0, 0, A)
    assert predictor.predict(1, 0) == pytest.approx(np.full(4, 0.25))


def test_last_step_repeats_the_layer_itself():
    predictor = make_predictor("last-step", 4)
    predictor.observe(0, 0, A)
    predictor.observe(0, 1, B)
    predictor.observe(1, 0, C)
    assert predictor.predict(1, 1) == pytest.approx(B)
    assert predictor.predict(2, 0) == pytest.approx(C)


def test_last_step_starts_with_the_previous_layer_or_uniform():
    predictor = make_predictor("last-step", 4)
    assert predictor.predict(0, 0) == pytest.approx(np.full(4, 0.25))
    predictor.observe(0, 0, A)
    assert predictor.predict(0, 1) == pytest.approx(A)


def test_ewma_is_the_plain_mean_until_its_rate_takes_over():
    predictor = make_predictor("ewma", 4)
    level = np.zeros(4)
    for step, loads in enumerate((A, B, C, A, B, C, C)):
        predictor.observe(step, 0, loads)
        level += max(0.2, 1 / (step + 1)) * (loads - level)
        assert predictor.predict(step + 1, 0) == pytest.approx(level)


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
        (lambda: make_predictor("ridge", 4, window=10**6), "from 2 to 1024, got 1000000"),
        (lambda: make_predictor("ridge", 4, window=-1), "window: expected a whole number from 0"),
        (lambda: make_predictor("ridge", 4, window=2.5), "window: expected a whole number"),
        (lambda: make_predictor("ridge", True), "experts: expected a whole number"),
        (lambda: make_predictor("copilot", 33), "copilot takes at most 32 experts, got 33: it "
         "fits experts^2 numbers; use ridge"),
        (lambda: make_predictor("copilot-gradient", 513), "takes at most 512 experts, got 513"),
    ],
)  # fmt: skip
def test_settings_that_are_none(make, message):
    with pytest.raises(DemandError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
