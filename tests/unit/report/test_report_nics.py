"""The NICs that end the circuits of a page's region."""

import numpy as np

from lightloom.report.page_circuits import _nics
from lightloom.schedule import allocate


def test_parallel_circuits_end_on_different_numa_nodes():
    circuits = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]])
    rows = dict(_nics(circuits, ["10", "11", "12"], 4))
    assert rows.keys() == {"10 - 11", "10 - 12"}
    ends = [end.split(" - ") for end in rows["10 - 11"].split(", ")]
    for side in (0, 1):
        # NICs 0 and 1 of four are on node 0, 2 and 3 on node 1
        assert {int(end[side]) // 2 for end in ends} == {0, 1}


def test_every_circuit_of_an_allocation_has_a_nic_of_its_own():
    demand = np.random.default_rng(5).integers(1, 10**9, (8, 8))
    found = allocate(demand, ports=6, circuit_gbps=400, eps_gbps=800)
    rows = _nics(found.circuits.astype(np.int64), [str(n) for n in range(8)], 6)
    used: dict[str, list[str]] = {}
    for pair, ends in rows:
        a, b = pair.split(" - ")
        for end in ends.split(", "):
            nic_a, nic_b = end.split(" - ")
            used.setdefault(a, []).append(nic_a)
            used.setdefault(b, []).append(nic_b)
    assert sum(map(len, used.values())) == found.circuits.sum()
    assert all(len(set(nics)) == len(nics) <= 6 for nics in used.values())
