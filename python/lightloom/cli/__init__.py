"""The command line: one file per command, each parses, calls and prints.

Exit status 0: done. 1: the reader of a pipe went away, and no file was to be written. 2: wrong
input, or a result could not be written; one line on standard error says which. 3: a simulated
network is stuck for ever. 130: interrupted, by Ctrl-C or SIGTERM; what was finished is kept.

A command is imported when it is called, so that ``lightloom --help`` imports none. The module of a
command has a function ``command`` that describes it (:class:`~lightloom.cli.options.Command`); what
is slow to import is imported when the command runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import IO, Any

from lightloom.errors import LightloomError, StuckError, printable

#: what is longer than any path or value that a person reads, and its beginning
_LONG_WORD = re.compile(r"(\S{200})\S{50,}")


def main() -> None:
    """Run the command line of this process and exit with its status."""
    with contextlib.suppress(ValueError):  # not the main thread: its owner handles signals
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    _tolerate_characters(sys.stdout)
    _tolerate_characters(sys.stderr)
    raise SystemExit(run_command(sys.argv[1:]))


def _tolerate_characters(stream: Any) -> None:
    """Print ``?`` for characters that an encoding such as latin-1 lacks, instead of failing."""
    if hasattr(stream, "reconfigure") and stream.errors == "strict":
        stream.reconfigure(errors="replace")


def run_command(arguments: Sequence[str]) -> int:
    """Run one command; what went wrong is one line on standard error.

    Parameters
    ----------
    arguments
        As on the command line, without the program's name; none of them stand for ``--help``.

    Returns
    -------
    int
        The exit status, see the module.
    """
    try:
        return _run(list(arguments) or ["--help"])
    except StuckError as error:
        _print_error("\n  ".join(str(error).split("; ")))
        return 3
    except LightloomError as error:
        _flush(sys.stdout)
        _trace(error)
        return _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted")
        return 130
    except MemoryError:
        return _fail("not enough memory; simulate a smaller job or fewer micro-batches")
    except BrokenPipeError:
        _discard(sys.stdout)
        return 1
    except OSError as error:
        _discard(sys.stdout)
        place = f"{error.filename}: " if error.filename else "standard output: "
        return _fail(f"{place}{error.strerror or error}")


def _run(arguments: list[str]) -> int:
    import typer

    from lightloom.cli.root import root_command
    from lightloom.cli.terminal import reset
    from lightloom.cli.usage import UsageError, one_line

    reset()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            status: Any = root_command()(
                _as_help(arguments), prog_name="lightloom", standalone_mode=False
            )
    except UsageError as error:
        return _fail(one_line(error))
    except typer.Abort:
        raise KeyboardInterrupt from None
    if sys.stdout is not None:  # it is None where it was closed before the start
        sys.stdout.flush()
    if status == 130:  # typer's own reading of an interrupt
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _as_help(arguments: list[str]) -> list[str]:
    """``help compare`` as ``compare --help``."""
    return [*arguments[1:], "--help"] if arguments[0] == "help" else arguments


def _trace(error: BaseException) -> None:
    """Print where an error was raised, with --verbose."""
    from lightloom.cli.terminal import terminal

    if terminal().verbose:
        import traceback

        with contextlib.suppress(OSError):
            lines = "".join(traceback.format_exception(error)).splitlines()
            print(*map(printable, lines), sep="\n", file=sys.stderr)


def _fail(message: str) -> int:
    """Print one line on standard error; return the status of wrong input."""
    # a word that fills screens, such as a path of 5,000 characters, is cut
    _print_error(_LONG_WORD.sub(r"\1...", " ".join(message.splitlines())))
    return 2


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print what Python code warns of in one line, without the place of the code."""
    from lightloom.cli.terminal import terminal

    if not terminal().quiet:
        _print_error(f"warning: {' '.join(str(message).split())}")


def _print_error(text: str) -> None:
    with contextlib.suppress(OSError):
        lines = "\n".join(map(printable, text.split("\n")))
        print(f"lightloom: {lines}", file=sys.stderr, flush=True)


def _flush(stream: IO[str] | None) -> None:
    """Write what is still in a stream's buffer, or let it go: leaving must not fail on it."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        _discard(stream)


def _discard(stream: IO[str] | None) -> None:
    """Let what is still in a stream's buffer go nowhere, so that leaving raises nothing more."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
