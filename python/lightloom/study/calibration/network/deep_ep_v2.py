"""Times that the tests of DeepEP's second version print (``tests/elastic/test_ep.py``).

Every rank prints a time of each case; the slowest rank counts, and of the cases of a kind the
fastest. Ranks, experts and tokens are in its own words; experts are drawn from all servers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lightloom.errors import InputError
from lightloom.study.calibration.network.deep_ep import ELEMENT_BYTES, MAX_LINE, copies
from lightloom.study.calibration.network.readings import (
    MeasuredSize,
    Reading,
    Test,
    TokenShape,
    placed,
)

#: what one of its outputs has
MARK = re.compile(r"\| (?:dispatch|combine): \d{1,7} GB/s \(SO\)")
_RANKS = re.compile(r"> Ranks: (\d{1,6}) x (\d{1,6})")
_EXPERTS = re.compile(r"> Experts: (\d{1,4})/(\d{1,6})")
_TOKENS = re.compile(r"> Tokens: (\d{1,9}) \(max: \d{1,9}\), hidden: (\d{1,9})")
_CASE = re.compile(r"use_fp8_dispatch=([01])")
_TIME = re.compile(
    r"EP:\s{0,9}\d{1,6}/(\d{1,6}) \| (dispatch|combine): \d{1,7} GB/s \(SO\), "
    r"\d{1,7} GB/s \(SU\), (\d{1,9}(?:\.\d{1,6})?) us"
)


@dataclass
class _Found:
    """What was read so far; times of the case that goes on, and of the fastest ones before."""

    servers: int = 0
    each: int = 0
    top_k: int = 0
    experts: int = 0
    tokens: int = 0
    hidden: int = 0
    is_fp8: bool = False
    ranks: int = 0
    now: dict[Test, float] = field(default_factory=dict)
    best: dict[tuple[Test, str], float] = field(default_factory=dict)

    def end_case(self) -> None:
        """Keep a case where it was faster than others of its kind."""
        for test, seconds in self.now.items():
            element = "FP8" if self.is_fp8 and test == "dispatch" else "BF16"
            key = (test, element)
            self.best[key] = min(self.best.get(key, seconds), seconds)
        self.now = {}


def read_version_2(text: str, name: str) -> list[Reading]:
    """Read it.

    Raises
    ------
    InputError
        If it says no ranks, experts or tokens, or no time.
    """
    found = _Found()
    for line in (whole[:MAX_LINE] for whole in text.splitlines()):
        if ranks := _RANKS.search(line):
            found.servers, found.each = int(ranks[1]), int(ranks[2])
        elif experts := _EXPERTS.search(line):
            found.top_k, found.experts = int(experts[1]), int(experts[2])
        elif tokens := _TOKENS.search(line):
            found.tokens, found.hidden = int(tokens[1]), int(tokens[2])
        elif case := _CASE.search(line):
            found.end_case()
            found.is_fp8 = case[1] == "1"
        elif timed := _TIME.search(line):
            found.ranks = int(timed[1])
            test: Test = "dispatch" if timed[2] == "dispatch" else "combine"
            found.now[test] = max(found.now.get(test, 0.0), float(timed[3]) * 1e-6)
    found.end_case()
    if not found.best or not min(found.best.values()):
        raise InputError(f"{name}: no time of a dispatch or combine")
    if found.servers * found.each != found.ranks or not found.tokens or not found.hidden:
        raise InputError(
            f"{name}: its lines '> Ranks', '> Experts' and '> Tokens' are not those of "
            f"{found.ranks} ranks; keep them with the times"
        )
    return [_reading(found, *key, name) for key in found.best]


def _reading(found: _Found, test: Test, element: str, name: str) -> Reading:
    servers = placed(found.ranks, found.each, name)
    shape = TokenShape(
        found.tokens, found.hidden, found.experts, found.top_k, found.servers,
        ELEMENT_BYTES[element],
    )  # fmt: skip
    if not 0 < shape.top_k <= shape.experts or shape.experts % found.ranks:
        raise InputError(
            f"{name}: {shape.top_k} of {shape.experts} experts on {found.ranks} ranks; expected "
            "as many on each"
        )
    size = copies(shape, found.ranks, found.servers) * shape.hidden * shape.element_bytes
    point = MeasuredSize(size, found.best[test, element])
    return Reading(f"{name}: {test} in {element}", test, servers, (point,), tokens=shape)
