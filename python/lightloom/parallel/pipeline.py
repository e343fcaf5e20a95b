"""The order in which a pipeline stage works through forward and backward passes.

1F1B (Narayanan et al., arXiv 2104.04473, section 2.2) and its interleaved form with several model
chunks per stage, in Megatron-Core's order (``pipeline_parallel/schedules.py``): warm-up forwards,
then one forward and one backward in turn, then the remaining backwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.parallel.plan import Plan


@dataclass(frozen=True)
class Step:
    """One pass of one micro-batch through one chunk of a stage."""

    forward: bool
    chunk: int
    micro_batch: int


def schedule(plan: Plan, stage: int) -> list[Step]:
    """Passes of a stage in the order in which it runs them.

    The interleaved warm-up is ``2 (pp - stage - 1) + (vpp - 1) pp`` passes, the plain one
    ``pp - stage - 1``, at most all of them.
    """
    total = plan.micro_batches * plan.vpp
    if plan.vpp == 1:
        warm_up = plan.pp - stage - 1
    else:
        warm_up = 2 * (plan.pp - stage - 1) + (plan.vpp - 1) * plan.pp
    warm_up = min(warm_up, total)
    steps = [_pass(plan, index, forward=True) for index in range(warm_up)]
    for index in range(warm_up, total):
        steps.append(_pass(plan, index, forward=True))
        steps.append(_pass(plan, index - warm_up, forward=False))
    steps += [_pass(plan, index, forward=False) for index in range(total - warm_up, total)]
    return steps


def _pass(plan: Plan, index: int, *, forward: bool) -> Step:
    """Chunk and micro-batch of the ``index``-th forward or backward pass of a stage.

    ``pp`` micro-batches go through chunk 0, then the same through chunk 1, and so on; backward
    passes take the chunks in reverse.
    """
    if plan.vpp == 1:
        return Step(forward, 0, index)
    turn, within = divmod(index, plan.pp * plan.vpp)
    chunk = within // plan.pp
    micro_batch = turn * plan.pp + within % plan.pp
    return Step(forward, chunk if forward else plan.vpp - 1 - chunk, micro_batch)


def peak_in_flight(plan: Plan, stage: int, weight: tuple[float, ...]) -> float:
    """Largest sum of ``weight[chunk]`` over passes whose backward has not run yet.

    Parameters
    ----------
    plan, stage
        Whose schedule.
    weight
        What one micro-batch in flight holds in each chunk, in any unit.
    """
    if plan.vpp == 1:
        return min(plan.pp - stage, plan.micro_batches) * weight[0]
    held = peak = 0.0
    for step in schedule(plan, stage):
        held += weight[step.chunk] if step.forward else -weight[step.chunk]
        peak = max(peak, held)
    return peak
