"""Options of a command, made from the fields of its models.

A command lists, panel by panel, the keys that its options set; everything else about an option
(its type, default, unit and help) is what the model's field says. The values that were given are
collected as nested tables, such as a TOML file has, and checked by the model, so that the command
line, a file and Python accept the same.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel

from lightloom.errors import InputError, echo
from lightloom.inputs.fields import FieldDescription, field_of, parse
from lightloom.inputs.strict import Strict, check

Kind = TypeVar("Kind", bound=Strict)


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option, or argument, of a command.

    Attributes
    ----------
    key
        Where its value goes, such as ``cluster.rate_gbps``.
    table
        The model that has the field.
    flag
        Its name; an argument's is in capitals.
    common
        Whether ``--help`` shows it; ``--help-all`` shows every option.
    repeats
        Whether it may be given several times.
    metavar
        What stands for its value, if the field's type does not say.
    optional
        Whether it may be left out even if the field is required, since a file may have it.
    is_typed
        Whether the command line alone gives it, since a file says it before defaults do.
    aliases
        Names in common use that are taken as well; help and messages have the flag.
    """

    key: str
    table: type[BaseModel]
    flag: str
    common: bool = False
    repeats: bool = False
    metavar: str = ""
    optional: bool = False
    is_typed: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the key: the name of the field."""
        return self.key.rpartition(".")[2]

    @cached_property
    def described(self) -> FieldDescription:
        """What the field says."""
        described = field_of(self.table, self.name)
        return replace(
            described,
            metavar=self.metavar or described.metavar,
            required=described.required and not self.optional,
        )

    @property
    def is_argument(self) -> bool:
        """Whether it has no dashes."""
        return not self.flag.startswith("-")

    @property
    def flags(self) -> tuple[str, ...]:
        """The flag, and the one that says no, if there is a choice."""
        description = self.described
        if description.kind is bool and (description.default or self._is_undecided):
            return self.flag, f"--no-{self.flag[2:]}"
        return (self.flag,)

    @property
    def parameter_name(self) -> str:
        """The name of the parameter that typer makes the option of."""
        return self.key.replace(".", "__")

    @property
    def variable(self) -> str:
        """The variable of the environment that stands for it."""
        return f"LIGHTLOOM_{self.flag.strip('-').replace('-', '_').upper()}"

    @property
    def _is_undecided(self) -> bool:
        return self.table.model_fields[self.name].default is None

    def _complete(self, incomplete: str) -> list[str]:
        """Names that a shell may complete; of a list the last one."""
        before, comma, last = incomplete.rpartition(",")
        start = before + comma if self.described.many else ""
        last = last if self.described.many else incomplete
        return [start + name for name in self.described.choices if name.startswith(last)]

    def parsed(self, value: Any) -> Any:
        """What was typed, as the field takes it.

        Raises
        ------
        InputError
            If it is a time without a unit, or no whole number where one is expected.
        """
        if isinstance(value, bool):
            return value
        if self.repeats:
            return tuple(value)
        described = self.described
        if described.quantity and self.name.endswith("_s") and _is_bare(value):
            raise InputError(f"{self.flag} {value}: a time needs its unit, such as '{value} ms'")
        quantity = parse(self.table, self.name, value)
        plain = described.kind is int and not described.quantity and not described.choices
        if plain and isinstance(quantity, str) and "," not in quantity:
            several = described.metavar.endswith(",...")
            raise InputError(
                f"{self.flag} {echo(value, quoted=False)}: expected a whole number"
                f"{_whole_hint(value, several=several)}"
            )
        return quantity

    def parameter(self) -> inspect.Parameter:
        """The parameter that typer makes the option of."""
        description = self.described
        if self.is_argument:
            parameter: Any = typer.Argument(metavar=self.flag, help=description.sentence())
        else:
            parameter = typer.Option(
                "/".join(self.flags),
                *self.aliases,
                metavar=description.metavar or None,
                help=description.sentence(),
                envvar=None if self.is_typed else self.variable,
                autocompletion=self._complete,
            )
        kind = bool if description.kind is bool else list[str] if self.repeats else str
        required = description.required
        return inspect.Parameter(
            self.parameter_name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if required else None,
            annotation=Annotated[kind if required else kind | None, parameter],
        )


@dataclass(frozen=True)
class Panel:
    """Options under one heading of the help."""

    title: str
    options: tuple[Option, ...]


def option(
    table: type[BaseModel],
    key: str,
    flag: str = "",
    *,
    common: bool = False,
    repeats: bool = False,
    metavar: str = "",
    below: str = "",
) -> Option:
    """An option that sets a field.

    Parameters
    ----------
    table
        The model that ``key`` begins in.
    key
        A field of it, or a dotted path to a field of a table in it.
    flag
        The name of the option; by default the last part of the key without its unit.
    common, repeats, metavar
        As for :class:`Option`.
    below
        Where the value goes, if ``table`` is not the model of the whole command.
    """
    *path, name = key.split(".")
    for part in path:
        inner = table.model_fields[part].annotation
        assert isinstance(inner, type), key
        assert issubclass(inner, BaseModel), key
        table = inner
    return Option(
        key=f"{below}.{key}" if below else key,
        table=table,
        flag=flag or _flag_of(name),
        common=common,
        repeats=repeats,
        metavar=metavar,
    )


def _flag_of(name: str) -> str:
    for suffix in ("_gbps", "_s", "_bytes", "_m"):
        name = name.removesuffix(suffix)
    return f"--{name.replace('_', '-')}"


class CommandCall:
    """The values of one call: tables of what was given, and what each key is called.

    Parameters
    ----------
    panels
        The options of the command.
    values
        By the names of :meth:`Option.parameter`; ``None`` where nothing was given.
    """

    def __init__(self, panels: tuple[Panel, ...], values: Mapping[str, Any]) -> None:
        self._options = {option.key: option for panel in panels for option in panel.options}
        self.tables: dict[str, Any] = {}
        #: keys that ``--set`` has given, which messages call by their own names
        self.settings: set[str] = set()
        for key, option in self._options.items():
            value = values.get(option.parameter_name)
            if value is not None:
                put(self.tables, key, option.parsed(value))

    def option(self, key: str) -> Option:
        """The option that sets a key."""
        return self._options[key]

    def flag(self, key: str) -> str:
        """What a key is called on the command line; itself if no option sets it."""
        if key in self.settings:
            return key
        # an entry of a list, such as plan.pp_layout.0, is called as the list
        option = self._options.get(key) or self._options.get(key.rstrip("0123456789").rstrip("."))
        return key if option is None else option.flag

    def has(self, key: str) -> bool:
        """Whether a value was given for a key."""
        tables: Any = self.tables
        for part in key.split("."):
            if not isinstance(tables, dict) or part not in tables:
                return False
            tables = tables[part]
        return True

    def take(self, kind: type[Kind], table: str) -> Kind:
        """Remove one table and return it as a model.

        Raises
        ------
        InputError
            If a value is missing, of the wrong type or out of range.
        """
        values = self.tables.pop(table, {})
        return check(kind, values, "", call=lambda key: self.flag(f"{table}.{key}"))

    def build(self, kind: type[Kind]) -> Kind:
        """Return all tables as one model.

        Raises
        ------
        InputError
            If a value is missing, of the wrong type or out of range.
        """
        return check(kind, self.tables, "", call=self.flag)


def _whole_hint(text: str, *, several: bool) -> str:
    """How to write a number with a prefix, or several numbers."""
    thousands = re.fullmatch(r"([0-9]{1,6})[kK]", text.strip())
    if thousands is not None:
        return f"; write {int(thousands[1]) * 1000} or {int(thousands[1]) * 1024}"
    return "; several are joined by commas, such as 64,128,256" if several else ""


def _is_bare(text: str) -> bool:
    """Whether text is a positive number without a unit; what else is no time is refused later."""
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def put(tables: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key in nested tables."""
    *path, last = key.split(".")
    for name in path:
        tables = tables.setdefault(name, {})
    tables[last] = value


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: what it takes, what it does, and how it is explained.

    Attributes
    ----------
    panels
        Its options.
    run
        Called with what was given.
    examples
        Whole command lines, the first one is shown where an argument is missing.
    notes
        Sentences below the examples.
    needed
        Keys that the usual call gives, although a file or another option may stand for them.
    """

    panels: tuple[Panel, ...]
    run: Callable[[CommandCall], None]
    examples: tuple[str, ...]
    notes: str = ""
    needed: tuple[str, ...] = ()

    def callback(self) -> Callable[..., None]:
        """The function that typer calls, with one parameter for each option."""

        def call(**values: Any) -> None:
            self.run(CommandCall(self.panels, values))

        parameters = [option.parameter() for panel in self.panels for option in panel.options]
        # not in the usual way: there is one parameter for each field, whatever the fields are
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call
