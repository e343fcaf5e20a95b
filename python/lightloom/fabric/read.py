"""Fabrics by name or from a user's TOML file.

A file is flat: ``kind`` and any options of that kind, among them servers and rates of its own
(``gpus_per_server``, ``nics_per_server``, ``nic_gbps`` ...). Its name is its label by default.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom.errors import FabricError, did_you_mean, echo
from lightloom.fabric.chronos import Chronos
from lightloom.fabric.fat_tree import FatTree
from lightloom.fabric.mixnet import MixNet
from lightloom.fabric.oversub import Oversub
from lightloom.fabric.rail import Rail
from lightloom.fabric.topoopt import TopoOpt
from lightloom.inputs.arguments import table
from lightloom.inputs.formats import read_toml

AnyFabric = FatTree | Oversub | Rail | TopoOpt | MixNet | Chronos

#: class of each kind of fabric
FABRICS: dict[str, type[AnyFabric]] = {
    FatTree.kind: FatTree,
    Oversub.kind: Oversub,
    Rail.kind: Rail,
    TopoOpt.kind: TopoOpt,
    MixNet.kind: MixNet,
    Chronos.kind: Chronos,
}

#: what others call a kind of fabric
_OTHER_NAMES = {
    "clos": FatTree.kind,
    "leaf-spine": FatTree.kind,
    "spine-leaf": FatTree.kind,
    "non-blocking": FatTree.kind,
    "full-bisection": FatTree.kind,
    "ocs": MixNet.kind,
    "hybrid": MixNet.kind,
    "crossbar": Chronos.kind,
}


def fabric_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of fabrics to compare; ``all`` stands for every kind.

    Examples
    --------
    >>> fabric_names(["fat-tree", "mine.toml"])
    ('fat-tree', 'mine.toml')
    """
    kinds = ((tuple(FABRICS) if name == "all" else (name,)) for name in names)
    return tuple(itertools.chain(*kinds))


def unknown_fabric(kind: str) -> str:
    """What follows the name of a fabric that there is not: what was meant, and what there is."""
    plain = re.sub(r"[\s_]+", "-", kind.strip().lower())
    other = _OTHER_NAMES.get(plain)
    hint = f"; that is '{other}' here" if other else did_you_mean(plain, FABRICS)
    return f"{hint}; known: {', '.join(FABRICS)}, or a .toml file"


def load_fabric(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> AnyFabric:
    """Return a fabric by kind, or from a TOML file, with some options replaced.

    Parameters
    ----------
    name_or_path
        A key of ``FABRICS``, or a path that ends in ``.toml``.
    overrides
        Options that beat the defaults and the file.

    Raises
    ------
    FabricError
        If the kind or an option is unknown, a value is wrong or the file cannot be read.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.load_fabric("mixnet", {"degree": 4}).parameters()["degree"]
    4
    """
    replaced = {} if overrides is None else dict(table(overrides, "overrides", FabricError))
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".toml"):
        path = Path(name_or_path)
        options = read_toml(path, "fabric", FabricError)
        kind = options.pop("kind", None)
        if not isinstance(kind, str):
            known = ", ".join(FABRICS)
            raise FabricError(f'{path}: kind is needed, such as kind = "fat-tree"; known: {known}')
        cls = _class(kind, f"{path}: ")
        options.setdefault("label", path.stem[:60])
        return _build(cls, {**options, **replaced}, f"{path}: ")
    return _build(_class(text, ""), replaced, "")


def _class(kind: str, where: str) -> type[AnyFabric]:
    if kind not in FABRICS:
        raise FabricError(f"{where}unknown fabric {echo(kind)}{unknown_fabric(kind)}")
    return FABRICS[kind]


def _build(cls: type[AnyFabric], options: dict[str, Any], where: str) -> AnyFabric:
    try:
        return cls(**options)
    except FabricError as error:
        raise FabricError(f"{where}{error}") from None
