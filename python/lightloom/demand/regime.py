"""Regimes of the synthetic gate: parameters with their sources, and a user's changes to them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources

from lightloom.errors import MAX_ECHO, DemandError, did_you_mean, echo
from lightloom.hardware.values import Provenance, Source, Table, Value, parse_table, resolve

#: names that ``synthetic`` accepts; ``uniform`` draws nothing and so has no parameters
REGIMES = (
    "auxiliary",
    "natural",
    "learned",
    "mixtral",
    "pair",
    "sparse",
    "calm",
    "volatile",
    "extreme",
    "drifting",
    "uniform",
)

#: names of two regimes by how balanced they are
ALIASES = {"balanced": "uniform", "skewed": "mixtral"}

#: public workloads of uneven routing (:mod:`.imbalance_workloads`), and what each isolates
WORKLOADS = {
    "W0_balanced": "round robin: every expert gets equally many copies",
    "W1_hot_expert_set": "three of four tokens choose among a quarter of the experts",
    "W2_hot_rank": "the same, drawn anew",
    "W3_spread_hot_experts": "three of four tokens choose among every second expert",
    "W4_source_ragged": "every token chooses among all experts",
    "W5_zero_expert_rank": "half of the experts get nothing",
    "W6_rotating_hotspot": "as W1, with another quarter every three steps",
    "W7_burst": "as W4, but every fourth step, in which half of the tokens choose as in W1",
}

#: regimes whose topics tie the layers of a step together, for predictors of loads
TOPIC_REGIMES = ("calm", "volatile", "extreme", "drifting")

#: number of experts for which spreads are stated where they grow with it
GROWTH_EXPERTS = 64

#: smallest and largest value of each parameter
BOUNDS = {
    "logit_sd": (0.0, 10.0),
    "logit_sd_start": (0.0, 10.0),
    "growth": (0.0, 1.0),
    "decay_steps": (1e-3, 1e9),
    "rho": (0.0, 1.0),
    "persistent_share": (0.0, 1.0),
    "concentration": (0.05, 1e9),
    "text_tokens": (0, 1e9),
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
    growth: float
    decay_steps: float
    rho: float
    persistent_share: float
    concentration: float
    text_tokens: int
    hold_steps: int
    topics: int
    topic_concentration: float
    topic_sd: float

    def spread(self, experts: int, step: int | None = None) -> float:
        """Sd of the log popularity of so many experts: at a step, or once training has settled."""
        excess = 0.0
        if step is not None:
            excess = (self.logit_sd_start - self.logit_sd) * math.exp(-step / self.decay_steps)
        return (self.logit_sd + excess) * self._growth(experts)

    def row_concentration(self, experts: int, tokens: int) -> float:
        """Dirichlet concentration per expert of a source's row of so many tokens.

        The mean of the rows of ``n`` texts has ``1 / n`` of the variance of one, which is that of a
        row of ``n`` times the concentration (up to one over the number of experts).
        """
        texts = max(1.0, tokens / self.text_tokens) if self.text_tokens else 1.0
        return self.concentration * texts / self._growth(experts) ** 2

    def _growth(self, experts: int) -> float:
        return math.pow(experts / GROWTH_EXPERTS, self.growth)


class _RegimeTable(Table):
    logit_sd: Value
    logit_sd_start: Value
    growth: Value
    decay_steps: Value
    rho: Value
    persistent_share: Value
    concentration: Value
    text_tokens: Value
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


def known_regimes() -> str:
    """Names of all regimes for a message, the workloads by the first and the last of them."""
    first, *_, last = WORKLOADS
    return ", ".join([*ALIASES, *REGIMES, f"{first} to {last}"])


def check_regime(name: str) -> str:
    """Return the regime that a name means, or refuse it with a suggestion."""
    known = (*ALIASES, *REGIMES, *WORKLOADS)
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name)[:MAX_ECHO], known)
        raise DemandError(f"unknown demand regime {echo(name)}{hint}; known: {known_regimes()}")
    return ALIASES.get(name, name)


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
    options = dict(changes)
    if "logit_sd" in options:
        options.setdefault("logit_sd_start", options["logit_sd"])
    for key, value in options.items():
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
    if not regime.growth:
        names |= {"growth"}
    if not regime.topics:
        names |= {"topics", "topic_concentration", "topic_sd"}
    if not regime.hold_steps:
        names |= {"hold_steps"}
    if not regime.text_tokens:
        names |= {"text_tokens"}
    return names


def _checked(key: str, value: float) -> float:
    low, high = BOUNDS[key]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < math.inf:
        raise DemandError(f"{key}: expected a number, got {echo(value)}")
    if not low <= value <= high:
        raise DemandError(f"{key}: expected {low:g} to {high:g}, got {echo(value)}")
    if isinstance(low, int) and value != int(value):
        raise DemandError(f"{key}: expected a whole number, got {value:g}")
    return float(value)
