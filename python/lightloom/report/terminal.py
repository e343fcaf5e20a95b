"""One style of tables for all commands, with all digits wherever they are printed.

Columns of numbers never wrap and are never cut, also where a terminal is too narrow for them or a
pipe has no width; columns of text wrap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

#: characters that a table may take
MAX_WIDTH = 1000
#: characters that a column of text has at least, if it needs as many
TEXT_WIDTH = 20


def plain_table(
    title: str,
    headers: Sequence[str],
    *,
    caption: str = "",
    left: Collection[str] = (),
    texts: Collection[str] = (),
) -> Table:
    """An empty table.

    Parameters
    ----------
    title
        One line above it.
    headers
        Of its columns, of several lines each if need be. Numbers are in columns from the second on.
    caption
        A sentence below it.
    left
        Headers of columns after the first that have names rather than numbers.
    texts
        Headers of columns whose text wraps.
    """
    # Headers and titles are Text: rich would take the [s] of a unit for a style.
    table = Table(
        title=Text(title, style="bold"),
        caption=Text(caption, style="dim"),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 0, 0, 1),
    )
    for number, header in enumerate(headers):
        is_left = number == 0 or header in left or header in texts
        table.add_column(
            Text(header, style="bold"),
            justify="left" if is_left else "right",
            no_wrap=header not in texts,
            vertical="bottom" if header not in texts and not texts else "top",
        )
    return table


def print_table(table: Table, console: Console) -> None:
    """Print a blank line, the title, the table with all of its digits, and the caption.

    No line ends in blanks.
    """
    title, caption = table.title, table.caption
    table.title = table.caption = None
    options = console.options.update(width=MAX_WIDTH)
    full = table_width(table, console)
    spared = sum(_width(column) - _needed(column) for column in table.columns)
    width = max(console.width, full - spared)
    lines = [_bare(line) for line in console.render_lines(table, options.update(width=width))]
    table.title, table.caption = title, caption
    if title:
        console.print()
        print_wrapped(title, console)
    for line in lines[: len(lines) if lines[-1] else -1]:
        console.print(line, soft_wrap=True)
    if caption:
        console.print()
        print_wrapped(caption, console)


def table_width(table: Table, console: Console) -> int:
    """Characters that a table takes if none of its columns wraps."""
    return Measurement.get(console, console.options.update(width=MAX_WIDTH), table).maximum


def print_wrapped(text: Text | str, console: Console, style: str = "") -> None:
    """Print text in lines of the console's width, none of which ends in blanks."""
    whole = text if isinstance(text, Text) else Text(text, style=style)
    for line in whole.wrap(console, console.width):
        line.rstrip()
        console.print(line, soft_wrap=True)


def print_sentence(text: str, console: Console, style: str = "") -> None:
    """Print a sentence: wrapped between words on a terminal, else on one line."""
    if console.is_terminal:
        print_wrapped(text, console, style)
    else:
        console.print(Text(text, style=style), soft_wrap=True)


def _bare(line: Iterable[Segment]) -> Text:
    """A line without the blanks at its end."""
    text = Text.assemble(*((part.text, part.style or "") for part in line))
    text.rstrip()
    return text


def _width(column: Column) -> int:
    """The widest line of a column."""
    lines = (
        line for cell in (column.header, *column.cells) for line in str(cell).splitlines() or [""]
    )
    return max(map(cell_len, lines))


def _needed(column: Column) -> int:
    return _width(column) if column.no_wrap else min(_width(column), TEXT_WIDTH)
