"""Top-k overlap, L1 and regret, by hand on small cases."""

import itertools

import numpy as np
import pytest

from lightloom.demand import rank_matrix, synthetic
from lightloom.demand.load_history import LoadHistory, history_of_source
from lightloom.demand.predictors import make_predictor
from lightloom.errors import DemandError, InputError
from lightloom.progress import Monitor
from lightloom.schedule import Region, allocate_region, route
from lightloom.study.prediction import score_predictors
from lightloom.study.prediction.score import (
    MIN_COPIES_PER_EXPERT,
    MIN_STEPS,
    Evaluation,
    RegionOptions,
    Score,
    ScoringRange,
    Truth,
    inputs_of,
    l1_distance,
    region_demand,
    score,
    server_rows,
    shortcomings,
    top_k_overlap,
)

REGION = Region(ports=2, circuit_gbps=400, eps_gbps=400)
OPTIONS = RegionOptions(experts_per_server=1, region=REGION, token_bytes=8192)


class Oracle:
    """Knows the history; a predictor that is always right."""

    def __init__(self, history):
        loads = history.counts.sum(axis=2)
        self.shares = loads / loads.sum(axis=-1, keepdims=True)

    def observe(self, step, layer, loads):
        assert loads == pytest.approx(self.shares[step, layer])

    def predict(self, step, layer):
        return self.shares[step, layer]


def drawn(regime="volatile", steps=24, layers=2, seed=0, **shape):
    sizes = {"ranks": 4, "experts": 4, "tokens_per_rank": 4096, "top_k": 2, **shape}
    made = synthetic(regime, seed=seed, **sizes)
    return history_of_source(made, steps=steps, layers=layers, synthetic=True)


@pytest.mark.parametrize(
    ("predicted", "actual", "top_k", "expected"),
    [
        ([4, 3, 2, 1], [4, 3, 2, 1], 2, 1),
        ([4, 3, 2, 1], [1, 2, 3, 4], 2, 0),
        ([4, 3, 2, 1], [4, 1, 3, 2], 2, 0.5),
        ([1, 1, 1, 1], [4, 3, 2, 1], 1, 0.25),
        ([1, 1, 1, 1], [4, 3, 2, 1], 3, 0.75),
        # ties of the truth: any expert as busy as the k-th will do
        ([4, 3, 2, 1], [1, 1, 1, 1], 2, 1),
        ([1, 1, 1, 1], [1, 1, 1, 1], 2, 1),
        # one sure, one of two tied: 1 + 1/2 of 2
        ([5, 2, 2, 1], [5, 4, 1, 1], 2, 0.75),
        ([4, 3, 2, 1], [1, 2, 3, 4], 4, 1),
    ],
)
def test_top_k_overlap(predicted, actual, top_k, expected):
    shares = [np.array(loads) / sum(loads) for loads in (predicted, actual)]
    assert top_k_overlap(*shares, top_k) == pytest.approx(expected)


def test_top_k_overlap_is_the_mean_over_orders_of_ties():
    rng = np.random.default_rng(0)
    for _ in range(20):
        predicted, actual = rng.integers(0, 3, size=(2, 5)).astype(float)
        bound = np.sort(actual)[-2]
        found = []
        for order in itertools.permutations(range(5)):
            chosen = sorted(range(5), key=lambda e, order=order: (-predicted[e], order[e]))[:2]
            found.append(np.mean([actual[e] >= bound for e in chosen]))
        assert top_k_overlap(predicted, actual, 2) == pytest.approx(np.mean(found))


def test_l1_distance():
    assert l1_distance(np.array([1.0, 0]), np.array([0, 1.0])) == 2
    assert l1_distance(np.array([0.5, 0.5]), np.array([0.25, 0.75])) == 0.5


def test_rows_of_servers():
    counts = np.arange(12.0).reshape(4, 3)
    assert server_rows(counts, 2).tolist() == [[3, 5, 7], [15, 17, 19]]
    # four sources do not fill three servers: each sends a third
    assert server_rows(counts, 3) == pytest.approx(np.tile(counts.sum(axis=0) / 3, (3, 1)))


def test_region_demand_folds_as_the_library_does():
    counts = np.arange(8).reshape(2, 4)
    assert region_demand(counts.astype(float), 10).tolist() == (rank_matrix(counts) * 10).tolist()


def test_truth_by_hand():
    """Two servers, one circuit: no choice, so that no prediction loses anything."""
    truth = Truth(RegionOptions(1, Region(1, 400, 0), 1000))
    truth.add(np.array([[0.0, 600], [300, 100]]), 2)
    assert truth.best_s == pytest.approx([600 * 1000 * 8 / 400e9])
    assert truth.regret_s(0, np.array([0.9, 0.1])) == pytest.approx(0)
    assert truth.static_score().regret_s == pytest.approx(0)


def test_regret_is_the_time_over_circuits_for_the_prediction():
    history = drawn("sparse", steps=2, ranks=8, experts=8)
    options = RegionOptions(1, Region(2, 400, 100), 8192)
    truth = Truth(options)
    truth.add(history.counts[1, 1], 8)
    demand = rank_matrix(np.rint(history.counts[1, 1] * 8192).astype(np.int64))
    wrong = np.arange(1.0, 9) / 36
    sent = history.counts[1, 1].sum(axis=1)
    guess = rank_matrix(np.rint(np.outer(sent, wrong) * 8192).astype(np.int64))
    circuits = allocate_region(guess, options.region).circuits
    expected = (
        route(demand, circuits, options.region).makespan_s
        - allocate_region(demand, options.region).makespan_s
    )
    assert expected > 0
    assert truth.regret_s(0, wrong) == pytest.approx(expected)
    static = allocate_region(demand, options.region, method="static").makespan_s
    found = truth.static_score()
    assert found.regret_s == pytest.approx(static - truth.best_s[0])
    assert found.regret_ratio == pytest.approx(static / truth.best_s[0] - 1)
    assert found.held_regret_ratio == found.worst_regret_ratio == found.regret_ratio


def test_held_circuits_stay_where_the_prediction_sees_no_gain():
    """Equal loads leave nothing to gain over the circulant, whatever the truth is."""
    history = drawn("sparse", steps=2, ranks=8, experts=8)
    truth = Truth(RegionOptions(1, Region(6, 400, 800), 8192))
    truth.add(history.counts[1, 1], 8)
    lost = truth.static_s[0] - truth.best_s[0]
    assert truth.regret_s(0, np.full(8, 1 / 8), held=True) == pytest.approx(lost)


def test_circuits_that_were_there_before_stay_where_the_prediction_sees_none_better():
    """All for one server: the other ports are free, and whom it is joined to is open."""
    history = drawn("pair", steps=2, layers=1, ranks=8, experts=8)
    truth = Truth(RegionOptions(1, Region(3, 400, 100), 8192))
    truth.add(history.counts[1, 0], 8)
    predicted = np.eye(8)[3]
    guess = rank_matrix(np.rint(np.outer(truth.rows[0].sum(axis=1), predicted) * 8192).astype(int))
    lost = []
    for held in (False, True):
        previous = truth.static if held else None
        circuits = allocate_region(guess, truth.options.region, previous=previous).circuits
        taken = route(truth.demands[0], circuits, truth.options.region).makespan_s
        lost.append(truth.regret_s(0, predicted, held=held))
        assert lost[-1] == pytest.approx(taken - truth.best_s[0])
    assert lost[0] != pytest.approx(lost[1])


def test_a_source_keeps_what_it_sends_in_a_prediction():
    """Two of four servers send nothing: circuits between these are of no use."""
    rows = np.zeros((4, 4))
    rows[0] = rows[1] = [0, 0, 500, 500]
    truth = Truth(RegionOptions(1, Region(2, 400, 1), 1000))
    truth.add(rows, 4)
    assert truth.regret_s(0, np.array([0, 0, 0.5, 0.5])) == pytest.approx(0)


def test_regrets_are_means_over_places_but_the_worst():
    truth = Truth(RegionOptions(1, REGION, 1000), best_s=[1.0, 2.0, 0.0])
    # where nothing is to be sent nothing can be lost
    assert truth.score([0.5, 0.2, 0.0], [0.1, 0.4, 0.0]) == pytest.approx(
        {
            "regret_s": 0.7 / 3,
            "regret_ratio": (0.5 + 0.1) / 3,
            "worst_regret_ratio": 0.5,
            "held_regret_ratio": (0.1 + 0.2) / 3,
        }
    )


def test_what_was_scored_before_an_interrupt_is_kept():
    evaluation = Evaluation(drawn(), window=4)

    class Stops(Monitor):
        def __init__(self, after):
            self.left = after

        def progress(self, _share, _activity=""):
            self.left -= 1
            return self.left > 0

    def scored(after):
        made = {name: make_predictor(name, 4) for name in ("uniform", "last-step", "ewma")}
        return score_predictors(evaluation, made, window=4, monitor=Stops(after))

    steps = evaluation.history.steps
    found = scored(2 * steps + 1)
    assert [one.predictor for one in found.scores] == ["uniform", "last-step"]
    assert found.interrupted
    assert found.inputs["window"] == 4
    best = min(found.scores, key=lambda one: one.l1)
    assert f"2 scores, best {best.predictor}, L1 {best.l1:.3f})" in repr(found)
    with pytest.raises(KeyboardInterrupt):
        scored(steps)


def test_the_inputs_say_the_window_and_the_region():
    made = {"uniform": make_predictor("uniform", 4)}
    found = score_predictors(Evaluation(drawn(), window=4, options=OPTIONS), made, window=7)
    assert not found.interrupted
    assert {"window": 7, "servers": 4, "ports": 2, "bytes_per_token": 8192}.items() <= (
        found.inputs.items()
    )


def every_circuits(servers, ports):
    """All symmetric circuit matrices within the ports."""
    pairs = list(itertools.combinations(range(servers), 2))
    for counts in itertools.product(range(ports + 1), repeat=len(pairs)):
        circuits = np.zeros((servers, servers), dtype=int)
        for (a, b), count in zip(pairs, counts, strict=True):
            circuits[a, b] = circuits[b, a] = count
        if circuits.sum(axis=1).max() <= ports:
            yield circuits


@pytest.mark.parametrize("seed", range(5))
def test_regret_against_brute_force_is_never_negative(seed):
    """Over the true optimum no circuits gain; over `best`, which is not exact, some may."""
    history = drawn("pair", steps=4, layers=1, seed=seed)
    demand = rank_matrix(history.counts[3, 0].astype(np.int64)) * 8192
    minimum = min(route(demand, c, REGION).makespan_s for c in every_circuits(4, 2))
    truth = Truth(OPTIONS)
    truth.add(history.counts[3, 0], 4)
    assert truth.best_s[0] >= minimum * (1 - 1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        taken = truth.best_s[0] + truth.regret_s(0, rng.dirichlet(np.full(4, 0.5)))
        assert taken >= minimum * (1 - 1e-9)


def test_the_oracle_has_no_error_and_no_regret_where_sources_agree():
    history = drawn(steps=20)
    alike = LoadHistory("alike", history.counts.sum(axis=2, keepdims=True), False)
    best, static = score(alike, {"oracle": Oracle(alike)}, options=OPTIONS, window=4)
    assert best.l1 == 0
    assert best.top_k_overlap == 1
    # bytes are rounded before circuits are chosen
    assert best.regret_s == pytest.approx(0, abs=1e-9)
    assert static.predictor == "static circuits"
    assert static.l1 is None


def test_scores_are_means_over_scored_steps_and_layers():
    history = drawn(steps=12, layers=3)
    (found,) = score(history, {"last": make_predictor("last-step", 4)}, top_k=2, window=4)
    loads = history.counts.sum(axis=2)
    shares = loads / loads.sum(axis=-1, keepdims=True)
    gaps = np.abs(shares[5:, 1:] - shares[4:-1, 1:]).sum(axis=-1)
    assert found.predictions == 7 * 2
    assert found.l1 == pytest.approx(gaps.mean())
    assert found.regret_s is None
    assert found.time_s >= found.best_time_s >= 0
    assert Score("x", 3).as_row()["predictor"] == "x"


def test_predictors_see_only_what_came_before():
    seen = []

    class Spy:
        def observe(self, step, layer, loads):
            seen.append(("observe", step, layer))
            assert loads.sum() == pytest.approx(1)

        def predict(self, step, layer):
            seen.append(("predict", step, layer))
            return np.full(4, 0.25)

    score(drawn(steps=3), {"spy": Spy()}, window=2)
    places = list(itertools.product(range(3), range(2)))
    assert seen == [(what, *place) for place in places for what in ("predict", "observe")]


def test_progress_ends_at_one():
    evaluation = Evaluation(drawn(steps=6), window=2, options=OPTIONS)
    shares, steps = [], []
    evaluation.prepare(shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    last = evaluation.run("ewma", make_predictor("ewma", 4), steps.append)
    assert steps[-1] == 1
    assert last.predictor == "ewma"
    assert evaluation.optimum_s() == pytest.approx(np.mean(evaluation.truth.best_s))


def test_setting_of_short_and_long_traces():
    assert ScoringRange.of(drawn(steps=100), top_k=None, window=32) == ScoringRange(1, 33, 1)
    assert ScoringRange.of(drawn(steps=10, layers=1), top_k=3, window=32) == ScoringRange(3, 5, 0)


def test_short_traces_are_named_as_such():
    few = drawn(steps=10, tokens_per_rank=8)
    reasons = shortcomings(few, ScoringRange.of(few, top_k=None, window=32))
    assert reasons == [
        f"5 scored steps of 10, at least {MIN_STEPS} are needed",
        f"16 token copies per expert and step, at least {MIN_COPIES_PER_EXPERT} are needed",
    ]
    enough = drawn(steps=MIN_STEPS + 33)
    assert shortcomings(enough, ScoringRange.of(enough, top_k=None, window=32)) == []


def test_inputs_name_the_trace():
    history = drawn(steps=6)
    inputs = inputs_of(Evaluation(history, window=2))
    assert inputs["synthetic"] is True
    assert inputs["sources"] == 4
    assert inputs["sampling_noise_l1"] == pytest.approx(history.sampling_noise())
    assert len(inputs["too_short"]) == 1
    alike = LoadHistory("alike", history.counts.sum(axis=2, keepdims=True), False)
    evaluation = Evaluation(alike, window=2, options=OPTIONS)
    assert evaluation.equal_sources
    assert inputs_of(evaluation)["sources"] is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Evaluation(drawn(steps=1)), "calm: a log of one step, of which nothing can be"),
        (lambda: Evaluation(drawn(), top_k=0), "top-k: expected 1 to 4 experts, got 0"),
        (lambda: Evaluation(drawn(), top_k=5), "top-k: expected 1 to 4 experts, got 5"),
        (
            lambda: Evaluation(drawn(), options=RegionOptions(3, REGION, 10)),
            "4 experts do not fill two or more servers of 3 experts each",
        ),
        (
            lambda: Evaluation(drawn(), options=RegionOptions(4, REGION, 10)),
            "4 experts do not fill two or more servers of 4 experts each",
        ),
    ],
)
def test_what_cannot_be_scored(call, message):
    with pytest.raises(DemandError) as caught:
        call()
    assert message.removeprefix("calm: ") in str(caught.value)


def test_a_region_that_leaves_pairs_without_a_way():
    options = RegionOptions(1, Region(1, 400, 0), 8192)
    with pytest.raises(InputError, match="some servers cannot reach each other"):
        score(drawn(), {}, options=options)
