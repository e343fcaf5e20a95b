"""Every input appears once, in words, with its source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.report.parameters import Parameter, flatten, parameter_tables, text_of

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
)


def test_values_with_sources_are_one_row():
    rows = list(
        flatten({"nic_usd": {"value": 10.5, "source": "paper", "date": "2025", "assumed": True}})
    )
    assert rows == [Parameter("nic_usd", "10.5", "paper", "2025", True)]


def test_nested_values_are_named_by_their_path():
    rows = flatten({"a": {"b": [1, 2], "c": None}, "d": [{"e": True}]})
    assert [(r.name, r.value) for r in rows] == [
        ("a.b", "1, 2"), ("a.c", "not given"), ("d[0].e", "on")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (2.0, "2"), (0.1, "0.1"), (1e30, "1e+30"), (False, "off"),
     ((), "none"), (["a", 1], "a, 1"), (float("inf"), "inf")],
)  # fmt: skip
def test_text_of_values(value, text):
    assert text_of(value) == text


def test_long_texts_end():
    assert len(text_of("x" * 10**6)) < 5000


@given(plain)
def test_any_plain_data_can_be_shown(value):
    assert all(isinstance(row.value, str) for row in flatten(value))


def test_no_input_is_left_out(make_comparison):
    comparison = make_comparison()
    tables = parameter_tables(comparison)
    shown = {(row.name, row.value) for table in tables for row in table.rows}
    for key, value in comparison.inputs.items():
        if key == "summary":  # the head of the page
            continue
        for row in flatten(value):
            assert any(
                row.value == text and name in {row.name, f"{key}.{row.name}", key}
                for name, text in shown
            )
    assert {f"Fabric: {r.fabric}" for r in comparison.results} <= {t.title for t in tables}
