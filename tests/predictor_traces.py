"""Small traces of loads that the tests of predictors share."""

import numpy as np


def tied_layers(experts, steps, *, topics=None, seed=0):
    """Loads of two layers, ``(steps, 2, experts)``: mixtures of topics, hence Y = P X exactly."""
    rng = np.random.default_rng(seed)
    topics = experts if topics is None else topics
    mix = rng.dirichlet(np.full(topics, 4.0), size=steps)
    layers = [mix @ rng.dirichlet(np.full(experts, 2.0), size=topics) for _ in range(2)]
    return np.stack(layers, axis=1)


def play(predictor, trace):
    """Predictions of every place of a trace, ``(steps, layers, experts)``, each then observed."""
    predicted = np.empty(trace.shape)
    for step, layers in enumerate(trace):
        for layer, loads in enumerate(layers):
            predicted[step, layer] = predictor.predict(step, layer)
            predictor.observe(step, layer, loads)
    return predicted


def errors(predictor, trace, *, first, layer=1):
    """Mean L1 distance from a step on."""
    gap = np.abs(play(predictor, trace) - trace).sum(axis=-1)
    return float(gap[first:, layer].mean())
