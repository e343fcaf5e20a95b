"""The root of the command line: the names of the commands, and which module has each.

A family of commands is a :class:`CommandGroup` of its own, with a table such as that of the root.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from lightloom.cli.commands import COMMANDS, END, FAMILIES, SUMMARY, CommandEntry
from lightloom.cli.help import group_help, make_command
from lightloom.cli.terminal import common_parameters


class CommandGroup(typer.core.TyperGroup):
    """Commands that are imported as they are called."""

    entries: Mapping[str, CommandEntry]
    summary: str = SUMMARY
    end: str = END

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Return the names of the commands."""
        return list(dict.fromkeys(name.partition(" ")[0] for name in self.entries))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - typer's signature
        """Import a command; ``None`` if there is none of this name."""
        if cmd_name in self.entries:
            return make_entry(cmd_name, self.entries[cmd_name])
        family = {
            name.partition(" ")[2]: entry
            for name, entry in self.entries.items()
            if name.startswith(f"{cmd_name} ")
        }
        return make_family(cmd_name, family) if family else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            family = name.partition(" ")[0]
            row = (name, entry.summary) if family == name else (family, FAMILIES[family])
            rows = sections.setdefault(entry.section, [])
            if row not in rows:
                rows.append(row)
        formatter.write(group_help(ctx.command_path, self.summary, sections.items(), self.end))


def make_entry(name: str, entry: CommandEntry) -> Any:
    """Make the command of an entry; imports its module."""
    module = importlib.import_module(f"lightloom.cli.{entry.module}")
    return make_command(name, entry.summary, module.command())


def make_family(name: str, entries: Mapping[str, CommandEntry]) -> Any:
    """Make the group of the commands whose names begin with ``name``."""
    family = CommandGroup(
        name=name, help=FAMILIES[name], context_settings={"help_option_names": ["-h", "--help"]}
    )
    family.entries = entries
    family.summary = FAMILIES[name]
    family.end = f"Every command has --help, such as: lightloom {name} {next(iter(entries))} --help"
    return family


def root_command() -> Any:
    """Make the command that all others belong to."""
    app = typer.Typer(
        cls=CommandGroup,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=SUMMARY,
    )
    app.callback()(_with_common(_common))
    made: Any = typer.main.get_command(app)
    made.entries = COMMANDS
    return made


def _print_version(wanted: bool) -> None:
    if wanted:
        from lightloom import __version__

        print(f"lightloom {__version__}")
        raise typer.Exit


def _with_common(call: Any) -> Any:
    """Add the options that every command has."""
    signature = inspect.signature(call, eval_str=True)

    def with_common(**values: Any) -> None:
        call(**{name: values[name] for name in signature.parameters})

    parameters = [*signature.parameters.values(), *common_parameters()]
    # not in the usual way: there is one parameter for each option
    with_common.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_common


def _common(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            help="Show the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Take the options of the root; typer has called their callbacks."""
    del version
