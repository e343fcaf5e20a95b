"""Units: one per dimension, as a suffix of the name (``size_bytes``, ``rate_gbps``, ``delay_s``).

A bare number is in that unit; text carries its own (``"25 ms"``). Prefixes are decimal; rates are
bits per second per direction, sizes bytes. Output goes through ``show_*``, so that every number
is printed with its unit.

Figures have four significant digits, and every value of a column the same number of decimals
(:func:`show_column`). Digits before the point are never rounded away. Zeros at the end are kept:
they say how far the value is known; only a value that is exact with fewer digits has fewer.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Iterable
from typing import Any

from lightloom.errors import InputError, echo

PS_PER_S = 1_000_000_000_000

#: unit of each dimension, by the suffix that names it
SUFFIXES = {
    "_s": "second",
    "_gbps": "gigabit / second",
    "_bytes": "byte",
    "_w": "watt",
    "_usd": "USD",
    "_m": "meter",
}

#: what a value of each unit is, with an example, for messages
_KINDS = {
    "second": "a time such as '25 ms'",
    "gigabit / second": "a rate such as 400, 400G or '400 Gb/s'",
    "byte": "a size such as '9 kB'",
    "watt": "a power such as '500 W'",
    "USD": "a price such as '20 USD'",
    "meter": "a length such as '20 m'",
}
#: a rate as network people write it: 400G, 1.6T, 400GbE, 400gbps, 400 Gbit/s; no bytes
_LINE_RATE = re.compile(
    r"([0-9.]+) ?([MGTgt])(?:b?E|b?e|b|bps|b/s|[Bb]it|[Bb]its|[Bb]it/s|[Bb]its/s)?"
)
_GBPS = {"M": 1e-3, "G": 1.0, "T": 1e3}
#: a number and a plain unit, which need no table of all units: that takes a fifth of a second
_PLAIN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)")
_PLAIN_UNITS = {
    "byte": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9},
    "second": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
}


@functools.cache
def _registry() -> Any:
    import pint

    registry: Any = pint.UnitRegistry()
    registry.define("USD = [currency] = usd = dollar")
    registry.define("Gbps = gigabit / second = Gbit_per_s")
    registry.define("Mbps = megabit / second")
    registry.define("Tbps = terabit / second")
    return registry


def parse_quantity(value: float | str, unit: str, name: str = "value") -> float:
    """Turn a number, or text with its unit, into a number in ``unit``.

    Parameters
    ----------
    value
        A bare number is already in ``unit``; text is parsed (``"25 ms"``, ``"400 Gb/s"``, or
        ``"400G"`` for a rate).
    unit
        A unit of :data:`SUFFIXES`, such as ``"second"``.
    name
        What the value is, for the error message.

    Raises
    ------
    InputError
        If the text has no number, an unknown unit or another dimension, or is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"{name}: expected a number or text with a unit, got {echo(value)}")
    try:
        number = _parse_text(value, unit, name) if isinstance(value, str) else float(value)
    except OverflowError:  # a whole number that no float comes near
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name}: expected a finite number, got {echo(value)}")
    return number


@functools.lru_cache(maxsize=1024)  # a controller gives the same text at every decision
def _parse_text(text: str, unit: str, name: str) -> float:
    stripped = text.strip()
    if len(stripped) > 40:
        raise InputError(
            f"{name}: expected a quantity such as '25 ms', got {len(stripped)} characters"
        )
    try:
        return float(stripped)
    except ValueError:
        pass
    kind = _KINDS.get(unit, f"a quantity in {unit}")
    line_rate = _LINE_RATE.fullmatch(stripped) if unit == "gigabit / second" else None
    if line_rate is not None:
        with contextlib.suppress(ValueError):  # as 1.2.3G is
            return float(line_rate[1]) * _GBPS[line_rate[2].upper()]
    plain_unit = _PLAIN.fullmatch(stripped)
    if plain_unit is not None and plain_unit[2] in _PLAIN_UNITS.get(unit, {}):
        return float(plain_unit[1]) * _PLAIN_UNITS[unit][plain_unit[2]]
    plain = stripped.replace("Gb/s", "Gbps").replace("Mb/s", "Mbps").replace("Tb/s", "Tbps")
    # pint evaluates arithmetic; a quantity is one number and one unit, nothing else.
    if not all(c.isalnum() or c in " .+-/µμ_" for c in plain):
        raise InputError(f"{name}: cannot read {echo(text)} as {kind}")
    try:
        quantity = _registry().Quantity(plain)
        return float(quantity.to(unit).magnitude)
    except Exception:
        raise InputError(f"{name}: cannot read {echo(text)} as {kind}") from None


def to_ps(seconds: float) -> int:
    """Whole picoseconds nearest to a time in seconds."""
    return round(seconds * PS_PER_S)


def to_bps(gbps: float) -> int:
    """Whole bits per second nearest to a rate in Gb/s."""
    return round(gbps * 1e9)


#: a change, as a share, that is none: what rounding leaves
NO_CHANGE = 5e-6


def show_number(value: float, digits: int = 4) -> str:
    """Text for a number with so many significant digits: 23.70, 0.006123, 1,411.

    Fewer where the number is exact with fewer: 25 is no 25.00.
    """
    if not math.isfinite(value):
        return str(value)
    decimals = _decimals(float(f"{value:.{digits}g}"), digits)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals and _is_exact(value, decimals) else text


def show_column(
    values: Iterable[float | None],
    digits: int = 4,
    *,
    missing: str = "-",
    total: float | None = None,
) -> list[str]:
    """Texts for the numbers of a column, which all have the same number of decimals.

    Fewer decimals if all numbers are exact with fewer.

    Parameters
    ----------
    values
        The numbers; None and what is not finite is shown as ``missing``.
    digits
        Significant digits of the least number; the largest has at most one more.
    missing
        What is shown where there is no number.
    total
        What the numbers are parts of: it has so many digits, and its parts have its decimals,
        also where they are exact with fewer.
    """
    column = [x if x is not None and math.isfinite(x) else None for x in values]
    sizes = [abs(x) for x in column if x]
    if total is not None:
        sizes = [total]
    decimals = 0
    if sizes:
        decimals = min(_decimals(min(sizes), digits), _decimals(max(sizes), digits + 1))
    while decimals and total is None and all(_is_exact(x, decimals - 1) for x in column if x):
        decimals -= 1
    return [missing if x is None else f"{x:,.{decimals}f}" for x in column]


def _is_exact(value: float, decimals: int) -> bool:
    return math.isclose(round(value, decimals), value, rel_tol=1e-12)


def _decimals(value: float, digits: int) -> int:
    """Digits behind the point that a number of so many significant digits has."""
    if value == 0:
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def _scaled(value: float, steps: tuple[tuple[float, str], ...], digits: int) -> str:
    magnitude = abs(value)
    for factor, unit in steps:
        if magnitude >= factor:
            return f"{show_number(value / factor, digits)} {unit}"
    factor, unit = steps[-1]
    return f"{show_number(value / factor, digits)} {unit}"


def show_time(seconds: float, digits: int = 4) -> str:
    """Text for a time, in the largest unit that keeps it above one."""
    steps = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
    return "0 s" if seconds == 0 else _scaled(seconds, steps, digits)


def time_unit(longest_s: float) -> tuple[float, str]:
    """The unit in which the longest of some times is above one: its seconds and its name."""
    steps = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
    return next((step for step in steps if longest_s >= step[0]), steps[-1])


def show_bytes(size_bytes: float, digits: int = 4) -> str:
    """Text for a size, decimal prefixes."""
    steps = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
    return "0 B" if size_bytes == 0 else _scaled(size_bytes, steps, digits)


def show_usd(amount_usd: float) -> str:
    """Text for a price: thousands and millions shortened."""
    if abs(amount_usd) >= 1e6:
        return f"${amount_usd / 1e6:.2f}M"
    if abs(amount_usd) >= 1e5:
        return f"${amount_usd / 1e3:.0f}k"
    return f"${amount_usd:,.0f}"


def show_things(number: int, noun: str) -> str:
    """Text for a number of things: 1 circuit, 2 circuits, 2 batches."""
    ending = "es" if noun.endswith(("ch", "s")) else "s"
    return f"{number:,} {noun}{ending * (number != 1)}"


def show_change(share: float, spec: str = "+.1f") -> str:
    """Text for a change as a share: +6.3 %, -0.5 %, or no change where that rounds to nothing.

    With significant digits (``.2g``) nothing rounds to nothing: there it is what is less than half
    of a thousandth of a percent.
    """
    text = f"{100 * share:{spec}}"
    is_nothing = float(text) == 0 or abs(share) < NO_CHANGE
    return "no change" if is_nothing else f"{text} %"


def show_option(value: object) -> str:
    """Text of an option as a user writes it: on, 0.5, or 4,4,3."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list):
        return ",".join(map(show_option, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_count(value: float) -> str:
    """Text for a count with thousands separators, or T, B or M for large ones."""
    if abs(value) >= 1e12:
        return f"{show_number(value / 1e12)}T"
    if abs(value) >= 1e9:
        return f"{show_number(value / 1e9)}B"
    if abs(value) >= 1e6:
        return f"{show_number(value / 1e6)}M"
    return f"{value:,.0f}"
