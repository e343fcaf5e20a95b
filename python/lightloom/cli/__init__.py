"""The command line: one file per command, each parses, calls and prints.

Errors of the input are one line on standard error and exit status 2; an interrupt leaves what was
finished and exits with 130.
"""

from __future__ import annotations

import sys

import typer

from lightloom.errors import LightloomError


def build_app() -> typer.Typer:
    """Assemble the application from its commands."""
    from lightloom.cli import compare, demand, explain, fabrics, models, run

    app = typer.Typer(
        name="lightloom",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help=(
            "Compare network fabrics for training Mixture-of-Experts models.\n\n"
            "Start with:  lightloom compare mixtral-8x22b --gpus 1024 --rate 400"
        ),
        epilog="Sizes are bytes, rates bits per second per direction; text may carry its own "
        "unit, such as --reconfig-delay '25 ms'.",
    )
    for command in (compare, explain, run, models, demand, fabrics):
        command.register(app)
    return app


def main() -> None:
    """Run the command line and turn what went wrong into one line and an exit status."""
    try:
        build_app()(standalone_mode=True)
    except LightloomError as error:
        print(f"lightloom: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("lightloom: interrupted; what was finished is kept", file=sys.stderr)
        raise SystemExit(130) from None
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"lightloom: {place}{error.strerror or error}", file=sys.stderr)
        raise SystemExit(2) from None
