"""Which circuit switches a map is of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.inputs.strict import Name, Number, Strict, Switch, Whole

#: the fabrics that are compared where none are named
FABRICS = ("fat-tree", "oversub", "mixnet")


class MapOptions(Strict):
    """The axes of a map, beside the delay."""

    rates: tuple[Annotated[Number, Field(gt=0, le=1e5)], ...] = Field(
        (100.0, 400.0), description="Rates of a NIC and link, Gb/s; the last one is drawn."
    )
    degrees: tuple[Whole, ...] = Field(
        (2, 4, 6), description="Numbers of optical ports of a server; the last one is drawn."
    )
    tolerance: Annotated[float, Field(gt=0, le=0.1)] = Field(
        0.002,
        description="Share of a step by which interpolation may be off before one more delay is"
        " simulated.",
    )
    variants: Switch = Field(
        True, description="Add how skew, overlap and one copy per server move the border."
    )
    fabrics: tuple[Name, ...] = Field(
        FABRICS, description="Names from 'lightloom fabrics', 'all', or custom TOML files."
    )
