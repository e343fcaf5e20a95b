"""What every command has: ``--quiet``, ``--verbose`` and ``--no-color``, and its consoles.

Results go to standard output, remarks and progress to standard error. Without color where
``NO_COLOR`` is set, as everywhere (https://no-color.org).
"""

from __future__ import annotations

import inspect
import shlex
import sys
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lightloom.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Terminal:
    """How much a command prints, and how; and whether it writes files as well."""

    quiet: bool = False
    verbose: bool = False
    no_color: bool = False
    writes_files: bool = False


_terminal: ContextVar[Terminal | None] = ContextVar("terminal", default=None)

#: the options, and what they are for
COMMON = (
    ("--quiet", "-q", "Print results and errors alone: no progress, no remarks."),
    (
        "--verbose",
        "-v",
        "Print all tables, remarks and runs, and where an error was raised.",
    ),
    ("--no-color", "", "Print without color, as where NO_COLOR is set."),
)


def terminal() -> Terminal:
    """What the command that runs was called with."""
    return _terminal.get() or Terminal()


def reset() -> None:
    """Begin a command: nothing of this was given."""
    _terminal.set(Terminal())


def note_files() -> None:
    """Note that the command that runs writes files."""
    _terminal.set(replace(terminal(), writes_files=True))


def results_console() -> Console:
    """Where results are printed: standard output.

    Who closes it (a pager, ``head``) has read enough, and the command ends; but one that writes
    files goes on until they are there.
    """
    from rich.console import Console

    class ResultsConsole(Console):
        def on_broken_pipe(self) -> None:
            try:
                super().on_broken_pipe()
            except SystemExit:
                if not terminal().writes_files:
                    raise

    return ResultsConsole(highlight=False, no_color=terminal().no_color or None)


def remarks_console() -> Console:
    """Where progress and remarks are printed: standard error, or nowhere."""
    from rich.console import Console

    chosen = terminal()
    return Console(stderr=True, quiet=chosen.quiet, no_color=chosen.no_color or None)


def confirm(question: str, otherwise: str) -> None:
    """Ask on the terminal; return only after a yes.

    Parameters
    ----------
    question
        What is asked.
    otherwise
        What stands for the answer where nobody can be asked.

    Raises
    ------
    InputError
        If there is no terminal, or the answer is no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"nobody can be asked here, and nothing was changed; give {otherwise}")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("nothing was changed")


def command_line() -> str:
    """What was typed, for a shell; pages show it."""
    return shlex.join(["lightloom", *sys.argv[1:]])


def common_parameters() -> list[inspect.Parameter]:
    """Parameters that typer makes the options of."""
    return [_parameter(*names) for names in COMMON]


def _parameter(flag: str, letter: str, text: str) -> inspect.Parameter:
    name = flag.strip("-").replace("-", "_")

    def note(wanted: bool) -> None:
        if wanted:
            _terminal.set(replace(terminal(), **{name: True}))

    flags = [flag, letter] if letter else [flag]
    made: Any = typer.Option(*flags, callback=note, is_eager=True, help=text)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, made]
    )
