"""The shape of a model as plain values, so that results can be repeated without its file."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lightloom.errors import ModelError
from lightloom.inputs.files import shown_path
from lightloom.models.model import Model


@functools.cache
def _adapter() -> TypeAdapter[Model]:
    return TypeAdapter(Model)


def model_record(model: Model) -> dict[str, Any]:
    """Return the fields of a model that differ from their defaults, as JSON has them."""
    values: dict[str, Any] = _adapter().dump_python(model, mode="json", exclude_defaults=True)
    return values


def recorded_model(values: Mapping[str, Any], name: str) -> Model:
    """Return the model of :func:`model_record`; ``name`` begins messages.

    Raises
    ------
    ModelError
        If the values are not those of a model.
    """
    try:
        return _adapter().validate_python(dict(values))
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise ModelError(
            f"{shown_path(name)}: its recorded shape has a wrong or missing value: {place}; run "
            "compare again"
        ) from None
