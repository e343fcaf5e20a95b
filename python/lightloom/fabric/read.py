"""Fabrics as objects, by name, of installed packages, or from a user's TOML file.

A file has a ``kind`` and any options of that kind, among them servers and rates of its own
(``gpus_per_server``, ``nics_per_server``, ``rate_gbps`` ...). Its name is its label by default. The
kind ``topology`` is of files alone, and so is InfraGraph (``.json``), which is read as one. A
package names its classes in the entry point group ``lightloom.fabrics``, by their kind.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lightloom import plugins
from lightloom.errors import FabricError, did_you_mean, echo
from lightloom.fabric.chronos import Chronos
from lightloom.fabric.dual_plane import DualPlane
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.fat_tree import FatTree
from lightloom.fabric.helios import Helios
from lightloom.fabric.infragraph import options_of_infragraph
from lightloom.fabric.mixnet import MixNet
from lightloom.fabric.mixnet_optical_io import MixNetOpticalIo
from lightloom.fabric.nvl72 import Nvl72
from lightloom.fabric.opera import Opera
from lightloom.fabric.oversub import Oversub
from lightloom.fabric.rail import Rail
from lightloom.fabric.rail_only import RailOnly
from lightloom.fabric.rotornet import RotorNet
from lightloom.fabric.topology import Topology
from lightloom.fabric.topoopt import TopoOpt
from lightloom.fabric.torus import Torus
from lightloom.fabric.x_nest_plus import XnestPlus
from lightloom.inputs.arguments import table
from lightloom.inputs.files import MAX_TEXT_BYTES, read_input
from lightloom.inputs.formats import JsonLimits, parse_json, read_toml

if TYPE_CHECKING:
    from lightloom.fabric.base import Fabric

AnyTree = FatTree | Oversub | Rail | RailOnly | DualPlane | Nvl72
AnyRacks = RotorNet | Opera | Helios | XnestPlus
AnyFabric = AnyTree | TopoOpt | Torus | MixNet | MixNetOpticalIo | Chronos | AnyRacks | Topology

#: class of each built-in kind of fabric
FABRICS: dict[str, type[AnyFabric]] = {
    FatTree.kind: FatTree,
    Oversub.kind: Oversub,
    Rail.kind: Rail,
    TopoOpt.kind: TopoOpt,
    MixNet.kind: MixNet,
    Chronos.kind: Chronos,
    RotorNet.kind: RotorNet,
    Helios.kind: Helios,
    XnestPlus.kind: XnestPlus,
    RailOnly.kind: RailOnly,
    DualPlane.kind: DualPlane,
    Nvl72.kind: Nvl72,
    MixNetOpticalIo.kind: MixNetOpticalIo,
    Torus.kind: Torus,
    Opera.kind: Opera,
}

#: how the names of files end that describe a fabric
FILES = (".toml", ".json")
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
    "rotor": RotorNet.kind,
    "xnest": XnestPlus.kind,
    "x-nest": XnestPlus.kind,
    "xnest+": XnestPlus.kind,
    "x-nest+": XnestPlus.kind,
    "multi-plane": DualPlane.kind,
    "scale-up": Nvl72.kind,
    "tpu": Torus.kind,
    "3d-torus": Torus.kind,
}

#: what :class:`~lightloom.fabric.Fabric` has
_PARTS = (
    *("kind", "name", "adapt", "network", "bill_of_materials", "parameters", "effective"),
    *("reconfiguration", "candidates", "without", "knobs", "replace"),
)


def fabric_kinds() -> tuple[str, ...]:
    """Return every kind: the built-in ones, then those of installed packages."""
    return tuple(dict.fromkeys([*FABRICS, *plugins.FABRICS.installed()]))


def fabric_class(kind: str) -> type[AnyFabric]:
    """Return the class of a kind, imported from its package if it is not built in.

    Raises
    ------
    FabricError
        If there is no such kind.
    InputError
        If a package has it and cannot be imported.
    """
    if kind in FABRICS:
        return FABRICS[kind]
    if kind == Topology.kind:
        return Topology
    if kind not in plugins.FABRICS.installed():
        raise FabricError(f"unknown fabric {echo(kind)}{unknown_fabric(kind)}")
    kind_class = plugins.FABRICS.load(kind)
    if not (isinstance(kind_class, type) and issubclass(kind_class, FabricOptions)):
        raise FabricError(f"fabric '{kind}': expected a class based on FabricOptions")
    return cast("type[AnyFabric]", kind_class)


def working_kinds() -> tuple[str, ...]:
    """Return every kind that can be imported; a warning names any other."""
    kinds = []
    for kind in fabric_kinds():
        with plugins.FABRICS.left_out_with_a_warning(kind):
            fabric_class(kind)
            kinds.append(kind)
    return tuple(kinds)


def fabric_names(names: Sequence[object]) -> tuple[object, ...]:
    """Return the names of fabrics to compare; ``all`` stands for every kind that can be imported.

    What is no name, an object or a table, stays as it is.

    Examples
    --------
    >>> fabric_names(["fat-tree", "mine.toml"])
    ('fat-tree', 'mine.toml')
    """
    kinds = ((working_kinds() if name == "all" else (name,)) for name in names)
    return tuple(itertools.chain(*kinds))


def unknown_fabric(kind: str) -> str:
    """What follows the name of a fabric that there is not: what was meant, and what there is."""
    plain = re.sub(r"[\s_]+", "-", kind.strip().lower())
    other = _OTHER_NAMES.get(plain)
    hint = f"; that is '{other}' here" if other else did_you_mean(plain, fabric_kinds())
    return f"{hint}; known: {', '.join(fabric_kinds())}, or a .toml file"


def load_fabric(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Fabric:
    """Return a fabric by kind, or from a TOML file, with some options replaced.

    Parameters
    ----------
    name_or_path
        A kind of ``lightloom fabrics``, or a path that ends in ``.toml``, or in ``.json`` for
        InfraGraph.
    overrides
        Options that beat the defaults and the file.

    Raises
    ------
    FabricError
        If the kind or an option is unknown, a value is wrong or the file cannot be read.
    InputError
        If a package has the kind and cannot be imported.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.load_fabric("mixnet", {"ports": 4}).parameters()["ports"]
    4
    """
    replaced = {} if overrides is None else dict(table(overrides, "overrides", FabricError))
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(FILES):
        path = Path(name_or_path)
        options = _read(path)
        kind = options.pop("kind", None)
        if not isinstance(kind, str):
            kinds = ", ".join(fabric_kinds())
            raise FabricError(f'{path}: kind is needed, such as kind = "fat-tree"; known: {kinds}')
        options.setdefault("label", path.stem[:60])
        return _build(kind, {**options, **replaced}, f"{path}: ")
    return _build(text, replaced, "")


def _read(path: Path) -> dict[str, Any]:
    """Kind and options of a file, TOML or InfraGraph."""
    if path.suffix != ".json":
        return read_toml(path, "fabric", FabricError)
    content, name = read_input(path, "fabric", MAX_TEXT_BYTES, FabricError)
    return options_of_infragraph(parse_json(content, name, FabricError, JsonLimits()), name)


def fabric_of(table: Mapping[str, Any]) -> Fabric:
    """Return the fabric that a table describes: ``kind`` and options, as a file has them.

    Raises
    ------
    FabricError, InputError
        See :func:`load_fabric`.
    """
    options = dict(table)
    kind = options.pop("kind", None)
    if not isinstance(kind, str):
        raise FabricError(f"fabrics: expected a name, or a table with a kind, got {echo(table)}")
    return _build(kind, options, "fabrics: ")


def _build(kind: str, options: dict[str, Any], where: str) -> Fabric:
    try:
        fabric = fabric_class(kind)(**options)
    except FabricError as error:
        raise FabricError(f"{where}{error}") from None
    return check_fabric(fabric, f"{where}{kind}")


def check_fabric(value: object, what: str) -> Fabric:
    """Return what can do all that a fabric does.

    Raises
    ------
    FabricError
        If a part of :class:`~lightloom.fabric.Fabric` is missing.
    """
    missing = [name for name in _PARTS if not hasattr(value, name)]
    if isinstance(value, type) or missing:
        lacks = f"a {type(value).__name__} without {', '.join(missing)}" if missing else "a class"
        raise FabricError(
            f"{what}: expected a fabric, see docs/how-to/add-a-fabric.md, got {lacks}"
        )
    return cast("Fabric", value)
