"""The generator: conservation, determinism, options, refusals."""

import numpy as np
import pytest

from lightloom.demand import REGIMES, synthetic
from lightloom.demand.popularity import MAX_STEP, Popularity
from lightloom.demand.regime import BOUNDS, build_regime
from lightloom.errors import DemandError

SHAPE = {"ranks": 4, "experts": 16, "tokens_per_rank": 1000, "top_k": 4}


def make(regime="mixtral", seed=1, **changes):
    return synthetic(regime, **SHAPE, seed=seed, **changes)


def block(source, group=0, layers=(0,), micro_batches=2, step=0):
    return source.tokens(group=group, layers=layers, micro_batches=micro_batches, step=step)


@pytest.mark.parametrize("regime", REGIMES)
def test_every_token_is_counted_top_k_times(regime):
    counts = block(make(regime), layers=range(5), micro_batches=3)
    assert counts.shape == (5, 3, 4, 16)
    assert counts.dtype == np.int64
    assert (counts.sum(axis=-1) == 4000).all()
    assert counts.min() >= 0
    assert counts.max() <= 1000


@pytest.mark.parametrize("changes", [{}, {"topics": 6}, {"hold_steps": 5}])
def test_layers_and_micro_batches_may_be_asked_for_in_any_batch(changes):
    source = make(**changes)
    whole = block(source, group=3, layers=[7, 2, 9], micro_batches=4, step=11)
    again = make(**changes)
    block(again, group=1, layers=[2], step=400)
    for place, layer in enumerate([7, 2, 9]):
        alone = block(again, group=3, layers=[layer], micro_batches=4, step=11)
        assert (alone[0] == whole[place]).all()
    fewer = block(again, group=3, layers=[9], micro_batches=2, step=11)
    assert (fewer[0] == whole[2, :2]).all()


def test_everything_in_the_index_and_the_seed_counts():
    base = block(make())
    others = [
        block(make(seed=2)),
        block(make(), group=1),
        block(make(), layers=[1]),
        block(make(), step=1),
        base[:, ::-1],
    ]
    for other in others:
        assert (other != base).any()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logit_sd", 0.2),
        ("logit_sd_start", 2.0),
        ("rho", 0.5),
        ("persistent_share", 0.5),
        ("concentration", 1.0),
        ("hold_steps", 3),
        ("topics", 4),
    ],
)
def test_each_parameter_is_read(name, value):
    # step 1, so that drift has begun
    assert (block(make(**{name: value}), step=1) != block(make(), step=1)).any()
    assert make(**{name: value}).provenance[name] == f"{value:g} (given)"


@pytest.mark.parametrize(
    ("name", "value", "others"),
    [
        ("decay_steps", 1.0, {"logit_sd_start": 2.0}),
        ("topic_concentration", 1.0, {"topics": 4}),
        ("topic_sd", 2.0, {"topics": 4}),
    ],
)
def test_parameters_that_need_another(name, value, others):
    changed = block(make(**others, **{name: value}), step=1)
    assert (changed != block(make(**others), step=1)).any()
    assert name in make(**others).provenance
    assert name not in make().provenance


def test_every_parameter_has_bounds_a_value_and_a_source():
    for regime in ("mixtral", "pair", "sparse"):
        settings, provenance = build_regime(regime, {})
        assert set(vars(settings)) == set(BOUNDS) == set(provenance)
        for name, (low, high) in BOUNDS.items():
            assert low <= getattr(settings, name) <= high
            assert "2026" in provenance[name]


@pytest.mark.parametrize("persistent", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("step", [0, 700])
def test_what_persists_and_what_drifts_spread_popularity_as_stated_together(persistent, step):
    changes = {"logit_sd": 0.8, "growth": 0.0, "persistent_share": persistent, "rho": 0.99}
    regime, _ = build_regime("mixtral", changes)
    popularity = Popularity(20_000, regime, seed=5)
    (shares,) = popularity.shares(3, step)
    assert np.log(shares).std() == pytest.approx(0.8, rel=0.03)
    # and after many steps what persists is what two steps have in common
    (later,) = popularity.shares(3, step + 5000)
    alike = np.corrcoef(np.log(shares), np.log(later))[0, 1]
    assert alike == pytest.approx(persistent, abs=0.03)


def test_popularity_is_shared_by_groups_and_rows_are_not():
    source = make(concentration=1e8)
    first, second = (block(source, group=group)[0].sum(axis=(0, 1)) for group in (0, 1))
    assert np.abs(first - second).max() < 0.05 * first.max()
    assert (block(make(), group=0) != block(make(), group=1)).any()


def test_held_rows_stay_for_steps_and_micro_batches():
    source = make("pair", hold_steps=50)
    rows = np.array([block(source, step=step)[0] for step in range(100)]).astype(float)
    # (steps x micro-batches, everything else): multinomial noise is far below the Dirichlet spread
    flat = rows.reshape(200, -1)
    near = np.abs(flat[1:] - flat[:-1]).mean(axis=1)
    jumps = np.flatnonzero(near > 0.5 * near.max())
    assert 1 <= len(jumps) <= 2
    free = make("pair")
    moved = np.abs(np.diff(block(free, micro_batches=9)[0].astype(float), axis=0)).mean()
    assert moved > 3 * np.median(near)


def test_held_rows_of_a_layer_change_at_a_step_of_its_own():
    hold = 8
    source = make("pair", hold_steps=hold)
    layers = range(12)
    rows = np.array([block(source, layers=layers, step=step) for step in range(2 * hold + 1)])
    # what a row shifts from step to step: a little as it is drawn, much where its shares change
    moved = np.abs(np.diff(rows.astype(float), axis=0)).mean(axis=(2, 3, 4))
    changes = [np.flatnonzero(layer > 0.5 * layer.max()) for layer in moved.T]
    assert [len(steps) for steps in changes] == [2] * len(layers)
    assert all(second - first == hold for first, second in changes)
    assert len({first for first, _ in changes}) > 2


def test_groups_have_topics_of_their_own_and_layers_share_them():
    source = make(topics=2, topic_concentration=0.1, topic_sd=2.0, concentration=1e8, logit_sd=0.0)
    rows = {group: block(source, group=group, layers=[0, 1])[:, 0].sum(axis=1) for group in (0, 1)}
    apart = np.abs(rows[0] - rows[1]).sum(axis=-1) / rows[0].sum(axis=-1)
    assert (apart > 0.1).all()


def test_topics_and_held_rows_exclude_each_other():
    with pytest.raises(DemandError, match="set one of them to 0"):
        make(topics=3, hold_steps=2)


def test_balanced_demand():
    source = synthetic("uniform", ranks=4, experts=12, tokens_per_rank=10, top_k=2, seed=0)
    counts = block(source)
    # 20 copies over 12 experts: one or two each, and the columns differ by at most one
    assert set(np.unique(counts)) == {1, 2}
    loads = counts[0, 0].sum(axis=0)
    assert loads.max() - loads.min() <= 1
    assert (counts[0, 0] == counts[0, 1]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make("mixtrall"), "unknown demand regime 'mixtrall'; did you mean 'mixtral'"),
        (lambda: make(logit_std=1.0), "no parameter 'logit_std'; did you mean 'logit_sd'"),
        (lambda: make(rho=1.5), "rho: expected 0 to 1, got 1.5"),
        (lambda: make(topics=2.5), "topics: expected a whole number, got 2.5"),
        (lambda: make(rho=float("nan")), "rho: expected a number, got nan"),
        (lambda: make(rho="0.5"), "rho: expected a number, got '0.5'"),
        (lambda: make("uniform", rho=0.5), "'uniform' is balanced and has no parameters"),
        (lambda: make(seed=-3), "seed: expected a whole number of at least 0, got -3"),
        (lambda: block(make(), step=MAX_STEP + 1), "step: expected at most 1,048,576"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(DemandError, match=message):
        call()


def test_drift_reaches_the_last_step():
    popularity = Popularity(4, build_regime("mixtral", {})[0], seed=0)
    assert popularity.shares(0, MAX_STEP).sum() == pytest.approx(1)


def test_kept_popularity_is_bounded_and_read_only(monkeypatch):
    monkeypatch.setattr("lightloom.demand.popularity._KEPT", 3)
    popularity = Popularity(4, build_regime("mixtral", {})[0], seed=0)
    first = [popularity.shares(layer, 5).copy() for layer in range(10)]
    assert len(popularity._kept) <= 3
    assert all((popularity.shares(layer, 5) == first[layer]).all() for layer in range(10))
    with pytest.raises(ValueError, match="read-only"):
        popularity.shares(0, 5)[0, 0] = 1
