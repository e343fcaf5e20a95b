"""The YANG tree of an emulated SONiC switch: what is below a path, and what a value gives.

Modules, tables and leaves are those of the design document of SONiC for optical circuit switches,
revision 0.5, or those of its guide for developers, revision 0.2, where the hardware reports in
tables of the one module ``sonic-ocs``. A value may be wrapped in the names above it, with or
without their module, as SONiC's management framework takes and gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lightloom.control.emulator.sonic import SonicRefusedError, SonicTables

#: modules, each with one container of its own name
MODULES = ("sonic-ocs", "sonic-ocs-states")
CROSS_CONNECTS, PORTS = "OCS_CROSS_CONNECT", "OCS_PORT"
_KEYS = {CROSS_CONNECTS: "cross_connect_id", PORTS: "simplex_port_id"}
#: what follows the name of a table that the hardware reports, in the module of the configuration
_REPORTED = "_TABLE"
_LEAVES = {"cross_connect_id", "a_side", "b_side"}

Row = dict[str, Any]


class SonicPathError(Exception):
    """A path or a value is wrong, whatever the switch holds."""


class PathStep(NamedTuple):
    """One step of a path: a name, and the keys of an entry."""

    name: str
    keys: Mapping[str, str]


def below(tree: Any, steps: Iterable[PathStep]) -> Any:
    """Return what is below a path of OpenConfig; KeyError if nothing is.

    The modules of names that augment another one stay in the keys; a path may leave them out.
    """
    for step in steps:
        bare = {name.rpartition(":")[2]: name for name in tree}
        name = step.name if step.name in tree else bare[step.name.rpartition(":")[2]]
        value = tree[name]
        if step.keys:
            value = [row for row in value if all(row[k] == v for k, v in step.keys.items())]
            if not value:
                raise KeyError(step.name)
        found, tree = {name: value}, value[0] if isinstance(value, list) else value
        if not isinstance(tree, dict):
            tree = {}
    return found


class SonicTree:
    """The tree of one switch.

    Parameters
    ----------
    tables
        What it holds.
    platform
        Returns the tree of ``openconfig-platform``; without, there is none.
    """

    def __init__(
        self, tables: SonicTables, platform: Callable[[], dict[str, Any]] | None = None
    ) -> None:
        self._tables, self._platform = tables, platform

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that the switch has."""
        return MODULES if self._tables.has_state_module else MODULES[:1]

    def read(self, steps: list[PathStep]) -> Any:
        """Return what is below a path as JSON; raise KeyError if there is nothing."""
        if not steps:
            return {f"{module}:{module}": self._module(module) for module in self.modules}
        if self._platform is not None and steps[0].name.rpartition(":")[2] == "components":
            return below(self._platform(), steps)
        module, names = self._located(steps)
        if not names:
            return {f"{module}:{module}": self._module(module)}
        table, *rest = names
        rows = self._rows(module)[table.name]()
        if not rest:
            return {f"{module}:{_list_of(table.name)}": rows}
        entry, *leaf = rest
        if entry.keys:
            key = _key_of(table.name)
            rows = [row for row in rows if row[key] == entry.keys[key]]
            if not rows:
                raise KeyError(entry.keys[key])
        if leaf:
            return {f"{module}:{leaf[0].name}": rows[0][leaf[0].name]}
        return {f"{module}:{entry.name}": rows}

    def leaves(self, steps: list[PathStep]) -> Iterator[tuple[list[PathStep], str]]:
        """Yield the leaves of a table, or of its entry, by their paths; raise KeyError if none."""
        self.read(steps)
        module, names = self._located(steps)
        tables = [names[0].name] if names else list(self._rows(module))
        wanted = names[1].keys if len(names) > 1 else {}
        for table in tables:
            key, top = _key_of(table), [PathStep(f"{module}:{module}", {}), PathStep(table, {})]
            for row in self._rows(module)[table]():
                if wanted.get(key, row[key]) != row[key]:
                    continue
                entry = PathStep(_list_of(table), {key: row[key]})
                for leaf, value in row.items():
                    if len(names) < 3 or names[2].name == leaf:
                        yield [*top, entry, PathStep(leaf, {})], str(value)

    def below(self, steps: list[PathStep]) -> list[tuple[int, int]]:
        """Return the configured cross-connects below a path.

        Raises
        ------
        SonicPathError
            If the path leads to no configuration of cross-connects.
        """
        names = self._configurable(steps)
        if len(names) < 2 or not names[1].keys:
            return self._tables.configured()
        return self._pairs([names[1].keys[_KEYS[CROSS_CONNECTS]]])

    def given(self, steps: list[PathStep], value: object) -> list[tuple[int, int]]:
        """Return the cross-connects that a value gives to a path.

        Raises
        ------
        SonicPathError
            If it has another form than the model, or names other ports than its key.
        """
        names = self._configurable(steps)
        wrapping = (MODULES[0], CROSS_CONNECTS, f"{CROSS_CONNECTS}_LIST")
        for name in wrapping:
            if isinstance(value, dict) and list(value) in ([name], [f"{MODULES[0]}:{name}"]):
                (value,) = value.values()
        rows = [value] if isinstance(value, dict) else value
        if not isinstance(rows, list):
            raise SonicPathError("the value is no list of cross-connects")
        pairs = [self._pair_of(row) for row in rows]
        if len(names) == 2 and names[1].keys:
            wanted = names[1].keys[_KEYS[CROSS_CONNECTS]]
            if [self._tables.name(*pair) for pair in pairs] != [wanted]:
                raise SonicPathError(f"the value is not that of {wanted[:40]}")
        return pairs

    def pairs_of(self, rows: object) -> list[tuple[int, int]]:
        """Return the cross-connects of a list of rows."""
        if not isinstance(rows, list):
            raise SonicPathError("expected a list of cross-connects")
        return [self._pair_of(row) for row in rows]

    def named(self, names: object) -> list[tuple[int, int]]:
        """Return the cross-connects of a list of names."""
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise SonicPathError("expected a list of names")
        return self._pairs(names)

    def _pair_of(self, row: object) -> tuple[int, int]:
        prefix = f"{MODULES[0]}:"
        if not isinstance(row, dict):
            raise SonicPathError("a cross-connect is no object")
        row = {str(name).removeprefix(prefix): value for name, value in row.items()}
        if row.keys() != _LEAVES or not all(isinstance(value, str) for value in row.values()):
            raise SonicPathError("expected cross_connect_id, a_side and b_side")
        name = f"{row['a_side']}-{row['b_side']}"
        if row["cross_connect_id"] != name:
            raise SonicPathError(
                f"{row['cross_connect_id'][:40]} names other ports than {name[:40]}"
            )
        (pair,) = self._pairs([name])
        return pair

    def _pairs(self, names: Iterable[str]) -> list[tuple[int, int]]:
        pairs = []
        for name in names:
            if "," in name or ".." in name:
                raise SonicPathError(f"{name[:40]} is no cross-connect")
            try:
                pairs += self._tables.parse_pairs(name)
            except SonicRefusedError as error:
                raise SonicPathError(str(error)) from None
        return pairs

    def _located(self, steps: list[PathStep]) -> tuple[str, list[PathStep]]:
        """Return the module of a path and the steps below its container; KeyError if unknown."""
        first, *names = steps
        module, _, container = first.name.rpartition(":")
        if container not in self.modules or module not in {"", container} or first.keys:
            raise KeyError(first.name)
        names = [PathStep(step.name.removeprefix(f"{container}:"), step.keys) for step in names]
        tables = self._rows(container)
        if len(names) > 3 or (names and (names[0].name not in tables or names[0].keys)):
            raise KeyError(names[0].name)
        if len(names) > 1:
            key = _key_of(names[0].name)
            if names[1].name != _list_of(names[0].name) or names[1].keys.keys() - {key}:
                raise KeyError(names[1].name)
            if len(names) > 2 and not names[1].keys:
                raise KeyError(names[2].name)
        return container, names

    def _configurable(self, steps: list[PathStep]) -> list[PathStep]:
        """Return the steps below the container of configured cross-connects."""
        module, names = self._located(steps) if steps else ("", [])
        is_table = len(names) in {1, 2} and names[0].name == CROSS_CONNECTS
        if module != MODULES[0] or not is_table:
            raise SonicPathError("only cross-connects can be configured here")
        return names

    def _module(self, module: str) -> dict[str, dict[str, list[Row]]]:
        return {name: {_list_of(name): rows()} for name, rows in self._rows(module).items()}

    def _rows(self, module: str) -> dict[str, Callable[[], list[Row]]]:
        """Return what lists each table of a module."""
        tables = self._tables
        if module == MODULES[0]:
            rows: dict[str, Callable[[], list[Row]]] = {
                PORTS: lambda: _keyed(tables.port_config_rows(), PORTS),
                CROSS_CONNECTS: lambda: _keyed(tables.config_rows(), CROSS_CONNECTS),
            }
            if not tables.has_state_module:
                rows |= {
                    PORTS + _REPORTED: lambda: _keyed(tables.port_rows(), PORTS),
                    CROSS_CONNECTS + _REPORTED: lambda: _keyed(tables.path_rows(), CROSS_CONNECTS),
                }
            return rows
        return {
            PORTS: lambda: _keyed(tables.port_rows(), PORTS),
            CROSS_CONNECTS: lambda: _keyed(tables.status_rows(), CROSS_CONNECTS),
        }


def _list_of(table: str) -> str:
    return f"{table.removesuffix(_REPORTED)}_LIST"


def _key_of(table: str) -> str:
    return _KEYS[table.removesuffix(_REPORTED)]


def _keyed(rows: Iterable[Row], table: str) -> list[Row]:
    """Return rows whose first column has the name of the table's key."""
    return [
        {_KEYS[table] if name == "id" else name: value for name, value in row.items()}
        for row in rows
    ]
