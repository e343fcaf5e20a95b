"""Strict TOML with sources: what is accepted, and the one line that refuses the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from lightloom.errors import HardwareError
from lightloom.hardware.values import (
    Provenance,
    Source,
    Table,
    Value,
    check_rates,
    parse_table,
    read_toml,
    resolve,
    row_at_rate,
)


class Inner(Table):
    price_usd: Value


class Outer(Table):
    sources: dict[str, Source] = Field(default_factory=dict)
    rows: dict[str, Inner] = Field(default_factory=dict)
    single: Inner | None = None


def refused(text: str) -> str:
    with pytest.raises(HardwareError) as caught:
        parse_table(text, Outer, "f.toml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("f.toml: ")
    return message


def test_reads_values_with_source_and_mark():
    file = parse_table(
        '[rows.400]\nprice_usd = { value = 7, source = "a", assumed = true, note = "n" }\n'
        '[sources.a]\ntext = "A"\ndate = "2024"\n',
        Outer,
        "f",
    )
    values = resolve({"p": file.rows["400"].price_usd}, file.sources)
    assert values == {"p": Provenance(7.0, "A: n", "2024", True)}
    assert str(values["p"]) == "7 (A: n, 2024, assumed)"


def test_unknown_key_suggests_the_known_one():
    message = refused('[single]\nprice_us = { value = 1, source = "a" }\n')
    assert "unknown key 'single.price_us'; did you mean 'price_usd'?" in message
    message = refused('[single]\nprice_usd = { value = 1, source = "a", asumed = true }\n')
    assert message == "f.toml: unknown key 'single.price_usd.asumed'; did you mean 'assumed'?"


def test_unknown_key_in_a_row_of_a_mapping_suggests():
    message = refused('[rows.400.price_usd]\nvalue = 1\nsource = "a"\nvalu = 2\n')
    assert "unknown key 'rows.400.price_usd.valu'; did you mean 'value'?" in message


def test_missing_key_is_named():
    assert refused("[single]\nprice_usd = { value = 1 }\n") == (
        "f.toml: single.price_usd.source is missing; add it"
    )


@pytest.mark.parametrize("value", ["-1", "nan", "inf", '"dear"'])
def test_wrong_values_are_refused_with_what_was_given(value):
    message = refused(f'[single]\nprice_usd = {{ value = {value}, source = "a" }}\n')
    assert f"single.price_usd.value = {value.strip(chr(34))}" in message.replace("-1.0", "-1")
    assert "expected" in message


def test_not_toml():
    assert "not valid TOML" in refused("[single")


def test_source_must_be_listed():
    value = Value(value=1, source="datashet")
    with pytest.raises(HardwareError, match=r"'datashet' is not in \[sources\]; did you mean"):
        resolve({"p": value}, {"datasheet": Source(text="t", date="d")})


def test_unreadable_file(tmp_path):
    with pytest.raises(HardwareError, match="no such file"):
        read_toml(tmp_path / "absent.toml", "", Outer)
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(HardwareError, match="not UTF-8"):
        read_toml(binary, "", Outer)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_line(text):
    message = ""
    try:
        parse_table(text, Outer, "f.toml")
    except HardwareError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize("rate", [300, 99.5, 0, -400, float("nan"), float("inf")])
def test_rates_without_a_row_are_refused(rate):
    rows = {"400": Inner(price_usd=Value(value=1, source="a"))}
    with pytest.raises(HardwareError):
        row_at_rate(rows, rate, "prices")


def test_rate_with_a_row():
    row = Inner(price_usd=Value(value=1, source="a"))
    assert row_at_rate({"400": row}, 400.0, "prices") is row


def test_refusal_names_the_known_rates_in_order():
    row = Inner(price_usd=Value(value=1, source="a"))
    with pytest.raises(HardwareError, match="known rates: 100, 400, 1600 Gb/s"):
        row_at_rate({"400": row, "1600": row, "100": row}, 200, "prices")


@pytest.mark.parametrize("key", ["fast", "-100", "0", "400.0", "4e2"])
def test_rows_are_named_by_their_rate(key):
    with pytest.raises(HardwareError, match="must be a rate in Gb/s"):
        check_rates([key], "prices")
