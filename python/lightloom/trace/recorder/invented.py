"""Numbers that were invented, which tell once a program decides by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


class InventedNumber(float):
    """A number that a program took out of a tensor without data, such as a loss.

    What is computed from it by operators is one, too. To print it is harmless; to compare it, or to
    make a whole number of it, steers the program. What C code computes is a plain number, as is
    what ``float`` returns.

    Parameters
    ----------
    value
        The number.
    tell
        Is called where the program decides by it.
    """

    __slots__ = ("_tell",)

    def __new__(cls, value: float, tell: Callable[[], None]) -> InventedNumber:
        number = super().__new__(cls, value)
        number._tell = tell
        return number

    def __reduce__(self) -> Any:
        return float, (float.__float__(self),)

    __hash__ = float.__hash__


def _computing(name: str) -> Any:
    compute = getattr(float, name)

    def computed(self: InventedNumber, *others: object) -> Any:
        result = compute(self, *others)
        if isinstance(result, int):  # rounded
            self._tell()
        return InventedNumber(result, self._tell) if isinstance(result, float) else result

    return computed


def _deciding(name: str) -> Any:
    decide = getattr(float, name)

    def decided(self: InventedNumber, *others: object) -> Any:
        # what is the same for every finite number says nothing of this one
        if not (others and (others[0] is self or _is_infinite(others[0]))):
            self._tell()
        return decide(self, *others)

    return decided


def _is_infinite(number: object) -> bool:
    return isinstance(number, float) and not math.isfinite(number)


for _name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv",
    "mod", "rmod", "pow", "rpow", "neg", "pos", "abs", "round",
):  # fmt: skip
    setattr(InventedNumber, f"__{_name}__", _computing(f"__{_name}__"))
for _name in (
    "lt", "le", "gt", "ge", "eq", "ne", "bool", "int", "trunc", "floor", "ceil", "float",
    "divmod", "rdivmod",
):  # fmt: skip
    setattr(InventedNumber, f"__{_name}__", _deciding(f"__{_name}__"))
