"""What to buy, what else there is, why the rest lost, and what would change the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lightloom.shown import ShownRows
from lightloom.study.purchase.search import OF_SOFTWARE
from lightloom.study.purchase.uncertainty import FlipPoint, InputEffect

SCHEMA_VERSION = 1
#: what became of candidates, the best first
OUTCOMES = (
    *(
        "recommended",
        "listed",
        "front",
        "setting",
        "twin",
        "dominated",
        "bound",
        "deadline",
        "budget",
    ),
    "refused",
)


@dataclass(frozen=True)
class CandidateResult:
    """One cluster that was considered.

    Attributes
    ----------
    number
        Which it is.
    gpus, rate_gbps, plan
        GPUs that train, rate of a NIC and link, degrees of the plan.
    fabric, kind, options
        The network, and what of it differs from the defaults.
    outcome, why
        One of :data:`OUTCOMES`, and why no better one.
    network_cost_usd, cluster_cost_usd, cluster_power_w
        Price of the network, and with GPUs and servers; power without cooling.
    bound_s, predicted_s, whole_s
        Lower bound of the step; as predicted from few layers and micro-batches; simulated whole.
        ``None`` where it was not simulated.
    tokens_per_s, tokens_per_usd, tokens_per_j
        Of the step as far as it is known; of a bound, at most.
    days
        Time in which the tokens are trained; ``None`` without a deadline.
    """

    number: int
    gpus: int
    rate_gbps: float
    plan: str
    fabric: str
    kind: str
    options: Mapping[str, Any]
    outcome: str
    why: str
    network_cost_usd: float
    cluster_cost_usd: float
    cluster_power_w: float
    bound_s: float
    predicted_s: float | None
    whole_s: float | None
    tokens_per_s: float
    tokens_per_usd: float
    tokens_per_j: float
    days: float | None

    @property
    def step_time_s(self) -> float:
        """The step as far as it is known."""
        return next(s for s in (self.whole_s, self.predicted_s, self.bound_s) if s is not None)

    @property
    def bought(self) -> dict[str, Any]:
        """Options of parts, which differ from the defaults."""
        return {name: self.options[name] for name in self.options if name not in OF_SOFTWARE}

    @property
    def design(self) -> str:
        """The fabric with what differs of its parts from the defaults."""
        words = ", ".join(f"{name}={value}" for name, value in self.bought.items())
        return f"{self.fabric} ({words})" if words else self.fabric

    @property
    def practice(self) -> str:
        """The plan, and how all-to-alls go where that was open."""
        set_ = [
            value if name == "all_to_all" else f"{name}={value}"
            for name, value in self.options.items()
            if name in OF_SOFTWARE
        ]
        return " ".join([self.plan, *set_])

    def score(self, goal: str) -> float:
        """What a goal counts."""
        names = {"time": self.tokens_per_s, "power": self.tokens_per_j}
        return names.get(goal, self.tokens_per_usd)

    def row(self) -> dict[str, Any]:
        """The values, with the options in words."""
        options = " ".join(f"{name}={value}" for name, value in self.options.items())
        return vars(self) | {"options": options, "step_time_s": self.step_time_s}


@dataclass(frozen=True, repr=False)
class PurchaseAdvice(ShownRows):
    """What to buy for a training job.

    Attributes
    ----------
    inputs
        The job, the options, and the plans that were considered for each number of GPUs.
    candidates
        All clusters that were considered, in their order.
    best
        Numbers of the best ones, of which the first is recommended.
    front
        Numbers of those that none is cheaper and faster than, the cheapest first.
    effects
        What uncertain inputs do to the lead, the largest first.
    lead_share
        Share of random inputs under which the recommended candidate is the best; ``None`` if there
        is no other.
    flips
        Where the answer changes, the closest first.
    examined
        Inputs that flips were sought in: ``prices``, ``delay``, ``efficiency``.
    not_considered
        What was left out, in words.
    summary, warnings
        The job in lines.
    """

    inputs: dict[str, Any]
    candidates: tuple[CandidateResult, ...]
    best: tuple[int, ...]
    front: tuple[int, ...]
    effects: tuple[InputEffect, ...] = ()
    lead_share: float | None = None
    flips: tuple[FlipPoint, ...] = ()
    examined: tuple[str, ...] = ()
    not_considered: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"PurchaseAdvice({self.recommended.design} of {len(self.candidates)} candidates)"

    @property
    def recommended(self) -> CandidateResult:
        """What to buy."""
        return self.candidates[self.best[0]]

    @property
    def goal(self) -> str:
        """What is as large as possible."""
        return str(self.inputs["options"]["goal"])

    @property
    def outcomes(self) -> dict[str, int]:
        """How many candidates came to each outcome."""
        counts = Counter(candidate.outcome for candidate in self.candidates)
        return {name: counts[name] for name in OUTCOMES if counts[name]}

    def rows(self) -> list[dict[str, Any]]:
        """A row per candidate."""
        return [candidate.row() for candidate in self.candidates]

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "inputs": self.inputs,
            "recommended": self.best[0],
            "best": list(self.best),
            "front": list(self.front),
            "outcomes": self.outcomes,
            "candidates": [
                asdict(candidate) | {"step_time_s": candidate.step_time_s}
                for candidate in self.candidates
            ],
            "effects": [asdict(effect) for effect in self.effects],
            "lead_share": self.lead_share,
            "flips": [asdict(flip) for flip in self.flips],
            "examined": list(self.examined),
            "not_considered": list(self.not_considered),
            "warnings": list(self.warnings),
        }
