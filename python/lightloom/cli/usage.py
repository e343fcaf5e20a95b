"""A wrong command line as one line: what was given, what was expected, how to fix it.

typer draws boxes of several lines; here its exceptions become messages of the same kind as all
others. Only what typer's exceptions have in all versions since 0.26.1 is read, by name.
"""

from __future__ import annotations

from typing import Any

import typer

from lightloom.cli.other_names import ours
from lightloom.errors import did_you_mean

#: what typer raises for a wrong command line; typer itself exports its subclass only
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def one_line(error: Exception) -> str:
    """What is wrong with a command line, without a line break."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "lightloom")
    text = _specific(error, context, command) or _general(error, command)
    return " ".join(text.split())


def _specific(error: Exception, context: Any, command: str) -> str | None:
    """A message for the usual mistakes; ``None`` for all others."""
    parameter = getattr(error, "param", None)
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):  # an unknown one
        return _unknown_option(str(option), context, command)
    if parameter is not None and hasattr(error, "param_type"):  # one that is missing
        return f"{_called(parameter)} is missing{_meaning(parameter)}; {_example(context)}"
    if parameter is not None:
        return f"{_called(parameter)}: {getattr(error, 'message', error)}"
    listed = getattr(getattr(context, "command", None), "list_commands", None)
    commands = listed(context) if listed is not None else ()
    name = _quoted(str(getattr(error, "message", "")))
    if commands and name:
        return f"no command '{name}'{did_you_mean(name, commands)}; there are {', '.join(commands)}"
    return None


def _general(error: Exception, command: str) -> str:
    message = str(getattr(error, "message", error)).strip().rstrip(".")
    if message.startswith("Got unexpected extra argument"):
        message = f"more arguments than expected: {message.partition('(')[2].partition('(')[2]}"
        message = message.rstrip(")")
    return f"{message[:1].lower()}{message[1:]}; see {command} --help"


def _unknown_option(option: str, context: Any, command: str) -> str:
    named = getattr(context, "command", None)
    names = [name for parameter in getattr(named, "params", []) for name in _names(parameter)]
    if (called := ours(option, names)) is not None:
        return f"no option {option}; here it is {called}; see {command} --help"
    words = [name.removeprefix("--") for name in names if name.startswith("--")]
    hint = did_you_mean(option.lstrip("-"), words).replace("'", "'--", 1)
    return f"no option {option}{hint}; see {command} --help"


def _names(parameter: Any) -> list[str]:
    return [*getattr(parameter, "opts", []), *getattr(parameter, "secondary_opts", [])]


def _called(parameter: Any) -> str:
    """The option as it is typed, or the argument's name in capitals."""
    names = [name for name in _names(parameter) if name.startswith("--")]
    return names[0] if names else str(getattr(parameter, "name", "argument")).upper()


def _meaning(parameter: Any) -> str:
    text = str(getattr(parameter, "help", None) or "").rstrip(".")
    return f" ({text})" if text else ""


def _example(context: Any) -> str:
    """The first example of the command's help, else how to show the help."""
    described = getattr(getattr(context, "command", None), "described", None)
    command = getattr(context, "command_path", "lightloom")
    return f"for example: {described.examples[0] if described else f'{command} --help'}"


def _quoted(message: str) -> str:
    """What stands between the first pair of quotes."""
    parts = message.split("'")
    return parts[1] if len(parts) > 2 else ""
