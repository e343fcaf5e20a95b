"""Wrong values become one line: what was given, what was expected."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from lightloom.errors import InputError, echo
from lightloom.inputs.sizes import UNLIMITED, QueueSize, Size, TokenCount
from lightloom.inputs.strict import (
    File,
    Name,
    Number,
    Strict,
    Switch,
    Whole,
    check,
    keys_at,
    quantity,
)


class Inner(Strict):
    size: Whole = 1
    delay_s: Annotated[float, quantity("second"), Field(ge=0, le=1)] = 0.0


class Outer(Strict):
    name: Annotated[Name, Field(examples=['"x"'])]
    kind: Literal["red", "green", "blue"] = "red"
    share: Annotated[Number, Field(gt=0, lt=1)] = 0.5
    on: Switch = False
    inner: Inner = Inner()
    several: tuple[str, ...] = ()
    place: File | None = None


def message(call=None, **values):
    with pytest.raises(InputError) as caught:
        check(Outer, values, "f.toml", call)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 'f.toml: name is missing; add it, such as name = "x"'),
        ({"name": ""}, "f.toml: name = '': expected a name or path"),
        ({"name": 3}, "f.toml: name = 3: expected text"),
        (
            {"name": "a\nb"},
            "f.toml: name = a\\nb: expected a name or path without control characters",
        ),
        (
            {"name": "a", "kind": "gren"},
            "f.toml: kind = gren: expected one of red, green, blue; did you mean 'green'?",
        ),
        ({"name": "a", "share": 1}, "f.toml: share = 1: expected less than 1"),
        ({"name": "a", "share": 0.0}, "f.toml: share = 0.0: expected more than 0"),
        ({"name": "a", "share": float("nan")}, "f.toml: share = nan: expected a finite number"),
        ({"name": "a", "share": "0.5"}, "f.toml: share = '0.5': expected a number"),
        ({"name": "a", "on": 1}, "f.toml: on = 1: expected on or off"),
        ({"name": "a", "inner": 3}, "f.toml: inner = 3: expected a table of keys and values"),
        (
            {"name": "a", "inner": {"size": True}},
            "f.toml: inner.size = True: expected a whole number",
        ),
        ({"name": "a", "inner": {"size": 0}}, "f.toml: inner.size = 0: expected at least 1"),
        (
            {"name": "a", "inner": {"size": 10**10}},
            "f.toml: inner.size = 10000000000: expected at most 1,000,000,000",
        ),
        (
            {"name": "a", "inner": {"size": 1.5}},
            "f.toml: inner.size = 1.5: expected a whole number",
        ),
        (
            {"name": "a", "inner": {"delay_s": "2 s"}},
            "f.toml: inner.delay_s = 2 s: expected at most 1",
        ),
        (
            {"name": "a", "inner": {"delay_s": "2 m"}},
            "f.toml: inner.delay_s = 2 m: cannot read '2 m' as a time such as '25 ms'",
        ),
        (
            {"name": "a", "several": "x"},
            'f.toml: several = x: expected a list, such as ["fat-tree", "mixnet"] '
            "or [16, 16, 15, 15]",
        ),
        ({"name": "a", "place": 3}, "f.toml: place = 3: expected the path of a file"),
        (
            {"name": "a", "place": "\x00"},
            "f.toml: place = \\x00: expected a path without control characters",
        ),
        (
            {"name": "a", "inner": {"sise": 3}},
            "f.toml: unknown key 'inner.sise'; did you mean 'size'?",
        ),
        (
            {"name": "a", "zzz": 3},
            "f.toml: unknown key 'zzz'; known: name, kind, share, on, inner, several, place",
        ),
    ],
)
def test_one_line(values, expected):
    assert message(**values) == expected


def test_a_misspelt_key_is_reported_rather_than_the_missing_one():
    assert message(nam="a") == "f.toml: unknown key 'nam'; did you mean 'name'?"


class Sized(Strict):
    size: Size = 0
    queue: QueueSize = 1


@pytest.mark.parametrize(
    ("text", "size"), [(3, 3), ("3 kB", 3000), ("1.1 MB", 1_100_000), ("2 KiB", 2048), (5.0, 5)]
)
def test_sizes_are_whole_bytes(text, size):
    assert Sized(size=text).size == size
    assert Sized(queue=text).queue == size


@pytest.mark.parametrize("text", [0.5, "1.5 B", "0.0001 kB", 2.25])
def test_there_is_no_part_of_a_byte(text):
    with pytest.raises(InputError, match="expected whole bytes"):
        Sized(size=text)


class Context(Strict):
    seq_len: TokenCount = 1


@pytest.mark.parametrize(
    ("text", "tokens"),
    [(8192, 8192), ("8192", 8192), ("8K", 8192), (" 128k", 131_072), ("1M", 1_048_576),
     ("131,072", 131_072), ("1 m", 1_048_576)],
)  # fmt: skip
def test_lengths_end_in_powers_of_1024(text, tokens):
    assert Context(seq_len=text).seq_len == tokens


@pytest.mark.parametrize("text", ["", "K", "8Q", "1.5M", "-8K", "8KK", "8,19", "9" * 5000, "8 192"])
def test_other_lengths_are_refused(text):
    with pytest.raises(InputError, match="expected a number of tokens, such as 8192, 128K or 1M"):
        Context(seq_len=text)


@pytest.mark.parametrize("value", [0, "0", "1000M", True, 8.0])
def test_lengths_are_whole_and_in_range(value):
    with pytest.raises(InputError):
        Context(seq_len=value)


def test_a_queue_may_have_no_limit():
    assert Sized(queue="unlimited").queue == UNLIMITED
    for wrong in ({"size": "unlimited"}, {"queue": 0}, {"size": -1}, {"size": UNLIMITED + 1}):
        with pytest.raises(InputError):
            Sized(**wrong)


def test_flags_are_written_as_typed():
    text = message(lambda key: f"--{key}", name="a", share=2)
    assert text == "f.toml: --share 2: expected less than 1"


def test_right_values_pass():
    made = check(Outer, {"name": "a", "inner": {"delay_s": "25 ms"}, "place": "/x/y"}, "")
    assert made.inner.delay_s == pytest.approx(0.025)
    assert made.place == Path("/x/y")


def test_long_values_are_cut():
    assert len(echo("x" * 1000, quoted=False)) == 60
    assert echo("x" * 60, quoted=False) == "x" * 60


def test_keys_of_tables():
    assert keys_at(Outer, ("inner",)) == ["size", "delay_s"]
    assert keys_at(Outer, ("kind",)) == []
    assert keys_at(Outer, ("nothing", "there")) == []


def test_wrong_arguments_of_a_constructor_are_one_line():
    with pytest.raises(InputError) as caught:
        Outer(name="a", inner={"size": 0})
    assert str(caught.value) == "inner.size = 0: expected at least 1"
    with pytest.raises(InputError, match="unknown key 'nam'; did you mean 'name'"):
        Outer(nam="a")


class Rows(Strict):
    rows: dict[str, Inner] = Field(default_factory=dict)
    sizes: list[int] | None = None
    either: Annotated[float, Field(ge=0)] | Literal["auto"] = 0.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rows": {"x": {"sise": 1}}}, "unknown key 'rows.x.sise'; did you mean 'size'?"),
        ({"sizes": [1, "x"]}, "sizes.1 = x: expected a whole number"),
        ({"either": -1.0}, "either = -1.0: expected at least 0"),
    ],
)
def test_places_in_mappings_lists_and_unions(values, expected):
    with pytest.raises(InputError) as caught:
        check(Rows, values, "")
    assert str(caught.value) == expected


@pytest.mark.parametrize(("value", "switched"), [(True, True), ("on", True), ("off", False)])
def test_a_switch_is_on_or_off_in_words_as_well(value, switched):
    assert check(Outer, {"name": "a", "on": value}, "f.toml").on is switched


@pytest.mark.parametrize("value", ["On", "yes", "true", "", 0, 1.0, None, ["on"]])
def test_a_switch_is_nothing_else(value):
    with pytest.raises(InputError, match=r"on = .*: expected on or off"):
        check(Outer, {"name": "a", "on": value}, "f.toml")
