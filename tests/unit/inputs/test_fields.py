"""What fields say of themselves, and how text becomes their values."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from lightloom.errors import InputError
from lightloom.inputs.fields import Choices, OneOf, describe, field_of, parse, split_list
from lightloom.inputs.strict import File, Number, Strict, Switch, Whole, quantity


class Inner(Strict):
    """A table in the table."""


class Table(Strict):
    """One field of each kind."""

    count: Whole = Field(description="A count.")
    share: Annotated[Number, Field(ge=0)] = Field(0.5, description="A share.")
    rate_gbps: Annotated[float, quantity("gigabit / second")] = Field(400.0, description="A rate.")
    delay_s: Annotated[float, quantity("second")] | None = Field(None, description="A delay.")
    wait_s: Annotated[float, quantity("second")] = Field(1e-6, description="A wait.")
    path: File | None = Field(None, description="A path.")
    off: Switch = Field(False, description="A switch.")
    on: Switch = Field(True, description="A switch.")
    few: Literal["a", "b"] = Field("a", description="A letter.")
    mixed: Literal[1, 2, "fit"] = Field(2, description="A number, or 'fit'.")
    names: tuple[str, ...] = Field(("x", "y"), description="Names.")
    counts: tuple[Whole, ...] | None = Field(None, description="Counts.")
    named: Annotated[str, Choices(lambda: ("one", "two"))] = Field(
        "one", description="A name ({choices}) or a path."
    )
    word: Annotated[str, OneOf(["alpha", "beta", "gamma", "delta"])] = Field(
        "beta", description="A word."
    )
    inner: Inner = Field(Inner(), description="A table.")


def test_every_field_in_order():
    assert [field.name for field in describe(Table)] == list(Table.model_fields)


@pytest.mark.parametrize(
    ("name", "kind", "metavar", "default"),
    [
        ("count", int, "N", ""),
        ("share", float, "X", "0.5"),
        ("rate_gbps", float, "Gb/s", "400 Gb/s"),
        ("delay_s", float, "TIME", ""),
        ("wait_s", float, "TIME", "1 us"),
        ("path", Path, "PATH", ""),
        ("off", bool, "", ""),
        ("on", bool, "", "on"),
        ("few", str, "a|b", "a"),
        ("mixed", str, "1|2|fit", "2"),
        ("names", str, "NAME,...", "x,y"),
        ("counts", int, "N,...", ""),
        ("named", str, "one|two", "one"),
        ("word", str, "NAME", "beta"),
        ("inner", str, "NAME", ""),
    ],
)
def test_kind_unit_and_default(name, kind, metavar, default):
    field = field_of(Table, name)
    assert (field.kind, field.metavar, field.default) == (kind, metavar, default)
    assert field.required == (name == "count")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("few", "A letter."),
        ("named", "A name (one, two) or a path."),
        ("word", "A word: alpha, beta, gamma, delta."),
    ],
)
def test_a_sentence_has_the_choices_that_the_metavar_has_not(name, sentence):
    assert field_of(Table, name).sentence() == sentence


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "12", 12),
        ("count", "twelve", "twelve"),
        ("share", "0.25", 0.25),
        ("rate_gbps", "1.6 Tb/s", "1.6 Tb/s"),
        ("path", "a/b", "a/b"),
        ("on", "off", False),
        ("off", "true", True),
        ("off", "maybe", "maybe"),
        ("few", "b", "b"),
        ("mixed", "1", 1),
        ("mixed", "fit", "fit"),
        ("names", "p, q,,", ("p", "q")),
        ("counts", "1,2,x", (1, 2, "x")),
        ("word", "3", "3"),
    ],
)
def test_text_becomes_what_the_field_validates(name, text, value):
    assert parse(Table, name, text) == value


def test_one_of_is_validated_and_says_what_is_expected():
    with pytest.raises(InputError, match=r"omega: expected one of alpha, beta, gamma, delta$"):
        Table(count=1, word="omega")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("64,128,256", ["64", "128", "256"]),
        ("64,128", ["64", "128"]),
        ("128,256", ["128", "256"]),
        ("1,024", ["1,024"]),
        ("1,024,2,048", ["1,024", "2,048"]),
        ("512,1,024", ["512", "1,024"]),
        ("1,000,000", ["1,000,000"]),
        ("8,192", ["8,192"]),
        ("16,384", ["16,384"]),
        ("16, 384", ["16", "384"]),
        ("64,,128,", ["64", "128"]),
        ("200G,0.4T", ["200G", "0.4T"]),
        ("a100,h100", ["a100", "h100"]),
        ("0,000", ["0,000"]),
        (",", []),
    ],
)
def test_thousands_apart_are_one_number(text, values):
    assert split_list(text) == values
