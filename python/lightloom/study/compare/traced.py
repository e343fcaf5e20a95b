"""A comparison for a program that was traced: its step as recorded, instead of a model's.

What a plan, a precision or a recomputation say of a model, a traced program has decided itself;
such options are refused. All-to-alls carry the rows that were recorded, unless a demand is given
for them. How many tokens a step trains, and how many FLOPs a model needs for them, a trace does not
say: throughput is in steps unless ``step_tokens`` is given, and there is no utilization.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from lightloom.demand import DemandSource, Shape, open_demand
from lightloom.demand.open import kind_of
from lightloom.errors import InputError
from lightloom.hardware import load_gpu
from lightloom.progress import Progress
from lightloom.study.compare.given_options import refuse_options
from lightloom.study.compare.job import StepJob, StepWorkload, equipment_of
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.results import Sample
from lightloom.study.compare.scenario import (
    Scenario,
    packet_options,
)
from lightloom.trace.importers.open import read_any
from lightloom.trace.step.build import StepBuilder, TracedStep, TraceWorkload
from lightloom.units import show_things
from lightloom.workload.compute import ComputeModel

#: options of the demand that a trace has a use for
_DEMAND = ("source", "resample", "scale", "capacity_factor")
#: of computation
_COMPUTE = ("cuda_graphs",)


@dataclass(frozen=True, kw_only=True)
class TraceJob(StepJob):
    """The training by a program that was traced.

    Attributes
    ----------
    step
        What was recorded of one step.
    form, remarks
        Who recorded it, in words, and what was assumed.
    """

    step: TracedStep = field(repr=False)
    form: str
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program's, or that of the file where another tool wrote it."""
        program = [part for part in self.step.trace.program if part.endswith(".py")]
        if program or self.scenario.workload is None:
            return program[0].rpartition("/")[2] if program else self.form
        return self.scenario.workload.name

    @property
    def has_routing(self) -> bool:
        """Whether rows of tokens stem from routers."""
        return self.step.has_routing

    @property
    def is_recorded(self) -> bool:
        """Whether all-to-alls carry what was recorded."""
        return is_recorded(self.scenario)

    @property
    def is_drawn(self) -> bool:
        """Whether the demand is that of a generator."""
        return not self.is_recorded and kind_of(self.scenario.demand.name) == "regime"

    @property
    def draws(self) -> bool:
        """Whether the demand depends on the seed."""
        if self.is_recorded:
            return False
        return self.scenario.demand.resample or self.is_drawn

    @property
    def changes(self) -> bool:
        """Whether the demand differs from step to step."""
        return not self.is_recorded and kind_of(self.scenario.demand.name) != "matrix"

    def workload(self, sample: Sample, gpus_per_server: int) -> TraceWorkload:
        """The task graph of the step on servers of a given size."""
        builder = _builder(self.step, gpus_per_server)
        source = None if self.is_recorded else self._source(builder, sample.seed)
        return builder.build(self.compute.kernels, sample.compute_scale, source, sample.step)

    def scaled(self, workload: StepWorkload, sample: Sample) -> StepWorkload:
        """The step at the compute speed of ``sample``, on servers as those of a workload."""
        assert isinstance(workload, TraceWorkload)
        return self.workload(sample, workload.placement.gpus_per_server)

    def opening(self) -> list[str]:
        """The program."""
        trace, step = self.step.trace, self.step
        recorder = "" if self.name == self.form else f" ({self.form})"
        return [
            f"{self.name}{recorder}: {trace.world_size} ranks in {len(step.job.roles)} roles, "
            f"{len(trace.ranks)} recorded; step {step.job.step}"
        ]

    def details(self, workload: StepWorkload | None) -> list[str]:
        """Roles, computes and demand."""
        lines = [f"about the trace: {remark}" for remark in self.remarks]
        computes = self.step.computes
        lines.append(
            f"computes of the recorded ranks: {computes['traced']:,} by the roofline of their "
            f"operators, {computes['measured']:,} as measured"
            if computes
            else "computes: none recorded, so that a step is communication alone"
        )
        if workload is not None:
            assert isinstance(workload, TraceWorkload)
            placed = workload.placement
            lines.append(
                f"simulated as {len(placed.worker_server)} workers of {placed.gpus_per_worker} "
                f"GPUs, {len(placed.roles)} programs"
            )
        return lines

    def demand_line(self) -> str:
        """Where the demand comes from."""
        if not self.is_recorded:
            return super().demand_line()
        rows = "as recorded; of other ranks as the recorded ones say"
        routing = rows if self.has_routing else "none"
        return f"demand: {routing}; {show_things(len(self.samples()), 'sample')} per fabric"

    def inputs(self) -> dict[str, Any]:
        """The program and its trace."""
        trace = self.step.trace
        return {
            "model": {"name": self.name},
            "trace": {
                "form": self.form,
                "program": list(trace.program),
                "calls_hash": trace.calls_hash,
                "step": self.step.job.step,
                "recorded_ranks": sorted(trace.ranks),
                "remarks": list(self.remarks),
            },
            "tokens_per_step": self.scenario.step_tokens,
        }

    def _source(self, builder: StepBuilder, seed: int) -> DemandSource:
        ranks, choice = builder.choice()
        options = self.scenario.demand
        return open_demand(
            options.name,
            Shape(ranks, choice.experts, choice.tokens, choice.each),
            seed=seed,
            resample=options.resample,
            scale=options.scale,
            capacity_factor=options.capacity_factor,
        )


def is_recorded(scenario: Scenario) -> bool:
    """Whether a scenario of a trace asks for no other demand than the recorded one."""
    return scenario.demand.source is None


@functools.lru_cache(maxsize=4)
def _builder(step: TracedStep, gpus_per_server: int) -> StepBuilder:
    return StepBuilder(step, gpus_per_server)


def traced_job(scenario: Scenario, progress: Progress | None = None) -> TraceJob:
    """Read a trace and look everything else up, before anything is simulated.

    Raises
    ------
    InputError
        One line about the first thing that is wrong.
    """
    assert scenario.workload is not None
    refuse_options(
        scenario,
        "a traced program has decided it itself",
        used={"demand": _DEMAND, "compute": _COMPUTE},
    )
    packet_options(scenario)
    gpu = load_gpu(scenario.cluster.gpu)
    imported = read_any(scenario.workload, progress)
    size = imported.trace.world_size
    if scenario.gpus not in (0, size):
        raise InputError(
            f"gpus = {scenario.gpus}: the trace is of a job of {size}; leave --gpus out"
        )
    scenario = with_servers(scenario.model_copy(update={"gpus": size}))
    step = TracedStep.of(imported.trace)
    if not step.has_routing and not is_recorded(scenario):
        raise InputError(
            "the trace has no all-to-alls of tokens that a router chose: nothing would read "
            "--demand; leave it out"
        )
    in_fp8 = "fp8" in gpu.formats and step.uses("float8")
    return TraceJob(
        scenario=scenario,
        compute=ComputeModel.load(
            scenario.cluster.gpu,
            scenario.cluster.profile,
            precision="fp8" if in_fp8 else "bf16",
            cuda_graphs=scenario.compute.cuda_graphs,
        ),
        step=step,
        form=imported.form,
        remarks=imported.remarks,
        **equipment_of(scenario, gpu),
    )
