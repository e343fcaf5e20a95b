"""The time of one operation over its bytes: a start-up and a rate, or a measured table."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.errors import HardwareError, InputError
from lightloom.inputs.strict import Name, Number, Strict, quantity

Seconds = Annotated[float, quantity("second"), Field(ge=0, le=60)]
Rate = Annotated[float, quantity("gigabit / second"), Field(gt=0, le=1e9)]
Point = Annotated[Number, Field(ge=0, le=1e15)]


class TimeCurve(Strict):
    """Time of an operation: ``start_up_s + bytes / rate``, or linear between measured points.

    Times of a table are those of its smallest size below it, and grow beyond its largest one as
    between the last two.
    """

    error_class: ClassVar[type[InputError]] = HardwareError

    start_up_s: Seconds = Field(0.0, description="Time of an operation without bytes.")
    rate_gbps: Rate | None = Field(None, description="Rate of one GPU, per direction.")
    sizes_bytes: tuple[Point, ...] = Field((), description="Sizes that were measured, ascending.")
    times_s: tuple[Seconds, ...] = Field((), description="Times of these sizes.")
    source: Name = Field("given", description="Where the values are from, with a date.")

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.rate_gbps is None) == (not self.sizes_bytes):
            raise ValueError("expected rate_gbps, or sizes_bytes with times_s")
        if self.sizes_bytes:
            if self.start_up_s:
                raise ValueError("expected no start_up_s beside a table, whose times have it")
            if not 2 <= len(self.sizes_bytes) == len(self.times_s) <= 1000:
                raise ValueError("expected 2 to 1,000 sizes_bytes, and as many times_s")
            if any(a >= b for a, b in pairwise(self.sizes_bytes)):
                raise ValueError("expected sizes_bytes that ascend")
            if any(a > b for a, b in pairwise(self.times_s)):
                raise ValueError("expected times_s that do not fall as sizes grow")
        elif self.times_s:
            raise ValueError("expected sizes_bytes of these times_s")
        return self

    @property
    def is_affine(self) -> bool:
        """Whether it is a start-up and a rate."""
        return self.rate_gbps is not None

    @property
    def s_per_byte(self) -> float:
        """What a byte takes beyond the start-up; of a table, beyond its largest size."""
        if self.rate_gbps is not None:
            return 8e-9 / self.rate_gbps
        (size, more), (time, longer) = self.sizes_bytes[-2:], self.times_s[-2:]
        return (longer - time) / (more - size)

    def time_s(self, size_bytes: float) -> float:
        """Return the time of an operation of a size; one without bytes has its start-up."""
        if self.is_affine:
            return self.start_up_s + size_bytes * self.s_per_byte
        beyond = max(0.0, size_bytes - self.sizes_bytes[-1])
        return float(np.interp(size_bytes, self.sizes_bytes, self.times_s)) + (
            beyond * self.s_per_byte
        )
