"""What a file of another tool holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lightloom.trace.importers.program import Span
from lightloom.trace.trace import Trace


@dataclass(frozen=True)
class Imported:
    """A trace, whoever recorded it.

    Attributes
    ----------
    form
        What recorded it, in words.
    trace
        Its calls and computes.
    spans
        Of each rank what its streams did when, in order of time; empty where times are not known.
    remarks
        What was assumed and what was left out, a sentence each.
    """

    form: str
    trace: Trace
    spans: Mapping[int, tuple[Span, ...]] = field(default_factory=dict, repr=False)
    remarks: tuple[str, ...] = ()
