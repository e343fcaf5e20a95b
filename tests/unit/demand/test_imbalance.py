"""The balance of a gate: what its names mean, and that a number is what is drawn."""

import numpy as np
import pytest

from lightloom.demand import Shape, open_demand
from lightloom.demand.imbalance import IMBALANCES, parse_demand
from lightloom.demand.regime import GROWTH_EXPERTS, build_regime
from lightloom.demand.solve import _Expectation, ceiling, floor, imbalanced, solve_imbalance
from lightloom.errors import DemandError

MIXTRAL = Shape(8, 8, 4096, 2)
QWEN = Shape(32, 128, 4096, 8)
DEEPSEEK = Shape(64, 256, 4096, 8)
SHAPES = [MIXTRAL, QWEN, DEEPSEEK, Shape(4, 64, 8192, 6), Shape(16, 16, 2048, 1)]


def realized(source, *, layers=48, micro_batches=4, step=0):
    """Load of the busiest rank over the mean, mean over blocks."""
    shape = source.shape
    counts = source.tokens(group=0, layers=range(layers), micro_batches=micro_batches, step=step)
    ranks = counts.sum(axis=2).reshape(layers, micro_batches, shape.ranks, -1).sum(axis=-1)
    return float((ranks.max(axis=-1) / ranks.mean(axis=-1)).mean())


def drawn_imbalance(name, shape, seeds=4):
    """The same over several seeds."""
    return np.mean([realized(open_demand(name, shape, seed=seed)) for seed in range(seeds)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forced_balance_is_exact(shape):
    source = open_demand("balanced", shape, seed=1)
    counts = source.tokens(group=0, layers=[0, 5], micro_batches=2, step=3)
    loads = counts.sum(axis=2)
    assert loads.max() == loads.min()
    assert realized(source) == 1.0
    assert realized(imbalanced(1.0, shape, seed=1)) == 1.0


@pytest.mark.parametrize(
    ("shape", "ratio"),
    [
        *((MIXTRAL, ratio) for ratio in (1.05, 1.2, 1.6, 2.5)),
        *((QWEN, ratio) for ratio in (1.05, 1.2, 1.6, 2.5)),
        *((DEEPSEEK, ratio) for ratio in (1.1, 1.3, 3)),
        *((Shape(4, 64, 8192, 6), ratio) for ratio in (1.1, 1.6)),
        *((Shape(16, 16, 2048, 1), ratio) for ratio in (1.2, 4)),
    ],
    ids=str,
)
def test_a_number_is_reached_within_three_percent(shape, ratio):
    assert drawn_imbalance(ratio, shape) == pytest.approx(ratio, rel=0.03)


@pytest.mark.parametrize("name", ["auxiliary", "natural", "mixtral"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_expectation_is_that_of_the_draws(shape, name):
    expected = _Expectation(shape).of(build_regime(name, {})[0])
    assert drawn_imbalance(name, shape) == pytest.approx(expected, rel=0.03)


def test_trained_gates_with_a_balancing_loss_are_within_public_figures():
    # EP8: 1.05 to 1.3 over models; more ranks with fewer experts each are less even
    assert 1.1 < drawn_imbalance("auxiliary", MIXTRAL) < 1.3
    assert 1.05 < drawn_imbalance("auxiliary", Shape(8, 128, 4096, 8)) < 1.2
    assert 1.05 < drawn_imbalance("auxiliary", Shape(8, 256, 4096, 8)) < 1.2
    assert 1.2 < drawn_imbalance("auxiliary", QWEN) < 1.4
    assert 1.3 < drawn_imbalance("auxiliary", DEEPSEEK) < 1.5


def test_gates_are_ordered_by_their_names():
    for shape in (MIXTRAL, QWEN, DEEPSEEK):
        imbalances = [drawn_imbalance(name, shape) for name in ("balanced", "natural", "auxiliary")]
        assert imbalances == sorted(imbalances)
        assert drawn_imbalance("skewed", shape) > imbalances[-1] + 0.5


def test_the_spread_over_a_whole_batch_is_that_of_the_papers():
    """MaxVio, the busiest of 64 experts over the mean less one, without sampling noise."""

    def max_violation(name):
        spread = build_regime(name, {})[0].spread(GROWTH_EXPERTS)
        shares = np.exp(spread * np.random.default_rng(1).standard_normal((4000, GROWTH_EXPERTS)))
        return (shares.max(axis=1) / shares.mean(axis=1)).mean() - 1

    # arXiv 2408.15664: 0.52 and 0.72 with an auxiliary loss, 0.04 with biases
    assert 0.52 < max_violation("auxiliary") < 0.72
    assert max_violation("natural") == pytest.approx(0.04, abs=0.005)


def test_a_learned_gate_begins_and_calms_down_as_measured():
    """marin issue 7668: 1.338 at the begin, 1.212 after 18 steps, EP 64 of 128 experts, top-4."""
    source = open_demand("learned", Shape(64, 128, 4096, 4), seed=1)
    loads = [realized(source, layers=24, step=step) for step in (0, 18, 500)]
    assert loads == [
        pytest.approx(1.338, rel=0.02),
        pytest.approx(1.212, rel=0.02),
        pytest.approx(drawn_imbalance("natural", source.shape), rel=0.02),
    ]


def test_more_texts_in_a_micro_batch_even_out():
    small = drawn_imbalance("natural", Shape(8, 64, 2048, 6))
    large = drawn_imbalance("natural", Shape(8, 64, 32768, 6))
    assert large - 1 < 0.5 * (small - 1)


def test_names_mean_regimes():
    for name, regime in (("balanced", "uniform"), ("skewed", "mixtral")):
        index = {"group": 1, "layers": [2, 3], "micro_batches": 2, "step": 1}
        first, other = (open_demand(n, MIXTRAL, seed=4) for n in (name, regime))
        assert first.name == other.name == regime
        assert (first.tokens(**index) == other.tokens(**index)).all()


@pytest.mark.parametrize("name", [*IMBALANCES, 1.3])
def test_a_seed_makes_the_draws(name):
    index = {"group": 1, "layers": [2, 3], "micro_batches": 2, "step": 1}
    first, again, other = (open_demand(name, QWEN, seed=seed).tokens(**index) for seed in (4, 4, 5))
    assert (first == again).all()
    assert name == "balanced" or (first != other).any()


def test_layers_differ_and_drift_slowly():
    source = open_demand("auxiliary", QWEN, seed=2)
    loads = [
        source.tokens(group=0, layers=[0, 1], micro_batches=8, step=step).sum(axis=(1, 2))
        for step in (0, 1, 5000)
    ]

    def correlation(first, other):
        return np.corrcoef(first, other)[0, 1]

    assert correlation(loads[0][0], loads[1][0]) > 0.9
    assert abs(correlation(loads[0][0], loads[0][1])) < 0.4
    assert correlation(loads[0][0], loads[2][0]) < 0.5


def test_an_imbalance_below_the_noise_of_texts_is_reached_with_texts_that_agree():
    shape = Shape(8, 8, 4096, 2)
    changes = solve_imbalance(1.02, shape)
    assert changes["logit_sd"] == 0
    assert changes["concentration"] > build_regime("auxiliary", {})[0].concentration
    assert drawn_imbalance(1.02, shape) == pytest.approx(1.02, rel=0.005)


def test_one_name_describes_the_demand():
    assert parse_demand("1.3") == parse_demand(1.3) == 1.3
    assert parse_demand("1.3.jsonl") == "1.3.jsonl"
    assert parse_demand("pair") == "pair"


def test_the_ceiling_is_what_routing_allows():
    # one expert per rank gets one of a token's two copies; four get four of eight
    assert ceiling(MIXTRAL) == 4
    assert ceiling(QWEN) == 16
    assert ceiling(Shape(4, 64, 8192, 6)) == 4


def test_what_is_more_even_than_chance_is_as_even_as_it_can_be():
    closest = floor(DEEPSEEK)
    source = open_demand(1.0001, DEEPSEEK, seed=0)
    assert f"{closest:.4g} times the mean, which is taken" in source.provenance["imbalance_floor"]
    at_floor = open_demand(closest * (1 + 1e-9), DEEPSEEK, seed=0)
    assert "imbalance_floor" not in at_floor.provenance
    regime, _ = build_regime("auxiliary", solve_imbalance(1.0001, DEEPSEEK))
    assert _Expectation(DEEPSEEK).of(regime) == pytest.approx(closest, rel=1e-4)


@pytest.mark.parametrize(
    ("ratio", "shape", "words"),
    [
        (0.9, MIXTRAL, "a number of at least 1, got 0.9"),
        (-1, MIXTRAL, "a number of at least 1, got -1"),
        (float("nan"), MIXTRAL, "a number of at least 1, got nan"),
        (float("inf"), MIXTRAL, "a number of at least 1, got inf"),
        (4.5, MIXTRAL, r"expected at most 4 times .* 8 EP ranks of 1 expert\(s\), top-2, got 4.5"),
        (70, DEEPSEEK, "expected at most 32 times .* got 70"),
        # four ranks with many experts each cannot differ as much by chance
        (2.5, Shape(4, 64, 8192, 6), "expected at most 1.8.* times .* top-6, got 2.5"),
        (1.2, Shape(1, 8, 4096, 2), "expected at most 1 times .* on one of 1 EP ranks"),
    ],
)
def test_impossible_numbers_are_refused_in_one_line(ratio, shape, words):
    with pytest.raises(DemandError, match=words) as error:
        open_demand(ratio, shape, seed=0)
    assert "\n" not in str(error.value)
