"""Parts of the reference that are made from the code and from data; the site's hooks call them."""

import importlib
import inspect
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from lightloom import _core
from lightloom.cli.commands import COMMANDS
from lightloom.control.region_file import RegionFile
from lightloom.fabric import FABRICS
from lightloom.fabric.circuit_options import CircuitOptions
from lightloom.inputs.fields import describe
from lightloom.study.compare.scenario import Scenario

ROOT = Path(__file__).parents[2]


def words_to_avoid() -> str:
    """The table of words to avoid, from the file that the vocabulary test reads."""
    entries = tomllib.loads((ROOT / "docs" / "glossary.toml").read_text())["avoid"]
    rows = ["| avoid | use |", "|---|---|"]
    for entry in entries:
        listed = [*entry.get("text", []), *entry.get("names", [])]
        words = dict.fromkeys(word.replace("_", " ").lower() for word in listed)
        rows.append(f"| {', '.join(words)} | {entry['use']} |")
    return "\n".join(rows)


def output_of(*arguments: str) -> str:
    """What a command prints, as a block of code."""
    run = subprocess.run(
        [sys.executable, "-m", "lightloom", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "79", "NO_COLOR": "1", "TERM": "dumb"},
    )
    lines = [line.rstrip() for line in run.stdout.splitlines()]
    return "\n".join(["```text", *lines, "```"])


def commands() -> str:
    """The complete help of every command."""
    return "\n\n".join(
        f"## {name}\n\n{output_of(*name.split(), '--help-all')}" for name in COMMANDS
    )


def fabrics() -> str:
    """All options of every fabric."""
    return "\n\n".join(f"## {kind}\n\n{output_of('fabrics', kind)}" for kind in FABRICS)


def circuits() -> str:
    """The keys of the table ``[circuits]`` of a topology file."""
    return keys_of(CircuitOptions)


def region_file() -> str:
    """All keys of a region's file, table by table."""
    return file_of(RegionFile, {"switches": "switches.NAME"})


def study() -> str:
    """All keys of a study's file, table by table, but for what results alone record."""
    return file_of(Scenario, {}, without=("model_shape", "price_list", "power_list"))


def file_of(kind: type[BaseModel], heads: dict[str, str], without: Iterable[str] = ()) -> str:
    """The keys of a file, those outside tables first; ``heads`` are of tables with other ones."""
    top, tables = [], []
    for name, field in kind.model_fields.items():
        section = next((part for part in parts_of(field.annotation) if is_table(part)), None)
        if section is not None:
            about = (inspect.getdoc(section) or "").partition("\n\n")[0]
            head = f"## `[{heads.get(name, name)}]`"
            tables.append(f"{head}\n\n{about}\n\n{keys_of(section)}")
        elif name not in without:
            top.append(name)
    return "\n\n".join([keys_of(kind, top), *tables])


def parts_of(annotation: object) -> list[object]:
    """A type, and those that it is made of."""
    inside = [part for one in get_args(annotation) for part in parts_of(one)]
    return [annotation, *inside]


def is_table(kind: object) -> bool:
    """Whether a type is a table of a file."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def keys_of(table: type[BaseModel], names: Iterable[str] | None = None) -> str:
    """The keys of a table of a file: values, defaults and meanings."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for field in describe(table):
        if names is None or field.name in names:
            value = (field.metavar or "true|false").replace("|", "\\|")
            default = {"on": "true"}.get(field.default or "", field.default)
            default = f"`{default}`" if default else ""
            rows.append(f"| `{field.name}` | {value} | {default} | {field.sentence()} |")
    return "\n".join(rows)


def choices(key: str) -> str:
    """The names of a closed set of the core, with their descriptions."""
    rows = [f"| `{name}` | {text} |" for name, text in _core.choices(key)]
    return "\n".join(["| name | meaning |", "|---|---|", *rows])


def module(name: str) -> str:
    """The public names of a module, where they are defined; documented by mkdocstrings.

    What ``lightloom`` itself exports is documented there only.
    """
    elsewhere = set() if name == "lightloom" else {id(t) for t in things("lightloom").values()}
    blocks = []
    for thing in things(name).values():
        home, qualified = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
        own = home and qualified and home.startswith("lightloom.") and not home.endswith("._core")
        if own and id(thing) not in elsewhere:
            blocks.append(f"::: {home}.{qualified}")
    return "\n\n".join(blocks)


def things(name: str) -> dict[str, object]:
    """The public things of a module by name, in alphabetical order."""
    found = importlib.import_module(name)
    return {public: getattr(found, public) for public in sorted(found.__all__, key=str.lower)}
