"""Files that experiments leave behind: written, or compared with what is there."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def settings(folder: Path) -> dict[str, Any]:
    """The experiment file of a folder."""
    return tomllib.loads((folder / "experiment.toml").read_text(encoding="utf-8"))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text of a table: the first column is of words, the others of numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def command_line(
    doc: str | None, *, resume: bool = False, fast: bool = False
) -> argparse.ArgumentParser:
    """Options of an experiment, described by the first line of its docstring."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.set_defaults(fast=False)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true", help="write the files of results")
    group.add_argument("--check", action="store_true", help="exit status 1 if they are out of date")
    if resume:
        parser.add_argument("--resume", action="store_true", help="keep what is there already")
    if fast:
        group.add_argument(
            "--fast", action="store_true", help="check a few points: exit status 1 if they differ"
        )
    return parser


def replace_between(text: str, name: str, body: str) -> str:
    """Replace what is between two marker comments of a document."""
    start, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, _, rest = text.partition(start)
    _, found, after = rest.partition(end)
    assert found, f"document lacks the markers of '{name}'"
    return f"{before}{start}\n{body}\n{end}{after}"


def write_or_check(wanted: Mapping[Path, str], write: bool, check: bool) -> int:
    """Write, or name, each file whose text is not the one wanted; return the exit status."""
    changed = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in changed:
        if write:
            path.write_text(wanted[path], encoding="utf-8")
        if write or check:
            name = path.resolve().relative_to(ROOT)
            print(f"{'written' if write else 'differs'}: {name}", file=sys.stderr)
    return 1 if check and changed else 0


def finish(wanted: Mapping[Path, str], options: argparse.Namespace) -> int:
    """Print the tables that were made, and write them or check them; return the exit status.

    After ``--fast`` they have some of the rows: each of these is to stand in the file of that name.
    """
    late = 0
    for path, text in wanted.items():
        if path.suffix != ".md":
            continue
        print(text, end="")
        if options.fast:
            there = set(path.read_text(encoding="utf-8").splitlines())
            rows = [line for line in text.splitlines() if line.startswith("|")]
            for row in rows:
                if row not in there:
                    print(f"differs: {path.resolve().relative_to(ROOT)}: {row}", file=sys.stderr)
                    late = 1
    return late or write_or_check(wanted, options.write, options.check)


def run_table(doc: str | None, table: Path, render: Callable[[], str]) -> int:
    """Print, write or check the one table that ``render()`` makes; return the exit status."""
    return finish({table: render()}, command_line(doc).parse_args())


def run(doc: str | None, render: Callable[..., Mapping[Path, str]]) -> int:
    """Print, write or check what ``render(fast=...)`` makes; return the exit status."""
    options = command_line(doc, fast=True).parse_args()
    return finish(render(fast=options.fast), options)
