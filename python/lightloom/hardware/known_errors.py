"""How far predictions were from runs that somebody measured and published."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.hardware.values import Source, Table, Value, read_toml

PACKAGED = "errors.toml"


class ClassTable(Table):
    """Errors of one class of runs."""

    runs: Value
    median: Value
    interval: Value


class CommunicationTable(Table):
    """Error of communication."""

    deviation: Value


class ErrorFile(Table):
    """The file of known errors."""

    sources: dict[str, Source]
    classes: dict[str, ClassTable]
    communication: CommunicationTable


@dataclass(frozen=True)
class KnownError:
    """How far the speed of public runs of a class of jobs was from its prediction.

    Attributes
    ----------
    name, runs
        The class, and how many there are.
    median
        Median of the relative errors.
    interval
        The factor that should hold 80 % of families of runs, by those by which constants may be
        chosen (docs/decisions/0030-intervals-by-families.md).
    """

    name: str
    runs: int
    median: float
    interval: float


def known_error(*, has_experts: bool, precision: str) -> KnownError:
    """Return the error of jobs with or without experts, in a precision.

    Parameters
    ----------
    has_experts
        Whether the model is a mixture of experts.
    precision
        ``bf16``, one of the formats of eight bits, or ``nvfp4``, for which no run with experts is
        known: those of eight bits stand for it.
    """
    classes = read_toml(None, PACKAGED, ErrorFile).classes
    kind = "moe" if has_experts else "dense"
    bits = precision if f"{kind}-{precision}" in classes else "fp8"
    table = classes[f"{kind}-{bits}"]
    words = f"{'MoE' if has_experts else 'dense'} {bits.upper()}"
    return KnownError(words, int(table.runs.value), table.median.value, table.interval.value)


def communication_deviation() -> float:
    """Relative error of the time in which communication is not hidden, between fabrics."""
    return read_toml(None, PACKAGED, ErrorFile).communication.deviation.value
