"""Large numbers as people write them: 200M, 1.5B, $30M or 30 M$ in dollars, 15T tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

_SIZES = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
#: characters that an amount has at most
_LONGEST = 40


def read_amount(value: object) -> object:
    """Read a number that may end in k, M, B or T and have a dollar sign at either end.

    Raises
    ------
    ValueError
        If text is no such number.

    Examples
    --------
    >>> read_amount("30 M$"), read_amount("$1,500k"), read_amount("15T")
    (30000000.0, 1500000.0, 15000000000000.0)
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    text = text.removeprefix("$") if text.startswith("$") else text.removesuffix("$")
    text = text.strip().replace(",", "")
    size = _SIZES.get(text[-1:], 1.0)
    try:
        if len(text) > _LONGEST:
            raise ValueError
        return float(text[:-1] if size > 1 else text) * size
    except ValueError:
        shown = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
        raise ValueError(
            f"expected a number such as 15e12, 200M, 1.5B or '30 M$', got '{shown}'"
        ) from None


Amount = Annotated[float, BeforeValidator(read_amount), Field(gt=0, le=1e18)]
