"""Copilot: the predictor of MixNet's appendix B.1, by its own solver and by a faster one.

For each layer, P (experts x experts, entries in [0, 1], columns summing to one) minimizes::

    sum over the window of w_i |Y_i - P X_i|^2                                  (equation 1)

where X_i and Y_i are the loads of the previous layer and of the layer itself at a step; the
prediction is P x. With A = sum w_i X_i X_i' and B = sum w_i Y_i X_i' that is
``tr(P A P') - 2 tr(P B')`` and a constant, whatever the window. What the paper leaves open: the
weights (here they fall by a fixed factor per step, see :mod:`.window`), how often P is fitted
(here before every prediction, from the last P), and the first steps (here as the last step did).

- ``slsqp``: sequential least squares programming by ``scipy.optimize``, as in the paper. It has
  experts^2 variables and takes their cube per iteration: the reference at small sizes.
- ``gradient``: the same problem by accelerated projected gradient (Beck and Teboulle, "A fast
  iterative shrinkage-thresholding algorithm", 2009) with restarts; columns are projected onto the
  simplex by sorting (Duchi et al., ICML 2008).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from lightloom.demand.predictors.history import History
from lightloom.demand.predictors.protocol import Loads, check_count, project
from lightloom.demand.predictors.window import Window
from lightloom.errors import DemandError, echo, expected_one_of

Solver = Literal["slsqp", "gradient"]

#: most experts of each solver: SLSQP's time per fit grows with the sixth power
MAX_EXPERTS = {"slsqp": 16, "gradient": 512}

_MAX_WINDOW = 1024

Matrix = npt.NDArray[np.float64]


class Copilot:
    """Predicts P times the loads of the previous layer, P fitted over a window.

    The first layer, which has no previous one, and a layer with a single step or none predict
    the layer's last loads; the previous layer's, or uniform, at the very first.

    Parameters
    ----------
    experts
        Number of experts.
    window
        Steps over which P is fitted.
    solver
        ``slsqp`` as in the paper, or ``gradient`` for the same minimum at larger sizes.

    Raises
    ------
    DemandError
        If there are more experts than the solver can take (:data:`MAX_EXPERTS`).
    """

    def __init__(self, experts: int, *, window: int = 32, solver: str = "slsqp") -> None:
        if solver not in get_args(Solver):
            raise DemandError(f"solver {echo(solver)}: {expected_one_of(solver, get_args(Solver))}")
        self._history = History(experts)
        if experts > MAX_EXPERTS[solver]:
            raise DemandError(
                f"copilot with the solver {solver} takes at most {MAX_EXPERTS[solver]} experts, "
                f"got {experts}: it fits experts^2 numbers; use ridge"
            )
        self._window = check_count("window", window, _MAX_WINDOW, 2)
        self._solver = solver
        self._windows: dict[int, Window] = {}
        self._fitted: dict[int, Matrix] = {}
        self._stale: set[int] = set()

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        shares = self._history.add(step, layer, loads)
        before = self._history.at(step, layer - 1)
        if before is None:
            return
        if layer not in self._windows:
            self._windows[layer] = Window(self._window, self._history.experts)
        self._windows[layer].add(before, shares)
        self._stale.add(layer)

    def predict(self, step: int, layer: int) -> Loads:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.check_open(step, layer)
        before = self._history.at(step, layer - 1)
        window = self._windows.get(layer)
        if before is None or window is None or window.count < 2:
            return self._history.fall_back(step, layer)
        return project(self.transition(layer) @ before)

    def transition(self, layer: int) -> Matrix:
        """P of a layer, fitted to all pairs so far, ``(experts, experts)``.

        Raises
        ------
        DemandError
            If the layer has no pairs.
        """
        window = self._windows.get(layer)
        if window is None:
            raise DemandError(f"layer {layer}: no step with its previous layer was observed")
        if layer in self._stale:
            experts = self._history.experts
            start = self._fitted.get(layer, np.full((experts, experts), 1 / experts))
            solve = fit_slsqp if self._solver == "slsqp" else fit_gradient
            self._fitted[layer] = solve(window, start)
            self._stale.discard(layer)
        return self._fitted[layer]


def moments(window: Window) -> tuple[Matrix, Matrix]:
    """A and B of a window, see the module; both ``(experts, experts)``."""
    weights = window.weights()
    inputs = window.inputs[: window.count]
    weighted = weights[:, np.newaxis] * inputs
    return inputs.T @ weighted, window.targets[: window.count].T @ weighted


def objective(transition: Matrix, window: Window) -> float:
    """The weighted squared error of a window (equation 1)."""
    count = window.count
    wrong = window.targets[:count] - window.inputs[:count] @ transition.T
    return float(window.weights() @ (wrong**2).sum(axis=1))


def fit_slsqp(window: Window, start: Matrix) -> Matrix:
    """Minimize equation 1 by SLSQP from a feasible ``start``."""
    from scipy.optimize import Bounds, LinearConstraint, minimize

    experts = len(start)
    square, cross = moments(window)

    def value(flat: Loads) -> float:
        transition = flat.reshape(experts, experts)
        return float(np.vdot(transition @ square, transition) - 2 * np.vdot(cross, transition))

    def slope(flat: Loads) -> Loads:
        found: Loads = (2 * (flat.reshape(experts, experts) @ square - cross)).ravel()
        return found

    result = minimize(
        value,
        start.ravel(),
        jac=slope,
        method="SLSQP",
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(np.tile(np.eye(experts), experts), 1.0, 1.0),
        options={"ftol": 1e-10, "maxiter": 100},
    )
    # SLSQP keeps its constraints up to rounding only
    return project_columns(result.x.reshape(experts, experts))


def fit_gradient(
    window: Window, start: Matrix, *, maximum: int = 300, tolerance: float = 1e-5
) -> Matrix:
    """Minimize equation 1 by accelerated projected gradient from a feasible ``start``.

    Parameters
    ----------
    window
        Pairs of loads.
    start
        A column-stochastic matrix, ``(experts, experts)``.
    maximum
        Iterations at most.
    tolerance
        Ends when no entry moves by more.
    """
    square, cross = moments(window)
    # the trace bounds the largest eigenvalue, and nearly is it: loads point the same way
    pace = 1 / float(np.trace(square))
    current, extrapolated, momentum = start, start, 1.0
    for _ in range(maximum):
        following = project_columns(extrapolated - pace * (extrapolated @ square - cross))
        moved = following - current
        if (
            np.vdot(extrapolated - following, moved) > 0
        ):  # overshot: begin anew (O'Donoghue, Candes 2015)
            momentum = 1.0
        faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        extrapolated = following + (momentum - 1) / faster * moved
        current, momentum = following, float(faster)
        if np.abs(moved).max() <= tolerance:
            break
    return current


def project_columns(matrix: Matrix) -> Matrix:
    """The nearest matrix whose columns are non-negative and sum to one."""
    size = len(matrix)
    ordered = -np.sort(-matrix, axis=0)
    excess = ordered.cumsum(axis=0) - 1
    ranks = np.arange(1, size + 1)[:, np.newaxis]
    kept = (ordered * ranks > excess).sum(axis=0)
    shift = excess[kept - 1, np.arange(matrix.shape[1])] / kept
    found: Matrix = np.maximum(matrix - shift, 0)
    return found
