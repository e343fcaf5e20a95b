"""Which compute times of a job were measured on its GPUs, and which are derived, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.hardware.gpus import is_gpu_file, load_gpu
from lightloom.workload.compute_operators import (
    GENERIC,
    GENERIC_FP8,
    SUFFIXES,
    measures_operators,
)

if TYPE_CHECKING:
    from lightloom.study.compare.job import ModelJob

#: operators as a user knows them; those of experts, and of latent attention, where there are any
_WORDS = {
    "matmul": "matrix products",
    "matmul_accumulate": "weight gradients",
}
_EXPERTS = {
    "grouped_matmul": "expert products",
    "grouped_matmul_dgrad": "input gradients of experts",
    "grouped_matmul_wgrad": "weight gradients of experts",
}
_ATTENTION = {"attention_forward": "attention", "attention_backward": "backward attention"}
_LATENT = {
    "attention_latent_forward": "latent attention",
    "attention_latent_backward": "backward latent attention",
}


def compute_warning(job: ModelJob) -> str | None:
    """A warning where nothing was measured on GPUs of this type."""
    advice = "measure yours with 'lightloom calibrate gpu'"
    is_measured = measures_operators(job.scenario.cluster.profile)
    if is_gpu_file(job.gpu.name) and job.gpu.like and not is_measured:
        return (
            f"compute times of {job.gpu.title} are assumed: at the fractions of peak of "
            f"{load_gpu(job.gpu.like).title}, which its file says it is like; {advice}"
        )
    if len(derived(job)) < len(_operators(job)):
        return None
    if job.gpu.operators:
        return (
            f"compute times of {job.gpu.title} are assumed: products by published rates of large "
            f"ones, the rest by fractions of peak as on {GENERIC.upper()}; {advice}"
        )
    measured = GENERIC.upper()
    if job.compute.precision != "bf16":
        measured += f", in FP8 as on {GENERIC_FP8.upper()}"
    return (
        f"compute times of {job.gpu.title} are assumed: fractions of peak as on {measured}; "
        f"{advice}"
    )


def precision_warning(job: ModelJob) -> str | None:
    """A warning where the published run computed in a format that these GPUs lack."""
    published = job.model.plan and job.model.plan.precision
    if not published or published in job.gpu.formats or job.scenario.compute.precision:
        return None
    return (
        f"products are in {job.compute.precision.upper()}: the published run's were in "
        f"{published.upper()}, in which {job.gpu.title} does not compute"
    )


def compute_line(job: ModelJob) -> str | None:
    """Which operators were not measured where others were; ``None`` if all or none were."""
    names = derived(job)
    if not names or compute_warning(job):
        return None
    return f"compute times: measured, but derived from forward operators: {', '.join(names)}"


def derived(job: ModelJob) -> tuple[str, ...]:
    """Operators of the job, in words, whose efficiencies were not measured."""
    assumed = job.compute.efficiencies.assumed
    suffix = SUFFIXES[job.compute.precision]
    return tuple(
        words
        for name, words in _operators(job).items()
        if name + (suffix if "matmul" in name else "") in assumed
    )


def _operators(job: ModelJob) -> dict[str, str]:
    words = dict(_WORDS)
    if job.model.num_moe_layers:
        words |= _EXPERTS
    for attention in job.model.attentions:
        words |= _LATENT if attention.kind == "mla" else _ATTENTION
    return words
