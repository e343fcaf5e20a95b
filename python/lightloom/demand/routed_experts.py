"""Experts of each token as arrays ``[tokens][layers][top-k]``, as vLLM and SGLang return them.

``routed_experts`` of an output (``enable_return_routed_experts``; vllm-project/vllm, pull request
28284) saved by ``numpy.save``, or as JSON by ``tolist()``. It is one stream of tokens, without
ranks and steps. A layer in which all choices are 0 is no MoE layer: the array has one place for
every layer.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.source import MAX_EXPERTS
from lightloom.errors import DemandError, echo
from lightloom.inputs.files import open_file, read_file
from lightloom.inputs.formats import parse_json

ENDING = ".npy"
MAX_FILE_BYTES = 4 * 10**9
_NESTED = re.compile(rb"\s*\[\s*\[\s*\[")
_EXPECTED = "expected experts as an array of tokens x layers x top-k"


def is_routed_experts(path: Path) -> bool:
    """Whether a file is such an array: by its ending, or by how its JSON begins.

    Raises
    ------
    DemandError
        If it cannot be read.
    """
    if path.suffix.lower() == ENDING:
        return True
    if path.is_dir() or path.suffix.lower() != ".json":
        return False
    with open_file(path, "routing log", MAX_FILE_BYTES, DemandError) as stream:
        return _NESTED.match(stream.read(1 << 12)) is not None


def read_routed_experts(path: Path) -> dict[int, npt.NDArray[np.uint16]]:
    """Choices ``(tokens, top_k)`` of every MoE layer.

    Raises
    ------
    DemandError
        If the file is no such array, or a token chooses an expert twice.
    """
    name = str(path)
    array = _of_numpy(path, name) if path.suffix.lower() == ENDING else _of_json(path, name)
    if array.ndim != 3 or not array.size or array.dtype.kind not in "iu":
        shape = " x ".join(map(str, array.shape))
        raise DemandError(f"{name}: {_EXPECTED}, got {shape} of {array.dtype}")
    if array.min() < 0 or array.max() >= MAX_EXPERTS:
        wrong = array.max() if array.max() >= MAX_EXPERTS else array.min()
        raise DemandError(f"{name}: expected expert numbers below {MAX_EXPERTS}, got {wrong}")
    layers = {}
    for layer in range(array.shape[1]):
        choices = np.ascontiguousarray(array[:, layer], dtype=np.uint16)
        if choices.shape[1] > 1 and not choices.any():
            continue
        ordered = np.sort(choices, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if twice.any():
            token = int(np.argmax(twice))
            raise DemandError(
                f"{name}: token {token} chooses an expert of layer {layer} twice: "
                f"{echo(choices[token].tolist())}"
            )
        layers[layer] = choices
    if not layers:
        raise DemandError(f"{name}: all choices are expert 0; nothing to replay")
    return layers


def _of_numpy(path: Path, name: str) -> npt.NDArray[Any]:
    with open_file(path, "routing log", MAX_FILE_BYTES, DemandError) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, _, dtype = read(stream)
            size = dtype.itemsize
            for length in shape:
                size *= length
            # no size is believed before it is compared with what is there
            if dtype.hasobject or size != path.stat().st_size - stream.tell():
                raise ValueError
            stream.seek(0)
            array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        except (KeyError, ValueError, EOFError, TypeError, OSError, SyntaxError):
            raise DemandError(f"{name}: not a whole array of numpy.save; {_EXPECTED}") from None
    return array


def _of_json(path: Path, name: str) -> npt.NDArray[Any]:
    rows = parse_json(
        read_file(path, "routing log", MAX_FILE_BYTES, DemandError), name, DemandError
    )
    try:
        return np.array(rows)
    except (ValueError, OverflowError, TypeError):
        raise DemandError(f"{name}: {_EXPECTED}, got lists of different lengths") from None
