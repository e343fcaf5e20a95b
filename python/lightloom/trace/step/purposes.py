"""Which parallelism a process group serves, by what programs call it."""

from __future__ import annotations

import re

from lightloom.trace.check import MESSAGES
from lightloom.trace.trace import Call

#: purpose -> names of groups, of Megatron, DeepSpeed, PyTorch's meshes and others; first come first
_NAMES = (
    ("pp", r"pipe|\bpp\b|embedding|embd"),
    ("dp", r"expert.*data|\bedp\b|optimizer"),
    ("tp", r"expert_tensor_parallel|\betp\b"),
    ("ep", r"expert|\bep\b|moe"),
    ("dp", r"data|\bdp\b|fsdp|shard|replicate|zero"),
    ("tp", r"tensor|model_parallel|\btp\b|\bmp\b"),
    ("cp", r"context|sequence|\bcp\b|\bsp\b"),
)
_PATTERNS = tuple((purpose, re.compile(pattern)) for purpose, pattern in _NAMES)


def purpose_of(call: Call) -> str:
    """The purpose of a call: ``tp ep pp dp cp``.

    By the name of its group; of a group without a telling name by what it does: all-to-alls are
    of experts, messages of pipelines, and others of data parallelism.
    """
    name = call.group.lower()
    words = name.replace("_", " ")
    for purpose, pattern in _PATTERNS:
        if pattern.search(name) or pattern.search(words):
            return purpose
    if call.op == "all_to_all":
        return "ep"
    return "pp" if call.op in MESSAGES else "dp"
