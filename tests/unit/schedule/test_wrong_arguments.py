"""Every function of the room refuses an argument of a wrong type in one line."""

import inspect
import math

import numpy as np
import pytest

from lightloom import schedule
from lightloom.errors import LightloomError
from lightloom.schedule import Periods, Region, Ring, RotorSwitches

DEMAND = np.array([[0, 9, 1], [1, 0, 9], [9, 1, 0]])
REGION = Region(2, 100, 100)
RING = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
RINGS = [Ring(range(4), 1_000)]
HELIOS = {"demand": DEMAND, "epoch_s": "1 ns", "switches": 1, "rate_gbps": 400.0}
EPOCHS = {**HELIOS, "delay_s": 0.0}
PORTS = {"demand": DEMAND, "delay_s": 0.0, "rate_gbps": 400.0}
CHUNKS = {
    "chunks": [DEMAND], "releases_s": 0.0, "deadlines_s": None, "eps_gbps": 0.0,
    "delay_s": 0.0, "rate_gbps": 400.0,
}  # fmt: skip
ONE = {"demand": DEMAND, "region": REGION}
#: arguments with which each function succeeds; names of things that need not exist are left out
CALLS = {
    "allocate": {
        "demand": DEMAND, "ports": 2, "circuit_gbps": 100, "eps_gbps": 100, "method": "greedy",
        "split": True, "previous": None,
    },
    "allocate_each": {"demands": [DEMAND], "region": REGION, "method": "best", "previous": None},
    "allocate_exactly": {**ONE, "previous": None, "gap": 0.003, "time_limit_s": 10.0},
    "allocate_on_planes": {**ONE, "method": "greedy", "duplex": True, "previous": None},
    "allocate_region": {**ONE, "method": "greedy", "previous": None, "tolerance": 0.0},
    "allocate_relayed": {**ONE, "previous": None, "evaluations": 1, "cost": None},
    "assign_planes": {
        "circuits": RING, "planes": 4, "duplex": True, "failed": None, "previous": None,
        "effort": 100,
    },
    "changed_pairs": {"previous": RING, "following": RING},
    "check_coloring": {"edges": [[0, 0], [0, 1]], "color_of_edge": [0, 1]},
    "chunk_lateness_bound_s": {**CHUNKS, "deadlines_s": 1.0},
    "chunk_lower_bound_s": {key: CHUNKS[key] for key in CHUNKS if key != "deadlines_s"},
    "color_edges": {"edges": [[0, 0], [0, 1]], "colors": None},
    "cycles_in_order": {
        "topology": schedule.topoopt_topology(4, 2, rings=RINGS), "rings": RINGS,
    },
    "decompose": {
        **PORTS, "method": "auto", "time_limit_s": None, "partial": False, "switches": 1,
        "previous": None, "new_slots": 0,
    },
    "decompose_all": {
        **PORTS, "methods": ("bvn",), "time_limit_s": None, "partial": False, "switches": 1,
    },
    "decompose_chunks": {**CHUNKS, "method": "pipelined", "time_limit_s": None},
    "decompose_hybrid": {
        **PORTS, "eps_gbps": 40, "method": "balanced", "time_limit_s": None, "relay": False,
    },
    "helios_epochs": EPOCHS,
    "helios_matchings": HELIOS,
    "helios_step": {
        "estimate": DEMAND, "held": None, "periods": Periods("1 us"), "hysteresis": None,
    },
    "hybrid_lower_bound_s": {**PORTS, "eps_gbps": 40, "relay": False},
    "line_bound_s": ONE,
    "line_time_s": {"demand": DEMAND, "switches": 1, "rate_gbps": 400.0},
    "map_nics": {
        "circuits": RING, "ports": 2, "numa_nodes": 2, "previous": None, "failed": None,
    },
    "max_weight_matching": {"weights": DEMAND, "bipartite": True},
    "parse_failures": {"text": "server:3", "name": "failed"},
    "permutation_lower_bound_s": {**PORTS, "partial": False, "switches": 1},
    "plan_change": {
        "before": [[0, 0, 1, 0]], "wanted": [[0, 1, 1, 1]], "timing": 1.0, "eps_servers": (),
        "max_pairs": 2,
    },
    "port_bound_s": ONE,
    "relay": {**ONE, "circuits": RING, "method": "fast", "cost": None},
    "relay_loads": {
        **ONE, "circuits": RING, "relayed": schedule.relay(DEMAND, RING, REGION), "cost": None,
    },
    "rotate": {"demand": DEMAND, "rotor": RotorSwitches("1 ns")},
    "rotor_slot": {"queues": DEMAND, "turn": 0, "rotor": RotorSwitches("1 ns"), "relayed": None},
    "rotornet_schedule": {
        **PORTS, "switches": 1, "slot_s": None, "held": False, "relay": False,
    },
    "route": {**ONE, "circuits": RING},
    "route_permutation": {
        "permutation": [2, 3, 0, 1], "leaf": 2, "tiers": 2, "spines": None, "pod": None,
        "cores": None,
    },
    "schedule_of_arrays": {
        "demand": [[0, 5], [7, 0]], "permutations": [[1, 0]], "holds_bytes": [7],
        "delay_s": 0.0, "rate_gbps": 400.0, "name": "custom",
    },
    "serve_over_time": {
        "arrivals": [DEMAND], "periods": Periods("1 us"), "system": "helios",
        "estimator": "smoothed", "weight": 0.5, "hysteresis": None,
    },
    "topoopt_topology": {
        "servers": 4, "ports": 2, "rings": RINGS, "demand": ((), (), ()), "phases": (),
        "max_routes": 4, "strides": "geometric",
    },
    "upcoming_all_to_alls": {"demand": DEMAND, "hidden_s": 0.0},
    "xnest_epochs": {**EPOCHS, "reading": "pairings"},
    "xnest_plan": {
        "demand": DEMAND, "switches": 2, "reading": "pairings", "rule": "greedy", "previous": None,
    },
    "xnest_step": {
        "measured": DEMAND, "held": (), "periods": Periods("1 us"), "reading": "pairings",
        "turning": "first", "hysteresis": None,
    },
    "xnest_sub_matrices": {"nodes": 4, "reading": "pairings"},
}  # fmt: skip
#: functions that take a name alone, or nothing
BY_NAME = {
    "allocator_by_name", "choices", "custom_allocators", "custom_schedulers", "schedule_by_name",
}  # fmt: skip
WRONG = (
    None, 3, -1, math.nan, 10**400, "wrong", "", b"x", True, [], [1, 2], {"a": 1}, object(),
    np.zeros((2, 2)), np.array(["a"]), "x\0y",
)  # fmt: skip


def test_every_function_is_called_with_every_parameter():
    functions = {name for name in schedule.__all__ if inspect.isfunction(getattr(schedule, name))}
    assert CALLS.keys() == functions - BY_NAME
    for name, valid in CALLS.items():
        assert valid.keys() == inspect.signature(getattr(schedule, name)).parameters.keys(), name


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_one_line(name):
    call, valid = getattr(schedule, name), CALLS[name]
    call(**valid)
    for argument in valid:
        messages = []
        for value in WRONG:
            try:
                call(**{**valid, argument: value})
            except LightloomError as error:
                messages.append(str(error))
            except Exception as error:
                raise AssertionError(f"{name}({argument}={value!r}): {error!r}") from error
        assert messages or argument == "name", argument
        assert all(message and "\n" not in message for message in messages)


@pytest.mark.parametrize("name", ["allocator_by_name", "schedule_by_name"])
def test_a_wrong_name_is_one_line(name):
    more = () if name == "allocator_by_name" else (DEMAND,)
    for value in WRONG:
        with pytest.raises(LightloomError, match=r"no installed package has|expected a name"):
            getattr(schedule, name)(value, *more)
