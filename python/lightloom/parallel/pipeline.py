"""The order in which a pipeline stage works through forward and backward passes.

- 1F1B (Narayanan et al., arXiv 2104.04473, section 2.2) and its interleaved form with several model
  chunks per stage, in Megatron-Core's order (``pipeline_parallel/schedules.py``): warm-up forwards,
  then one forward and one backward in turn, then the remaining backwards.
- ZB-H1 (Qi et al., arXiv 2401.10241, section 2.3): weight gradients are separate passes, late
  enough to fill the bubble and early enough to hold no more than the first stage of 1F1B.
- DualPipe (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.2.1): half of the
  micro-batches enter at each end, and every place of the pipeline holds the stages of both.

A *turn* is one pass, or a forward and a backward pass of two micro-batches that the framework may
play alternately, layer by layer, so that each hides the other's all-to-alls.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lightloom.parallel.plan import Plan

#: what a backward pass computes: all gradients, those of its inputs, or those of its weights
Part = Literal["whole", "input", "weight"]


@dataclass(frozen=True)
class Step:
    """One pass of one micro-batch through one chunk of a stage.

    With DualPipe the chunk is the direction: 0 through the place's own stage, 1 through that of the
    opposite place; see :meth:`~lightloom.parallel.plan.Plan.held_stages`.
    """

    forward: bool
    chunk: int
    micro_batch: int
    part: Part = "whole"


#: one pass, or a forward and a backward pass that may alternate
Turn = tuple[Step, ...]


def schedule(plan: Plan, stage: int) -> list[Step]:
    """Passes of a stage in the order in which it begins them."""
    return [step for turn in turns(plan, stage) for step in turn]


def turns(plan: Plan, stage: int) -> list[Turn]:
    """What a stage plays, in order; see the module's text."""
    if plan.schedule == "dualpipe":
        return list(_DualPipe(plan, stage).turns())
    if plan.schedule == "zero-bubble":
        return [(step,) for step in _zero_bubble(plan, stage)]
    return _one_forward_one_backward(plan, stage)


def _one_forward_one_backward(plan: Plan, stage: int) -> list[Turn]:
    """1F1B, plain or interleaved: the warm-up, at most all passes, then one of each in turn."""
    alternates = plan.overlap_all_to_all == "batch"
    total = plan.micro_batches * plan.vpp
    warm_up = min(_warm_up(plan, stage), total)
    turns: list[Turn] = [(_pass(plan, index, forward=True),) for index in range(warm_up)]
    for index in range(warm_up, total):
        both = (
            _pass(plan, index, forward=True),
            _pass(plan, index - warm_up, forward=False),
        )
        turns += [both] if alternates else [(step,) for step in both]
    turns += [(_pass(plan, index, forward=False),) for index in range(total - warm_up, total)]
    return turns


def _warm_up(plan: Plan, stage: int) -> int:
    """Forward passes before the first backward pass, if there are so many.

    They are ``pp - stage - 1``, or interleaved ``2 (pp - stage - 1) + (vpp - 1) pp``. Passes that
    alternate end at the same time, so that a gradient moves up one stage per turn. As much earlier
    must the forward passes run: the warm-up is as long as the interleaved one, and one pass more,
    so that the last stage, too, has two micro-batches (Megatron-Core does the same with
    ``overlap_moe_expert_parallel_comm``).
    """
    alternates = plan.overlap_all_to_all == "batch"
    if plan.vpp == 1 and not alternates:
        return plan.pp - stage - 1
    return 2 * (plan.pp - stage - 1) + (plan.vpp - 1) * plan.pp + alternates


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


def _zero_bubble(plan: Plan, stage: int) -> Iterator[Step]:
    """ZB-H1: stage ``s`` puts off weight gradients by ``s`` micro-batches."""
    count = plan.micro_batches
    warm_up = min(plan.pp - stage - 1, count)
    for index in range(warm_up):
        yield Step(True, 0, index)
    for index in range(count):
        if index + warm_up < count:
            yield Step(True, 0, index + warm_up)
        yield Step(False, 0, index, "input")
        if index >= stage:
            yield Step(False, 0, index - stage, "weight")
    for index in range(max(0, count - stage), count):
        yield Step(False, 0, index, "weight")


class _DualPipe:
    """The eight parts of DualPipe's order, as in DeepSeek's published ``dualpipe.py``.

    ``near`` is the direction that the place is closer to the entry of.
    """

    def __init__(self, plan: Plan, stage: int) -> None:
        self.half = plan.micro_batches // 2
        self.near = int(stage >= plan.pp // 2)
        #: places between the closer end and this one, and between this one and the middle
        self.before = min(stage, plan.pp - 1 - stage)
        self.after = plan.pp // 2 - self.before - 1
        self.main = self.half - plan.pp + self.before + 1
        self.begun = {(True, 0): 0, (True, 1): 0, (False, 0): 0, (False, 1): 0}
        self.kept: list[Step] = []

    def turns(self) -> Iterator[Turn]:
        near, far, before, after = self.near, 1 - self.near, self.before, self.after
        for _ in range(2 * after):
            yield (self._forward(near),)
        for _ in range(before + 1):
            yield (self._forward(near),)
            yield (self._forward(far),)
        for _ in range(after):
            yield (self._input(far),)
            yield self._weight()
            yield (self._forward(far),)
        for number in range(self.main):
            if number == 0 and after == 0:
                # apart, which leaves less of a bubble in the middle
                yield (self._forward(near),)
                yield (self._backward(far),)
            else:
                yield (self._forward(near), self._backward(far))
            yield (self._forward(far), self._backward(near))
        for _ in range(after):
            yield (self._backward(far),)
            yield (self._forward(far), self._backward(near))
        for number in range(2 * (before + 1)):
            direction = (far, near)[number % 2]
            late = number > before
            yield (self._input(direction) if late else self._backward(direction),)
        for _ in range(after):
            yield self._weight()
            yield (self._input(near),)
        while self.kept:
            yield self._weight()

    def _step(self, forward: bool, direction: int, part: Part = "whole") -> Step:
        number = self.begun[forward, direction]
        self.begun[forward, direction] += 1
        return Step(forward, direction, direction * self.half + number, part)

    def _forward(self, direction: int) -> Step:
        return self._step(True, direction)

    def _backward(self, direction: int) -> Step:
        return self._step(False, direction)

    def _input(self, direction: int) -> Step:
        step = self._step(False, direction, "input")
        self.kept.append(Step(False, direction, step.micro_batch, "weight"))
        return step

    def _weight(self) -> Turn:
        return (self.kept.pop(0),)


def peak_in_flight(plan: Plan, stage: int, weight: tuple[float, ...]) -> float:
    """Largest sum of ``weight[chunk]`` over passes whose weight gradients have not been computed.

    Where the passes of a turn alternate, layer by layer, one keeps what the other frees. All are
    closed forms of the orders that :func:`turns` plays; tests hold them against these.

    Parameters
    ----------
    plan, stage
        Whose schedule.
    weight
        What one micro-batch in flight holds in each chunk, in any unit; with DualPipe, in each of
        the held stages.
    """
    if plan.schedule == "dualpipe":
        return _dualpipe_peak(plan, stage, weight)
    if plan.schedule == "zero-bubble":
        # weights wait for as many micro-batches as the warm-up is shorter than the first stage's
        return min(plan.pp, plan.micro_batches) * weight[0]
    # backward passes are so many behind when a forward pass ends
    behind = _warm_up(plan, stage) + (plan.overlap_all_to_all != "batch")
    if plan.vpp == 1:
        return min(behind, plan.micro_batches) * weight[0]
    return _interleaved_peak(plan, behind, weight)


def _interleaved_peak(plan: Plan, behind: int, weight: tuple[float, ...]) -> float:
    """The largest difference of the sums of forward passes and of those ``behind`` them.

    Both sums repeat after ``pp * vpp`` passes, and are straight while neither changes its chunk:
    within one round, the largest difference is where one does.
    """
    pp, vpp = plan.pp, plan.vpp
    total, around = plan.micro_batches * vpp, pp * vpp
    forward, backward = _sums(weight), _sums(weight[::-1])

    def held(passes: int, sums: list[float]) -> float:
        rounds, rest = divmod(passes, around)
        chunk, within = divmod(rest, pp)
        more = within * (sums[chunk + 1] - sums[chunk])
        return pp * (rounds * sums[vpp] + sums[chunk]) + more

    if behind >= total:
        return held(total, forward)
    last = min(total, behind + around)
    changes = {behind, last, *range(behind, last, pp)}
    changes.update(range(-(-behind // pp) * pp, last, pp))
    return max(held(count, forward) - held(count - behind, backward) for count in changes)


def _sums(weight: tuple[float, ...]) -> list[float]:
    return [0.0, *itertools.accumulate(weight)]


def _dualpipe_peak(plan: Plan, stage: int, weight: tuple[float, ...]) -> float:
    """What the warm-up begins, and where a pass of the closer end begins before one ends."""
    place = _DualPipe(plan, stage)
    near, far = weight[place.near], weight[1 - place.near]
    full = 2 * place.after * near + (place.before + 1) * (near + far)
    if plan.overlap_all_to_all != "batch" or place.after == 0:
        return full + near
    return full + max(0.0, near - far)
