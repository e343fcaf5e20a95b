"""Predictors in a run: what they observe, what is done with their predictions and errors."""

from typing import ClassVar

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph, mixnet

from lightloom.demand.predictors import BuiltInPredictor
from lightloom.errors import DemandError, InputError
from lightloom.simulate import Plugins, simulate

ROUNDS = 5


def tokens():
    """Copies between four members, another matrix each round."""
    return np.random.default_rng(5).integers(1, 10**7, size=(ROUNDS, 4, 4))


def step(blocks):
    """A first all-to-all per round and its combine, compute before each."""
    steps = Steps()
    for block in range(ROUNDS):
        steps.compute(0.1).all_to_all(block, first=True)
        steps.compute(0.1).all_to_all(block, transposed=True)
    return graph([steps], members=4, tokens=blocks)


def network(policy="break-even", first="predict"):
    return mixnet(4, when=policy, first=first, fixed_s=1e-6, split=False)


class LastStep(BuiltInPredictor):
    """A user's predictor, which the simulator calls in Python."""

    def __init__(self, members):
        super().__init__("last-step", members)


class Recorder(LastStep):
    """Predicts what was seen last, and keeps what it is told and asked."""

    made: ClassVar = []

    def __init__(self, members):
        super().__init__(members)
        self.members, self.observed, self.predicted = members, [], []
        self.made.append(self)

    def observe(self, step, layer, loads):
        super().observe(step, layer, loads)
        self.observed.append((step, np.asarray(loads).tolist()))

    def predict(self, step, layer):
        self.predicted.append(step)
        return super().predict(step, layer)


def run(predictor, blocks, **options):
    return simulate(step(blocks), network(**options), plugins=Plugins(predictor=predictor))


def test_a_predictor_observes_every_demand_once_before_it_predicts_the_next():
    Recorder.made.clear()
    blocks = tokens()
    run(Recorder, blocks)
    (recorder,) = Recorder.made
    assert recorder.members == 4
    assert recorder.observed == [
        (index, blocks[index].sum(axis=0).tolist()) for index in range(len(recorder.observed))
    ]
    assert len(recorder.observed) == ROUNDS - 1
    assert sorted(set(recorder.predicted)) == list(range(1, ROUNDS))


def test_of_demand_that_repeats_every_predictor_of_the_last_is_as_good():
    shares = np.array([1, 2, 3, 4])
    blocks = np.tile(shares[:, np.newaxis] * shares * 10**5, (ROUNDS, 1, 1))
    default = simulate(step(blocks), network())
    for name in ("last-step", "ewma", "ridge"):
        assert run(name, blocks).run_hash == default.run_hash


def test_predictions_choose_the_circuits():
    class First(LastStep):
        def predict(self, step, layer):
            super().predict(step, layer)
            return np.array([1.0, 0.0, 0.0, 0.0])

    blocks = tokens()
    odd = run(First, blocks, policy="always")
    plain = run("last-step", blocks, policy="always")
    assert odd.circuits.makespan_s > plain.circuits.makespan_s


def test_no_predictor_is_called_where_nothing_is_predicted():
    def fail(_members):
        raise AssertionError

    blocks = tokens()
    for policy, first in (("break-even", "block"), ("never", "predict"), ("oracle", "predict")):
        with_predictor = run(fail, blocks, policy=policy, first=first)
        assert with_predictor.run_hash == simulate(step(blocks), network(policy, first)).run_hash


def test_what_a_predictor_raises_is_raised_as_it_is():
    class Fails(LastStep):
        def predict(self, _step, _layer):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        run(Fails, tokens())


@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.5, np.nan, 0.0], [2.0, -1.0, 0.0, 0.0]])
def test_what_are_no_shares_is_refused(shares):
    class Wrong(LastStep):
        def predict(self, _step, _layer):
            return np.array(shares)

    with pytest.raises(InputError, match="predictor: expected 4 shares of at least 0, got array"):
        run(Wrong, tokens())


def test_a_name_is_checked_before_anything_runs():
    with pytest.raises(DemandError, match="unknown predictor 'ridg'; did you mean 'ridge'"):
        run("ridg", tokens())
    with pytest.raises(InputError, match="predictor: expected a name, or a function that makes"):
        run(3, tokens())


@pytest.mark.parametrize("name", ["last-step", "ewma", "ridge", "copilot-gradient"])
@pytest.mark.parametrize("policy", ["always", "break-even"])
def test_a_built_in_predictor_runs_in_the_core_as_it_would_in_python(name, policy):
    blocks = tokens()
    inside = run(name, blocks, policy=policy)
    outside = run(lambda members: BuiltInPredictor(name, members), blocks, policy=policy)
    assert inside.run_hash == outside.run_hash


def test_a_region_too_wide_for_a_predictor_ends_the_run():
    members = 33
    blocks = np.ones((2, members, members), dtype=int)
    steps = Steps()
    for block in range(2):
        steps.compute(0.1).all_to_all(block, first=True)
    wide = mixnet(members, when="always", first="predict", fixed_s=1e-12, split=False)
    with pytest.raises(InputError, match="copilot takes at most 32 experts, got 33"):
        simulate(
            graph([steps], members=members, tokens=blocks),
            wide,
            plugins=Plugins(predictor="copilot"),
        )
