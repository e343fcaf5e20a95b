"""The decisions of simulated runs, taken again in Python from what they started from."""

import dataclasses
from collections import Counter

import numpy as np
from tests.simulate_graphs import EXPERTS, Steps, graph, mixnet

from lightloom.schedule import Failures, Held
from lightloom.simulate import record_decisions
from lightloom.simulate.plugins import Plugins
from lightloom.workload import Block

#: decisions that all runs together take at least
MIN_DECISIONS = 10_000
RUNS = 400
ALLOCATORS = ("paper", "reference", "static", "greedy", "parametric", "best")


def program(rng, layers, micro_batches):
    """Forward and backward passes, a block of its own for each layer and micro-batch."""
    steps = Steps()

    def all_to_all(layer, batch, first, transposed):
        steps.compute(rng.choice([0.0, 1e-4, 1e-3, 1e-2]))
        demand = Block(0, batch * layers + layer, 64, transposed, first)
        steps.add("all_to_all", EXPERTS, demand, "ep", layer=layer, micro_batch=batch)

    for batch in range(micro_batches):
        for layer in range(layers):
            all_to_all(layer, batch, True, False)
            all_to_all(layer, batch, False, True)
        for layer in reversed(range(layers)):
            all_to_all(layer, batch, False, False)
            all_to_all(layer, batch, False, True)
    return steps


def job(rng):
    """One or two EP groups, sometimes on the same servers, with skewed routing."""
    layers, micro_batches = int(rng.integers(1, 4)), int(rng.integers(2, 6))
    members, replicas = int(rng.integers(3, 8)), int(rng.integers(1, 3))
    blocks = layers * micro_batches
    tokens = (1e6 * rng.random((blocks, members, members)) ** 6).astype(np.uint32)
    if rng.random() < 0.3:
        tokens[:] = tokens[0]  # demand that repeats
    made = graph(
        [program(rng, layers, micro_batches)],
        replicas=replicas,
        members=members,
        tokens=tokens,
        gpus_per_worker=4,
    )
    if replicas > 1 and rng.random() < 0.5:
        servers = np.concatenate([np.arange(members), np.arange(members)[::-1]])
        made = dataclasses.replace(made, worker_server=servers.astype(np.uint32))
    return made


def failures(rng, servers, degree):
    if rng.random() < 0.4:
        return None

    def some(count):
        return [int(index) for index in rng.integers(0, count, size=rng.integers(0, 3))]

    return Failures(
        nics=[(server, int(rng.integers(0, degree))) for server in some(servers)],
        eps_nics=[(server, 0) for server in some(servers)],
        servers=some(servers)[:1] if rng.random() < 0.3 else [],
        planes=some(degree)[:1] if rng.random() < 0.3 else [],
    )


def world(rng):
    """A job and circuits of any policy, timing and health."""
    made = job(rng)
    servers, degree = int(made.worker_server.max()) + 1, int(rng.integers(2, 7))
    relaying = bool(rng.random() < 0.25)
    region = np.zeros(servers, np.uint32)
    if rng.random() < 0.2:
        region[-1] = rng.choice([1, 2**32 - 1])
    planes = None if rng.random() < 0.7 else str(rng.choice(["duplex", "crossed"]))
    return made, mixnet(
        servers,
        ports=degree,
        region_of_server=region,
        allocator=str(rng.choice(ALLOCATORS)),
        split=relaying or bool(rng.random() < 0.7),
        when=str(rng.choice(["always", "per-layer", "break-even", "oracle"])),
        first=str(rng.choice(["reuse", "block", "predict"])),
        fixed_s=float(rng.choice([0, 1e-5, 1e-3, 25e-3])),
        per_pair_s=float(rng.choice([0, 1e-6])),
        control_s=float(rng.choice([0, 1e-5])),
        keep_unchanged=bool(rng.random() < 0.8),
        relaying=(65_536, 10_000_000) if relaying else None,
        planes=planes,
        failures=failures(rng, servers, degree),
    )


def ring(requests):
    """A custom allocator: every server with its neighbors, as far as ports and pairs admit."""
    proposals = []
    for request in requests:
        n = len(request.demand)
        circuits, free = np.zeros((n, n), int), np.array(request.region.ports)
        allowed = request.region.allowed
        for a in range(n - 1):
            if free[a] and free[a + 1] and (allowed is None or allowed[a, a + 1]):
                circuits[a, a + 1] = circuits[a + 1, a] = 1
                free[[a, a + 1]] -= 1
        proposals.append(circuits)
    return proposals


def replay(run, allocator, seen):
    """Take every decision of a run again."""
    log = run.decisions
    assert len(log.records) == run.circuits.decisions
    deciders = [log.decider(index, allocator) for index in range(log.regions)]
    for record in log.records:
        held = Held.from_json(record.held.to_json())
        assert held == record.held
        found = deciders[record.region].decide(held, record.upcoming)
        assert found == record.decision
        assert found.to_json() == record.decision.to_json()
        seen[found.reason] += 1
        seen["moved"] += len(found.moved)
        seen["failed"] += log.ocs.failures is not None
        seen["planes"] += log.ocs.planes is not None
        seen["custom"] += allocator is not None
        seen[log.ocs.when, log.ocs.first] += 1


def test_python_decides_as_the_runs_did():
    rng, seen = np.random.default_rng(2024), Counter()
    for _ in range(RUNS):
        made, network = world(rng)
        allocator = ring if rng.random() < 0.1 else None
        run = record_decisions(made, network, plugins=Plugins(allocator=allocator))
        replay(run, allocator, seen)
    reasons = ["same-proposed", "follows", "cannot-pay", "no-proposal", "pays", "does-not-pay"]
    assert sum(seen[reason] for reason in [*reasons, "relaying-suffices"]) >= MIN_DECISIONS
    for name in [*reasons, "relaying-suffices", "moved", "failed", "planes", "custom"]:
        assert seen[name], name
    for when in ("always", "per-layer", "break-even", "oracle"):
        for first in ("reuse", "block", "predict"):
            assert seen[when, first], (when, first)
