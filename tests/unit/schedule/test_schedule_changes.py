"""Changes in batches: order, times, and planning anew half-way."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.schedule import SwitchTiming, assign_planes, plan_change

TIMING = SwitchTiming("10 ms", per_pair_s="1 ms", control_s=0.002, link_up_s=0.003)
#: five circuits of five servers around a ring, on NIC 0 and 1, and the same with strides of two
RING = [[a, 0, a + 1, 1] for a in range(4)] + [[0, 1, 4, 0]]
STAR = [[a, 0, a + 2, 1] for a in range(3)] + [[0, 1, 3, 0], [1, 1, 4, 0]]


def made(held, change, batches):
    """Circuits after some batches."""
    circuits = {tuple(row) for row in held}
    for batch in change.batches[:batches]:
        circuits -= {tuple(row) for row in batch.delete.tolist()}
        circuits |= {tuple(row) for row in batch.create.tolist()}
    return sorted(circuits)


def test_batches_lead_to_what_is_wanted():
    change = plan_change(RING, STAR, timing=TIMING, eps_servers=range(5), max_pairs=2)
    assert made(RING, change, len(change.batches)) == sorted(map(tuple, STAR))
    assert len(change.create) == len(change.delete) == 5
    assert change.keep.shape == (0, 4)
    assert all(batch.pairs <= 2 for batch in change.batches)
    assert change.dark_pairs.shape == (0, 2)
    one = plan_change(RING, STAR, timing=TIMING, eps_servers=range(5))
    assert [batch.pairs for batch in one.batches] == [5]
    assert one.expected_s == pytest.approx(0.002 + 0.010 + 0.003 + 5 * 0.001)


def test_a_switch_that_spares_none_counts_all():
    timing = SwitchTiming("10 ms", per_pair_s="1 ms", keep_unchanged=False)
    change = plan_change(RING[:4], RING[:3], timing=timing)
    assert change.expected_s == pytest.approx(0.010 + 4 * 0.001)
    assert plan_change(RING, RING, timing=timing).expected_s == 0


def test_a_switch_that_spares_none_sets_again_what_is_held_at_each_batch():
    timing = SwitchTiming(0.0, per_pair_s=1.0, keep_unchanged=False)
    # all are deleted in twos, and nothing is made
    down = plan_change(RING, [], timing=timing, eps_servers=range(5), max_pairs=2)
    assert [batch.expected_s for batch in down.batches] == [5, 3, 1]
    # all are made in twos, after those that are there already
    up = plan_change([], STAR, timing=timing, eps_servers=range(5), max_pairs=2)
    assert [batch.expected_s for batch in up.batches] == [2, 4, 5]


def test_planning_anew_half_way():
    def planned(present):
        return plan_change(present, STAR, timing=TIMING, eps_servers=range(5), max_pairs=2)

    change = planned(RING)
    present = made(RING, change, 1)
    rest = planned(present)
    assert len(rest.create) == 5 - len(change.batches[0].create)
    assert made(present, rest, len(rest.batches)) == sorted(map(tuple, STAR))
    assert rest.expected_s < change.expected_s
    # what was made although nobody asked is deleted again
    foreign = planned([[0, 5, 1, 5]])
    assert foreign.delete.tolist() == [[0, 5, 1, 5]]
    assert planned(STAR).batches == ()


def test_pairs_without_the_eps_keep_a_circuit():
    before, wanted = [[0, 0, 1, 0]], [[0, 1, 1, 1]]
    change = plan_change(before, wanted, timing=1.0)
    assert [(len(batch.delete), len(batch.create)) for batch in change.batches] == [(0, 1), (1, 0)]
    assert change.expected_s == 2.0
    dark = plan_change(before, [[0, 0, 1, 1]], timing=1.0)
    assert dark.dark_pairs.tolist() == [[0, 1]]
    assert dict(dark.tables()[0].rows)["dark pairs"] == "0-1"
    assert not len(plan_change(before, [[0, 0, 1, 1]], timing=1.0, eps_servers=[0, 1]).dark_pairs)


def test_the_nics_of_planes_are_what_changes():
    ring = np.roll(np.eye(6, dtype=int), 1, axis=1)
    before = assign_planes(ring + ring.T, planes=3).nics
    chords = np.roll(np.eye(6, dtype=int), 3, axis=1)
    wanted = assign_planes(ring + ring.T + chords, planes=3, previous=before)
    change = plan_change(before, wanted.nics, timing=0.0)
    assert len(change.delete) == wanted.moves
    assert len(change.create) == 3 + wanted.moves
    assert len(change.keep) == 6 - wanted.moves


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"before": [[1, 0, 0, 0]]},
            "before: expected the lower server of each circuit first, and",
        ),
        ({"wanted": [[0, 0, 1, 0], [0, 0, 2, 0]]}, "wanted: expected the lower server of each"),
        ({"wanted": [[0, 0, 1]]}, "wanted: expected rows of 4 whole numbers, got int64 of shape"),
        ({"before": [[0, -1, 1, 0]]}, "before: expected 0 to 4294967295, got -1 to 1"),
        ({"max_pairs": 1}, "max_pairs: expected a whole number from 2 to 4294967295, got 1"),
        ({"timing": "-1 ms"}, "fixed_s: expected 0 to 1e6 s, got -0.001"),
        ({"eps_servers": [-1]}, "eps_servers: expected a list of servers from 0 to 65535"),
        ({"eps_servers": [0.5]}, "eps_servers: expected a list of servers from 0 to 65535"),
    ],
)
def test_what_cannot_be_used_is_refused(change, text):
    arguments = {"before": RING, "wanted": STAR, "timing": 1.0, **change}
    with pytest.raises(InputError) as caught:
        plan_change(arguments.pop("before"), arguments.pop("wanted"), **arguments)
    assert str(caught.value).startswith(text)
