"""Numbers that were invented, which tell once a program decides by them.

What Python's operators, ``math``, NumPy (where one number comes out) and PyTorch compute of them is
derived from them, too; what makes a plain number, an array or a size of them tells so, as C code
does that asks Python for the number. Not followed are texts, and what C code reads without asking:
that of PyTorch where it takes nothing but a number (``alpha``), and of some packages.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Invention(Protocol):
    """Where a number was invented."""

    def assume(self) -> None:
        """Note that the program decides by the number."""

    def derive(self, result: object) -> object:
        """Note that what tensors hold is derived from the number; returns them."""


class InventedNumber(float):
    """A number that a program took out of a tensor without data, such as a loss.

    What is computed from it is one, too. To print it is harmless; to compare it, or to make a whole
    number of it, steers the program.

    Parameters
    ----------
    value
        The number.
    source
        Is told where the program decides by it.
    """

    __slots__ = ("source",)

    def __new__(cls, value: float, source: Invention) -> InventedNumber:
        number = super().__new__(cls, value)
        number.source = source
        return number

    def __reduce__(self) -> Any:
        return float, (float.__float__(self),)

    __hash__ = float.__hash__

    def __array_ufunc__(
        self, ufunc: Callable[..., Any], method: str, *inputs: object, **kwargs: object
    ) -> object:
        """What NumPy computes: of single numbers one that is invented, too."""
        result = getattr(ufunc, method)(*plain(inputs), **kwargs)
        if ufunc.__name__ in TESTS:
            return result
        if getattr(result, "shape", None) == () and result.dtype.kind == "f":
            return InventedNumber(float(result), self.source)
        self.source.assume()
        return result

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """What PyTorch computes with tensors."""
        return followed(func, args, kwargs or {})


#: what every finite number passes or fails alike
TESTS = ("isnan", "isinf", "isfinite")

#: functions of ``math`` that return such a number
_MATH = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh",
    "degrees", "dist", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fmod", "fsum", "gamma",
    "hypot", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "nextafter", "pow", "prod",
    "radians", "remainder", "sin", "sinh", "sqrt", "tan", "tanh", "ulp",
)  # fmt: skip
#: those that return flags or several numbers, which nothing follows
_DECIDE = ("frexp", "isclose", "modf")
#: numbers of a list among which invented ones are looked for
_LOOKED_AT = 1000


def plain(values: object) -> Any:
    """Values, also in lists, with numbers that were invented as plain ones."""
    if isinstance(values, InventedNumber):
        return float.__float__(values)
    if type(values) in (list, tuple):
        return type(values)(map(plain, values))
    return values


def source_of(values: object) -> Invention | None:
    """Where the first of values was invented, also in lists; None where none was."""
    if isinstance(values, InventedNumber):
        return values.source
    if isinstance(values, (list, tuple)):
        few = values[:_LOOKED_AT]
        return next((source for value in few if (source := source_of(value))), None)
    return None


def followed(
    func: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]
) -> object:
    """The result of a function of PyTorch, derived from what was invented."""
    source = source_of(args) or source_of(list(kwargs.values()))
    result = func(*plain(args), **{name: plain(value) for name, value in kwargs.items()})
    if source is not None:
        source.derive(args[0] if getattr(func, "__name__", "") == "__setitem__" else result)
    return result


def follow(function: Callable[..., object]) -> Callable[..., object]:
    """A function that makes tensors of numbers, derived from those that were invented."""

    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> object:
        return followed(function, args, kwargs)

    return run


def follow_math() -> None:
    """Let functions of ``math`` return invented numbers for such."""
    for name in (*_MATH, *_DECIDE):
        if function := getattr(math, name, None):
            setattr(math, name, _following(function))


def _following(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> object:
        result = function(*args, **kwargs)
        source = source_of(args)
        if source is None:
            return result
        if isinstance(result, float):
            return InventedNumber(result, source)
        source.assume()
        return result

    return run


def _computing(name: str) -> Any:
    compute = getattr(float, name)

    def computed(self: InventedNumber, *others: object) -> Any:
        result = compute(self, *others)
        if isinstance(result, int):  # rounded
            self.source.assume()
        return InventedNumber(result, self.source) if isinstance(result, float) else result

    return computed


def _deciding(name: str) -> Any:
    decide = getattr(float, name)

    def decided(self: InventedNumber, *others: object) -> Any:
        # what is the same for every finite number says nothing of this one
        if not (others and (others[0] is self or _is_infinite(others[0]))):
            self.source.assume()
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
for _name in ("as_integer_ratio", "hex", "is_integer"):
    setattr(InventedNumber, _name, _deciding(_name))
