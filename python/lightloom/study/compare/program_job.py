"""A comparison for a program that is no language model: a known one, or a table of phases.

Its step is the same every time: nothing is drawn, and options of plans, demand and memory are
refused. Compute times of networks follow from the GPU, those of a table are its own, and parallel
benchmarks are communication alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lightloom.errors import InputError
from lightloom.hardware import load_gpu
from lightloom.progress import Progress
from lightloom.study.compare.given_options import refuse_options
from lightloom.study.compare.job import StepJob, StepWorkload, equipment_of
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.results import Sample
from lightloom.study.compare.scenario import Scenario, packet_options
from lightloom.study.compare.traced import traced_job
from lightloom.workload.compute import ComputeModel
from lightloom.workload.programs.cnn import Cnn
from lightloom.workload.programs.known import program_named
from lightloom.workload.programs.phase_table import is_phase_table, read_phases
from lightloom.workload.programs.program import ProgramStep, WorkloadProgram


@dataclass(frozen=True, kw_only=True)
class ProgramJob(StepJob):
    """The run of a program on all GPUs."""

    program: WorkloadProgram = field(repr=False)

    @property
    def name(self) -> str:
        """The program's."""
        return self.program.name

    @property
    def has_routing(self) -> bool:
        """Nothing is routed."""
        return False

    @property
    def is_drawn(self) -> bool:
        """Nothing is drawn."""
        return False

    @property
    def draws(self) -> bool:
        """Every seed has the same step."""
        return False

    @property
    def changes(self) -> bool:
        """Every step is the same."""
        return False

    def workload(self, sample: Sample, gpus_per_server: int) -> ProgramStep:
        """The task graph of the step on servers of a given size."""
        gpus = self.scenario.gpus
        return self.program.step(
            gpus, min(gpus, gpus_per_server), self.compute.kernels, sample.compute_scale
        )

    def scaled(self, workload: StepWorkload, sample: Sample) -> ProgramStep:
        """The step at the compute speed of ``sample``, on servers as those of a workload."""
        assert isinstance(workload, ProgramStep)
        return self.workload(sample, workload.gpus_per_server)

    def samples(self) -> list[Sample]:
        """One; with the two ends of the compute speed after it where anything is computed."""
        samples = super().samples()
        return samples if self.program.computes else samples[:1]

    def opening(self) -> list[str]:
        """The program."""
        return self.program.opening(self.scenario.gpus)

    def details(self, workload: StepWorkload | None) -> list[str]:  # noqa: ARG002
        """Nothing more."""
        return []

    def demand_line(self) -> str:
        """What was sampled."""
        count = len(self.samples())
        return f"demand: that of the program; {count} sample{'s' * (count > 1)} per fabric"

    def inputs(self) -> dict[str, Any]:
        """The program."""
        return {
            "model": {"name": self.name},
            "program": {"opening": self.opening()},
            "tokens_per_step": self.scenario.step_tokens,
        }


def program_of(scenario: Scenario) -> WorkloadProgram | None:
    """The program that a scenario names, or whose phases it gives; ``None`` for another job.

    Raises
    ------
    InputError
        If a table of phases cannot be read, or no program has a name that begins as one.
    """
    if scenario.workload is not None:
        return read_phases(scenario.workload) if is_phase_table(scenario.workload) else None
    if scenario.model is None or scenario.model_shape is not None:
        return None
    return program_named(
        scenario.model,
        images_per_gpu=scenario.program.images_per_gpu,
        synchronization=scenario.program.synchronization,
        gradient_bytes=scenario.gradient_bytes or 4.0,
    )


def program_job(scenario: Scenario, program: WorkloadProgram) -> ProgramJob:
    """Look everything up, before anything is simulated.

    Raises
    ------
    InputError
        One line about the first thing that is wrong.
    """
    is_network = isinstance(program, Cnn)
    refuse_options(
        scenario,
        f"{program.name} has no use for it",
        used={
            "compute": ("cuda_graphs",) if is_network else (),
            "program": ("images_per_gpu", "synchronization") if is_network else (),
            "": ("gradient_bytes",) if is_network else (),
        },
    )
    packet_options(scenario)
    gpu = load_gpu(scenario.cluster.gpu)
    gpus = scenario.gpus or program.gpus or 0
    program.check(gpus)
    scenario = with_servers(scenario.model_copy(update={"gpus": gpus}))
    size = scenario.cluster.used_gpus_per_server
    if gpus > size and gpus % size:
        raise InputError(
            f"gpus = {gpus}: {program.name} fills servers of {size} GPUs; use a multiple of {size},"
            " or other --gpus-per-server"
        )
    return ProgramJob(
        scenario=scenario,
        compute=ComputeModel.load(
            scenario.cluster.gpu,
            scenario.cluster.profile,
            cuda_graphs=scenario.compute.cuda_graphs,
        ),
        program=program,
        **equipment_of(scenario, gpu),
    )


def given_job(scenario: Scenario, progress: Progress | None = None) -> StepJob | None:
    """The job of a program or a trace; ``None`` for a model, which needs a plan.

    Raises
    ------
    InputError
        One line about the first thing that is wrong.
    """
    program = program_of(scenario)
    if program is not None:
        return program_job(scenario, program)
    return None if scenario.workload is None else traced_job(scenario, progress)
