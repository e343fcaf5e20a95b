"""One bounded reader: what is no readable regular file is refused in one line, at once."""

import io
import os
from pathlib import Path

import pytest

from lightloom.errors import DemandError, InputError
from lightloom.inputs.files import lines_of, read_file, read_input
from lightloom.inputs.formats import JsonLimits, parse_json, parse_toml
from lightloom.inputs.text_table import Columns, parse_rows, parse_table


def refusal(path, limit=10, error=InputError):
    with pytest.raises(error) as caught:
        read_file(path, "list", limit, error)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10)
    assert read_file(path, "list", 10) == b"x" * 10
    assert refusal(path, 9) == f"{path}: 10 bytes exceed the limit of 9"


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path) == f"{tmp_path}: expected a file, got a folder"
    hint = "expected a file, got a pipe; '-' stands for standard input"
    assert refusal(tmp_path / "pipe") == f"{tmp_path / 'pipe'}: {hint}"
    assert refusal(Path("/dev/zero")) == "/dev/zero: expected a file, got a device"
    assert refusal(tmp_path / "no", error=DemandError).endswith("no: no such file")
    assert refusal(Path("a\0b")) == r"a\x00b: cannot read the list: not a usable path"
    assert refusal(Path("a\nb")) == r"a\nb: no such file"
    link = tmp_path / "link"
    link.symlink_to(link)
    assert "cannot read the list: too many levels" in refusal(link)


def test_standard_input_has_the_same_limit(monkeypatch):
    read, write = os.pipe()
    os.write(write, b"x" * 11)
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(InputError, match="standard input: the list exceeds the limit of 10"):
            read_input("-", "list", 10)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input: is closed; give a file"):
        read_input("-", "list", 10)


def test_lines_are_called_by_their_number_and_measured():
    def lines(text, limit=5):
        return list(lines_of(io.BytesIO(text), "x", limit))

    assert lines(b"a\n\n  \nbcde\n") == [("x, line 1", b"a\n"), ("x, line 4", b"bcde\n")]
    with pytest.raises(InputError, match="x, line 3: longer than the limit of 5 bytes"):
        lines(b"a\n\nbcdef\n")
    # without a limit that is held, the rest of the line would follow as another
    with pytest.raises(InputError, match="x, line 1: longer than the limit of 5 bytes"):
        lines(b"b" * 100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[1]", "x: not valid JSON: Expecting ',' delimiter at column 5"),
        ('{"a": 1,\n}', "x: not valid JSON: "),
        ('{"a": NaN}', "x: not valid JSON: NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "x: not valid JSON: key 'a' is given twice; keep one"),
        ("[1" + "0" * 9 + "]", "x: not valid JSON: a number of 10 characters; the limit is 9"),
        ("[[[[1]]]]", "x: not valid JSON: nests deeper than 3 levels"),
        (b"\xff", "x: not UTF-8 text"),
    ],
)
def test_json_within_limits(text, message):
    with pytest.raises(DemandError) as caught:
        parse_json(text, "x", DemandError, JsonLimits(depth=3, digits=9))
    assert str(caught.value).startswith(message)


def test_json_without_limits_takes_the_last_of_equal_keys():
    assert parse_json('{"a": 1, "a": [[[[2]]]]}', "x") == {"a": [[[[2]]]]}


@pytest.mark.parametrize("part", [b"a.", b'"a".', b"'a' . "])
def test_keys_of_many_parts_cost_nothing(part):
    # Python's parser takes 1.7 GB for these 40 kB
    expected = "x: not valid TOML: a key has more than 32 parts"
    for text in (part * 20_000 + b"b = 1", b"[" + part * 20_000 + b"b]"):
        with pytest.raises(InputError, match=expected):
            parse_toml(text, "x")


def test_toml():
    assert parse_toml(b"\xef\xbb\xbfa = 1", "x") == {"a": 1}
    assert parse_toml(b'a = "1.' + b"1." * 100 + b'"', "x")["a"].startswith("1.1.1")
    with pytest.raises(InputError, match="x: not valid TOML: nested too deeply"):
        parse_toml(b"a = " + b"[" * 5000 + b"]" * 5000, "x")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_delimiter_is_found_in_the_first_line(mark):
    text = f"# a remark\n\na{mark}b\n1{mark}2\n".encode()
    table = parse_table(text, "x", Columns("things", needed=("a", "b")))
    assert (table.whole("a").tolist(), table.whole("b").tolist()) == ([1], [2])
    assert table.place(0) == "x, line 4"


def test_spaces_divide_cells_only_where_asked():
    assert parse_rows(b"1 2\n3  4", "x", "numbers", spaces=True).rows == [["1", "2"], ["3", "4"]]
    assert parse_rows(b"1 2", "x", "numbers").rows == [["1 2"]]


def test_the_error_is_of_the_class_that_was_asked_for():
    with pytest.raises(DemandError, match="x: 2 rows exceed the limit of 1"):
        parse_rows(b"1\n2", "x", "numbers", DemandError, max_rows=1)
    assert len(parse_rows(b"1\n2", "x", "numbers", DemandError, max_rows=2).rows) == 2
    table = parse_table(b"a\nz", "x", Columns("things", needed=("a",)), DemandError)
    with pytest.raises(DemandError, match="x, line 2, cell 1: expected a number, got 'z'"):
        table.numbers("a")
