"""Spoiled requests for the core: values of the right kind that make no sense, rarely of another."""

import dataclasses
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

SIZES = [0, 1, 2, 3, 5, 7, 63, 64, 255, 1_000, 65_535]
EXTREME = [2**31 - 1, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
FLOATS = [0.0, -1.0, 1.0, 0.5, 2.0, 1e-300, 1e300, float("nan"), float("inf"), -float("inf")]
#: one value in so many is of another kind
STRANGE = 25


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value below a request that is not itself a container: its owner and its name there."""
    if isinstance(value, SimpleNamespace | dict):
        members = (value if isinstance(value, dict) else vars(value)).items()
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        return
    for name, inner in members:
        if isinstance(inner, SimpleNamespace | dict | list):
            yield from leaves(inner)
        if not isinstance(inner, SimpleNamespace | dict):
            yield value, name


def spoil(rng: random.Random, *requests: Any, maximum: int = 3) -> None:
    """Replace up to ``maximum`` values of requests."""
    found = [place for request in requests for place in leaves(request)]
    for owner, name in rng.choices(found, k=rng.randrange(maximum + 1)):
        fields = owner if isinstance(owner, dict | list) else vars(owner)
        fields[name] = other(rng, fields[name])


def other(rng: random.Random, value: Any) -> Any:
    """Something in the place of a value."""
    if rng.randrange(STRANGE) == 0:
        return rng.choice([None, "x", -1, 0.5, [], 2**70, np.zeros((2, 2))])
    match value:
        case bool():
            return not value
        case int():
            near = [value - 1, value + 1, value * 1_000, value // 1_000]
            return max(0, rng.choice([*SIZES, *EXTREME, *near]))
        case float():
            return rng.choice([*FLOATS, value * 1e-6, value * 1e6])
        case np.ndarray():
            return other_array(rng, value)
        case list():
            return rng.choice([value[1:], value[:-1], value * 2])
        case None:
            return rng.choice([*SIZES, *EXTREME])
    return value


def other_array(rng: random.Random, values: np.ndarray) -> np.ndarray:
    """An array with a few other entries, now and then of another length."""
    values = values.copy()
    if rng.randrange(8) == 0 and values.ndim == 1:
        return rng.choice([values[1:], values[:-1], np.repeat(values, 2), values[::-1]])
    flat = values.reshape(-1)
    for _ in range(rng.randrange(1, 4) if flat.size else 0):
        place = rng.randrange(flat.size)
        if flat.dtype.kind == "f":
            flat[place] = rng.choice(FLOATS)
        else:
            bits = 8 * flat.dtype.itemsize - (flat.dtype.kind == "i")
            near = int(flat[place]) + rng.choice([-1, 1])
            flat[place] = rng.choice([*SIZES, *EXTREME, near, near]) % 2**bits
    return values


def parts(value: Any) -> Any:
    """Attributes of a request, as plain objects whose own attributes can be replaced."""
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(parts(one) for one in value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, "_fields"):
        names = value._fields
    else:
        return value
    # a part of a network is known by the kind of its class
    extra = {"kind": value.kind} if hasattr(value, "kind") and "kind" not in names else {}
    # the core reads how many groups a block of demand has
    extra |= {"groups": value.groups} if "first_group" in names else {}
    return SimpleNamespace(**{name: parts(getattr(value, name)) for name in names}, **extra)


def listed(value: Any) -> Any:
    """The same with lists for tuples, whose members can be replaced."""
    if isinstance(value, SimpleNamespace):
        for name, inner in vars(value).items():
            setattr(value, name, listed(inner))
        return value
    return [listed(inner) for inner in value] if isinstance(value, list) else value
