"""The built-in predictors, which the core computes (``crates/predict``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core, plugins
from lightloom.demand.predictors.protocol import DemandPredictor, Loads
from lightloom.demand.source import MAX_INDEX, whole
from lightloom.errors import DemandError, did_you_mean, echo

#: what each predictor predicts, by its name
PREDICTORS: Mapping[str, str] = MappingProxyType(dict(_core.choices("predictor")))

#: more layers than any model has
_MAX_LAYER = 65_536


class BuiltInPredictor:
    """A :class:`~lightloom.demand.predictors.DemandPredictor` of the core.

    Parameters
    ----------
    name
        One of :data:`PREDICTORS`.
    experts
        Number of experts.
    window
        Steps over which ``copilot``, ``copilot-gradient`` and ``ridge`` fit.

    Raises
    ------
    DemandError
        If the name is unknown, or it cannot be made for so many experts or such a window.
    """

    def __init__(self, name: str, experts: int, *, window: int = 32) -> None:
        if name not in PREDICTORS:
            names = predictor_names()
            hint = did_you_mean(name, names)
            raise DemandError(f"unknown predictor '{name}'{hint}; known: {', '.join(names)}")
        self.experts = _check_index("experts", experts)
        with _refusals():
            self._core = _core.LoadPredictor(name, experts, _check_index("window", window))

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """See :class:`~lightloom.demand.predictors.DemandPredictor`."""
        _check_index("step", step)
        _check_index("layer", layer, _MAX_LAYER)
        rows: npt.NDArray[Any] = np.asarray(loads)
        if rows.shape != (self.experts,) or rows.dtype.kind not in "iuf":
            raise DemandError(
                f"loads: expected {self.experts} numbers, got {rows.dtype} of shape {rows.shape}"
            )
        with _refusals():
            self._core.observe(step, layer, rows.astype(np.float64))

    def predict(self, step: int, layer: int) -> Loads:
        """See :class:`~lightloom.demand.predictors.DemandPredictor`."""
        _check_index("step", step)
        _check_index("layer", layer, _MAX_LAYER)
        with _refusals():
            return self._core.predict(step, layer)


def predictor_names() -> tuple[str, ...]:
    """Return the names of all predictors: the built-in ones, then those of installed packages."""
    return tuple(dict.fromkeys([*PREDICTORS, *plugins.PREDICTORS.installed()]))


def make_predictor(name: str, experts: int, *, window: int = 32) -> DemandPredictor:
    """Make a predictor: a :class:`BuiltInPredictor`, or one of an installed package.

    A package names, in the entry point group ``lightloom.predictors``, a function that makes a
    predictor for a number of experts.

    Raises
    ------
    DemandError
        If the name is unknown, or it cannot be made for so many experts or such a window.
    InputError
        If a package's function cannot be imported or fails.
    """
    if name not in PREDICTORS and name in plugins.PREDICTORS.installed():
        make = plugins.PREDICTORS.load(name)
        with plugins.PREDICTORS.in_one_line(name):
            predictor: DemandPredictor = make(_check_index("experts", experts))
        return predictor
    return BuiltInPredictor(name, experts, window=window)


def _check_index(name: str, value: int, maximum: int = MAX_INDEX) -> int:
    if not whole(value) or not 0 <= value <= maximum:
        raise DemandError(f"{name}: expected a whole number from 0 to {maximum}, got {echo(value)}")
    return value


@contextmanager
def _refusals() -> Iterator[None]:
    """What the core refuses, as errors of this package."""
    try:
        yield
    except ValueError as error:
        raise DemandError(str(error)) from None
