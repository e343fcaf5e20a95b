"""The core's predictors against the same formulas in NumPy and SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference_predictors as reference
from tests.predictor_traces import play, tied_layers

from lightloom.demand.predictors import make_predictor

#: largest difference of a share; sums are rounded in another order
TOLERANCE = 1e-9


@st.composite
def traces(draw):
    """Loads of any sparsity, ``(steps, layers, experts)``, and a window."""
    shape = (draw(st.integers(1, 30)), draw(st.integers(1, 3)), draw(st.integers(1, 12)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.poisson(draw(st.sampled_from([3, 1000])), size=shape).astype(float)
    counts[..., 0] += counts.sum(axis=-1) == 0
    return counts, draw(st.integers(2, 12))


@pytest.mark.parametrize("name", sorted(reference.REFERENCES))
@settings(max_examples=60, deadline=None)
@given(drawn=traces())
def test_shares_are_those_of_numpy(name, drawn):
    trace, window = drawn
    experts = trace.shape[-1]
    found = play(make_predictor(name, experts, window=window), trace)
    expected = play(reference.REFERENCES[name](experts, window), trace)
    # where a restart of the gradient is decided by rounding, paths to the minimum part
    tolerance = 2e-3 if name == "copilot-gradient" else TOLERANCE
    assert found == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", sorted(reference.REFERENCES))
@pytest.mark.parametrize("experts", [8, 40])
def test_long_traces_are_those_of_numpy(name, experts):
    """Full windows, both forms of the gradient, and no ties that rounding could break."""
    trace = tied_layers(experts, 60, topics=10)
    found = play(make_predictor(name, experts, window=12), trace)
    expected = play(reference.REFERENCES[name](experts, 12), trace)
    assert found == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("experts", [3, 6])
def test_copilot_fits_at_least_as_well_as_slsqp(experts):
    """The paper's solver, with the transition matrix that follows from single experts' loads."""
    trace = tied_layers(experts, 30, seed=experts)
    made = make_predictor("copilot", experts, window=30)
    play(made, trace)
    transition = np.empty((experts, experts))
    pairs = trace[:, 0], trace[:, 1], reference.weights_of(30)
    for expert in range(experts):
        # layer 0 of a step of its own: nothing that layer 1 observed changes
        made.observe(30 + expert, 0, np.eye(experts)[expert])
        transition[:, expert] = made.predict(30 + expert, 1)
    uniform = np.full((experts, experts), 1 / experts)
    slsqp = reference.objective(reference.fit_slsqp(pairs, uniform), pairs)
    found = reference.objective(transition, pairs)
    assert transition.min() >= 0
    assert transition.sum(axis=0) == pytest.approx(np.ones(experts))
    # SLSQP ends at 100 iterations or a step of 1e-10 in the objective, the paper's tool as it is
    assert found <= slsqp + 1e-9
    assert slsqp - found < 0.02 * (reference.objective(uniform, pairs) - found)
