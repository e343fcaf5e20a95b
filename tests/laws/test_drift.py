"""Groups do not drift apart: noise of a permille stays a permille, however long the step.

A member of an all-to-all that resumes before its own sends have left starts the next one alongside,
takes half of the NIC from the unfinished one and so makes its partner late, who does the same. Each
batch adds to it: steps of four batches show nothing, of 24 up to 19 %. So these steps are long, and
have what amplifies: two members to a group, several stages, two streams.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.laws.bounds import CONTINUOUS, FLUID, TOR_SHARED
from tests.laws.graphs import RandomStep
from tests.laws.networks import network_of
from tests.laws.sampling import apart, shorter

from lightloom.simulate import simulate

NETWORKS = ("flat", "hierarchical", "rail", "oversubscribed", "mixnet, never", "mesh")
#: members, stages and whether there are two streams
SHAPES = [(2, 1, True), (2, 4, False), (2, 4, True), (3, 2, True), (4, 2, False)]
on_each = pytest.mark.parametrize("name", NETWORKS)


def long_step(members: int, stages: int, second_stream: bool) -> RandomStep:
    """24 batches of two layers; all members send 20 MB to each other."""
    return RandomStep(
        stages=stages,
        replicas=1,
        members=members,
        batches=24,
        tokens=np.full((stages, 2, members, members), 1_000_000),
        unit_bytes=20,
        compute_s=np.array([[2e-4, 1e-4, 1e-4]] * 2),
        pipeline_bytes=10**6,
        second_stream=second_stream,
    )


def time_s(name: str, step: RandomStep) -> float:
    """Time of a step on a network."""
    return simulate(step.build(), network_of(name, step.servers, step.members)).step_time_s


def bounds(name: str, usual: float) -> dict[tuple[int, int, bool], float]:
    """Bound of each shape on a network; groups of three share ToRs of two servers."""
    shared = {3: TOR_SHARED} if name == "oversubscribed" else {}
    return {shape: shared.get(shape[0], usual) for shape in SHAPES}


@on_each
def test_noise_in_the_tokens_does_not_grow(name):
    """A permille of noise in the tokens."""
    for shape, bound in bounds(name, CONTINUOUS).items():
        step = long_step(*shape)
        change = apart(time_s(name, step.with_noise(0.001)), time_s(name, step))
        assert change <= bound, f"{shape}: {change:.2%}"


@on_each
def test_noise_in_computation_does_not_grow(name):
    """A permille of noise in the compute times."""
    for shape, bound in bounds(name, CONTINUOUS).items():
        step = long_step(*shape)
        change = apart(time_s(name, replace(step, jitter=0.001)), time_s(name, step))
        assert change <= bound, f"{shape}: {change:.2%}"


@on_each
def test_barriers_do_not_help_against_noise(name):
    """With a percent of noise, all-to-alls of no bytes hold members together, and gain nothing."""
    for shape, bound in bounds(name, FLUID).items():
        step = long_step(*shape).with_noise(0.01)
        gain = shorter(time_s(name, replace(step, barriers=True)), time_s(name, step))
        assert gain <= bound, f"{shape}: {gain:.2%}"
