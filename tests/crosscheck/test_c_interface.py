"""The C interface decides as `Decider` does, byte for byte."""

import ctypes
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tests.property.test_decisions_replayed import world

from lightloom.schedule import (
    Decider,
    Failures,
    Policy,
    Region,
    RelayCost,
    SwitchTiming,
    upcoming_all_to_alls,
)
from lightloom.simulate import record_decisions

ROOT = Path(__file__).parents[2]
NAME = {"darwin": "liblightloom.dylib", "win32": "lightloom.dll"}.get(
    sys.platform, "liblightloom.so"
)
STATE, DECISION, REASON = range(3)


@pytest.fixture(scope="module")
def library():
    """The shared library, built where cargo is."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is needed to build the C interface")
    build = ["cargo", "build", "--release", "-p", "lightloom-c", "--message-format", "json"]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    files = [name for message in messages for name in message.get("filenames", [])]
    loaded = ctypes.CDLL(next(name for name in files if name.endswith(NAME)))
    loaded.lightloom_last_error.restype = ctypes.c_char_p
    return loaded


class CDecider:
    """A decider behind the C interface."""

    def __init__(self, library, description):
        self._library, self._pointer = library, ctypes.c_void_p()
        text = json.dumps(description).encode()
        self._check(
            library.lightloom_create(text, ctypes.c_size_t(len(text)), ctypes.byref(self._pointer))
        )

    def close(self):
        self._library.lightloom_destroy(self._pointer)

    def decide(self, demands, hidden_ps):
        bytes_ = np.ascontiguousarray(demands, dtype=np.uint64)
        hidden = np.array(hidden_ps, dtype=np.uint64)
        decision = ctypes.create_string_buffer(1024)
        self._check(
            self._library.lightloom_decide(
                self._pointer,
                bytes_.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(bytes_.shape[1]),
                hidden.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(len(hidden)),
                decision,
            )
        )

    def accept(self):
        self._check(self._library.lightloom_accept(self._pointer))

    def text(self, kind):
        length = ctypes.c_size_t()
        pointer, kind = self._pointer, ctypes.c_uint32(kind)
        call = self._library.lightloom_text
        call(pointer, kind, None, ctypes.c_size_t(0), ctypes.byref(length))
        buffer = ctypes.create_string_buffer(length.value + 1)
        capacity = ctypes.c_size_t(length.value + 1)
        self._check(call(pointer, kind, buffer, capacity, ctypes.byref(length)))
        return buffer.value.decode()

    def restore(self, state):
        text = state.encode()
        self._check(
            self._library.lightloom_restore(self._pointer, text, ctypes.c_size_t(len(text)))
        )

    def _check(self, status):
        if status != 0:
            raise AssertionError(self._library.lightloom_last_error().decode())


def _case(seed):
    """A description for C, and the same decider in Python."""
    random = np.random.default_rng(seed)
    servers, ports = int(random.integers(2, 9)), int(random.integers(1, 6))
    planes = [None, "duplex", "crossed"][seed % 3]
    allocator = ["greedy", "paper", "static", "best"][seed % 4]
    when = ["break-even", "always", "per-layer", "oracle", "never"][seed % 5]
    failed = {"nics": [], "eps_nics": [], "servers": [], "planes": []}
    if seed % 4 == 1:
        failed["nics"] = [[int(random.integers(servers)), int(random.integers(ports))]]
        failed["eps_nics"] = [[int(random.integers(servers)), 0]]
    eps = [float(value) for value in random.choice([0.0, 100.0, 800.0, 333.3], servers)]
    fixed_s = float(random.choice([0.0, 1e-5, 123.4e-6]))
    relaying = {"nvswitch_gbps": 28800.0, "chunk_bytes": 10**6, "relay_delay_s": 1.5e-5}
    relays = seed % 6 == 2
    description = {
        "servers": servers,
        "region": {
            "ports": ports,
            "circuit_gbps": 400.0,
            "eps_gbps": eps,
            "split": seed % 2 == 0,
            "planes": planes,
            "eps_nics": 2,
            "failed": failed,
        },
        "policy": {"allocator": allocator, "when": when, "relaying": relaying if relays else None},
        "timing": {"fixed_s": fixed_s, "per_pair_s": 1e-6, "keep_unchanged": seed % 7 != 0},
    }
    region = Region(
        ports,
        400.0,
        eps,
        split=seed % 2 == 0,
        eps_nics=2,
        failed=Failures(**{name: [_index(one) for one in parts] for name, parts in failed.items()}),
    )
    policy = Policy(allocator, when, RelayCost(**relaying) if relays else None)
    timing = SwitchTiming(fixed_s, 1e-6, keep_unchanged=seed % 7 != 0)
    decider = Decider(servers, region, policy=policy, timing=timing, planes=planes)
    return servers, random, description, decider


def _description(log, index):
    """A region of a run as C takes it."""
    region, policy, timing = log._regions[index], log.policy, log.ocs.timing
    return {
        "servers": len(region["ports"]),
        "region": region,
        "policy": asdict(policy),
        "timing": asdict(timing),
    }


def test_both_decide_as_simulated_runs_did(library):
    rng, decisions = np.random.default_rng(31), Counter()
    while decisions.total() < 10_000:
        log = record_decisions(*world(rng)).decisions
        made = [CDecider(library, _description(log, index)) for index in range(log.regions)]
        deciders = [log.decider(index) for index in range(log.regions)]
        for record in log.records:
            if any(all_to_all.predicted for all_to_all in record.upcoming):
                continue  # C is told what is known
            decider = made[record.region]
            decider.restore(record.held.to_json())
            demands = [all_to_all.demand for all_to_all in record.upcoming]
            decider.decide(np.array(demands), [one.hidden_ps for one in record.upcoming])
            found = deciders[record.region].decide(record.held, record.upcoming)
            assert decider.text(DECISION) == found.to_json() == record.decision.to_json()
            decisions[log.policy.when] += 1
        for decider in made:
            decider.close()
    assert set(decisions) == {"always", "per-layer", "break-even", "oracle"}


def _index(part):
    return tuple(part) if isinstance(part, list) else part


def test_both_decide_alike(library):
    changed = 0
    for seed in range(240):
        servers, random, description, decider = _case(seed)
        made = CDecider(library, description)
        held = decider.start()
        for turn in range(3):
            count = 1 + (seed + turn) % 3
            demands = (1e8 * random.random((count, servers, servers)) ** 4).astype(np.uint64)
            hidden_s = [float(value) for value in random.choice([0.0, 2e-5, 1e-3], count)]
            made.decide(demands, [round(value * 1e12) for value in hidden_s])
            decision = decider.decide(held, upcoming_all_to_alls(demands, hidden_s))
            assert made.text(DECISION) == decision.to_json(), seed
            assert made.text(REASON) == str(decision)
            made.accept()
            held = decision.held
            assert made.text(STATE) == held.to_json()
            changed += decision.reconfigure
        made.close()
    assert changed > 100


def test_state_crosses_between_both(library):
    _, random, description, decider = _case(8)
    servers = description["servers"]
    demand = (1e8 * random.random((servers, servers)) ** 4).astype(np.uint64)
    held = decider.decide(decider.start(), demand).held
    made = CDecider(library, description)
    made.restore(held.to_json())
    made.decide(demand.T[np.newaxis], [0])
    assert made.text(DECISION) == decider.decide(held, demand.T).to_json()
    made.close()
