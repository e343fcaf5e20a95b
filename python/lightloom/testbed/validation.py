"""Is what is simulated what runs? One job, on a testbed and in the simulator, policy by policy."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lightloom.control.emulator.timing import parse_settle_time
from lightloom.testbed.daemon import Facts
from lightloom.testbed.replay import ReplayedSteps, ReplayJob, RuntimeDelays, replay
from lightloom.testbed.replay_simulated import simulated
from lightloom.testbed.testbed import Testbed
from lightloom.testbed.training import TrainedStep

#: as ``MixNetCollectives`` names them, the slowest first where servers are in pairs
POLICIES = ("packets", "never", "break-even")
#: by how much a step and an all-to-all may differ from what is measured
STEP_MARGIN, ALL_TO_ALL_MARGIN = 0.10, 0.15


@dataclass(frozen=True)
class ValidatedPolicy:
    """What a policy took on the testbed, and in the simulator.

    Attributes
    ----------
    policy
        What circuits did.
    measured, simulated
        Medians over steps of the testbed, and what the simulator says.
    delays
        What the runtime takes, which the simulator was given.
    load
        Processes that wanted a processor of the machine meanwhile, in the mean of a minute.
    """

    policy: str
    measured: ReplayedSteps
    simulated: ReplayedSteps
    delays: RuntimeDelays
    load: float

    @property
    def step_error(self) -> float:
        """By which part of the measured step the simulated one differs."""
        return self.simulated.step_time_s / self.measured.step_time_s - 1

    @property
    def all_to_all_errors(self) -> list[float]:
        """The same of each all-to-all."""
        pairs = zip(self.measured.all_to_alls, self.simulated.all_to_alls, strict=True)
        return [other.moved_s / one.moved_s - 1 for one, other in pairs]

    @property
    def worst_error(self) -> float:
        """The largest difference of an all-to-all, with its sign."""
        return max(self.all_to_all_errors, key=abs)

    @property
    def is_met(self) -> bool:
        """Whether the step and each all-to-all are within their margins."""
        worst = abs(self.worst_error)
        return abs(self.step_error) <= STEP_MARGIN and worst <= ALL_TO_ALL_MARGIN


def validate(
    sizes: Facts,
    job: ReplayJob,
    *,
    python: str,
    policies: Sequence[str] = POLICIES,
    say: Callable[[str, TrainedStep], None] = lambda _policy, _step: None,
) -> Iterator[ValidatedPolicy]:
    """Run a job under policies, each on a testbed of its own, and simulate the same.

    Parameters
    ----------
    sizes
        As ``Testbed.up`` takes them.
    job
        What is sent and computed.
    python
        A Python with PyTorch.
    policies
        What circuits do.
    say
        Called with the policy and each step that has ended.

    Raises
    ------
    TestbedError
        If the kernel lacks something, or the job does not run.
    """
    settle = parse_settle_time(sizes["settle_time"])
    for policy in policies:
        with (
            tempfile.TemporaryDirectory(prefix="lightloom-") as folder,
            Testbed.up(Path(folder) / "testbed", **sizes) as testbed,
        ):
            measured, delays, _ = replay(
                testbed,
                job,
                policy=policy,
                python=python,
                settle_s=settle.expected_s(job.ranks),
                say=partial(say, policy),
            )
            step = simulated(job, testbed.layout, policy=policy, settle=settle, delays=delays)
            yield ValidatedPolicy(policy, measured, step, delays, os.getloadavg()[0])


def same_order(found: Sequence[ValidatedPolicy]) -> bool:
    """Whether policies come in the same order by measured and by simulated steps."""
    measured = sorted(found, key=lambda one: one.measured.step_time_s)
    return measured == sorted(found, key=lambda one: one.simulated.step_time_s)
