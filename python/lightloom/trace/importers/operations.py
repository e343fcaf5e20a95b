"""What operations are called elsewhere: by c10d, by NCCL's kernels, by DeepEP's."""

from __future__ import annotations

import re
from typing import NamedTuple

#: words in names, the more special first: ``reduce_scatter`` also has ``scatter``
_WORDS = {
    "reducescatter": "reduce_scatter",
    "allgather": "all_gather",
    "allreduce": "all_reduce",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "barrier": "barrier",
    # kernels of NCCL send and receive at once where PyTorch asks for an all-to-all
    "sendrecv": "all_to_all",
    "recv": "receive",
    "send": "send",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
_LETTERS = re.compile("[^a-z]+")
_DEEP_EP = re.compile(r"\bdeep_ep::(?:\w+::)*?(\w+)::(\w+)(?=[<(]|$)")
#: of NCCL (since 2.18 ncclDevKernel), of RCCL, which has kept the names, and of MSCCL
_NCCL = re.compile(r"^nccl|^void nccl|\bncclKernel|^msccl", re.IGNORECASE)
_DEEP_EP_PLACES = {
    "intranode": "inside a server", "internode": "between servers", "internode_ll": "low latency",
}  # fmt: skip

#: of c10d::ScalarType, and of C++ where shapes were recorded
_ELEMENT_BYTES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "byte": 1, "char": 1, "short": 2, "int": 4,
    "long": 8, "bool": 1, "long int": 8, "unsigned char": 1, "signed char": 1, "c10::half": 2,
    "c10::bfloat16": 2, "int8": 1, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


def operation_of(name: str) -> str | None:
    """The operation of a call that c10d, NCCL or another library names."""
    plain = _LETTERS.sub("", name.partition("(")[0].partition("<")[0].lower())
    return next((op for word, op in _WORDS.items() if word in plain), None)


class DeepEpKernel(NamedTuple):
    """A kernel of DeepEP: where its ranks are, what it does, and whether it carries tokens."""

    place: str
    part: str
    carries: bool


def deep_ep_kernel(name: str) -> DeepEpKernel | None:
    """What a kernel of DeepEP does; ``None`` for other kernels."""
    found = _DEEP_EP.search(name)
    if found is None:
        return None
    place, part = found.groups()
    plain = part.removeprefix("hybrid_").removesuffix("_impl")
    return DeepEpKernel(_DEEP_EP_PLACES.get(place, place), part, plain in ("dispatch", "combine"))


def is_communication(name: str) -> bool:
    """Whether a kernel communicates, by its name."""
    return _NCCL.match(name) is not None or deep_ep_kernel(name) is not None


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element; ``None`` for a type that is not known."""
    plain = dtype.lower()
    return 1 if plain.startswith("float8") else _ELEMENT_BYTES.get(plain)
