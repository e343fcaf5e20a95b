"""Ridge: what the previous layer says about how a layer will differ from its mean.

Each layer has a mean that follows its loads (EWMA). The *surprise* of a step is how far its loads
are from the mean before it. Layers of one step see the same tokens, so that the surprise of the
previous layer, which is known, says something of this one's. The relation is fitted over a window
of k steps by kernel ridge regression, centerd and with weights w that fall with age::

    surprise = q + Y_c' W^(1/2) (K + r tr(K)/k I)^-1 W^(1/2) X_c (x - mean x)
    K = W^(1/2) X_c X_c' W^(1/2)

X and Y are the window's surprises of the two layers, ``(k, experts)``, q and mean x their weighted
means. This is ridge regression on the transition matrix P of MixNet's equation 1 around the mean
without ever writing down its experts x experts entries: one k x k system instead (Saunders,
Gammerman and Vovk, ICML 1998). Sums to one follow from those of the data; negatives are cut off.

How much to trust the fit differs between models and over training: candidates with several ``r``,
and means of several rates alone, all predict, and what is used is their mean with weights that fall
exponentially with their past error (L1, older errors forgotten; Littlestone and Warmuth, "The
weighted majority algorithm", 1994). Each is judged on steps that it had not seen. On generated
traces the mean beats the single best candidate, even one chosen in hindsight.

It leaves out where the surprises come from: only the layer before is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightloom.demand.predictors.history import LEAD, History
from lightloom.demand.predictors.protocol import Loads, check_count, project
from lightloom.demand.predictors.window import Window

#: strengths r of the ridge, relative to the mean eigenvalue
STRENGTHS = (0.03, 0.3, 3.0)

#: rates of means: slow, that of the surprises, fast, and the last step itself
RATES = (0.1, 0.25, 0.5, 1.0)
_BASE = 1

#: what an error of a candidate counts one step later
_FORGET = 0.97

#: how fast weight falls with error: a candidate 5 % worse than the best has 1/e of its weight
_SHARPNESS = 20.0

#: pairs from which on a fit is tried
_FEWEST = 4

#: longest window: a k x k system per prediction
MAX_WINDOW = 1024


class Ridge:
    """Kernel ridge regression on surprises, weighted against means by one-step-behind validation.

    The first layer, which has no previous one, and the first steps use means alone; the very
    first step the previous layer's loads, or uniform.

    Parameters
    ----------
    experts
        Number of experts.
    window
        Steps over which the relation of two layers is fitted.
    """

    def __init__(self, experts: int, *, window: int = 32) -> None:
        self._history = History(experts)
        self._window = check_count("window", window, MAX_WINDOW, 2)
        self._layers: dict[int, _Layer] = {}

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        state = self._layers.get(layer)
        if state is not None:
            self._history.check_open(step, layer)
            candidates = self._candidates(state, step, layer)
        shares = self._history.add(step, layer, loads)
        if state is None:
            self._layers[layer] = _Layer.first(step, shares)
            return
        state.judge(candidates, shares)
        surprise = shares - state.means[_BASE]
        before = self._surprise(step, layer - 1)
        if before is not None:
            if state.window is None:
                state.window = Window(self._window, self._history.experts)
            state.window.add(before, surprise)
        state.follow(step, shares, surprise)

    def predict(self, step: int, layer: int) -> Loads:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.check_open(step, layer)
        state = self._layers.get(layer)
        if state is None:
            return self._history.fall_back(step, layer)
        mixed: Loads = state.weights() @ self._candidates(state, step, layer)
        return mixed

    def _surprise(self, step: int, layer: int) -> Loads | None:
        """Surprise of a layer at a step, if known."""
        state = self._layers.get(layer)
        return None if state is None else state.surprises.get(step)

    def _candidates(self, state: _Layer, step: int, layer: int) -> Loads:
        """Every candidate's prediction, ``(means + strengths, experts)``."""
        before = self._surprise(step, layer - 1)
        request = (step, before is not None)
        if state.ready is not None and state.ready[0] == request:
            return state.ready[1]
        fits = np.broadcast_to(state.means[_BASE], (len(STRENGTHS), self._history.experts))
        if before is not None and state.window is not None and state.window.count >= _FEWEST:
            fits = fits + fit(state.window, before)
        candidates = project(np.concatenate([state.means, fits]))
        state.ready = (request, candidates)
        return candidates


@dataclass
class _Layer:
    """What is known of one layer.

    ``means`` is ``(rates, experts)``, ``errors`` one number per candidate, ``ready`` the
    candidates asked for last, by step and whether the previous layer was known.
    """

    means: Loads
    count: int
    errors: Loads
    window: Window | None = None
    surprises: dict[int, Loads] = field(default_factory=dict)
    ready: tuple[tuple[int, bool], Loads] | None = None

    @classmethod
    def first(cls, step: int, shares: Loads) -> _Layer:
        """After the first step, whose loads surprise no one."""
        errors = np.zeros(len(RATES) + len(STRENGTHS))
        made = cls(np.tile(shares, (len(RATES), 1)), 1, errors)
        made.surprises[step] = np.zeros_like(shares)
        return made

    def weights(self) -> Loads:
        """Weights of the candidates by their errors; equal before there are any."""
        minimum = float(self.errors.min())
        found: Loads = np.exp(-_SHARPNESS * (self.errors - minimum) / max(minimum, _NO_ERROR))
        found /= found.sum()
        return found

    def judge(self, candidates: Loads, shares: Loads) -> None:
        """Charge each candidate its error."""
        self.errors *= _FORGET
        self.errors += np.abs(candidates - shares).sum(axis=1)

    def follow(self, step: int, shares: Loads, surprise: Loads) -> None:
        """Move the means towards what was observed."""
        self.count += 1
        rates = np.maximum(_RATES, 1 / self.count)
        self.means += rates[:, np.newaxis] * (shares - self.means)
        self.surprises[step] = surprise
        if len(self.surprises) > LEAD:
            del self.surprises[next(iter(self.surprises))]
        self.ready = None


#: errors below are rounding
_NO_ERROR = 1e-12

_RATES = np.array(RATES)
_STRENGTHS = np.array(STRENGTHS)


def fit(window: Window, inputs: Loads, strengths: Loads = _STRENGTHS) -> Loads:
    """Targets that a window suggests for new inputs, by ridge regression of each strength.

    Parameters
    ----------
    window
        Pairs of inputs and targets.
    inputs
        New inputs, ``(experts,)``.
    strengths
        Ridge over the mean eigenvalue, above 0.

    Returns
    -------
    ``(strengths, experts)``; the mean of the targets where all inputs were the same.
    """
    count = window.count
    weights = window.weights()
    targets = window.targets[:count]
    mean = weights @ targets
    gram = window.gram[:count, :count]
    # centring in the kernel: <a - m, b - m> = <a, b> - <a, m> - <m, b> + <m, m>
    along = gram @ weights
    square = float(weights @ along)
    new = window.inputs[:count] @ inputs
    roots = np.sqrt(weights)
    kernel = gram - along[:, np.newaxis] - along + square
    kernel *= roots[:, np.newaxis] * roots
    size = float(np.trace(kernel)) / count
    # below rounding of the Gram matrix there is nothing to learn from
    if size <= 1e-14 * float(np.trace(gram)):
        return np.tile(mean, (len(strengths), 1))
    right = roots * (new - along - float(weights @ new) + square)
    systems = kernel + (strengths * size)[:, np.newaxis, np.newaxis] * np.eye(count)
    duals = np.linalg.solve(systems, np.broadcast_to(right[:, np.newaxis], (*systems.shape[:2], 1)))
    factors = duals[..., 0] * roots
    found: Loads = factors @ targets + (1 - factors.sum(axis=1))[:, np.newaxis] * mean
    return found
