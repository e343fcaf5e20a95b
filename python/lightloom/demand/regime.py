"""Regimes of the synthetic gate: parameters with their sources, and a user's changes to them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources

from lightloom.errors import DemandError, did_you_mean, echo
from lightloom.hardware.values import Provenance, Source, Table, Value, parse_table, resolve

#: names that ``synthetic`` accepts; ``uniform`` draws nothing and so has no parameters
REGIMES = ("mixtral", "pair", "sparse", "calm", "volatile", "extreme", "drifting", "uniform")

#: regimes whose topics tie the layers of a step together, for predictors of loads
TOPIC_REGIMES = ("calm", "volatile", "extreme", "drifting")

#: smallest and largest value of each parameter
BOUNDS = {
    "logit_sd": (0.0, 10.0),
    "logit_sd_start": (0.0, 10.0),
    "decay_steps": (1e-3, 1e9),
    "rho": (0.0, 1.0),
    "persistent_share": (0.0, 1.0),
    "concentration": (0.05, 1e9),
    "hold_steps": (0, 1e9),
    "topics": (0, 4096),
    "topic_concentration": (1e-2, 1e9),
    "topic_sd": (0.0, 10.0),
}


@dataclass(frozen=True)
class Regime:
    """Parameters of the synthetic gate; ``regimes.toml`` says what each means and whence."""

    logit_sd: float
    logit_sd_start: float
    decay_steps: float
    rho: float
    persistent_share: float
    concentration: float
    hold_steps: int
    topics: int
    topic_concentration: float
    topic_sd: float


class _RegimeTable(Table):
    logit_sd: Value
    logit_sd_start: Value
    decay_steps: Value
    rho: Value
    persistent_share: Value
    concentration: Value
    hold_steps: Value
    topics: Value
    topic_concentration: Value
    topic_sd: Value


class _RegimeFile(Table):
    sources: dict[str, Source]
    regimes: dict[str, _RegimeTable]


@functools.cache
def _published() -> dict[str, dict[str, Provenance]]:
    text = resources.files(__package__).joinpath("regimes.toml").read_text(encoding="utf-8")
    table = parse_table(text, _RegimeFile, "regimes.toml")
    return {name: resolve(dict(row), table.sources) for name, row in table.regimes.items()}


def check_regime(name: str) -> str:
    """Return the name of a regime, or refuse it with a suggestion."""
    if name not in REGIMES:
        hint = did_you_mean(name, REGIMES)
        raise DemandError(f"unknown demand regime '{name}'{hint}; known: {', '.join(REGIMES)}")
    return name


def build_regime(name: str, changes: Mapping[str, float]) -> tuple[Regime, dict[str, str]]:
    """Parameters of a regime with a user's changes, and where each comes from.

    ``logit_sd_start`` follows ``logit_sd`` unless it is given itself.

    Raises
    ------
    DemandError
        If the regime or a parameter is unknown, or a value out of its bounds.
    """
    published = _published()[check_regime(name)]
    unknown = [key for key in changes if key not in BOUNDS]
    if unknown:
        hint = did_you_mean(unknown[0], BOUNDS)
        raise DemandError(
            f"demand regime '{name}' has no parameter '{unknown[0]}'{hint}; "
            f"known: {', '.join(BOUNDS)}"
        )
    values = {key: entry.value for key, entry in published.items()}
    provenance = {key: str(entry) for key, entry in published.items()}
    given = dict(changes)
    if "logit_sd" in given:
        given.setdefault("logit_sd_start", given["logit_sd"])
    for key, value in given.items():
        values[key] = _checked(key, value)
        provenance[key] = f"{value:g} (given)"
    if values["topics"] and values["hold_steps"]:
        raise DemandError(
            "topics redraw rows per micro-batch and hold_steps keeps them; set one of them to 0"
        )
    numbers = {
        field.name: int(values[field.name]) if field.type == "int" else values[field.name]
        for field in fields(Regime)
    }
    return Regime(**numbers), provenance  # type: ignore[arg-type]


def unread(regime: Regime) -> set[str]:
    """Parameters that have no effect at their values, and so are not reported as read."""
    names = set()
    if regime.logit_sd == regime.logit_sd_start:
        names |= {"logit_sd_start", "decay_steps"}
        if regime.logit_sd == 0:
            names |= {"rho", "persistent_share"}
    if not regime.topics:
        names |= {"topics", "topic_concentration", "topic_sd"}
    if not regime.hold_steps:
        names |= {"hold_steps"}
    return names


def _checked(key: str, value: float) -> float:
    low, high = BOUNDS[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DemandError(f"{key}: expected a number, got {echo(value)}")
    if not low <= value <= high:
        raise DemandError(f"{key}: expected {low:g} to {high:g}, got {value:g}")
    if isinstance(low, int) and value != int(value):
        raise DemandError(f"{key}: expected a whole number, got {value:g}")
    return float(value)
