"""What operations and types are called elsewhere: by c10d, by NCCL's kernels, by PyTorch."""

from __future__ import annotations

import re
from functools import lru_cache

#: words in names, the more special first: ``reduce_scatter`` also has ``scatter``
_WORDS = {
    "reducescatter": "reduce_scatter",
    "allgather": "all_gather",
    "allreduce": "all_reduce",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "barrier": "barrier",
    # a kernel of NCCL: an all-to-all, or messages
    "sendrecv": None,
    "recv": "receive",
    "send": "send",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
_LETTERS = re.compile("[^a-z]+")

#: of c10d::ScalarType, and of C++ where shapes were recorded
_ELEMENT_BYTES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "byte": 1, "char": 1, "short": 2, "int": 4,
    "long": 8, "bool": 1, "long int": 8, "unsigned char": 1, "signed char": 1, "int8": 1,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


@lru_cache(maxsize=1 << 16)
def operation_of(name: str) -> str | None:
    """The operation of a call that c10d, NCCL or another library names."""
    plain = _LETTERS.sub("", name.partition("(")[0].partition("<")[0].lower())
    return next((op for word, op in _WORDS.items() if word in plain), None)


def type_name(dtype: str) -> str:
    """A type of elements without namespace, in small letters."""
    return dtype.lower().removeprefix("c10::")


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element; ``None`` for a type that is not known."""
    plain = type_name(dtype)
    return 1 if plain.startswith("float8") else _ELEMENT_BYTES.get(plain)
