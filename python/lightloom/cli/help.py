"""Help of commands: common options on one screen, all of them with ``--help-all``.

Plain lines under headings rather than boxes: a screen of 45 lines holds the common options of
every command with examples.
"""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from lightloom.cli.defaults import read_defaults, taken_defaults
from lightloom.cli.options import Command, Option
from lightloom.cli.terminal import COMMON, common_parameters, terminal
from lightloom.errors import InputError

#: the widest line, and the widest column of options
_MAX_WIDTH, _MAX_LEFT = 100, 30

Row = tuple[str, str]


class CommandWithHelp(typer.core.TyperCommand):
    """A command that prints its help from its description, and has defaults of the user."""

    #: set as soon as typer has made the command
    described: Command

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Parse the command line, with what the user's file says where it says nothing."""
        if not extra.get("resilient_parsing"):
            extra["default_map"] = read_defaults(str(info_name), self._options())
            self._refuse_repeated(list(args))
        return super().make_context(info_name, args, parent, **extra)

    def _refuse_repeated(self, words: list[str]) -> None:
        """Refuse what makes several runs if it is given twice: of other options the last counts.

        Raises
        ------
        InputError
            If one is.
        """
        words = words[: words.index("--")] if "--" in words else words
        for option in self._options():
            described = option.described
            if option.repeats or described.many or not described.metavar.endswith(",..."):
                continue
            flag = option.flag
            values = [
                word.partition("=")[2] if "=" in word else "".join(words[place + 1 : place + 2])
                for place, word in enumerate(words)
                if word.partition("=")[0] == flag
            ]
            if len(values) > 1:
                raise InputError(
                    f"{flag} is given {len(values)} times; write {flag} {','.join(values)}"
                )

    def invoke(self, ctx: Any) -> Any:
        """Say which options were not typed, and run."""
        for where, options in taken_defaults(ctx, self._options()).items():
            if not terminal().quiet:
                typer.echo(f"from {where}: {' '.join(options)}", err=True)
        return super().invoke(ctx)

    def _options(self) -> list[Option]:
        return [option for panel in self.described.panels for option in panel.options]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the common options."""
        formatter.write(command_help(ctx.command_path, self.help or "", self.described))


def make_command(name: str, summary: str, described: Command) -> Any:
    """Make the command that typer runs.

    Parameters
    ----------
    name, summary
        What it is called, and one sentence on what it does.
    described
        Everything else.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    call = described.callback()
    app.command(
        name,
        cls=CommandWithHelp,
        help=summary,
        context_settings={"help_option_names": ["-h", "--help"]},
    )(_with_help_all(call, described))
    made: Any = typer.main.get_command(app)
    made.described = described
    return made


def _with_help_all(call: Any, described: Command) -> Any:
    """Add the option that shows all options."""

    def show(context: typer.Context, wanted: bool) -> None:
        if wanted:
            summary = context.command.help or ""
            typer.echo(command_help(context.command_path, summary, described, everything=True))
            raise typer.Exit

    option = typer.Option("--help-all", callback=show, is_eager=True, help="Show all options.")
    parameter = inspect.Parameter(
        "help_all",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, option],
    )
    signature = inspect.signature(call)
    parameters = [*signature.parameters.values(), parameter, *common_parameters()]
    call.__signature__ = signature.replace(parameters=parameters)
    return call


def command_help(path: str, summary: str, command: Command, *, everything: bool = False) -> str:
    """The help of one command.

    Parameters
    ----------
    path
        The command as it is typed, ``lightloom compare``.
    summary
        One sentence on what it does.
    command
        Its description.
    everything
        Whether to show every option; by default the common ones.
    """
    sections = [
        (panel.title, [_row(option) for option in panel.options if everything or option.common])
        for panel in command.panels
    ]
    hidden = sum(not option.common for panel in command.panels for option in panel.options)
    sections = [(title, rows) for title, rows in sections if rows]
    width = min(_MAX_WIDTH, shutil.get_terminal_size().columns)
    left = min(_MAX_LEFT, max(len(name) for _, rows in sections for name, _ in rows))
    lines = [f"Usage: {_usage(path, command)}", "", *_wrapped(summary, width)]
    for title, rows in sections:
        lines += ["", _heading(title), *_columns(rows, left, width)]
    lines += ["", _heading("Examples"), *(f"  {example}" for example in command.examples)]
    if everything:
        names = [(", ".join(filter(None, (flag, letter))), text) for flag, letter, text in COMMON]
        lines += ["", _heading("Every command"), *_columns(names, left, width)]
    if command.notes:
        lines += ["", *_wrapped(command.notes, width)]
    if hidden and not everything:
        lines += ["", f"{hidden} more option{'s' * (hidden > 1)}: {path} --help-all"]
    return "\n".join(lines)


def group_help(path: str, summary: str, sections: Iterable[tuple[str, list[Row]]], end: str) -> str:
    """The help of a group of commands, each with one sentence.

    Parameters
    ----------
    path, summary
        As for :func:`command_help`.
    sections
        Headings, with names and sentences below each.
    end
        Whole lines that come last.
    """
    width = min(_MAX_WIDTH, shutil.get_terminal_size().columns)
    sections = list(sections)
    left = max(len(name) for _, rows in sections for name, _ in rows)
    lines = [f"Usage: {path} COMMAND [OPTIONS]", "", *_wrapped(summary, width)]
    for title, rows in sections:
        lines += ["", _heading(title), *_columns(rows, left, width)]
    return "\n".join([*lines, "", end])


def _usage(path: str, command: Command) -> str:
    options = [option for panel in command.panels for option in panel.options]
    words = [path]
    for option in options:
        is_needed = option.described.required or option.key in command.needed
        if option.is_argument:
            words.append(option.flag if is_needed else f"[{option.flag}]")
        elif is_needed:
            words.append(f"{option.flag} {option.described.metavar}")
    return " ".join([*words, "[OPTIONS]"])


def _row(option: Option) -> Row:
    description = option.described
    name = "/".join(option.flags)
    if not option.is_argument and description.metavar:
        name = f"{name} {description.metavar}"
    text = description.sentence()
    if description.default:
        text += f" [default: {description.default}]"
    return name, text


def _heading(title: str) -> str:
    return typer.style(f"{title}:", bold=True)


def _columns(rows: list[Row], left: int, width: int) -> Iterator[str]:
    for name, text in rows:
        first, *others = textwrap.wrap(text, max(30, width - left - 4), break_on_hyphens=False)
        if len(name) > left:
            yield f"  {name}"
            yield f"  {'':{left}}  {first}"
        else:
            yield f"  {name:{left}}  {first}"
        yield from (f"  {'':{left}}  {line}" for line in others)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)
