"""What the core is given for a run: each class has the fields of the Rust struct that reads it.

The structs are in ``crates/python/src/execute.rs``.
"""

from __future__ import annotations

from typing import NamedTuple

from lightloom.progress import Progress
from lightloom.schedule import AllocatorCallback
from lightloom.simulate.predictor import PredictorCallback


class StepOptions(NamedTuple):
    """What is recorded of a step, and whether equal work is done once."""

    timeline_workers: list[int]
    share_equal_work: bool
    record_decisions: bool


class StepCallbacks(NamedTuple):
    """Functions that a run calls, if any; a predictor may be the name of a built-in one."""

    progress: Progress | None
    allocator: AllocatorCallback | None
    predictor: PredictorCallback | str | None
