"""Among what is chosen, for which goal and within which limits."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from lightloom.inputs.strict import Name, Number, Strict, Switch, Whole

#: the fabrics that are candidates where none are named: those of parts that are sold
FABRICS = ("fat-tree", "oversub", "rail-only", "dual-plane", "mixnet")
Goal = Literal["tokens-per-dollar", "time", "power"]
#: what is as large as possible, in words
GOALS: dict[str, str] = {
    "tokens-per-dollar": "tokens per dollar",
    "time": "tokens per second",
    "power": "tokens per joule",
}


class PurchaseOptions(Strict):
    """Candidates, the goal and the limits."""

    gpus: tuple[Annotated[Whole, Field(le=1_000_000)], ...] = Field(description="Numbers of GPUs.")
    rates_gbps: tuple[Annotated[Number, Field(gt=0, le=1e5)], ...] = Field(
        (400.0, 800.0), description="Rates of a NIC and link, Gb/s."
    )
    fabrics: tuple[Name, ...] = Field(
        FABRICS, description="Names from 'lightloom fabrics', 'all', or custom TOML files."
    )
    goal: Goal = Field(
        "tokens-per-dollar",
        description="What is to be as large as possible: tokens per dollar of price and"
        " electricity over the life of the cluster, tokens per second (time), or tokens per joule"
        " (power).",
    )
    budget_usd: Annotated[Number, Field(gt=0, le=1e18)] | None = Field(
        None, description="US dollars for network, servers and GPUs."
    )
    tokens: Annotated[Number, Field(gt=0, le=1e18)] | None = Field(
        None, description="Tokens to train."
    )
    deadline_s: Annotated[Number, Field(gt=0, le=1e12)] | None = Field(
        None, description="Time in which the tokens have to be trained."
    )
    plans: Annotated[Whole, Field(le=20)] = Field(
        2, description="Parallelism plans that are tried for each number of GPUs."
    )
    uncertainty: Switch = Field(True, description="Find what would change the answer.")

    @field_validator("fabrics")
    @classmethod
    def _every_fabric(cls, fabrics: tuple[str, ...]) -> tuple[str, ...]:
        """The names, with ``all`` written out."""
        from lightloom.fabric.read import fabric_names  # help needs no fabrics

        return tuple(dict.fromkeys(str(name) for name in fabric_names(fabrics)))

    @model_validator(mode="after")
    def _whole_deadline(self) -> Self:
        if (self.tokens is None) != (self.deadline_s is None):
            raise ValueError("tokens and deadline_s belong together; give both, or none")
        if not self.gpus or not self.rates_gbps or not self.fabrics:
            raise ValueError("there is no candidate: give GPUs, rates and fabrics")
        return self
