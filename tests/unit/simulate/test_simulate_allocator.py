"""A user-supplied allocator in a run: its requests, proposals and errors."""

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph, mixnet

from lightloom.errors import InputError
from lightloom.schedule import allocate_region
from lightloom.simulate import Plugins, simulate

POLICIES = ["always", "per-layer", "break-even", "oracle"]


def step(rounds=3):
    """First and second all-to-alls of three blocks, each followed by its combine."""
    rng = np.random.default_rng(5)
    tokens = rng.integers(0, 10**7, size=(3, 4, 4))
    steps = Steps()
    for block in range(rounds):
        steps.compute(0.01).all_to_all(block % 3, first=True)
        steps.compute(0.002).all_to_all(block % 3, transposed=True)
    return graph([steps], members=4, tokens=tokens)


def best(requests):
    """As the network's own allocator."""
    return [
        allocate_region(q.demand, q.region, method="best", previous=q.previous).circuits
        for q in requests
    ]


def network(policy="break-even", **options):
    return mixnet(4, when=policy, fixed_s=1e-3, **options)


class Recorder:
    """Keeps the requests it gets."""

    def __init__(self):
        self.calls = []

    def __call__(self, requests):
        self.calls.append(list(requests))
        return best(requests)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_allocator_in_python_is_as_good_as_the_same_in_rust(policy):
    in_python = simulate(step(), network(policy), plugins=Plugins(allocator=best))
    core = simulate(step(), network(policy))
    assert in_python.run_hash == core.run_hash
    assert in_python.step_time_s == core.step_time_s
    assert in_python.circuits == core.circuits


def test_what_it_is_asked():
    recorder = Recorder()
    simulate(step(), network("always", split=False), plugins=Plugins(allocator=recorder))
    assert [len(call) for call in recorder.calls] == [1, 1, 1]
    request = recorder.calls[0][0]
    assert request.demand.shape == request.previous.shape == (4, 4)
    assert request.demand.dtype == np.uint64
    assert request.region.ports.tolist() == [6, 6, 6, 6]
    assert (request.region.circuit_gbps, request.region.eps_gbps) == (400, 800)
    assert request.region.split is False
    assert request.region.allowed is None


def test_the_requests_of_a_decision_come_together():
    recorder = Recorder()
    simulate(step(), network("oracle"), plugins=Plugins(allocator=recorder))
    # Three blocks ahead and their sum; only the first proposal starts from what is there.
    assert [q.previous is None for q in recorder.calls[0]] == [False, True, True, True]
    total = sum(int(q.demand.sum()) for q in recorder.calls[0][:3])
    assert int(recorder.calls[0][3].demand.sum()) == 2 * total


def test_regions_are_told_which_pairs_may_be_joined():
    recorder = Recorder()
    regions = np.array([0, 0, 1, 1], np.uint32)
    simulate(
        step(), network("always", region_of_server=regions), plugins=Plugins(allocator=recorder)
    )
    allowed = recorder.calls[0][0].region.allowed
    assert allowed[0].tolist() == [True, True, False, False]


def test_equal_requests_are_shared():
    recorder, again = Recorder(), Recorder()
    shared = simulate(step(9), network(), plugins=Plugins(allocator=recorder))
    every = simulate(step(9), network(), plugins=Plugins(allocator=again), share_equal_work=False)
    assert shared.run_hash == every.run_hash
    assert shared.circuits.shared > 0
    count = [sum(map(len, calls)) for calls in (recorder.calls, again.calls)]
    assert count[0] == shared.circuits.allocations - shared.circuits.shared < count[1]


def test_circuits_of_its_own_choice_are_taken():
    def couples(requests):
        circuits = np.zeros((4, 4))
        circuits[0, 1] = circuits[1, 0] = circuits[2, 3] = circuits[3, 2] = 6
        return [circuits for _ in requests]

    run = simulate(
        step(1), network("always"), plugins=Plugins(allocator=couples), timeline_workers=[0]
    )
    assert run.snapshots[0].circuits[0].tolist() == [0, 6, 0, 0]
    assert run.snapshots[0].chosen == "couples"


class OwnError(Exception):
    pass


@pytest.mark.parametrize("error", [OwnError("x"), ValueError("y"), KeyboardInterrupt("z")])
def test_what_it_raises_is_raised_as_it_is(error):
    def failing(_requests):
        raise error

    with pytest.raises(type(error)) as caught:
        simulate(step(), network(), plugins=Plugins(allocator=failing))
    assert caught.value is error


def circuits_with(*changes):
    circuits = np.zeros((4, 4), int)
    for row, column, count in changes:
        circuits[row, column] = count
    return circuits


@pytest.mark.parametrize(
    ("proposal", "message"),
    [
        (circuits_with((0, 1, 3)), r"allocator: 3 circuits from 0 to 1 but 0 back: expected a sym"),
        (circuits_with((0, 1, 7), (1, 0, 7)), r"allocator: server 0 has 6 ports but 7 circuits"),
        (circuits_with((2, 2, 1)), r"allocator: servers 2 and 2 may not have circuits"),
        (circuits_with((0, 1, -1)), r"allocator: circuits\[0, 1\] is -1: expected a whole number"),
        (np.zeros((3, 3)), r"allocator: circuits have 9 entries, expected 4 x 4"),
        (np.zeros(3), r"allocator: circuits: expected a square matrix, got shape \(3,\)"),
    ],
)
def test_circuits_that_cannot_be_are_refused(proposal, message):
    with pytest.raises(InputError, match=message) as caught:
        simulate(
            step(),
            network(),
            plugins=Plugins(allocator=lambda recorder: [proposal] * len(recorder)),
        )
    assert "\n" not in str(caught.value)


def test_every_question_needs_an_answer():
    with pytest.raises(InputError, match=r"^allocator: 0 proposals for 1 requests$"):
        simulate(step(), network("always"), plugins=Plugins(allocator=lambda _requests: []))


def test_it_is_not_asked_without_circuits_to_decide():
    recorder = Recorder()
    simulate(step(), network("never"), plugins=Plugins(allocator=recorder))
    assert recorder.calls == []
