"""Ridge: the window, the fit against its textbook form, and which candidates it trusts."""

import numpy as np
import pytest
from tests.predictor_traces import errors, play, tied_layers

from lightloom.demand.predictors import Ewma, LastStep, Ridge
from lightloom.demand.predictors.ridge import RATES, fit
from lightloom.demand.predictors.window import DECAY, Window


@pytest.mark.parametrize("steps", [1, 3, 5, 6, 12])
def test_window_keeps_the_latest_pairs_with_falling_weights(steps):
    rng = np.random.default_rng(0)
    inputs, targets = rng.random((2, steps, 3))
    window = Window(5, 3)
    for pair in zip(inputs, targets, strict=True):
        window.add(*pair)
    count = min(steps, 5)
    assert window.count == count
    kept = sorted(map(tuple, window.inputs[:count]))
    assert kept == sorted(map(tuple, inputs[-count:]))
    assert window.gram[:count, :count] == pytest.approx(
        window.inputs[:count] @ window.inputs[:count].T
    )
    # the newest has the most weight, each older one less by a factor
    order = np.argsort(-window.weights())
    assert window.targets[order] == pytest.approx(targets[::-1][:count])
    ratios = np.sort(window.weights())[::-1]
    assert ratios[1:] / ratios[:-1] == pytest.approx(DECAY)
    assert ratios.sum() == pytest.approx(1)


@pytest.mark.parametrize(("experts", "steps"), [(3, 20), (10, 6), (8, 8)])
def test_fit_is_ridge_regression_in_its_primal_form(experts, steps):
    rng = np.random.default_rng(experts)
    window = Window(32, experts)
    for _ in range(steps):
        window.add(*rng.random((2, experts)))
    new = rng.random(experts)
    weights, x, y = window.weights(), window.inputs[:steps], window.targets[:steps]
    centerd, centerd_y = x - weights @ x, y - weights @ y
    square = (centerd * weights[:, np.newaxis]).T @ centerd
    strengths = np.array([0.01, 1.0])
    for strength, found in zip(strengths, fit(window, new, strengths), strict=True):
        ridge = strength * np.trace(square) / steps
        transition = np.linalg.solve(
            square + ridge * np.eye(experts), (centerd * weights[:, np.newaxis]).T @ centerd_y
        )
        assert found == pytest.approx(weights @ y + (new - weights @ x) @ transition)


def test_fit_of_inputs_that_never_changed_is_the_mean():
    window = Window(8, 4)
    rng = np.random.default_rng(0)
    for _ in range(6):
        window.add(np.full(4, 0.25), rng.random(4))
    expected = window.weights() @ window.targets[:6]
    assert fit(window, np.array([0.7, 0.1, 0.1, 0.1])) == pytest.approx(np.tile(expected, (3, 1)))


def test_strong_ridge_is_the_mean():
    rng = np.random.default_rng(0)
    window = Window(8, 4)
    for _ in range(6):
        window.add(*rng.random((2, 4)))
    expected = window.weights() @ window.targets[:6]
    assert fit(window, rng.random(4), np.array([1e9]))[0] == pytest.approx(expected)


def test_tied_layers_are_predicted_better_than_by_any_mean():
    trace = tied_layers(32, 120, topics=12)
    found = errors(Ridge(32), trace, first=40)
    for rate in RATES:
        assert found < 0.3 * errors(Ewma(32, rate=rate), trace, first=40)


def test_layers_that_are_not_tied_are_predicted_about_as_by_the_mean():
    rng = np.random.default_rng(1)
    trace = rng.dirichlet(np.full(16, 20.0), size=(150, 2))
    mean = errors(Ewma(16, rate=0.1), trace, first=40)
    assert errors(Ridge(16), trace, first=40) < 1.05 * mean


def test_a_jump_is_followed_at_once():
    rng = np.random.default_rng(2)
    level = rng.dirichlet(np.full(16, 2.0))
    trace = np.empty((120, 1, 16))
    for step in range(120):
        if step % 3 == 0:
            level = rng.dirichlet(np.full(16, 2.0))
        trace[step] = level
    assert errors(Ridge(16), trace, first=40, layer=0) == pytest.approx(
        errors(LastStep(16), trace, first=40, layer=0), rel=0.15
    )


def test_candidates_are_validated_whether_or_not_predictions_were_asked_for():
    trace = tied_layers(8, 60)
    queried, silent = Ridge(8), Ridge(8)
    play(queried, trace)
    for step, layers in enumerate(trace):
        for layer, loads in enumerate(layers):
            silent.observe(step, layer, loads)
    queried.observe(60, 0, trace[0, 0])
    silent.observe(60, 0, trace[0, 0])
    assert silent.predict(60, 1) == pytest.approx(queried.predict(60, 1), abs=0)


def test_asking_before_the_previous_layer_is_known_does_not_spoil_the_answer():
    trace = tied_layers(16, 60)
    early, late = Ridge(16), Ridge(16)
    for step, layers in enumerate(trace):
        for layer, loads in enumerate(layers):
            early.predict(step, 1) if layer == 0 else None
            if layer == 1:
                expected = late.predict(step, 1)
                assert early.predict(step, 1) == pytest.approx(expected, abs=0)
            for made in (early, late):
                made.observe(step, layer, loads)


def test_layers_that_run_ahead_are_paired_by_step():
    """Micro-batches in a pipeline: layer 0 may be four steps ahead of layer 1."""
    trace = tied_layers(16, 60)
    plain, early = Ridge(16), Ridge(16)
    expected = play(plain, trace)
    for step in range(64):
        if step < 60:
            early.observe(step, 0, trace[step, 0])
        if step >= 4:
            assert early.predict(step - 4, 1) == pytest.approx(expected[step - 4, 1])
            early.observe(step - 4, 1, trace[step - 4, 1])
