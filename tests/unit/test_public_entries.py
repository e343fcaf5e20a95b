"""Every public entry refuses an argument of a wrong type in one line, and with no other error."""

import contextlib
import functools
import inspect
import math
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import lightloom
from lightloom import LightloomError, Region, Scenario
from lightloom.demand import history_of_source

DEMAND = np.array([[0, 8_000, 1_000], [2_000, 0, 5_000], [3_000, 4_000, 0]])
JOB = {"model": "mixtral-8x7b", "gpus": 32, "cluster": {"rate_gbps": 400}}
SOURCE = lightloom.synthetic("calm", ranks=4, experts=4, tokens_per_rank=64, top_k=2, seed=1)
FLOWS = lightloom.make_flows([0, 1], [2, 3], 1_000)
REGION = {
    "ports": 2, "circuit_gbps": 400.0, "eps_gbps": 800.0, "split": True, "allowed": None,
    "failed": None, "eps_nics": None,
}  # fmt: skip
DECIDER = lightloom.Decider(3, Region(**REGION), timing=0.01)


def columns_of(flows):
    return {field.name: getattr(flows, field.name) for field in fields(flows)}


@functools.wraps(lightloom.sweep)
def sweep_somewhere(**arguments):
    """A sweep in a folder of its own, whatever it is told to write."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return lightloom.sweep(**arguments)


#: a call that succeeds of each entry; results, errors and protocols are not called by users
CALLS = {
    "Decider": (
        lightloom.Decider,
        {
            "servers": 3, "region": Region(**REGION), "policy": None, "timing": 0.01,
            "planes": None, "numa_nodes": 2, "allocator": None,
        },
    ),
    "Decider.decide": (
        DECIDER.decide,
        {"held": DECIDER.start(), "upcoming": DEMAND, "hidden_s": 0.0, "proposals": None},
    ),
    "Decider.hold": (DECIDER.hold, {"circuits": np.zeros((3, 3), int)}),
    "Decider.hold_on": (DECIDER.hold_on, {"nics": [[0, 0, 1, 0]], "chosen": "best"}),
    "Flows": (lightloom.Flows, columns_of(FLOWS)),
    # what a region is made of is looked at where it is used
    "Region": (lambda **region: lightloom.Decider(3, Region(**region), timing=0.01), REGION),
    "Scenario": (Scenario, JOB),
    "Scenario.model_validate": (Scenario.model_validate, {"obj": JOB}),
    "Scenario.model_validate_json": (
        Scenario.model_validate_json,
        {"json_data": '{"model": "mixtral-8x7b", "gpus": 32, "cluster": {"rate_gbps": 400}}'},
    ),
    "Scenario.model_validate_strings": (Scenario.model_validate_strings, {"obj": None}),
    "allocate": (
        lightloom.allocate,
        {
            "demand": DEMAND, "ports": 2, "circuit_gbps": 400.0, "eps_gbps": 100.0,
            "method": "best", "split": True, "previous": None,
        },
    ),
    "compare": (
        lightloom.compare,
        {
            "model": "mixtral-8x7b", "gpus": 32, "rate": 400, "fabrics": ["fat-tree"],
            "progress": None, "allocator": None, "predictor": None, "seeds": 1,
            "compute_spread": 0.0, "policies": False, "imbalances": False,
            "plan": {"tp": 1, "pp": 1, "ep": 8, "micro_batches": 1},
        },
    ),
    "compare_schedules": (
        lightloom.compare_schedules,
        {
            "demand": DEMAND, "fixed_s": "1 us", "rate": 400, "ports": 2, "switches": None,
            "eps_rate": 100, "progress": None, "methods": ["greedy"], "allocators": ["paper"],
            "time_limit_s": 1.0, "systems": (), "relay": False, "planes": False,
        },
    ),
    "decompose": (
        lightloom.decompose,
        {
            "demand": DEMAND, "delay_s": 0.0, "rate_gbps": 400.0, "method": "greedy",
            "time_limit_s": None, "partial": False, "switches": 1, "previous": None,
            "new_slots": 0,
        },
    ),
    "load_fabric": (lightloom.load_fabric, {"name_or_path": "mixnet", "overrides": None}),
    "load_model": (lightloom.load_model, {"name_or_path": "mixtral-8x7b"}),
    "load_study": (lightloom.load_study, {"path": "examples/study.toml"}),
    "make_flows": (
        lightloom.make_flows,
        {
            "source": [0, 1], "destination": [2, 3], "size_bytes": 1_000, "start_s": 0.0,
            "routes": None, "name": "flows",
        },
    ),
    "predict": (
        lightloom.predict,
        {
            "loads": history_of_source(SOURCE, steps=8, layers=2, synthetic=True),
            "predictors": ["last-step"], "region": Region(**REGION), "window": 4, "top_k": None,
            "progress": None, "experts_per_server": 1, "token_bytes": 8192, "method": "best",
        },
    ),
    "rank_matrix": (lightloom.rank_matrix, {"tokens": np.ones((4, 8), int)}),
    "read_byte_matrix": (
        lightloom.read_byte_matrix,
        {"path": "tests/golden/schedule_demand.csv", "token_bytes": None},
    ),
    "read_flows": (lightloom.read_flows, {"path": "examples/ring/flows.csv"}),
    "simulate_flows": (
        lightloom.simulate_flows,
        {
            "flows": FLOWS, "hosts": 4, "rate": 100, "transport": "ideal", "seed": 1,
            "record": None, "progress": None, "network": {}, "packet": {}, "queue": {},
            "until_s": None,
        },
    ),
    "sweep": (
        sweep_somewhere,
        {
            "study": {**JOB, "sweep": {"axes": {"seeds": [1, 2]}}}, "out": "out", "workers": 1,
            "on": None, "resume": True, "budget": 1e-9, "progress": None,
        },
    ),
    "synthetic": (
        lightloom.synthetic,
        {
            "regime": "calm", "ranks": 4, "experts": 4, "tokens_per_rank": 64, "top_k": 2,
            "seed": 1, "rho": 0.9,
        },
    ),
    "tokens of synthetic": (
        SOURCE.tokens,
        {"group": 0, "layers": [0], "micro_batches": 1, "step": 0},
    ),
}  # fmt: skip
#: entries that other entries return, raise or take
NOT_CALLED = {
    "Allocation", "Comparison", "DemandPredictor", "Figure", "InputError", "LightloomError",
    "PacketRun", "PermutationSchedule", "Prediction", "Progress", "ScheduleComparison",
}  # fmt: skip
WRONG = {
    "nothing": None,
    "a number": 3,
    "a negative number": -1,
    "not a number": math.nan,
    "a huge number": 10**400,
    "text": "wrong",
    "an empty text": "",
    "bytes": b"x",
    "a truth value": True,
    "an empty list": [],
    "a list": [1, 2],
    "a mapping": {"a": 1},
    "an object": object(),
    "an array": np.zeros((2, 2)),
    "an array of text": np.array(["a"]),
    "a path": Path("/nonexistent"),
    "a device": Path("/dev/zero"),
    "a null character": "x\0y",
}


def test_every_entry_is_called():
    called = {name.partition(".")[0] for name in CALLS if " " not in name}
    assert called | NOT_CALLED == set(lightloom.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_every_parameter_is_tried(name):
    call, valid = CALLS[name]
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind not in kinds and name != "Scenario" and "model_" not in name:
            assert parameter.name in valid


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_one_line(name):
    call, valid = CALLS[name]
    messages = []
    for argument in valid:
        for value in WRONG.values():
            try:
                call(**{**valid, argument: value})
            except LightloomError as error:
                messages.append(str(error))
    assert messages
    assert all(message and "\n" not in message for message in messages)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lightloom.load_study(3), "study = 3: expected the path of a TOML file"),
        (
            lambda: lightloom.predict(3),
            "predict: loads = 3: expected loads, or the path of a file of them",
        ),
        (
            lambda: Scenario.model_validate({**JOB, "gpus": "x"}),
            "Scenario: gpus = x: expected a whole number",
        ),
        (
            lambda: Scenario.model_validate({"gpu": 3}),
            "Scenario: unknown key 'gpu'; did you mean gpu of [cluster]?",
        ),
        (lambda: Scenario.model_validate(3), "Scenario: expected a table of keys and values"),
        (lambda: Scenario.model_validate_json("{"), "Scenario: invalid JSON: "),
        (
            lambda: lightloom.compare("mixtral-8x7b", gpus=32, rate=400, progress=3),
            "progress = 3: expected a function",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(LightloomError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_json_is_the_same_scenario():
    scenario = Scenario.model_validate(JOB)
    assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario
