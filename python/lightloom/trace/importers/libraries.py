"""Whose kernels communicate, and what they do: ``libraries.toml`` by the names in profiles.

A name is taken apart as a demangler writes it, or as the Itanium C++ ABI mangles it. A kernel that
is of no library there communicates by its name if that has the words of a collective, or of
dispatchers; one that multiplies matrices as well does both, and counts as computation.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from lightloom.trace.importers.operations import operation_of

_TABLE = "libraries.toml"
#: of a library's table, what is no operation
_OTHER_KEYS = {"name", "source", "date", "namespaces", "others"}
#: words of names that say communication, whoever wrote the kernel
_WORDS = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?(?:to|2)_?all|(?<![a-z])a2a(?![a-z])|send_?recv"
    r"|(?:nv|roc)shmem|cross_device|multimem|int(?:er|ra)_?node",
    re.IGNORECASE,
)
_DISPATCHES = re.compile(r"dispatch|combine|a2a|all_?2_?all", re.IGNORECASE)
_FUSED = re.compile(r"gemm|matmul|attention|flash|(?<![a-z])w?g?mma", re.IGNORECASE)
_LENGTH = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class CommunicationKernel:
    """What a kernel that communicates does.

    Attributes
    ----------
    library
        Whose it is; empty where only its name says that it communicates.
    place
        Where its ranks are, as far as its name says it; else empty.
    op
        As of a call; ``None`` where the name does not say it.
    carries
        Whether it carries data of a call, and does not only prepare or await one.
    """

    library: str
    place: str
    op: str | None
    carries: bool = True


@dataclass(frozen=True, slots=True)
class _Library:
    name: str
    namespaces: tuple[str, ...]
    #: kind or operation, and names, the more special first
    names: tuple[tuple[str, tuple[str, ...]], ...]

    def kind_of(self, path: str, name: str) -> str | None:
        """What it says of a kernel in a namespace; ``None`` where it has no such kernel."""
        inside = any(path == name or path.startswith(f"{name}::") for name in self.namespaces)
        if self.namespaces and not inside:
            return None
        for kind, patterns in self.names:
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                return kind
        return None


@cache
def _libraries() -> tuple[tuple[_Library, ...], dict[str, str]]:
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return tuple(_library(entry) for entry in table["library"]), table["places"]


def _library(table: dict[str, Any]) -> _Library:
    first, last = ("prepares", "computes"), ("named",)
    middle = [key for key in table if key not in {*first, *last, *_OTHER_KEYS}]
    names = [(key, tuple(table[key])) for key in (*first, *middle, *last) if key in table]
    if "others" in table:
        names.append((table["others"], ("*",)))
    return _Library(table["name"], tuple(table.get("namespaces", ())), tuple(names))


def parts_of(name: str) -> tuple[str, ...]:
    """Namespaces and name of a kernel, without return type, template arguments and parameters."""
    plain = name.strip().removeprefix("void ").removesuffix(".kd")
    if plain.startswith("_Z"):
        return _mangled_parts(plain[2:])
    for unnamed in ("(anonymous namespace)::", "<unnamed>::"):
        plain = plain.replace(unnamed, "")
    end = re.search(r"[<(\s]", plain)
    return tuple((plain[: end.start()] if end else plain).split("::"))


def _mangled_parts(rest: str) -> tuple[str, ...]:
    """Parts of a mangled name: lengths and letters, until template arguments or parameters."""
    parts: list[str] = []
    rest = rest.removeprefix("N")
    while length := _LENGTH.match(rest):
        end = length.end() + int(length[0][:4])
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    return tuple(part for part in parts if not part.startswith("_GLOBAL__N_"))


@lru_cache(maxsize=1 << 16)
def communication_kernel(name: str) -> CommunicationKernel | None:
    """What a kernel does, by its name; ``None`` if it does not communicate."""
    libraries, places = _libraries()
    *spaces, last = parts_of(name) or ("",)
    path = "::".join(spaces)
    for library in libraries:
        kind = library.kind_of(path, last)
        if kind == "computes":
            return None
        if kind is not None:
            place = places.get(spaces[-1], "") if spaces else ""
            op = operation_of(last) if kind == "named" else None if kind == "prepares" else kind
            return CommunicationKernel(library.name, place, op, kind != "prepares")
    whole = "::".join((*spaces, last))
    if _WORDS.search(whole) and not _FUSED.search(whole):
        op = operation_of(last)
        return CommunicationKernel("", "", "all_to_all" if _DISPATCHES.search(last) else op)
    return None


@lru_cache(maxsize=1 << 16)
def is_fused(name: str) -> bool:
    """Whether a kernel of no library seems to compute and to communicate."""
    whole = "::".join(parts_of(name))
    return bool(_WORDS.search(whole) and _FUSED.search(whole))
