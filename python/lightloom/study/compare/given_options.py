"""Options of a scenario that only a model has a use for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lightloom.errors import InputError
from lightloom.inputs.strict import Strict
from lightloom.study.compare.scenario import Scenario

#: tables of a scenario that are about models
_TABLES = ("plan", "demand", "compute", "memory", "program", "traffic")
#: what has no option of its own
_SET_ONLY = ("traffic.", "plan.strategy", "plan.overlap_pipeline")
_FIELDS = ("recompute", "memory_check", "gradient_bytes", "parameter_bytes")


def refuse_options(scenario: Scenario, reason: str, *, used: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse the first option that nothing would read.

    Parameters
    ----------
    scenario
        Of a job without a model.
    reason
        Why it has no use for such options, for the message.
    used
        Those that it has a use for, by table; fields of the scenario itself under ``""``.

    Raises
    ------
    InputError
        If such an option differs from its default.
    """
    for key in _given(scenario, used):
        last = "demand" if key == "demand.source" else key.rpartition(".")[2]
        name = last.replace("_", "-").removesuffix("-element-bytes")
        option = f"--set {key}" if key.startswith(_SET_ONLY) else f"--{name}"
        raise InputError(f"{key} ({option}) is for a model: {reason}; leave it out")


def _given(scenario: Scenario, used: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for table in _TABLES:
        values: Strict = getattr(scenario, table)
        defaults: Strict = Scenario.model_fields[table].default
        for name in type(values).model_fields:
            if name not in used.get(table, ()) and getattr(values, name) != getattr(defaults, name):
                yield f"{table}.{name}"
    for name in _FIELDS:
        default = Scenario.model_fields[name].default
        if name not in used.get("", ()) and getattr(scenario, name) != default:
            yield name
