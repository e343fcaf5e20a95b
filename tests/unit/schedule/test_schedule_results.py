"""Results of schedulers compare as a whole, print themselves and show in a notebook."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from lightloom import schedule
from lightloom.errors import InputError

DEMAND = [[0, 8_000, 1_000], [2_000, 0, 5_000], [3_000, 4_000, 0]]
REGION = schedule.Region(ports=2, circuit_gbps=100, eps_gbps=100)
STATIC = schedule.allocate_region(DEMAND, REGION, method="static").circuits


def allocation(demand=DEMAND):
    return schedule.allocate_region(demand, REGION)


MAKERS = {
    "allocation": allocation,
    "permutations": lambda: schedule.decompose(DEMAND, delay_s="1 us"),
    "transfers": lambda: schedule.decompose(DEMAND, method="open-shop", partial=True),
    "epochs": lambda: schedule.helios_epochs(DEMAND, epoch_s="1 us"),
    "rotor": lambda: schedule.rotornet_schedule(DEMAND),
    "topology": lambda: schedule.topoopt_topology(
        3, 2, rings=[schedule.Ring([0, 1, 2], 100)], demand=([0], [1], [10])
    ),
    "planes": lambda: schedule.assign_planes(STATIC, planes=2),
    "relayed": lambda: schedule.relay(DEMAND, STATIC, REGION),
    "for relaying": lambda: schedule.allocate_relayed(DEMAND, REGION),
    "fabric": lambda: schedule.route_permutation([1, 0, 3, 2], leaf=2, spines=2),
    "matching": lambda: schedule.max_weight_matching([[0, 3], [3, 0]], bipartite=False),
    "assignment": lambda: schedule.max_weight_matching([[0, 3], [2, 0]], bipartite=True),
    "x-nest+": lambda: schedule.xnest_plan(DEMAND, switches=2),
}


def text_of(result):
    console = Console(file=io.StringIO(), width=120)
    result.print(console)
    return console.file.getvalue()


@pytest.mark.parametrize("name", MAKERS)
def test_results_compare_and_show_themselves(name):
    one, other = MAKERS[name](), MAKERS[name]()
    assert one == other
    assert (one != other) is False
    assert one != "something else"
    assert one._repr_html_().startswith("<pre")
    assert text_of(one).strip()
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_a_difference_anywhere_counts():
    one = allocation()
    assert one != dataclasses.replace(one, circuits=one.circuits + 1)
    assert one != dataclasses.replace(one, circuits=one.circuits[:2])
    assert one != dataclasses.replace(one, makespan_s=1.0)
    of_pair = schedule.max_weight_matching([[0, 3], [3, 0]], bipartite=False)
    assert of_pair != schedule.max_weight_matching([[0, 4], [4, 0]], bipartite=False)
    found = schedule.decompose(DEMAND)
    slots = (found.slots[0], found.slots[1] + 1)
    assert found != dataclasses.replace(found, slots=slots)
    assert found == dataclasses.replace(found, time_spent_s=9.0)


def test_what_is_printed():
    text = text_of(allocation([[0, 1_000_000], [1_000_000, 0]]))
    for words in ("allocator", "over port bound", "1.000", "Circuits between servers"):
        assert words in text
    wide = schedule.decompose(np.ones((20, 20), dtype=np.int64), method="round-robin")
    assert "4 more slots." in text_of(wide)
    ring = np.roll(np.eye(20, dtype=np.int64), 1, axis=1) * 1_000_000
    large = schedule.allocate_region(ring, REGION)
    assert "The first 16 of 20 x 20." in text_of(large)


def test_schedules_and_circuits_are_drawn():
    found = schedule.decompose(DEMAND, delay_s="1 us")
    assert "Schedule by" in found.plot(DEMAND).title
    assert "<svg" in found.plot(DEMAND).svg
    assert "<svg" in allocation().plot().svg
    with pytest.raises(InputError, match=r"^demand: expected 3 x 3, got shape \(2, 2\)$"):
        found.plot([[0, 1], [1, 0]])
