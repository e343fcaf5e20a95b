"""Routing logs of inference engines: one JSON object per token and layer.

``{"req_id": "r1", "token_idx": 17, "layer": 3, "topk_ids": [5, 40, ...]}``, as users of vLLM and
SGLang record them. Other keys (weights, phases, times) are not read. Tokens are a stream in the
order in which the first layer saw them; every layer must have each of them. A token that comes
again, as where all requests have one name and each pass counts from 0, or after a preemption, was
routed again: its n-th line in one layer is of the same pass as its n-th in others. The log says
neither ranks nor steps nor how many experts there are.

Kept are a key of eight bytes per line and two bytes per choice.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.source import MAX_EXPERTS, MAX_INDEX, whole
from lightloom.errors import DemandError, echo

KEYS = ("req_id", "token_idx", "layer", "topk_ids")

#: bounds on requests, whose names are kept, on the length of such a name, and on layers
MAX_REQUESTS, MAX_NAME, MAX_LAYERS = 2_000_000, 200, 4096


class TokenLines:
    """Collects lines; :meth:`layers` puts tokens of all layers into one order."""

    def __init__(self) -> None:
        self.top_k = 0
        #: lines of the first layer whose token had come before, once :meth:`layers` has run
        self.repeated = 0
        self._requests: dict[str | int, int] = {}
        self._keys: dict[int, array[int]] = {}
        self._chosen: dict[int, array[int]] = {}

    @property
    def requests(self) -> int:
        """Different requests."""
        return len(self._requests)

    def add(self, row: dict[str, Any], where: str) -> int:
        """Take one line; returns the expert choices it held.

        Raises
        ------
        DemandError
            Naming the line, if it cannot be used.
        """
        for key in KEYS:
            if key not in row:
                raise DemandError(
                    f"{where}: '{key}' is missing; expected one object per token and layer with "
                    f"{', '.join(KEYS)}"
                )
        layer = _number(row["layer"], "layer", MAX_INDEX, where)
        token = _number(row["token_idx"], "token_idx", 1 << 32, where)
        chosen = self._choices(row["topk_ids"], where)
        if layer not in self._keys:
            if len(self._keys) == MAX_LAYERS:
                raise DemandError(f"{where}: more than {MAX_LAYERS:,} layers")
            self._keys[layer], self._chosen[layer] = array("Q"), array("H")
        self._keys[layer].append(self._request(row["req_id"], where) << 32 | token)
        self._chosen[layer].extend(chosen)
        return len(chosen)

    def _request(self, name: Any, where: str) -> int:
        request = self._requests.get(name) if isinstance(name, str | int) else None
        if request is not None:
            return request
        if not (whole(name) or isinstance(name, str)) or len(str(name)) > MAX_NAME:
            raise DemandError(
                f"{where}: req_id: expected text of up to {MAX_NAME} characters or a whole "
                f"number, got {echo(name)}"
            )
        if len(self._requests) == MAX_REQUESTS:
            raise DemandError(f"{where}: more than {MAX_REQUESTS:,} requests")
        return self._requests.setdefault(name, len(self._requests))

    def _choices(self, value: Any, where: str) -> list[int]:
        if not isinstance(value, list) or not value:
            raise DemandError(f"{where}: topk_ids: expected a list of experts, got {echo(value)}")
        for expert in value:
            if type(expert) is not int or not 0 <= expert < MAX_EXPERTS:
                raise DemandError(
                    f"{where}: expected expert numbers below {MAX_EXPERTS}, got {echo(expert)}"
                )
        if len(set(value)) != len(value):
            raise DemandError(f"{where}: a token chooses an expert twice: {echo(value)}")
        self.top_k = self.top_k or len(value)
        if len(value) != self.top_k:
            raise DemandError(
                f"{where}: top-{len(value)} routing, but the lines before are top-{self.top_k}; "
                "a log is of one model"
            )
        return value

    def layers(self, name: str) -> dict[int, npt.NDArray[np.uint16]]:
        """Choices ``(tokens, top_k)`` of every layer, the same token in the same row.

        Raises
        ------
        DemandError
            If a layer lacks a token that another one has.
        """
        first = next(iter(self._keys))
        order, tokens = self._sorted(first)
        self.repeated = int((tokens[1:] == tokens[:-1]).sum())
        by_layer = {}
        for layer in sorted(self._keys):
            rows, keys = self._sorted(layer)
            if len(keys) != len(tokens) or (keys != tokens).any():
                raise DemandError(f"{name}: {self._difference(keys, tokens, layer, first)}")
            table = np.frombuffer(self._chosen[layer], np.uint16).reshape(-1, self.top_k)
            placed = np.empty_like(table)
            placed[order] = table[rows]
            by_layer[layer] = placed
        return by_layer

    def _sorted(self, layer: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Order of the tokens of a layer, and their keys in it; repetitions as they came."""
        keys = np.frombuffer(self._keys[layer], np.uint64)
        order = np.argsort(keys, kind="stable")
        return order, keys[order]

    def _difference(
        self,
        keys: npt.NDArray[np.uint64],
        tokens: npt.NDArray[np.uint64],
        layer: int,
        first: int,
    ) -> str:
        """Which token one of two layers lacks, in words."""
        other = np.setxor1d(keys, tokens)
        if other.size:
            return (
                f"{self._words(int(other[0]))} is in only one of the layers {first} and {layer}; "
                "expected every token in every layer"
            )
        words, times = np.unique(keys, return_counts=True)
        _, expected = np.unique(tokens, return_counts=True)
        place = int(np.argmax(times != expected))
        return (
            f"{self._words(int(words[place]))} is {expected[place]:,} times in layer {first} and "
            f"{times[place]:,} times in layer {layer}; expected every token in every layer"
        )

    def _words(self, key: int) -> str:
        request = next(name for name, number in self._requests.items() if number == key >> 32)
        return f"token {key & 0xFFFFFFFF} of request {echo(request)}"


def _number(value: Any, key: str, limit: int, where: str) -> int:
    if not whole(value) or not 0 <= value < limit:
        raise DemandError(f"{where}: {key}: expected a whole number, got {echo(value)}")
    return int(value)
