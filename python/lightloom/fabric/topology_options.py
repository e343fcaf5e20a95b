"""What a topology file says of switches and of the links between them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lightloom.errors import FabricError, echo
from lightloom.fabric.option_types import Count, OptionalPositive, OptionModel

#: the end of a link that is a server
SERVERS = "servers"
#: switches of one file
MAX_TIERS, MAX_RULES, MAX_PAIRS = 100, 1000, 1_000_000

Optics = Literal["transceiver", "co-packaged", "dac", "aoc"]


def _two_names(value: object) -> object:
    names = value if isinstance(value, list | tuple) and len(value) == 2 else ()
    if names and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise ValueError(f'expected two names, such as ["{SERVERS}", "leaf"]')


def _pairs_of_numbers(value: object) -> object:
    if not isinstance(value, list | tuple) or len(value) > MAX_PAIRS:
        raise ValueError(f"expected a list of up to {MAX_PAIRS:,} pairs, such as [[0, 1], [0, 2]]")
    for pair in value:
        is_pair = isinstance(pair, list | tuple) and len(pair) == 2
        if not is_pair or not all(type(end) is int and 0 <= end <= MAX_PAIRS for end in pair):
            raise ValueError(
                f"expected pairs of numbers from 0 on, such as [0, 1], got {echo(pair)}"
            )
    return tuple(tuple(pair) for pair in value)


class SwitchTier(OptionModel):
    """Switches of one name."""

    title: ClassVar[str] = "switches"

    count: Count = Field(1, description="How many there are, or are for every so many servers.")
    servers: Count | None = Field(
        None, description="So many servers have switches of their own; by default all share them."
    )
    ports: Count | None = Field(
        None,
        description="Ports of a switch at the rate of its fastest links; by default those of the"
        " usual one.",
    )


class LinkRule(OptionModel):
    """Links between servers and switches, or between switches."""

    title: ClassVar[str] = "links"

    ends: Annotated[tuple[str, str], BeforeValidator(_two_names)] = Field(
        description="The names of two kinds of switches, or 'servers' and one."
    )
    count: Annotated[int, Field(gt=0, le=1024, strict=True)] = Field(
        1, description="Links between two that are joined."
    )
    join: Literal["shared", "position", "all"] = Field(
        "shared",
        description="Which are joined: those with servers in common (shared); of these the first"
        " of each set with the first equal part of the others, the second with the second, and of"
        " one kind those in the same place of different sets (position); or all.",
    )
    pairs: Annotated[tuple[tuple[int, int], ...], BeforeValidator(_pairs_of_numbers)] = Field(
        (), description="The numbers of those that are joined, where no rule says it."
    )
    rate_gbps: OptionalPositive = Field(
        None,
        description="Rate of a link per direction; by default that of a NIC, divided by its links.",
    )
    delay_s: OptionalPositive = Field(
        None, description="Propagation delay; by default that of the cluster."
    )
    optics: Optics | None = Field(
        None,
        description="What ends a link: a transceiver at each end, optics inside the package of the"
        " switch, or a cable of copper (dac) or with optics (aoc); by default as counted.",
    )
    broken_out: Annotated[int, Field(gt=0, le=64, strict=True)] = Field(
        1, description="Links that share a port and a transceiver of as many times their rate."
    )

    @model_validator(mode="after")
    def _either_rule_or_pairs(self) -> LinkRule:
        if self.pairs and self.join != "shared":
            raise FabricError("links: join and pairs: expected one of the two")
        return self


def _few(value: tuple[LinkRule, ...]) -> tuple[LinkRule, ...]:
    if not 1 <= len(value) <= MAX_RULES:
        raise ValueError(f"expected 1 to {MAX_RULES:,} rules")
    return value


Rules = Annotated[tuple[LinkRule, ...], AfterValidator(_few)]


def _tier_names(value: dict[str, SwitchTier]) -> dict[str, SwitchTier]:
    if not 1 <= len(value) <= MAX_TIERS:
        raise ValueError(f"expected 1 to {MAX_TIERS} kinds of switches")
    for name in value:
        if name == SERVERS or not name.isprintable() or not 1 <= len(name) <= 60:
            raise ValueError(f"expected names of switches, got {echo(name)}")
    return value


Tiers = Annotated[dict[str, SwitchTier], AfterValidator(_tier_names)]
