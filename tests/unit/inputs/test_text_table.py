"""Tables in text: what is a cell, a row, a column, a number, and where it stands in the file."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.inputs.text_table import Columns, parse_table

COLUMNS = Columns("things", needed=("name", "size"), optional=("note",))


def table(text):
    return parse_table(text.encode(), "T", COLUMNS)


def line(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_columns_come_in_any_order():
    found = table("size,name\n3,a\n4,b\n")
    assert found.texts("name") == ["a", "b"]
    assert found.whole("size").tolist() == [3, 4]
    assert found.numbers("size").tolist() == [3.0, 4.0]


def test_rows_are_called_by_their_line_of_the_file():
    found = table("# a comment\n\nname,size\n\n# another\na,x\n")
    assert found.place(0) == "T, line 6"
    assert line(lambda: found.numbers("size")) == "T, line 6, cell 2: expected a number, got 'x'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name,size\na,1\nb\n", "T, line 3: 1 cells, expected 2 as in the header"),
        ("name,size\na,1,2\n", "T, line 2: 3 cells, expected 2 as in the header"),
        ("name,size,name\na,1,b\n", "T, line 1: column 'name' is there twice"),
        ("name\na\n", "T, line 1: column 'size' is missing"),
        ("name,sizes\na,1\n", "T, line 1: no column is called 'sizes'"),
    ],
)
def test_what_is_no_table_of_these_columns(text, expected):
    assert line(lambda: table(text)).startswith(expected)


@pytest.mark.parametrize("cell", ["inf", "-inf", "nan", "1e999", "", "one"])
def test_cells_that_are_no_finite_number(cell):
    found = table(f"name,size\na,{cell}\n")
    assert line(lambda: found.numbers("size")).startswith("T, line 2, cell 2: expected a number")


@pytest.mark.parametrize("cell", ["0.5", "1e300", "9007199254740993"])
def test_cells_that_are_no_whole_number(cell):
    found = table(f"name,size\na,1\nb,{cell}\n")
    assert line(lambda: found.whole("size")).startswith("T, line 3, cell 2: expected a whole numb")
    assert table("name,size\na,2.0\n").whole("size").tolist() == [2]


def test_defaults_stand_for_empty_cells_and_absent_columns():
    assert table("name,size,note\na,1,\nb,2,7\n").numbers("note", 5.0).tolist() == [5.0, 7.0]
    assert np.array_equal(table("name,size\na,1\n").numbers("note", 5.0), [5.0])
