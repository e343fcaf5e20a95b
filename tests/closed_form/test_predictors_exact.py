"""Traces on which the right prediction is known."""

import numpy as np
import pytest
from tests.predictor_traces import play, tied_layers

from lightloom.demand.predictors import PREDICTORS, make_predictor


@pytest.mark.parametrize("name", sorted(set(PREDICTORS) - {"uniform", "previous-layer"}))
def test_constant_loads_are_predicted_exactly(name):
    rng = np.random.default_rng(0)
    layers = rng.dirichlet(np.full(6, 1.0), size=3)
    predicted = play(make_predictor(name, 6, window=4), np.tile(layers, (10, 1, 1)))
    # a single pair of loads does not determine P, yet any P that fits it predicts it
    assert predicted[3:] == pytest.approx(np.tile(layers, (7, 1, 1)), abs=2e-3)


def test_ridge_comes_close_with_the_strengths_that_it_has():
    trace = tied_layers(24, 120, topics=6)
    predicted = play(make_predictor("ridge", 24), trace)
    gap = np.abs(predicted - trace).sum(axis=-1)[60:, 1].mean()
    between = np.abs(trace[1:] - trace[:-1]).sum(axis=-1)[60:, 1].mean()
    assert gap < 0.15 * between


@pytest.mark.parametrize("name", ["copilot", "copilot-gradient"])
def test_copilot_recovers_a_renaming_of_experts(name):
    """P that renames experts: column-stochastic, and found from its vertices."""
    rng = np.random.default_rng(3)
    renamed = rng.permutation(5)
    inputs = rng.dirichlet(np.full(5, 0.3), size=24)
    made = make_predictor(name, 5, window=24)
    play(made, np.stack([inputs, inputs[:, renamed]], axis=1))
    new = rng.dirichlet(np.full(5, 1.0))
    made.observe(24, 0, new)
    assert made.predict(24, 1) == pytest.approx(new[renamed], abs=2e-3)
