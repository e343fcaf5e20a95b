"""The built-in predictors once more, in NumPy and SciPy: what the core's are compared with.

Written from the formulas alone: no incremental state but what the formulas need, systems solved by
LAPACK, MixNet's transition matrix by SLSQP as in the paper or by projected gradient with columns
projected by sorting (Duchi et al., ICML 2008). Loads are shares; steps of a layer come in order.
"""

import numpy as np

DECAY = 0.95
STRENGTHS = np.array([0.03, 0.3, 3.0])
RATES = np.array([0.1, 0.25, 0.5, 1.0])
BASE = 1
FORGET, SHARPNESS, MIN_PAIRS = 0.97, 20.0, 4


class Reference:
    """Loads by (step, layer), and what all predictors fall back on."""

    def __init__(self, experts, window=32):
        self.experts, self.window = experts, window
        self.loads, self.last = {}, {}

    def observe(self, step, layer, loads):
        shares = np.asarray(loads, dtype=float)
        self.loads[step, layer] = self.last[layer] = shares / shares.sum()

    def predict(self, step, layer):
        guesses = (self.last.get(layer), self.loads.get((step, layer - 1)))
        known = [guess for guess in guesses if guess is not None]
        return known[0] if known else np.full(self.experts, 1 / self.experts)

    def pairs(self, layer):
        """The latest pairs of (layer before, layer), oldest first, with weights."""
        steps = [
            step for step, one in self.loads if one == layer and (step, layer - 1) in self.loads
        ]
        steps = sorted(steps)[-self.window :]
        inputs = np.array([self.loads[step, layer - 1] for step in steps])
        targets = np.array([self.loads[step, layer] for step in steps])
        return inputs, targets, weights_of(len(steps))


def weights_of(count):
    """Weights of pairs, oldest first: the newest has the most, each older one less by a factor."""
    weights = DECAY ** np.arange(count)[::-1]
    return weights / weights.sum()


class Uniform(Reference):
    def predict(self, _step, _layer):
        return np.full(self.experts, 1 / self.experts)


class PreviousLayer(Reference):
    def predict(self, step, layer):
        return self.loads.get((step, layer - 1), np.full(self.experts, 1 / self.experts))


class LastStep(Reference):
    pass


class Ewma(Reference):
    def __init__(self, experts, window=32, rate=0.2):
        super().__init__(experts, window)
        self.rate, self.levels = rate, {}

    def observe(self, step, layer, loads):
        super().observe(step, layer, loads)
        level, count = self.levels.get(layer, (self.last[layer], 0))
        count += 1
        self.levels[layer] = (level + max(self.rate, 1 / count) * (self.last[layer] - level), count)

    def predict(self, step, layer):
        level = self.levels.get(layer)
        return super().predict(step, layer) if level is None else level[0]


class Ridge(Reference):
    """Every layer's means, surprises and errors of candidates, recomputed as steps come."""

    def __init__(self, experts, window=32):
        super().__init__(experts, window)
        self.means, self.counts, self.errors = {}, {}, {}
        self.surprises, self.surprise_pairs = {}, {}

    def observe(self, step, layer, loads):
        candidates = self.candidates(step, layer) if layer in self.means else None
        super().observe(step, layer, loads)
        shares = self.last[layer]
        if candidates is None:
            self.means[layer] = np.tile(shares, (len(RATES), 1))
            self.counts[layer] = 1
            self.errors[layer] = np.zeros(len(RATES) + len(STRENGTHS))
            self.surprises[step, layer] = np.zeros(self.experts)
            return
        self.errors[layer] = FORGET * self.errors[layer] + np.abs(candidates - shares).sum(axis=1)
        surprise = shares - self.means[layer][BASE]
        before = self.surprises.get((step, layer - 1))
        if before is not None:
            self.surprise_pairs.setdefault(layer, []).append((before, surprise))
        self.surprises[step, layer] = surprise
        self.counts[layer] += 1
        rates = np.maximum(RATES, 1 / self.counts[layer])[:, np.newaxis]
        self.means[layer] = self.means[layer] + rates * (shares - self.means[layer])

    def candidates(self, step, layer):
        means, before = self.means[layer], self.surprises.get((step, layer - 1))
        fits = np.tile(means[BASE], (len(STRENGTHS), 1))
        pairs = self.surprise_pairs.get(layer, [])[-self.window :]
        if before is not None and len(pairs) >= MIN_PAIRS:
            inputs, targets = (np.array(part) for part in zip(*pairs, strict=True))
            fits = fits + fit(inputs, targets, before)
        candidates = np.maximum(np.concatenate([means, fits]), 0)
        return candidates / candidates.sum(axis=1, keepdims=True)

    def predict(self, step, layer):
        if layer not in self.means:
            return super().predict(step, layer)
        errors = self.errors[layer]
        weights = np.exp(-SHARPNESS * (errors - errors.min()) / max(errors.min(), 1e-12))
        return weights / weights.sum() @ self.candidates(step, layer)


def fit(inputs, targets, new):
    """Weighted ridge regression of each strength, ``(strengths, experts)``, in its kernel form."""
    weights = weights_of(len(inputs))
    mean_input, mean = weights @ inputs, weights @ targets
    roots = np.sqrt(weights)[:, np.newaxis]
    x, y = roots * (inputs - mean_input), roots * (targets - mean)
    kernel = x @ x.T
    size = np.trace(kernel) / len(inputs)
    if size <= 1e-14 * np.trace(inputs @ inputs.T):
        return np.tile(mean, (len(STRENGTHS), 1))
    right = x @ (new - mean_input)
    eye = np.eye(len(inputs))
    return np.array(
        [mean + y.T @ np.linalg.solve(kernel + r * size * eye, right) for r in STRENGTHS]
    )


class Copilot(Reference):
    """P of the pairs of a layer, from the last P; by projected gradient, or by SLSQP."""

    def __init__(self, experts, window=32, solver="gradient"):
        super().__init__(experts, window)
        self.solve = fit_slsqp if solver == "slsqp" else fit_gradient
        self.fitted = {}

    def predict(self, step, layer):
        before = self.loads.get((step, layer - 1))
        pairs = self.pairs(layer)
        if before is None or len(pairs[0]) < 2:
            return super().predict(step, layer)
        start = self.fitted.get(layer, np.full((self.experts, self.experts), 1 / self.experts))
        self.fitted[layer] = self.solve(pairs, start)
        return self.fitted[layer] @ before


def objective(transition, pairs):
    """The weighted squared error (equation 1 of MixNet's appendix B.1)."""
    inputs, targets, weights = pairs
    return float(weights @ ((targets - inputs @ transition.T) ** 2).sum(axis=1))


def moments(pairs):
    """A = sum w X X' and B = sum w Y X'."""
    inputs, targets, weights = pairs
    weighted = weights[:, np.newaxis] * inputs
    return inputs.T @ weighted, targets.T @ weighted


def fit_slsqp(pairs, start):
    from scipy.optimize import Bounds, LinearConstraint, minimize

    experts = len(start)
    square, cross = moments(pairs)
    result = minimize(
        lambda flat: np.vdot((p := flat.reshape(start.shape)) @ square, p) - 2 * np.vdot(cross, p),
        start.ravel(),
        jac=lambda flat: 2 * (flat.reshape(start.shape) @ square - cross).ravel(),
        method="SLSQP",
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(np.tile(np.eye(experts), experts), 1.0, 1.0),
        options={"ftol": 1e-10, "maxiter": 100},
    )
    # it keeps its constraints up to rounding only
    return project_columns(result.x.reshape(start.shape))


def fit_gradient(pairs, start, maximum=300, tolerance=1e-5):
    """Accelerated projected gradient (Beck and Teboulle, 2009) with restarts."""
    square, cross = moments(pairs)
    pace = 1 / np.trace(square)
    current, extrapolated, momentum = start, start, 1.0
    for _ in range(maximum):
        following = project_columns(extrapolated - pace * (extrapolated @ square - cross))
        moved = following - current
        if np.vdot(extrapolated - following, moved) > 0:
            momentum = 1.0
        faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        extrapolated = following + (momentum - 1) / faster * moved
        current, momentum = following, faster
        if np.abs(moved).max() <= tolerance:
            break
    return current


def project_columns(matrix):
    """The nearest matrix whose columns are non-negative and sum to one."""
    size = len(matrix)
    ordered = -np.sort(-matrix, axis=0)
    excess = ordered.cumsum(axis=0) - 1
    kept = (ordered * np.arange(1, size + 1)[:, np.newaxis] > excess).sum(axis=0)
    return np.maximum(matrix - excess[kept - 1, np.arange(size)] / kept, 0)


REFERENCES = {
    "uniform": Uniform,
    "previous-layer": PreviousLayer,
    "last-step": LastStep,
    "ewma": Ewma,
    "copilot-gradient": Copilot,
    "ridge": Ridge,
}
