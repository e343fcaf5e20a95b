"""Bandwidths that DeepEP's own tests print: dispatch and combine, inside and between servers.

A reading is the best configuration of each. Bytes are counted as there: a token once for each
server that it goes to (for each GPU, inside a server), its own included. Versions that print no
time do print a bandwidth, of which the bytes make one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lightloom.errors import InputError
from lightloom.study.calibration.network.readings import (
    Given,
    MeasuredSize,
    Reading,
    Test,
    TokenShape,
)

#: what one of its outputs has
MARK = re.compile(r"\[tuning\] Best (?:dispatch|combine)")
_CONFIG = re.compile(r"\[config\] (.{1,400})")
_ITEM = re.compile(r"(num_tokens|hidden|num_topk_groups|num_topk)=(\d{1,9})")
_BEST = re.compile(r"\[tuning\] Best (dispatch|combine)(?: \((FP8|BF16)\))?:")
_RATE = re.compile(r"(\d{1,7}(?:\.\d{1,4})?) GB/s(?: \((NVL|RDMA)\))?")
#: what its tests take unless they are told otherwise
TOKENS, HIDDEN, EXPERTS, TOP_K, TOP_GROUPS = 4096, 7168, 256, 8, 4
#: bytes of an element: FP8 with a scale in FP32 for 128 of them, and BF16
ELEMENT_BYTES = {"FP8": 1 + 4 / 128, "BF16": 2.0}
MAX_LINE = 1_000


@dataclass(frozen=True)
class _Best:
    test: Test
    element: str
    rate: float
    is_between: bool


def read_deep_ep(text: str, name: str, given: Given, default_per_server: int) -> list[Reading]:
    """Read the output of ``test_intranode.py`` or ``test_internode.py``, or of both.

    Parameters
    ----------
    text, name
        Of the file.
    given, default_per_server
        What the user says of GPUs, which these tests do not print, and GPUs of a server.

    Raises
    ------
    InputError
        If there is no best bandwidth, or the GPUs are not known.
    """
    shape = TokenShape(TOKENS, HIDDEN, EXPERTS, TOP_K, TOP_GROUPS, 0.0)
    found: dict[tuple[Test, str, bool], tuple[_Best, TokenShape]] = {}
    for line in (whole[:MAX_LINE] for whole in text.splitlines()):
        if config := _CONFIG.search(line):
            shape = _shape_of(config[1])
        for best in _best_of(line):
            # each server prints; the slowest bounds them all
            key = (best.test, best.element, best.is_between)
            if key not in found or best.rate < found[key][0].rate:
                found[key] = (best, shape)
    if not found:
        raise InputError(f"{name}: no line '[tuning] Best dispatch ...' with a bandwidth in GB/s")
    return [
        _reading(best, shape, name, given, default_per_server) for best, shape in found.values()
    ]


def _shape_of(text: str) -> TokenShape:
    values = {key: int(digits) for key, digits in _ITEM.findall(text)}
    return TokenShape(
        values.get("num_tokens", TOKENS),
        values.get("hidden", HIDDEN),
        EXPERTS,
        values.get("num_topk", TOP_K),
        values.get("num_topk_groups", TOP_GROUPS),
        0.0,
    )


def _best_of(line: str) -> Iterator[_Best]:
    if (best := _BEST.search(line)) is None:
        return
    test: Test = "dispatch" if best[1] == "dispatch" else "combine"
    rates = {kind: float(rate) * 1e9 for rate, kind in _RATE.findall(line)}
    # between servers both are printed, of which NICs bound the time
    between = "RDMA" in rates
    rate = rates.get("RDMA", rates.get("NVL", rates.get("", 0.0)))
    if 0 < rate < math.inf:
        yield _Best(test, best[2] or "BF16", rate, between)


def _reading(best: _Best, shape: TokenShape, name: str, given: Given, per_server: int) -> Reading:
    size = given.gpus_per_server or per_server
    inside = replace(given, gpus=size, gpus_per_server=size)
    servers = (given if best.is_between else inside).servers(name, per_server)
    if best.is_between and servers.tier == "inside servers":
        raise InputError(
            f"{name}: has bandwidths over RDMA, and {servers}; give all GPUs with --gpus"
        )
    count = -(-servers.gpus // servers.gpus_per_server)
    groups = min(shape.top_groups, count)
    tokens = replace(shape, top_groups=groups, element_bytes=ELEMENT_BYTES[best.element])
    if tokens.experts % servers.gpus:
        raise InputError(f"{name}: {servers.gpus} GPUs do not divide its {tokens.experts} experts")
    _check(tokens, tokens.experts if count == 1 else tokens.experts // count * groups, name)
    size_bytes = copies(tokens, servers.gpus, count) * tokens.hidden * tokens.element_bytes
    label = f"{name}: {best.test} in {best.element}"
    point = MeasuredSize(size_bytes, size_bytes / best.rate)
    return Reading(label, best.test, servers, (point,), tokens=tokens)


def _check(shape: TokenShape, held: int, name: str) -> None:
    """Refuse a ``[config]`` with which nothing is sent, or with more experts than there are."""
    for key, value, most in (
        ("num_tokens", shape.tokens, None),
        ("hidden", shape.hidden, None),
        ("num_topk_groups", shape.top_groups, None),
        ("num_topk", shape.top_k, held),
    ):
        if value < 1 or (most is not None and value > most):
            limits = "1 or more" if most is None else f"1 to {most}"
            raise InputError(f"{name}: {key}={value} in its line [config]; expected {limits}")


def copies(shape: TokenShape, gpus: int, servers: int) -> float:
    """Copies that a GPU sends of its tokens, each once to a server or, inside one, to a GPU.

    Experts are drawn evenly: a token is on each of the servers that it may go to with the
    probability that one at least of its experts is there.
    """
    ends = gpus if servers == 1 else shape.top_groups
    each = shape.experts // gpus if servers == 1 else shape.experts // servers
    held = each * ends
    absent = math.comb(held - each, shape.top_k) / math.comb(held, shape.top_k)
    return shape.tokens * ends * (1 - absent)
