"""Reading an untrusted configuration file: bounds, and what the error texts say."""

import json
import os
from pathlib import Path

import pytest

from lightloom.errors import ModelError
from lightloom.models.config_file import MAX_BYTES, MAX_DEPTH, parse_config, read_config, show


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_parses_an_object_as_it_is() -> None:
    text = '{"hidden_size": 64, "rope": {"factor": 1.5}, "list": [true, null, "x"]}'
    assert parse_config(text.encode(), "here") == json.loads(text)


def test_accepts_a_byte_order_mark() -> None:
    assert parse_config(b'\xef\xbb\xbf{"a": 1}', "here") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "here is not JSON (line 1, column 1: Expecting value)"),
        (
            b'{"a": 1,\n}',
            "here is not JSON (line 2, column 1: Expecting property name enclosed in double ",
        ),
        (b"[1, 2]", "here holds [1, 2]; expected a JSON object, as in config.json"),
        (b"\xff\xfe{}", "here is not UTF-8 text; expected a model's config.json"),
        (b'{"a": 1, "a": 2}', "here: key 'a' is given twice; keep one"),
        (b'{"a": NaN}', "here: NaN is not a JSON number"),
        (b'{"a": -Infinity}', "here: -Infinity is not a JSON number"),
        (b'{"a": ' + b"9" * 41 + b"}", "here: a number of 41 digits; at most 40 are read"),
        (b'{"a": 0.' + b"9" * 39 + b"}", "here: a number of 41 signs; at most 40 are read"),
        (b"9" * 5000, "here: a number of 5000 digits; at most 40 are read"),
        (nested(MAX_DEPTH + 1), "here nests deeper than 16 levels"),
        (nested(100_000), "here nests deeper than 16 levels"),
        (b" " * (MAX_BYTES + 1), "here has more than 1,000,000 bytes; expected a model's config"),
    ],
)
def test_refuses_in_one_line(content: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_config(content, "here")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_deepest_nesting_allowed_is_read() -> None:
    assert parse_config(nested(MAX_DEPTH - 1), "here")["a"]


def test_file_errors_name_the_file_and_the_reason(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with pytest.raises(ModelError, match=r"cannot read .*missing\.json'?: No such file"):
        read_config(missing)
    with pytest.raises(ModelError, match=r"is not a file; give the path of a config\.json"):
        read_config(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="is not a file"):
        read_config(pipe)


def test_an_endless_file_is_refused_after_its_bound() -> None:
    with pytest.raises(ModelError, match="is not a file"):
        read_config(Path("/dev/zero"))


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(10 * MAX_BYTES)
    with pytest.raises(ModelError, match="more than 1,000,000 bytes"):
        read_config(large)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "'plain'"),
        ("two\nlines", "'two\\nlines'"),
        ("\x1b[31mred", "'\\x1b[31mred'"),
        ("é", "'é'"),
        ("\u2028", "'\\u2028'"),
        (12, "12"),
        ("x" * 100, "'" + "x" * 56 + "..."),
        (["a\tb"], "['a\\tb']"),
    ],
)
def test_show_is_one_short_printable_line(value: object, text: str) -> None:
    assert show(value) == text
