"""Drawn rows against scipy's distributions and against numpy's generators.

Given the popularity, the count of one expert in a row is beta-binomial, and so is that of several
experts together. Whole rows are compared with rows that numpy draws by gamma and conditional
binomial variates. Seeds are fixed, so that a test passes always or never.
"""

import numpy as np
import pytest
from scipy import stats

from lightloom.demand import synthetic

#: shape and parameters; the cap does not act, as tokens are as many as copies (top-1)
CASES = {
    "few copies": ("mixtral", 4, 40, {}),
    "one round": ("mixtral", 16, 600, {"concentration": 3.0}),
    "two rounds": ("mixtral", 8, 16_384, {}),
    "many experts": ("mixtral", 64, 8192, {}),
    "exponential": ("pair", 16, 4096, {}),
    "small shapes": ("sparse", 16, 4096, {}),
}
ROWS = 40_000


def draw(case):
    """Counts ``(rows, experts)`` and the Dirichlet parameters that they are drawn around."""
    regime, experts, copies, changes = CASES[case]
    source = synthetic(
        regime, ranks=2, experts=experts, tokens_per_rank=copies, top_k=1, seed=8, **changes
    )
    counts = source.tokens(group=0, layers=[3], micro_batches=ROWS // 2, step=0)
    alpha = source.popularity.shares(3, 0)[0] * source.regime.concentration * experts
    return counts.reshape(ROWS, experts), alpha, copies


def p_value(values, distribution):
    """Chi-square of whole numbers against a distribution, in up to 40 bins of like probability."""
    edges = np.unique(distribution.ppf(np.linspace(0, 1, 41)[1:-1]))
    chance = np.diff(np.concatenate([[0.0], distribution.cdf(edges), [1.0]]))
    seen = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    seen, chance = seen[chance > 1e-4], chance[chance > 1e-4]
    return stats.chisquare(seen, chance / chance.sum() * seen.sum()).pvalue


@pytest.mark.parametrize("case", CASES)
def test_counts_are_beta_binomial(case):
    counts, alpha, copies = draw(case)
    total = alpha.sum()
    for expert in range(min(len(alpha), 8)):
        exact = stats.betabinom(copies, alpha[expert], total - alpha[expert])
        assert p_value(counts[:, expert], exact) > 1e-4
    for together in (slice(2), slice(len(alpha) // 2), slice(1, None, 2)):
        part = alpha[together].sum()
        exact = stats.betabinom(copies, part, total - part)
        assert p_value(counts[:, together].sum(axis=1), exact) > 1e-4


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_numpy(case):
    counts, alpha, copies = draw(case)
    other = np.random.default_rng(1)
    gammas = other.standard_gamma(alpha, counts.shape)
    theirs = other.multinomial(copies, gammas / gammas.sum(axis=1, keepdims=True))
    figures = [
        lambda rows: rows.max(axis=1),
        lambda rows: rows.min(axis=1),
        lambda rows: (rows.astype(float) ** 2).sum(axis=1),
        lambda rows: np.abs(np.diff(rows, axis=1)).sum(axis=1),
        lambda rows: rows.argmax(axis=1),
    ]
    for figure in figures:
        ours, reference = figure(counts), figure(theirs)
        edges = np.unique(np.quantile(reference, np.linspace(0, 1, 31)[1:-1]))
        table = [
            np.bincount(np.searchsorted(edges, one), minlength=len(edges) + 1)
            for one in (ours, reference)
        ]
        table = np.array(table)[:, np.sum(table, axis=0) > 0]
        if table.shape[1] > 1:
            assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize("case", CASES)
def test_covariance_is_that_of_a_dirichlet_multinomial(case):
    counts, alpha, copies = draw(case)
    share, total = alpha / alpha.sum(), alpha.sum()
    exact = copies * (copies + total) / (1 + total) * (np.diag(share) - np.outer(share, share))
    found = np.cov(counts, rowvar=False)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    # heavy tails of the small shapes widen the standard error of a correlation, 1 / sqrt(rows)
    assert np.abs(found - exact).max() < 0.08 * scale.max()
    assert (np.abs(found - exact) / scale).max() < 0.12
    assert counts.mean(axis=0) == pytest.approx(
        copies * share, abs=5 * np.sqrt(np.diag(exact).max() / ROWS)
    )
