"""Copilot: column-stochastic P, both solvers on one problem."""

import numpy as np
import pytest
from tests.predictor_traces import errors, play, tied_layers

from lightloom.demand.predictors import Copilot, LastStep
from lightloom.demand.predictors.copilot import (
    fit_gradient,
    fit_slsqp,
    moments,
    objective,
    project_columns,
)
from lightloom.demand.predictors.window import Window


def filled(trace, size=32):
    window = Window(size, trace.shape[-1])
    for layers in trace:
        window.add(*layers)
    return window


def uniform(experts):
    return np.full((experts, experts), 1 / experts)


@pytest.mark.parametrize("solver", ["slsqp", "gradient"])
def test_transition_is_a_probability_matrix(solver):
    trace = tied_layers(5, 12)
    made = Copilot(5, window=8, solver=solver)
    play(made, trace)
    transition = made.transition(1)
    assert transition.shape == (5, 5)
    assert transition.min() >= 0
    assert transition.sum(axis=0) == pytest.approx(np.ones(5))


@pytest.mark.parametrize("solver", ["slsqp", "gradient"])
def test_prediction_is_the_transition_of_the_previous_layer(solver):
    trace = tied_layers(4, 12)
    made = Copilot(4, window=8, solver=solver)
    play(made, trace[:-1])
    made.observe(11, 0, trace[11, 0])
    assert made.predict(11, 1) == pytest.approx(made.transition(1) @ trace[11, 0])


def test_objective_is_the_quadratic_form_of_the_moments():
    window = filled(tied_layers(4, 20))
    transition = project_columns(np.random.default_rng(0).random((4, 4)))
    square, cross = moments(window)
    weighted = window.weights() @ (window.targets[: window.count] ** 2).sum(axis=1)
    form = np.vdot(transition @ square, transition) - 2 * np.vdot(cross, transition) + weighted
    assert objective(transition, window) == pytest.approx(form)


@pytest.mark.parametrize("experts", [3, 6])
def test_the_solvers_agree(experts):
    window = filled(tied_layers(experts, 30, seed=experts))
    start = objective(uniform(experts), window)
    gradient = objective(
        fit_gradient(window, uniform(experts), maximum=20_000, tolerance=1e-10), window
    )
    slsqp = objective(fit_slsqp(window, uniform(experts)), window)
    # SLSQP ends at 100 iterations or a step of 1e-10 in the objective, the paper's tool as it is
    assert gradient <= slsqp + 1e-9
    assert slsqp - gradient < 0.02 * (start - gradient)
    quick = objective(fit_gradient(window, uniform(experts)), window)
    assert quick - gradient < 0.05 * (start - gradient)


def test_projection_is_nearest_among_random_stochastic_columns():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(5, 7))
    found = project_columns(matrix)
    assert found.min() >= 0
    assert found.sum(axis=0) == pytest.approx(np.ones(7))
    for _ in range(200):
        other = rng.dirichlet(np.full(5, 0.5), size=7).T
        closer = ((other - matrix) ** 2).sum(axis=0) < ((found - matrix) ** 2).sum(axis=0) - 1e-12
        assert not closer.any()
    assert project_columns(found) == pytest.approx(found)


def test_few_records_fall_back_to_the_last_step():
    trace = tied_layers(4, 3)
    made, last = Copilot(4, solver="gradient"), LastStep(4)
    for step in range(2):
        for layer in range(2):
            assert made.predict(step, layer) == pytest.approx(last.predict(step, layer))
            for each in (made, last):
                each.observe(step, layer, trace[step, layer])
    # the first layer has no previous one
    assert made.predict(2, 0) == pytest.approx(trace[1, 0])


def test_tied_layers_are_predicted_better_than_by_the_last_step():
    trace = tied_layers(12, 70, topics=5)
    found = errors(Copilot(12, solver="gradient"), trace, first=40)
    assert found < 0.7 * errors(LastStep(12), trace, first=40)
