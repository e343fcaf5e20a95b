"""A user's circuit allocator as the core calls it, and errors of the core as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import FabricError, InputError
from lightloom.schedule import CircuitAllocator, Question, Region
from lightloom.schedule.arrays import square_matrix


class AllocatorCallback:
    """Hands the core's questions to a user's allocator, and its answers back."""

    def __init__(self, allocator: CircuitAllocator) -> None:
        self._allocator = allocator
        self.raised: BaseException | None = None

    def __call__(self, asked: list[_core.CircuitQuestion]) -> list[npt.NDArray[np.uint16]]:
        """Return the circuits of each request, flat."""
        questions = [_question(*question) for question in asked]
        try:
            answers = list(self._allocator(questions))
        except BaseException as error:
            self.raised = error
            raise
        return [
            square_matrix(circuits, "allocator: circuits", 65_535, InputError)
            .astype(np.uint16)
            .reshape(-1)
            for circuits in answers
        ]


@contextmanager
def core_errors(ask: AllocatorCallback | None = None) -> Iterator[None]:
    """What the core refuses, as errors of this package; what an allocator raised, as it is."""
    try:
        yield
    except Exception as error:
        if ask is not None and ask.raised is error:
            raise
        if isinstance(error, _core.NetworkInvalid):
            raise FabricError(str(error)) from None
        if isinstance(error, ValueError | OverflowError):
            raise InputError(str(error)) from None
        raise


def _question(
    demand: npt.NDArray[np.uint64],
    ports: npt.NDArray[np.uint32],
    allowed: npt.NDArray[np.bool_] | None,
    previous: npt.NDArray[np.uint16] | None,
    rates_bps: tuple[int, list[int]],
    split: bool,
) -> Question:
    n = len(ports)
    (eps_bps,) = set(rates_bps[1])
    region = Region(
        ports=ports,
        circuit_gbps=rates_bps[0] / 1e9,
        eps_gbps=eps_bps / 1e9,
        split=split,
        allowed=None if allowed is None else allowed.reshape(n, n),
    )
    held = None if previous is None else previous.reshape(n, n)
    return Question(demand.reshape(n, n), region, held)
