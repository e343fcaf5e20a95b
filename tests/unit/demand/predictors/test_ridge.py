"""Ridge: which candidates it trusts, and which pairs of layers it fits."""

import numpy as np
import pytest
from tests import reference_predictors as reference
from tests.predictor_traces import errors, play, tied_layers

from lightloom.demand.predictors import make_predictor


def test_tied_layers_are_predicted_better_than_by_any_mean():
    trace = tied_layers(32, 120, topics=12)
    error = errors(make_predictor("ridge", 32), trace, first=40)
    for name in ("ewma", "last-step"):
        assert error < 0.3 * errors(make_predictor(name, 32), trace, first=40)


def test_layers_that_are_not_tied_are_predicted_about_as_by_the_mean():
    rng = np.random.default_rng(1)
    trace = rng.dirichlet(np.full(16, 20.0), size=(150, 2))
    mean = errors(reference.Ewma(16, rate=0.1), trace, first=40)
    assert errors(make_predictor("ridge", 16), trace, first=40) < 1.05 * mean


def test_a_jump_is_followed_at_once():
    rng = np.random.default_rng(2)
    level = rng.dirichlet(np.full(16, 2.0))
    trace = np.empty((120, 1, 16))
    for step in range(120):
        if step % 3 == 0:
            level = rng.dirichlet(np.full(16, 2.0))
        trace[step] = level
    assert errors(make_predictor("ridge", 16), trace, first=40, layer=0) == pytest.approx(
        errors(make_predictor("last-step", 16), trace, first=40, layer=0), rel=0.15
    )


def test_candidates_are_validated_with_and_without_predictions():
    trace = tied_layers(8, 60)
    queried, silent = make_predictor("ridge", 8), make_predictor("ridge", 8)
    play(queried, trace)
    for step, layers in enumerate(trace):
        for layer, loads in enumerate(layers):
            silent.observe(step, layer, loads)
    queried.observe(60, 0, trace[0, 0])
    silent.observe(60, 0, trace[0, 0])
    assert silent.predict(60, 1) == pytest.approx(queried.predict(60, 1), abs=0)


def test_predicting_before_the_previous_layer_is_known_does_no_harm():
    trace = tied_layers(16, 60)
    early, late = make_predictor("ridge", 16), make_predictor("ridge", 16)
    for step, layers in enumerate(trace):
        for layer, loads in enumerate(layers):
            early.predict(step, 1) if layer == 0 else None
            if layer == 1:
                expected = late.predict(step, 1)
                assert early.predict(step, 1) == pytest.approx(expected, abs=0)
            for predictor in (early, late):
                predictor.observe(step, layer, loads)


def test_layers_that_run_ahead_are_paired_by_step():
    """Micro-batches in a pipeline: layer 0 may be four steps ahead of layer 1."""
    trace = tied_layers(16, 60)
    plain, early = make_predictor("ridge", 16), make_predictor("ridge", 16)
    expected = play(plain, trace)
    for step in range(64):
        if step < 60:
            early.observe(step, 0, trace[step, 0])
        if step >= 4:
            assert early.predict(step - 4, 1) == pytest.approx(expected[step - 4, 1])
            early.observe(step - 4, 1, trace[step - 4, 1])
