"""The Python interface of the allocators: values in, values out, and what it refuses."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from tests.interpreter_lock import lets_others_run

from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    Failures,
    Region,
    allocate,
    allocate_each,
    allocate_region,
    changed_pairs,
    map_nics,
    port_bound_s,
    route,
)

RATES = {"circuit_gbps": 400, "eps_gbps": 800}
BYTES_PER_S = 400e9 / 8
METHODS = ["paper", "reference", "static", "greedy", "parametric", "best"]


@pytest.fixture
def demand():
    rng = np.random.default_rng(1)
    return rng.integers(0, 10**8, size=(6, 6), dtype=np.uint64)


@pytest.mark.parametrize("method", METHODS)
def test_answer_has_the_stated_types_and_shapes(demand, method):
    found = allocate(demand, ports=4, method=method, **RATES)
    assert found.circuits.shape == found.eps_bytes.shape == (6, 6)
    assert found.circuits.dtype == np.uint16
    assert found.eps_bytes.dtype == np.uint64
    assert (found.eps_bytes <= demand).all()
    assert found.circuit_count == found.circuits.sum() // 2 <= 12
    assert found.over_bound == found.makespan_s / found.port_bound_s >= 1 - 1e-9
    assert method in {found.chosen, "best"}


def test_one_pair_uses_all_its_ports():
    demand = [[0, 8_000_000], [0, 0]]
    found = allocate(demand, ports=6, **RATES)
    assert found.circuits.tolist() == [[0, 6], [6, 0]]
    assert found.makespan_s == pytest.approx(1e6 / BYTES_PER_S)
    assert found.eps_bytes.tolist() == [[0, 2_000_000], [0, 0]]
    whole = allocate(demand, ports=6, split=False, **RATES)
    assert whole.makespan_s == pytest.approx(8e6 / 6 / BYTES_PER_S)
    assert not whole.eps_bytes.any()


def test_failed_nics_end_no_circuit():
    circuits = [[0, 2, 1], [2, 0, 0], [1, 0, 0]]
    failed = Failures(nics=[(0, 0), (1, 3)], planes=[1])
    rows = map_nics(circuits, ports=5, failed=failed)
    used = {tuple(end) for row in rows.tolist() for end in (row[:2], row[2:])}
    assert used.isdisjoint([(0, 0), (0, 1), (1, 1), (1, 3), (2, 1)])
    assert len(used) == 6
    # those that are up stay, but for the one on a NIC that has failed since
    later = map_nics(
        circuits, ports=5, previous=rows, failed=Failures(nics=[*failed.nics, tuple(rows[0, 2:])])
    )
    kept = {tuple(row) for row in rows.tolist()} & {tuple(row) for row in later.tolist()}
    assert kept == {tuple(row) for row in rows[1:].tolist()}


def test_circuits_beyond_the_working_nics_are_refused():
    text = "circuits: server 1 has 1 working NICs but 2 circuits; allocate them with the same"
    with pytest.raises(InputError, match=text):
        map_nics([[0, 2], [2, 0]], ports=2, failed=Failures(nics=[(1, 0)]))
    with pytest.raises(InputError, match=r"failed NIC of server 1: expected .* from 0 to 1, got 2"):
        map_nics([[0, 1], [1, 0]], ports=2, failed=Failures(nics=[(1, 2)]))


def test_nothing_to_send_is_optimal_and_takes_no_time():
    found = allocate(np.zeros((3, 3)), ports=2, **RATES)
    assert (found.makespan_s, found.port_bound_s, found.over_bound) == (0.0, 0.0, 1.0)


def test_ports_may_differ_between_servers(demand):
    ports = [0, 1, 2, 3, 4, 5]
    for method in METHODS:
        found = allocate(demand, ports=ports, method=method, **RATES)
        assert (found.circuits.sum(axis=1) <= ports).all()


def test_without_eps_and_circuits_it_never_ends(demand):
    found = allocate(demand, ports=0, circuit_gbps=400, eps_gbps=0)
    assert found.makespan_s == float("inf")


def test_allowed_pairs_hold(demand):
    allowed = np.ones((6, 6), dtype=bool)
    allowed[0, :] = allowed[:, 0] = False
    for method in METHODS:
        region = Region(ports=4, allowed=allowed, **RATES)
        assert not allocate_region(demand, region, method=method).circuits[0].any()


def test_any_memory_layout_gives_the_same_answer(demand):
    wide = np.zeros((12, 12), dtype=np.int64)
    wide[::2, ::2] = demand
    plain = allocate(demand, ports=3, **RATES)
    for layout in (wide[::2, ::2], np.asfortranarray(demand), demand.astype(float)):
        found = allocate(layout, ports=3, **RATES)
        assert np.array_equal(found.circuits, plain.circuits)
        assert np.array_equal(found.eps_bytes, plain.eps_bytes)


def test_whole_numbers_of_any_size_survive():
    demand = np.array([[0, 2**64 - 1], [2**53 + 1, 0]], dtype=np.uint64)
    found = allocate(demand, ports=0, **RATES)
    assert np.array_equal(found.eps_bytes, demand)


def test_previous_circuits_stay_when_nothing_is_faster(demand):
    before = allocate(demand, ports=3, **RATES).circuits
    again = allocate(demand, ports=3, previous=before, **RATES)
    assert changed_pairs(before, again.circuits) == 0


def test_route_divides_demand_over_given_circuits(demand):
    region = Region(ports=4, **RATES)
    circuits = allocate_region(demand, region, method="reference").circuits
    assert route(demand, circuits, region).makespan_s == pytest.approx(
        allocate_region(demand, region, method="reference").makespan_s
    )
    nothing = route(demand, np.zeros((6, 6), dtype=int), region)
    np.fill_diagonal(demand, 0)
    assert np.array_equal(nothing.eps_bytes, demand)


def test_port_bound_is_the_largest_line_over_all_ports():
    demand = [[0, 3, 5], [2, 0, 1], [4, 9, 0]]
    region = Region(ports=[1, 2, 3], **RATES)
    # server 1 receives 12 bytes over 2 + 2 ports, server 2 sends 13 over 3 + 2
    assert port_bound_s(demand, region) == pytest.approx(12 / 4 / BYTES_PER_S)


def test_changed_pairs_counts_port_pairs():
    one = np.array([[0, 2], [2, 0]])
    assert changed_pairs(one, one) == 0
    assert changed_pairs(one, np.zeros((2, 2), dtype=int)) == 2


def test_two_circuits_of_a_pair_end_on_two_numa_nodes():
    rows = map_nics([[0, 2], [2, 0]], ports=4)
    assert rows.shape == (2, 4)
    nodes = rows[:, [1, 3]] * 2 // 4
    assert set(nodes[:, 0]) == set(nodes[:, 1]) == {0, 1}


def test_nics_of_circuits_that_stay_do_not_move():
    before = map_nics([[0, 1, 1], [1, 0, 1], [1, 1, 0]], ports=2)
    after = map_nics([[0, 0, 1], [0, 0, 1], [1, 1, 0]], ports=2, previous=before)
    assert {tuple(row) for row in after.tolist()} <= {tuple(row) for row in before.tolist()}
    assert len(after) == 2


def test_results_are_frozen(demand):
    found = allocate(demand, ports=2, **RATES)
    with pytest.raises(FrozenInstanceError):
        found.makespan_s = 0.0


def test_other_threads_run_meanwhile():
    demand = np.random.default_rng(2).exponential(1e7, size=(200, 200)).astype(np.int64)
    assert lets_others_run(lambda: allocate(demand, ports=6, **RATES))


@pytest.mark.parametrize(
    ("demand", "text"),
    [
        ([[0, 1, 2], [3, 4, 5]], "demand: expected a square matrix, got shape (2, 3)"),
        ([0, 1], "demand: expected a square matrix, got shape (2,)"),
        ([[0, 1], [2]], "demand: expected an array, got rows of unequal length"),
        (
            [[0, -1], [2, 0]],
            "demand[0, 1] is -1: expected a whole number from 0 to 18446744073709551615",
        ),
        (
            [[0, 1.5], [2, 0]],
            "demand[0, 1] is 1.5: expected a whole number from 0 to 18446744073709551615",
        ),
        (
            [[0, float("nan")], [2, 0]],
            "demand[0, 1] is nan: expected a whole number from 0 to 18446744073709551615",
        ),
        (
            [[0, 1], [2.0**64, 0]],
            "demand[1, 0] is 1.8446744073709552e+19: "
            "expected a whole number from 0 to 18446744073709551615",
        ),
        (
            [["0", "1"], ["2", "0"]],
            "demand: expected whole numbers from 0 to 18446744073709551615, got <U1",
        ),
    ],
)
def test_demand_that_cannot_be_used_is_refused(demand, text):
    with pytest.raises(DemandError) as error:
        allocate(demand, ports=2, **RATES)
    assert str(error.value) == text


def test_python_integers_beyond_64_bits_are_refused():
    with pytest.raises(DemandError, match="got object"):
        allocate([[0, 2**64], [0, 0]], ports=2, **RATES)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"method": "bets"},
            "circuits 'bets': expected one of paper, reference, static, greedy, parametric, best, "
            "exact; did you mean 'best'?",
        ),
        ({"ports": -1}, "ports: expected a whole number from 0 to 65535, got -1"),
        ({"ports": 2.0}, "ports: expected a whole number from 0 to 65535, got 2.0"),
        ({"ports": [[1], [2, 3]]}, "ports: expected an array, got rows of unequal length"),
        ({"ports": [1, 2, 3]}, "ports: expected one number or 2, got 3"),
        ({"circuit_gbps": 0}, "circuit_gbps: expected 0.000000001 to 1e9 Gb/s, got 0"),
        ({"circuit_gbps": float("inf")}, "circuit_gbps: expected a finite number, got inf"),
        ({"eps_gbps": -1}, "eps_gbps: expected 0 to 1e9 Gb/s, got -1"),
        (
            {"eps_gbps": "fast"},
            "eps_gbps: cannot read 'fast' as a rate such as 400, 400G or '400 Gb/s'",
        ),
        ({"previous": [[0]]}, "previous: expected 2 x 2 circuits, got (1, 1)"),
        (
            {"previous": [[0, 1], [0, 0]]},
            "circuits: expected a symmetric matrix with zeros on the diagonal",
        ),
    ],
)
def test_other_arguments_that_cannot_be_used_are_refused(change, text):
    arguments = {"ports": 2, **RATES, **change}
    with pytest.raises(InputError) as error:
        allocate([[0, 1], [1, 0]], **arguments)
    assert str(error.value) == text


def test_asymmetric_permissions_are_refused():
    with pytest.raises(InputError) as error:
        Region(ports=2, allowed=[[True, True], [False, True]], **RATES)
    assert str(error.value) == "allowed: expected a symmetric square matrix, got shape (2, 2)"
    region = Region(ports=2, allowed=[[True]], **RATES)
    with pytest.raises(InputError, match="allowed: expected a symmetric 2 x 2 matrix"):
        allocate_region([[0, 1], [1, 0]], region)


def test_circuits_beyond_the_ports_are_refused():
    circuits = [[0, 3], [3, 0]]
    with pytest.raises(InputError) as error:
        route([[0, 1], [1, 0]], circuits, Region(ports=2, **RATES))
    assert str(error.value) == "circuits: server 0 has 2 ports but 3 circuits"
    with pytest.raises(InputError) as error:
        map_nics(circuits, ports=[3, 2])
    assert str(error.value) == "circuits: server 1 has 2 ports but 3 circuits"


def test_circuits_of_another_region_are_refused():
    with pytest.raises(InputError, match="expected 2 servers, got 3"):
        route([[0, 1], [1, 0]], np.zeros((3, 3)), Region(ports=2, **RATES))
    with pytest.raises(InputError, match="of 2 and of 3 servers cannot be compared"):
        changed_pairs(np.zeros((2, 2)), np.zeros((3, 3)))


def test_nic_arguments_that_cannot_be_used_are_refused():
    for nodes in (0, 2**63, 1.5):
        with pytest.raises(InputError) as error:
            map_nics([[0, 1], [1, 0]], ports=1, numa_nodes=nodes)
        text = f"numa_nodes: expected a whole number from 1 to 1024, got {nodes}"
        assert str(error.value) == text
    for previous in ([[0, 0, 1]], [[0, 0, 1, 0.5]], [[0, 0], [1]]):
        with pytest.raises(InputError, match="previous NICs: expected"):
            map_nics([[0, 1], [1, 0]], ports=1, previous=previous)


def test_flags_are_true_or_false():
    for wrong in ("no", 0, None):
        with pytest.raises(InputError, match=r"^split: expected True or False, got "):
            allocate([[0, 1], [1, 0]], ports=2, split=wrong, **RATES)
    truth = allocate([[0, 1], [1, 0]], ports=2, split=np.True_, **RATES)
    assert truth == allocate([[0, 1], [1, 0]], ports=2, split=True, **RATES)


def test_masked_entries_are_refused():
    demand = np.ma.masked_equal([[0, 9], [7, 0]], 9)
    with pytest.raises(DemandError) as error:
        allocate(demand, ports=2, **RATES)
    text = "demand: some entries are masked; fill them first, as by .filled(0)"
    assert str(error.value) == text
    whole = np.ma.array([[0, 9], [7, 0]])
    assert allocate(whole, ports=2, **RATES) == allocate([[0, 9], [7, 0]], ports=2, **RATES)


def test_a_stack_of_demands_is_allocated_as_each_of_them():
    rng = np.random.default_rng(5)
    demands = rng.integers(0, 10**8, size=(4, 5, 5))
    region = Region(ports=[1, 2, 3, 2, 1], circuit_gbps=400, eps_gbps=800, split=False)
    held = allocate_region(demands[0], region).circuits
    found = allocate_each(demands, region, previous=held)
    assert found == [allocate_region(demand, region, previous=held) for demand in demands]
    assert allocate_each(np.zeros((0, 5, 5)), region) == []


@pytest.mark.parametrize(
    ("demands", "text"),
    [
        (np.zeros((2, 2)), "demands: expected several square matrices, got shape (2, 2)"),
        (np.zeros((2, 2, 3)), "demands: expected several square matrices, got shape (2, 2, 3)"),
        (-np.ones((1, 2, 2)), "demands[0, 0] is -1.0: expected a whole number from 0 to"),
    ],
)
def test_stacks_that_are_none_are_refused(demands, text):
    with pytest.raises(DemandError) as caught:
        allocate_each(demands, Region(1, 100, 100))
    assert str(caught.value).startswith(text)


def test_within_the_tolerance_nothing_changes(demand):
    region = Region(ports=3, circuit_gbps=400, eps_gbps=800)
    held = allocate_region(demand, region, method="static").circuits
    strict = allocate_region(demand, region, previous=held)
    near = allocate_region(demand, region, previous=held, tolerance=1)
    assert changed_pairs(held, near.circuits) == 0 < changed_pairs(held, strict.circuits)
    assert strict.makespan_s < near.makespan_s <= strict.makespan_s * 2
    for wrong in (-0.1, float("nan"), True, "much"):
        with pytest.raises(InputError, match="tolerance: expected a number from 0, got"):
            allocate_region(demand, region, tolerance=wrong)
    with pytest.raises(InputError, match="tolerance: exact has none"):
        allocate_region(demand, region, method="exact", tolerance=0.1)


def test_arrays_that_change_do_not_change_a_region(demand):
    ports = np.full(6, 2)
    region = Region(ports=ports, circuit_gbps=400, eps_gbps=800)
    assert allocate_region(demand, region).circuits.sum() == 12
    ports[:] = 4
    assert allocate_region(demand, region).circuits.sum() == 12
    # equal numbers of other types are other values
    assert allocate(demand, ports=1, circuit_gbps=400, eps_gbps=800).circuits.sum() == 6
    with pytest.raises(InputError, match=r"ports: expected a whole number .*, got True"):
        allocate(demand, ports=True, circuit_gbps=400, eps_gbps=800)
