"""Whatever is observed: predictions are shares, and naming experts otherwise changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predictor_traces import play

from lightloom.demand.predictors import PREDICTORS, make_predictor

FAST = sorted(set(PREDICTORS) - {"copilot"})


@st.composite
def traces(draw, max_experts=9):
    """Loads of any sparsity and repetition, ``(steps, layers, experts)``."""
    shape = (
        draw(st.integers(1, 14)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, max_experts)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.poisson(draw(st.sampled_from([0.2, 3, 1000])), size=shape).astype(float)
    if draw(st.booleans()):
        counts[1::2] = counts[0]
    counts[..., 0] += counts.sum(axis=-1) == 0
    return counts / counts.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=60)
@given(traces())
def test_predictions_are_shares(name, trace):
    predicted = play(make_predictor(name, trace.shape[-1], window=4), trace)
    assert np.isfinite(predicted).all()
    assert predicted.min() >= 0
    assert predicted.sum(axis=-1) == pytest.approx(np.ones(trace.shape[:2]))


@settings(max_examples=10)
@given(traces(max_experts=4))
def test_predictions_of_copilot_are_shares(trace):
    predicted = play(make_predictor("copilot", trace.shape[-1], window=4), trace[:6])
    assert predicted.min() >= 0
    assert predicted.sum(axis=-1) == pytest.approx(np.ones(predicted.shape[:2]))


@pytest.mark.parametrize("name", ["uniform", "previous-layer", "last-step", "ewma", "ridge"])
@settings(max_examples=60)
@given(traces(), st.randoms(use_true_random=False))
def test_renaming_experts_commutes(name, trace, random):
    order = list(range(trace.shape[-1]))
    random.shuffle(order)
    predicted = play(make_predictor(name, len(order), window=4), trace)
    renamed = play(make_predictor(name, len(order), window=4), trace[..., order])
    assert renamed == pytest.approx(predicted[..., order], abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_renaming_experts_commutes_for_fitted_transitions(seed):
    """On draws without ties, where the iterations take the same course."""
    rng = np.random.default_rng(seed)
    trace = rng.dirichlet(np.full(7, 3.0), size=(20, 3))
    order = rng.permutation(7)
    predicted = play(make_predictor("copilot-gradient", 7, window=8), trace)
    renamed = play(make_predictor("copilot-gradient", 7, window=8), trace[..., order])
    assert renamed == pytest.approx(predicted[..., order], abs=1e-7)


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=60)
@given(traces(), st.floats(1e-6, 1e6))
def test_scale_of_loads_does_not_matter(name, trace, scale):
    experts = trace.shape[-1]
    predicted = play(make_predictor(name, experts, window=4), trace)
    scaled = make_predictor(name, experts, window=4)
    for step, layers in enumerate(trace):
        for layer, loads in enumerate(layers):
            found = scaled.predict(step, layer)
            assert found == pytest.approx(predicted[step, layer], abs=1e-6)
            scaled.observe(step, layer, loads * scale)
