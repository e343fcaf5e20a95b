"""Reads a ``config.json`` that nobody vouches for.

Bounds are on the file's size, the nesting of its values and the length of its numbers, so that a
hostile file costs milliseconds and ends in one line of :class:`ModelError`. What the keys mean is
in ``mapping`` and ``families``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightloom.errors import ModelError, echo
from lightloom.inputs.files import read_file, shown_path
from lightloom.inputs.formats import JsonLimits, parse_json

#: the largest published configuration read so far (quantization by layer and expert) has 3 MB
MAX_CONFIG_BYTES = 16_000_000
#: published files have limits of ``Infinity``, in keys that shape nothing
LIMITS = JsonLimits(depth=16, digits=40, non_finite=True)

#: a parsed configuration
Config = dict[str, Any]


def read_config(path: Path) -> Config:
    """Read and parse one configuration file.

    Raises
    ------
    ModelError
        If the path is not a readable file of at most 16 MB, or its content is not a JSON object
        within the bounds.
    """
    content = read_file(path, "model configuration", MAX_CONFIG_BYTES, ModelError)
    return parse_config(content, shown_path(path))


def parse_config(content: bytes, where: str) -> Config:
    """Parse the bytes of a configuration file; ``where`` names it in messages.

    Raises
    ------
    ModelError
        As :func:`read_config`.
    """
    value = parse_json(content, where, ModelError, LIMITS)
    if not isinstance(value, dict):
        raise ModelError(f"{where}: expected a JSON object, as in config.json, got {echo(value)}")
    return value
