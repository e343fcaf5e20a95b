"""Quantities in and out, each with its unit."""

import math

import pytest

from lightloom.errors import InputError
from lightloom.units import (
    PS_PER_S,
    SUFFIXES,
    parse_quantity,
    show_bytes,
    show_change,
    show_column,
    show_count,
    show_number,
    show_option,
    show_time,
    show_usd,
    to_bps,
    to_ps,
)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (25, "second", 25.0),
        ("25", "second", 25.0),
        ("25 ms", "second", 0.025),
        ("25ms", "second", 0.025),
        (" 1 us ", "second", 1e-6),
        ("1 µs", "second", 1e-6),
        ("2 min", "second", 120.0),
        ("1e-3 s", "second", 1e-3),
        ("400 Gb/s", "gigabit / second", 400.0),
        ("400 Gbps", "gigabit / second", 400.0),
        ("0.8 Tb/s", "gigabit / second", 800.0),
        ("100 Mb/s", "gigabit / second", 0.1),
        ("2 kB", "byte", 2000.0),
        ("2 KiB", "byte", 2048.0),
        ("3 kW", "watt", 3000.0),
        ("5 USD", "USD", 5.0),
        ("20 cm", "meter", 0.2),
        ("-1", "second", -1.0),
    ],
)
def test_parse(value, unit, expected):
    assert parse_quantity(value, unit) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    ["400G", "400g", "400 G", "400Gb", "400GbE", "400GE", "400gbe", "400Gbps", "400gbps",
     "400 Gb/s", "400Gbit/s", "400Gbits/s", "400 Gbit", "0.4T", ".4Tb/s", "400000M",
     "400000 Mbps", "50 GB/s"],
)  # fmt: skip
def test_rates_as_network_people_write_them(text):
    assert parse_quantity(text, "gigabit / second") == pytest.approx(400)


@pytest.mark.parametrize("text", ["400GB", "400m", "4 0G", "1.2.3G", "400x", "G", "2x400G"])
def test_what_is_no_rate_says_how_one_is_written(text):
    with pytest.raises(InputError, match="as a rate such as 400, 400G or '400 Gb/s'"):
        parse_quantity(text, "gigabit / second")


@pytest.mark.parametrize(("text", "unit"), [("5G", "byte"), ("5G", "second"), ("5 m", "second")])
def test_a_prefix_alone_is_no_unit_of_anything_else(text, unit):
    with pytest.raises(InputError, match="such as"):
        parse_quantity(text, unit)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("fast", "delay: cannot read 'fast' as a time such as '25 ms'"),
        ("", "delay: cannot read '' as a time such as '25 ms'"),
        ("25 m", "delay: cannot read '25 m' as a time such as '25 ms'"),
        ("25 Gb/s", "delay: cannot read '25 Gb/s' as a time such as '25 ms'"),
        ("2 * 3 s", "delay: cannot read '2 * 3 s' as a time such as '25 ms'"),
        ("__import__('os')", "delay: cannot read \"__import__('os')\" as a time such "
         "as '25 ms'"),
        ("9" * 41, "delay: expected a quantity such as '25 ms', got 41 characters"),
        ("nan", "delay: expected a finite number, got 'nan'"),
        (math.inf, "delay: expected a finite number, got inf"),
        ("1e999", "delay: expected a finite number, got '1e999'"),
        (True, "delay: expected a number or text with a unit, got True"),
        (None, "delay: expected a number or text with a unit, got None"),
        ([1], "delay: expected a number or text with a unit, got [1]"),
    ],
)  # fmt: skip
def test_refuse(value, expected):
    with pytest.raises(InputError) as caught:
        parse_quantity(value, "second", "delay")
    assert str(caught.value) == expected


def test_whole_units():
    assert to_ps(1.5e-6) == 1_500_000
    assert to_ps(0.3) == 3 * PS_PER_S // 10
    # the nearest: 2.3 us and 0.29 Gb/s are a little less in binary
    assert [to_ps(2.3e-6), to_ps(0.4e-12), to_ps(0.6e-12)] == [2_300_000, 0, 1]
    assert to_bps(0.29) == 290_000_000
    assert to_bps(400) == 400_000_000_000
    assert isinstance(to_bps(0.1), int)


def test_every_suffix_has_a_unit_that_can_be_parsed():
    for unit in SUFFIXES.values():
        assert parse_quantity("1", unit) == 1.0
        assert parse_quantity(2.5, unit) == 2.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (show_time(0), "0 s"),
        (show_time(1.5), "1.5 s"),
        (show_time(0.02512), "25.12 ms"),
        (show_time(3e-6), "3 us"),
        (show_time(5e-10), "0.5 ns"),
        (show_time(-0.002), "-2 ms"),
        (show_bytes(0), "0 B"),
        (show_bytes(999), "999 B"),
        (show_bytes(1.5e9), "1.5 GB"),
        (show_bytes(2e16), "20 PB"),
        (show_usd(950), "$950"),
        (show_usd(12_345), "$12,345"),
        (show_usd(123_456), "$123k"),
        (show_usd(1_453_184), "$1.45M"),
        (show_count(1024), "1,024"),
        (show_count(378.3e6), "378.3M"),
        (show_count(46.7e9), "46.7B"),
    ],
)
def test_show(text, expected):
    assert text == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (23.7001, "23.70"),
        (25.0, "25"),
        (1.5, "1.5"),
        (0.0061234, "0.006123"),
        (1411.3, "1,411"),
        (12345.6, "12,346"),
        (999.96, "1,000"),
        (-0.12345, "-0.1235"),
        (0.0, "0"),
        (float("inf"), "inf"),
    ],
)
def test_a_number_has_four_digits_and_keeps_its_zeros(value, text):
    assert show_number(value) == text


def test_a_time_is_never_a_power_of_ten():
    assert show_time(12345.6) == "12,346 s"
    assert show_time(2.63999e-3) == "2.640 ms"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([25.65, 125.31, 25.7, 50.18], ["25.65", "125.31", "25.70", "50.18"]),
        ([106.576, 1141.623], ["106.6", "1,141.6"]),
        ([1.0161, 4.963, 0.0], ["1.016", "4.963", "0.000"]),
        ([1e-5, 10.001], ["0.000", "10.001"]),
        ([16.5192, None, math.inf, 16.6], ["16.52", "-", "-", "16.60"]),
        ([20.0, 30.0], ["20", "30"]),
        ([0.0], ["0"]),
        ([], []),
    ],
)
def test_a_column_has_one_number_of_decimals(values, texts):
    assert show_column(values) == texts


def test_parts_have_the_decimals_of_their_sum():
    assert show_column([16.812, 0.004, 18.0], total=23.22) == ["16.81", "0.00", "18.00"]
    assert show_column([4.0, None], total=6580.0, missing="?") == ["4", "?"]


@pytest.mark.parametrize(
    ("share", "spec", "text"),
    [
        (0.0634, "+.1f", "+6.3 %"),
        (-0.0049, "+.1f", "-0.5 %"),
        (-0.0004, "+.1f", "no change"),
        (0.0004, ".1f", "no change"),
        (-3.1e-6, ".2g", "no change"),
        (4.4e-5, ".2g", "0.0044 %"),
        (0.0, ".2g", "no change"),
        (-0.002, "+.3g", "-0.2 %"),
    ],
)
def test_a_change_that_rounds_to_nothing_is_none(share, spec, text):
    assert show_change(share, spec) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "on"), (False, "off"), (0.5, "0.5"), (3, "3"), ((4, 4, 3), "4,4,3"), ("1f1b", "1f1b")],
)
def test_options_are_shown_as_they_are_written(value, text):
    assert show_option(value) == text
