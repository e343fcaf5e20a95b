"""What a job does about failures, as users say it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.inputs.strict import Name, Strict, Whole, quantity

#: kinds of parts whose failure a job may survive
SURVIVED = ("nic", "link", "tor", "ocs")
_Time = Annotated[float, quantity("second"), Field(ge=0, le=1e9)]


class RecoveryOptions(Strict):
    """How long a job runs, and what it does about failures."""

    days: Annotated[float, Field(gt=0, le=3660)] = Field(
        30.0, description="Days that the job trains."
    )
    runs: Annotated[Whole, Field(le=100_000)] = Field(
        100, description="Number of runs in which failures are drawn."
    )
    spares: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = Field(
        None, description="Spare servers; by default as many as make useful steps cost the least."
    )
    interval_s: Annotated[float, quantity("second"), Field(gt=0, le=1e9)] | None = Field(
        None, description="Training time between checkpoints; by default that which loses least."
    )
    checkpoint_s: _Time | None = Field(
        None, description="Time for which a checkpoint stops the training; by default its bytes"
        " over the rate of the storage.",
    )  # fmt: skip
    detection_s: _Time | None = Field(
        None, description="Time until a failure is noticed and diagnosed; 10 min by default."
    )
    restart_s: _Time | None = Field(
        None, description="Time from there until the job trains again; 5 min by default."
    )
    repair_s: Annotated[float, quantity("second"), Field(gt=0, le=1e9)] | None = Field(
        None, description="Mean time until a part is repaired; 1 day by default."
    )
    survives: tuple[Name, ...] = Field(
        (), description="Kinds of parts without which the job goes on at once, with no restart:"
        " nic, link, tor, ocs.",
    )  # fmt: skip
