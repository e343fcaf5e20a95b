"""Copilot: what it predicts before it has pairs, and when it is worth its time."""

import pytest
from tests.predictor_traces import errors, tied_layers

from lightloom.demand.predictors import make_predictor


def test_few_records_fall_back_to_the_last_step():
    trace = tied_layers(4, 3)
    gradient, last = make_predictor("copilot-gradient", 4), make_predictor("last-step", 4)
    for step in range(2):
        for layer in range(2):
            assert gradient.predict(step, layer) == pytest.approx(last.predict(step, layer))
            for predictor in (gradient, last):
                predictor.observe(step, layer, trace[step, layer])
    # the first layer has no previous one
    assert gradient.predict(2, 0) == pytest.approx(trace[1, 0])


@pytest.mark.parametrize("name", ["copilot", "copilot-gradient"])
def test_tied_layers_are_predicted_better_than_by_the_last_step(name):
    trace = tied_layers(12, 70, topics=5)
    error = errors(make_predictor(name, 12), trace, first=40)
    assert error < 0.7 * errors(make_predictor("last-step", 12), trace, first=40)


def test_both_efforts_lead_near_the_same_prediction():
    trace = tied_layers(6, 60)
    error = errors(make_predictor("copilot", 6), trace, first=40)
    assert errors(make_predictor("copilot-gradient", 6), trace, first=40) < 1.1 * error
