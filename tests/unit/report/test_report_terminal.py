"""One style of tables, with all of their digits in any terminal and in pipes."""

import io

import pytest
from rich.console import Console

from lightloom.report.terminal import plain_table, print_table


def printed(table, width):
    console = Console(file=io.StringIO(), width=width)
    print_table(table, console)
    assert console.width == width
    return console.file.getvalue().splitlines()


@pytest.fixture
def table():
    table = plain_table(
        "Sizes [B]", ["name", "size\n[B]", "what"], caption="all of them", texts=["what"]
    )
    table.add_row("one", "123456789.123456789", "a long sentence about what this row has in it")
    table.add_row("another", "1", "short")
    return table


@pytest.mark.parametrize("width", [20, 60, 80, 300])
def test_numbers_are_whole_at_any_width(table, width):
    lines = printed(table, width)
    text = "\n".join(lines)
    assert "123456789.123456789" in text
    assert "…" not in text
    assert "Sizes [B]" in text
    assert "all of them" in text.replace("\n", " ")


def test_text_wraps_as_far_as_the_terminal_is_narrow(table):
    wide, fitting, narrow = (printed(table, width) for width in (300, 70, 20))
    assert any("a long sentence about what this row has in it" in line for line in wide)
    assert max(map(len, fitting)) <= 70
    assert len(narrow) > len(fitting) > len(wide)
    words = [word for line in narrow for word in line.split()]
    assert {"sentence", "about", "another", "short"} <= set(words)


@pytest.mark.parametrize(
    "command",
    [
        "models", "models deepseek-v3", "fabrics", "fabrics mixnet", "demand mixtral",
        "schedule --synthetic sparse --servers 8 --reconfiguration-delay 1ms --ports 2",
        "packets --hosts 4 --rate 100 --transport ndp --pattern permutation --bytes 20kB",
    ],
)  # fmt: skip
def test_tables_of_every_command_fit_80_columns(command, capsys, monkeypatch):
    from lightloom.cli import run_command

    monkeypatch.setenv("COLUMNS", "80")
    assert run_command(command.split()) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert "┃" not in out
    # rows of tables begin with one space, and are below a rule
    lines = out.splitlines()
    rules = [line for line in lines if line.strip().startswith("───")]
    assert rules
    assert max(len(line.rstrip()) for line in rules) <= 80
