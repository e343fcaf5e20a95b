"""Properties of RotorNet, Helios and X-NEST+, through Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightloom.schedule import helios_epochs, rotornet_schedule, xnest_epochs


@st.composite
def demands(draw):
    n = draw(st.integers(2, 7))
    entries = st.one_of(st.just(0), st.integers(0, 3_000), st.integers(0, 200_000))
    cells = draw(st.lists(entries, min_size=n * n, max_size=n * n))
    return np.array(cells).reshape(n, n)


@given(demands(), st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from([None, 1e-7]))
def test_every_byte_of_a_rotor_arrives(demand, switches, held, relay, slot_s):
    found = rotornet_schedule(demand, switches=switches, held=held, relay=relay, slot_s=slot_s)
    found.check(demand)
    assert found.over_bound >= 1


@given(demands(), st.integers(1, 4), st.sampled_from(["helios", "pairings", "diagonals"]))
def test_epochs_serve_everything_with_matchings(demand, switches, planner):
    if planner == "helios":
        run = helios_epochs(demand, epoch_s=2e-7, switches=switches)
    else:
        run = xnest_epochs(demand, epoch_s=2e-7, switches=switches, reading=planner)
    left = demand - np.diag(np.diag(demand))
    for epoch in run.matchings:
        for matching in epoch:
            senders = np.flatnonzero(matching >= 0)
            assert len(np.unique(matching[senders])) == len(senders)
            left[senders, matching[senders]] -= 10_000
    assert left.max() <= 0
    assert run.over_bound >= 1
