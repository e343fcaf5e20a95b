"""One sample of a step, as papers simulate it: nothing is recomputed, and memory is no limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightloom import Comparison, Scenario, compare

#: left out: several samples, other policies and loads, and whether the plan fits
ONE_SAMPLE = {
    "seeds": 1,
    "compute_spread": 0.0,
    "policies": False,
    "imbalances": False,
    "memory_check": False,
    "recompute": "none",
}


def one_step(
    values: Mapping[str, Any],
    model: str,
    fabrics: Mapping[str, Mapping[str, Any]],
    load: str,
    **changes: Any,
) -> Comparison:
    """Simulate a step of a model on some fabrics.

    Parameters
    ----------
    values
        Of the experiment file: ``gpus``, ``gpu``, ``rate_gbps``, ``micro_batches``.
    model, load
        Names of the model and of the demand's regime.
    fabrics
        Options by name.
    changes
        Other fields of the scenario; those of ``plan`` are added to the micro-batches.
    """
    plan = {"micro_batches": values["micro_batches"], **changes.pop("plan", {})}
    gpus, rate = (changes.pop(key, values.get(key)) for key in ("gpus", "rate_gbps"))
    return compare(
        Scenario(
            model=model,
            gpus=gpus,
            cluster={"gpu": values["gpu"], "rate_gbps": rate},
            plan=plan,
            demand={"source": load},
            fabrics=tuple(fabrics),
            fabric_options={name: dict(options) for name, options in fabrics.items()},
            **{**ONE_SAMPLE, **changes},
        )
    )
