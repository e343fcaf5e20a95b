"""Sizes in whole bytes, which text may give with a unit."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from lightloom.errors import InputError
from lightloom.inputs.fields import THOUSANDS
from lightloom.units import parse_quantity

#: what stands for a queue without limit
UNLIMITED = 2**32 - 1
#: digits of the longest length
_MAX_DIGITS = 10


def whole_bytes(value: Any) -> int:
    """Read a size; pydantic makes a message of its ``ValueError``."""
    try:
        size = parse_quantity(value, "byte", "size")
    except InputError as error:
        raise ValueError(str(error).removeprefix("size: ")) from None
    whole = round(size)
    # text such as "1.1 MB" may be off by the rounding of its conversion
    if abs(size - whole) > 1e-9 * abs(size):
        raise ValueError("expected whole bytes")
    return whole


def _queue_bytes(value: Any) -> int:
    return UNLIMITED if value == "unlimited" else whole_bytes(value)


Size = Annotated[int, BeforeValidator(whole_bytes), Field(ge=0, le=UNLIMITED)]
QueueSize = Annotated[int, BeforeValidator(_queue_bytes), Field(ge=1, le=UNLIMITED)]


def _token_count(value: object) -> object:
    """Read a length such as 8K or 1M, which stand for 8,192 and 1,048,576 tokens."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    scale = {"K": 2**10, "M": 2**20}.get(text[-1:].upper())
    digits = (text[:-1] if scale else text).strip()
    if THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    # more digits than any length has are not worth converting
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _MAX_DIGITS:
        raise ValueError("expected a number of tokens, such as 8192, 128K or 1M")
    return int(digits) * (scale or 1)


#: tokens of a sequence; text may end in K or M, powers of 1,024, as lengths of contexts are called
TokenCount = Annotated[int, BeforeValidator(_token_count), Field(strict=True, ge=1, le=10**9)]
