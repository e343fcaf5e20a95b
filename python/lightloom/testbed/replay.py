"""One job for the testbed and for the simulator: what it sends and for how long it computes.

The demand is drawn so that policies differ: in each layer servers are in pairs, which send each
other most, and in the next layer other pairs. Computation is a wait of a given length, so that it
is the same in both.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lightloom.errors import InputError
from lightloom.schedule import Decider, Region
from lightloom.testbed.daemon import Facts, run_bounded
from lightloom.testbed.refusals import TestbedError
from lightloom.testbed.testbed import Testbed
from lightloom.testbed.training import TrainedStep, run_program

_PROGRAM = "lightloom.torch.replay_step"
#: steps before those that count: connections open, and circuits are those of no step
WARM_UP = 2


@dataclass(frozen=True)
class ReplayJob:
    """A step of a mixture of experts, a rank per server.

    Attributes
    ----------
    counts
        Rows from each rank to each, of each layer's dispatch: ``layers`` x ranks x ranks.
    row_bytes
        Bytes of a row, of four each.
    attention_s, experts_s
        Seconds of each in a forward pass; twice that in the backward pass.
    sum_bytes
        Of the gradients that are added up at the end of a step.
    steps
        How many, the first of which do not count.
    """

    counts: tuple[tuple[tuple[int, ...], ...], ...]
    row_bytes: int
    attention_s: float
    experts_s: float
    sum_bytes: int
    steps: int

    @classmethod
    def drawn(
        cls,
        servers: int,
        *,
        rate_gbps: float,
        steps: int,
        layers: int = 2,
        seed: int = 1,
        packets_s: float = 1.0,
    ) -> ReplayJob:
        """Draw a job.

        Parameters
        ----------
        servers
            Even, so that each has a partner.
        rate_gbps
            Of a NIC.
        steps, layers, seed
            How many, and of the random numbers.
        packets_s
            Seconds that an all-to-all takes over one packet NIC, about.

        Raises
        ------
        InputError
            If servers cannot be paired.
        """
        if servers % 2:
            raise InputError(f"{servers} servers: expected an even number, for pairs of them")
        rng = np.random.default_rng(seed)
        row_bytes = 2048
        rows = max(servers, round(packets_s * rate_gbps * 1e9 / 8 / row_bytes))
        return cls(
            tuple(_paired(servers, layer, rows, rng) for layer in range(layers)),
            row_bytes,
            attention_s=0.05,
            experts_s=0.05,
            sum_bytes=4 * round(rows * row_bytes / 16),
            steps=steps + WARM_UP,
        )

    @property
    def ranks(self) -> int:
        """Ranks, one per server."""
        return len(self.counts[0])

    @property
    def layers(self) -> int:
        """Layers with experts."""
        return len(self.counts)


def _paired(
    servers: int, layer: int, rows: int, rng: np.random.Generator
) -> tuple[tuple[int, ...], ...]:
    """Rows from each server to each: 3/5 to its partner, and the rest to all at random."""
    # the circle method: all servers but the last go round
    ring = [(place + layer) % (servers - 1) for place in range(servers - 1)] + [servers - 1]
    partner = dict(zip(ring, reversed(ring), strict=True))
    steps = []
    for server in range(servers):
        shares = 0.4 * rng.dirichlet(np.full(servers, 8.0))
        shares[partner[server]] += 0.6
        steps.append(tuple(rng.multinomial(rows, shares / shares.sum()).tolist()))
    return tuple(steps)


@dataclass(frozen=True)
class ReplayedAllToAll:
    """An all-to-all: seconds from when all ranks had come until the last one had its rows."""

    name: str
    layer: int
    moved_s: float


@dataclass(frozen=True)
class ReplayedSteps:
    """What a job took.

    Attributes
    ----------
    step_time_s
        Of a step.
    all_to_alls
        Each of a step, in order.
    reconfigurations, exposed_s
        Changes of circuits in a step, and the seconds for which it waited for decisions and them.
    """

    step_time_s: float
    all_to_alls: tuple[ReplayedAllToAll, ...]
    reconfigurations: float
    exposed_s: float

    @property
    def moved_s(self) -> float:
        """Seconds of all all-to-alls together."""
        return sum(record.moved_s for record in self.all_to_alls)


@dataclass(frozen=True)
class RuntimeDelays:
    """Seconds that the runtime takes, whatever it sends: measured, and given to the simulator.

    Attributes
    ----------
    agree, move, sum
        To agree on an all-to-all, to move almost nothing, and to add up almost nothing.
    decide
        Until circuits that stay are known.
    control
        Of a change of circuits, beside the mirrors and ``decide``.
    """

    agree: float
    move: float
    decide: float
    sum: float
    control: float = 0.0


def replay(
    testbed: Testbed,
    job: ReplayJob,
    *,
    policy: str,
    python: str,
    settle_s: float,
    say: Callable[[TrainedStep], None] = lambda _step: None,
) -> tuple[ReplayedSteps, RuntimeDelays, list[TrainedStep]]:
    """Run a job in a testbed: medians over its steps, and what the runtime took.

    Parameters
    ----------
    testbed
        Where.
    job, policy, python
        What, with which circuits, in which Python.
    settle_s
        Seconds in which the mirrors of the testbed settle.
    say
        Called with each step.

    Raises
    ------
    TestbedError
        If the program does not run.
    """
    if testbed.layout.optical_nics:
        light_start(testbed)
    found: list[TrainedStep] = []
    idle: list[dict[str, float]] = []

    def read(facts: Facts) -> None:
        if "idle_s" in facts:
            idle.append(facts["idle_s"])
        else:
            found.append(TrainedStep.of(facts))
            say(found[-1])

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asdict(job), file)
        file.flush()
        run_program(testbed, [python, "-P", "-m", _PROGRAM, file.name], policy=policy, read=read)
    steps = found[WARM_UP:]
    waits = [
        record["waited_s"]
        for step in steps
        for record in step.all_to_alls
        if record["changed"] and record["name"] == "all_to_all"
    ]
    delays = RuntimeDelays(**idle[0])
    control = max(0.0, statistics.median(waits) - settle_s - delays.decide) if waits else 0.0
    return _medians(steps), RuntimeDelays(**{**idle[0], "control": control}), found


def light_start(testbed: Testbed) -> None:
    """Light the circuits that every simulation starts with, those that look at no demand.

    Raises
    ------
    TestbedError
        If the controller's command fails.
    """
    layout = testbed.layout
    region = Region(layout.optical_nics, layout.rate_gbps, layout.eps_gbps * layout.eps_nics)
    rows = Decider(layout.servers, region, timing=0.0).start().nics.tolist()
    text = "".join(f"{a}/{i}-{b}/{j}\n" for a, i, b, j in rows)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        words = ["control", "apply", str(testbed.region), "--circuits", file.name, "--yes"]
        done = run_bounded([sys.executable, "-P", "-m", "lightloom", *words])
    if done.returncode:
        raise TestbedError(f"no circuits to start with: {done.stderr.strip()}")


def _medians(steps: Sequence[TrainedStep]) -> ReplayedSteps:
    columns = zip(*(step.all_to_alls for step in steps), strict=True)
    return ReplayedSteps(
        statistics.median(step.step_time_s for step in steps),
        tuple(
            ReplayedAllToAll(
                column[0]["name"],
                column[0]["layer"],
                statistics.median(record["ended_s"] - record["began_s"] for record in column),
            )
            for column in columns
        ),
        statistics.median(sum(r["changed"] for r in step.all_to_alls) for step in steps),
        statistics.median(step.exposed_s for step in steps),
    )
