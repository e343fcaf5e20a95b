"""Types of the options that users give to a fabric or to the counting of its parts.

A quantity may be a bare number in the unit of its name's suffix or text with a unit ("25 ms").
An unknown key, a wrong type and a value out of range are one-line ``FabricError`` s.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic import ValidationInfo as Info

from lightloom.errors import FabricError, InputError, echo
from lightloom.inputs.strict import Strict, comma_list
from lightloom.inputs.strict import Switch as Switch  # noqa: PLC0414 - options have it from here
from lightloom.units import SUFFIXES, parse_quantity

#: largest number of any unit or part; keeps bits per second and picoseconds within 64 bits
MAXIMUM = 1e6


def parse_named(value: Any, info: Info) -> float:
    """Parse a quantity in the unit that the suffix of the field's name stands for.

    Raises
    ------
    FabricError
        If it is no such quantity.
    """
    name = info.field_name or ""
    unit = next(unit for suffix, unit in SUFFIXES.items() if name.endswith(suffix))
    if not isinstance(value, int | float | str):
        raise FabricError(f"{name}: expected a number or text with a unit, got {echo(value)}")
    try:
        number = parse_quantity(value, unit, name)
    except InputError as error:
        raise FabricError(str(error)) from None
    if abs(number) > MAXIMUM:
        raise FabricError(f"{name} = {echo(value)}: expected at most {MAXIMUM:.0e} {unit}")
    return number


def _quantity(value: Any, info: Info) -> float:
    return parse_named(value, info)


def _optional_quantity(value: Any, info: Info) -> float | None:
    return None if value is None else _quantity(value, info)


def _optional_size(value: object, info: Info) -> int | None:
    name = info.field_name or ""
    if value is None:
        return None
    if not isinstance(value, int | float | str):
        raise FabricError(f"{name}: expected a number or text with a unit, got {echo(value)}")
    try:
        size = parse_quantity(value, "byte", name)
    except InputError as error:
        raise FabricError(str(error)) from None
    if size != round(size):
        raise FabricError(f"{name} = {echo(value)}: expected whole bytes")
    return round(size)


def _quantities(value: Any, info: Info) -> list[float]:
    return [parse_named(part, info) for part in comma_list(value)]


#: a quantity that may be zero, and ones that may be left out (``Positive``: not zero)
Quantity = Annotated[float, BeforeValidator(_quantity), Field(ge=0)]
OptionalQuantity = Annotated[
    Annotated[float, Field(ge=0)] | None, BeforeValidator(_optional_quantity)
]
OptionalPositive = Annotated[
    Annotated[float, Field(gt=0)] | None, BeforeValidator(_optional_quantity)
]
#: whole bytes, or text with a unit, that may be left out
OptionalSize = Annotated[
    Annotated[int, Field(ge=0, lt=2**60)] | None, BeforeValidator(_optional_size)
]
#: several that are above zero, joined by commas
Quantities = Annotated[tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(_quantities)]
#: a share of a whole, not nothing of it
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
#: a field of fabrics with packet switches
ECMP = Field(
    None,
    description="Share of a ToR's uplinks that flows reach: 1 where packets are sprayed ideally, "
    "about 0.6 where flows are hashed; by default adaptive routing.",
)
#: options of fabrics with a tree of packet switches
SWITCH_PORTS = Field(
    None,
    description="Ports of a packet switch at the rate of the NICs; by default those of the usual "
    "switch that is sold for it.",
)
SERVERS_PER_TOR = Field(
    None, description="Servers under one ToR; by default as many as its ports allow."
)


#: names of parts, as :func:`lightloom.schedule.parse_failures` reads them
PartNames = Annotated[tuple[str, ...], BeforeValidator(comma_list)]


def _without_comma(name: str) -> str:
    if "," in name:
        raise ValueError("expected a name without a comma, which stands between names")
    return name


Label = Annotated[
    str,
    Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f]+$"),
    AfterValidator(_without_comma),
]
Count = Annotated[int, Field(gt=0, le=int(MAXIMUM), strict=True)]
#: how many more there are of something
Spares = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]


class OptionModel(Strict):
    """Strict, frozen options: no unknown keys, no silent conversions of names."""

    error_class: ClassVar[type[InputError]] = FabricError
    #: what these options belong to, for error messages
    title: ClassVar[str] = "options"

    @classmethod
    def whose(cls) -> str:
        """What messages about arguments of the constructor begin with."""
        return cls.title

    @classmethod
    def keys(cls) -> list[str]:
        """Names of all options, in the order in which they are declared."""
        return list(cls.model_fields)
