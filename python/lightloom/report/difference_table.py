"""What moved between two results, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from lightloom.report.terminal import plain_table, print_sentence, print_table
from lightloom.study.difference import Difference, MovedValue
from lightloom.units import show_change, show_number, show_option, show_things

#: rows of a table in a terminal, and characters of a path and of a value
MOST_ROWS, _PATH, _VALUE = 20, 34, 12
_INPUTS = "Inputs that differ"


def print_difference(difference: Difference, console: Console, *, details: bool = False) -> None:
    """Print the inputs that differ, what moved, and how much did not."""
    if difference.inputs:
        _print(_INPUTS, difference.inputs, console, details=details)
    if difference.moved:
        _print("What moved, the most first", difference.moved, console, details=details)
    console.print()
    print_sentence(_verdict(difference), console, "bold")


def _print(title: str, moved: Sequence[MovedValue], console: Console, *, details: bool) -> None:
    shown = moved if details else moved[:MOST_ROWS]
    left = len(moved) - len(shown)
    table = plain_table(
        title,
        ["value", "before", "after", "change"],
        caption=f"and {left:,} more: --verbose or --json has all of them" if left else "",
        texts=("value",),
    )
    table.columns[0].max_width = _PATH
    for value in shown:
        change = "-" if value.change is None else show_change(value.change, "+.3g")
        # a path may wrap after its dots
        path = Text(value.path.replace(".", ".\u200b"))
        before, after = _text(value.before, title), _text(value.after, title)
        table.add_row(path, before, after, change)
    print_table(table, console)


def _text(value: object, title: str) -> str:
    """A value; switches of inputs as they are typed, results in words."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = "yes" if value is True else "no" if value is False else str(value)
        text = show_option(value) if title == _INPUTS else text
        return text if len(text) <= _VALUE else f"{text[: _VALUE - 3]}..."
    return f"{value:.4g}" if abs(value) >= 1e9 or 0 < abs(value) < 1e-3 else show_number(value)


def _verdict(difference: Difference) -> str:
    count = len(difference.moved)
    if not count:
        return f"Nothing moved: {difference.unchanged:,} values are the same."
    why = ""
    if not difference.inputs:
        why = " though the inputs are the same: the versions or the data files differ"
    return f"{show_things(count, 'value')} moved{why}; {difference.unchanged:,} are the same."
