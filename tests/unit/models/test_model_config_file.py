"""Reading an untrusted configuration file: bounds, and what the error texts say."""

import json
import os
from pathlib import Path

import pytest

from lightloom.errors import ModelError
from lightloom.models.config_file import LIMITS, MAX_CONFIG_BYTES, parse_config, read_config


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
        (b"", "here: not valid JSON: Expecting value at column 1"),
        (
            b'{"a": 1,\n}',
            "here: not valid JSON: ",
        ),
        (b"[1, 2]", "here: expected a JSON object, as in config.json, got [1, 2]"),
        (b"\xff\xfe{}", "here: not UTF-8 text"),
        (b'{"a": 1, "a": 2}', "here: not valid JSON: key 'a' is given twice; keep one"),
        (
            b'{"a": ' + b"9" * 41 + b"}",
            "here: not valid JSON: a number of 41 characters; the limit",
        ),
        (
            b'{"a": 0.' + b"9" * 39 + b"}",
            "here: not valid JSON: a number of 41 characters; the limit",
        ),
        (b"9" * 5000, "here: not valid JSON: a number of 5000 characters; the limit is 40"),
        (nested(LIMITS.depth + 1), "here: not valid JSON: nests deeper than 16 levels"),
        (nested(100_000), "here: not valid JSON: nested too deeply"),
    ],
)
def test_refuses_in_one_line(content: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_config(content, "here")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_python_writes_for_infinity_is_read() -> None:
    limits = parse_config(b'{"time_step_limit": [0.0, Infinity], "b": NaN}', "here")
    assert limits["time_step_limit"] == [0.0, float("inf")]


def test_a_file_of_3_mb_is_read(tmp_path: Path) -> None:
    # published with a line of quantization for every expert of every layer
    large = tmp_path / "config.json"
    layers = {f"layer{number}": "x" * 60 for number in range(40_000)}
    large.write_text(json.dumps({"quantization_config": layers}))
    assert large.stat().st_size > 3_000_000
    assert len(read_config(large)["quantization_config"]) == 40_000


def test_the_deepest_nesting_allowed_is_read() -> None:
    assert parse_config(nested(LIMITS.depth - 1), "here")["a"]


def test_file_errors_name_the_file_and_the_reason(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with pytest.raises(ModelError, match=r"missing\.json: no such file"):
        read_config(missing)
    with pytest.raises(ModelError, match=r"expected a file, got a folder"):
        read_config(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="expected a file, got a pipe"):
        read_config(pipe)


def test_an_endless_file_is_refused_after_its_bound() -> None:
    with pytest.raises(ModelError, match="expected a file, got a device"):
        read_config(Path("/dev/zero"))


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(10 * MAX_CONFIG_BYTES)
    with pytest.raises(ModelError, match="exceed the limit of 16,000,000"):
        read_config(large)
