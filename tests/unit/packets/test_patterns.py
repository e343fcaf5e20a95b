"""Patterns are those with which the reference simulators were run."""

import csv
from pathlib import Path

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import all_to_all, from_matrix, incast, permutation

REFERENCE = Path(__file__).parents[4] / "shared" / "ref"


def pairs(flows):
    return list(zip(flows.source.tolist(), flows.destination.tolist(), strict=True))


def of_reference(name):
    path = REFERENCE / name
    if not path.exists():
        pytest.skip("the reference completion times are not here")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [(int(row["src"]), int(row["dst"])) for row in csv.DictReader(lines)]


@pytest.mark.parametrize("hosts", [2, 3, 128])
def test_a_permutation_is_one_cycle(hosts):
    flows = permutation(hosts, 10, seed=1)
    partner = dict(pairs(flows))
    host, seen = 0, set()
    while host not in seen:
        seen.add(host)
        host = partner[host]
    assert seen == set(range(hosts))
    assert flows.size_bytes.tolist() == [10] * hosts


def test_permutations_differ_by_seed():
    assert pairs(permutation(64, 1, seed=1)) == pairs(permutation(64, 1, seed=1))
    assert pairs(permutation(64, 1, seed=1)) != pairs(permutation(64, 1, seed=2))


@pytest.mark.parametrize("fan_in", [8, 32])
def test_incast_as_the_reference(fan_in):
    found = pairs(incast(128, fan_in, 1_000_000))
    assert found == of_reference(f"htsim_incast_128_{fan_in}to1_1MB__ndp_100G_p128.csv")


def test_incast_of_all():
    assert pairs(incast(4, 3, 1)) == [(1, 0), (2, 0), (3, 0)]
    assert pairs(incast(9, 2, 1)) == [(1, 0), (5, 0)]


def test_all_to_all_as_the_reference():
    found = pairs(all_to_all(128, 8, 1_000_000))
    assert found == of_reference("htsim_a2a_128_g8_1MB__ndp_100G_p128.csv")


def test_all_to_all_of_groups():
    assert pairs(all_to_all(4, 2, 1)) == [(0, 2), (2, 0), (1, 3), (3, 1)]
    assert sorted(pairs(all_to_all(3, 3, 1))) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


def test_a_matrix_without_its_diagonal():
    flows = from_matrix(np.array([[9, 5, 0], [0, 9, 0], [7, 1, 9]], dtype=np.uint64), "demand")
    assert pairs(flows) == [(0, 1), (2, 0), (2, 1)]
    assert flows.size_bytes.tolist() == [5, 7, 1]
    assert flows.name == "demand"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: permutation(1, 1, seed=0),
         "hosts 1: expected at least 2, so that one can send to another"),
        (lambda: incast(8, 8, 1), "fan_in 8: expected 1 to 7, the hosts other than host 0"),
        (lambda: incast(8, 0, 1), "fan_in 0: expected 1 to 7, the hosts other than host 0"),
        (lambda: all_to_all(8, 3, 1), "group 3: expected a divisor of 8 hosts, at least 2"),
        (lambda: all_to_all(8, 1, 1), "group 1: expected a divisor of 8 hosts, at least 2"),
        (lambda: all_to_all(4096, 4096, 1), "an all-to-all of 4,096 hosts in groups of 4,096 has "
         "16,773,120 flows; the limit is 4,194,304: make the groups smaller"),
        (lambda: from_matrix(np.ones((2, 3)), "d"), "d: expected a square matrix, got 2 sources "
         "and 3 destinations"),
        (lambda: from_matrix(np.eye(3), "d"), "d: has no bytes to send from one host to another"),
    ],
)  # fmt: skip
def test_impossible_patterns(call, line):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == line
