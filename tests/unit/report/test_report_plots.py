"""Plots: what they draw is where the numbers say."""

import colorsys
import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.report.page_template import asset
from lightloom.report.plots import BarsBuilder, Point, pareto
from lightloom.report.plots_circuits import chord_drawing, circuits_text, matrix_drawing
from lightloom.report.plots_svg import (
    KIND_COLORS,
    MARKS,
    NUM_COLORS,
    Axis,
    drawing,
    fabric_styles,
    join,
    number,
    padded,
    tag,
    tick_text,
    ticks,
)

finite = st.floats(-1e9, 1e9, allow_nan=False)


def test_tag_escapes_text_and_attributes():
    made = tag("a", "<b>&", class_='"x"', data_tip="1 < 2")
    assert made == '<a class="&#34;x&#34;" data-tip="1 &lt; 2">&lt;b&gt;&amp;</a>'
    assert tag("g", made) == f"<g>{made}</g>"
    assert join(["<", tag("i")]) == "&lt;<i></i>"


def test_drawing_has_a_size_and_a_name():
    made = drawing(10, 5.5, "a & b", [], "plot")
    assert 'viewBox="0 0 10 5.5"' in made
    assert 'aria-label="a &amp; b"' in made
    assert 'class="drawing plot"' in made


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (10.0, "10"), (1.25, "1.25"), (1 / 3, "0.33"), (-0.001, "-0")]
)
def test_coordinates_are_short(value, text):
    assert number(value) == text


@given(finite, st.floats(1e-6, 1e9))
def test_ticks_are_inside_even_and_not_too_many(low, span):
    marks = ticks(low, low + span)
    assert len(marks) <= 7
    steps = np.diff(marks)
    slack = 1e-6 * max(span, abs(low))
    assert all(low - slack <= mark <= low + span + slack for mark in marks)
    if len(steps):
        assert np.allclose(steps, steps[0], atol=slack)


def test_ticks_are_round():
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(0.3, 1.1, 4) == pytest.approx([0.4, 0.6, 0.8, 1.0])
    assert [tick_text(v, [0, 0.25, 0.5]) for v in (0, 0.25, 0.5)] == ["0.00", "0.25", "0.50"]
    assert tick_text(1500, [1000, 1500]) == "1,500"


@given(st.lists(finite, min_size=1, max_size=9))
def test_padded_range_holds_all_and_is_never_empty(values):
    low, high = padded(values)
    assert low <= min(values)
    assert high > max(values)
    assert low >= 0 or min(values) < 0


@given(finite, st.floats(1e-3, 1e6), st.floats(0, 1))
def test_axis_is_linear(low, span, share):
    axis = Axis(low, low + span, 100, 20)
    slack = 80 * 1e-13 * (abs(low) + span) / span + 1e-6
    assert axis(low + share * span) == pytest.approx(100 - 80 * share, abs=slack)


def test_fabrics_keep_their_colors_whatever_they_stand_beside():
    alone = fabric_styles([("mixnet", "mixnet")])
    crowd = fabric_styles([("own", "toml"), ("second", "mixnet"), ("fat-tree", "fat-tree")])
    assert alone["mixnet"].color == crowd["second"].color == KIND_COLORS["mixnet"]
    assert crowd["own"].color not in {crowd["second"].color, crowd["fat-tree"].color}


@given(st.lists(st.sampled_from([*KIND_COLORS, "own"]), max_size=NUM_COLORS))
def test_as_many_fabrics_as_there_are_colors_have_one_each(kinds):
    styles = fabric_styles([(str(n), kind) for n, kind in enumerate(kinds)])
    assert len({style.color for style in styles.values()}) == len(kinds)


def test_runs_next_to_each_other_are_of_unlike_hue():
    style = asset("templates/style.css")
    light = dict(re.findall(r"--(f\d): #(\w+)", style))
    order = dict(re.findall(r"--(s\d): var\(--(f\d)\)", style))
    assert sorted(order.values()) == sorted(light)
    hues = [
        colorsys.rgb_to_hls(*(int(light[order[f"s{n}"]][i : i + 2], 16) / 255 for i in (0, 2, 4)))[
            0
        ]
        for n in range(5)
    ]
    for one, other in itertools.combinations(hues, 2):
        assert min(abs(one - other), 1 - abs(one - other)) > 0.04


def test_built_in_fabrics_have_marks_of_their_own():
    styles = fabric_styles([(kind, kind) for kind in KIND_COLORS])
    assert len({style.mark for style in styles.values()}) == len(KIND_COLORS) <= len(MARKS)


def pareto_of(*values):
    names = [(chr(97 + n), "own") for n in range(len(values))]
    styles = list(fabric_styles(names).values())
    return pareto(
        [Point(s, c, t, t * 0.9, t * 1.1) for s, (c, t) in zip(styles, values, strict=True)],
        "network",
    )


def places(plot):
    """Coordinates of the marks."""
    return [
        (float(x), float(y))
        for x, y in re.findall(r'transform="translate\(([\d.]+) ([\d.]+)\) scale', plot)
    ]


def test_dearer_is_to_the_right_and_faster_is_above():
    (cheap_x, cheap_y), (dear_x, dear_y) = places(pareto_of((1e6, 100), (3e6, 200)))
    assert cheap_x < dear_x
    assert cheap_y > dear_y


def test_front_passes_through_what_none_beats_alone():
    plot = pareto_of((1e6, 100), (2e6, 90), (3e6, 200))
    first, beaten, last = places(plot)
    path = re.search(r'd="(M[^"]*)" class="front"', plot)[1]
    assert path.startswith(f"M{first[0]:.1f},{first[1]:.1f}H{last[0]:.1f}V{last[1]:.1f}H")
    assert f"H{beaten[0]:.1f}" not in path
    assert plot.count("on the Pareto front") == 2


@pytest.mark.parametrize(
    ("cost", "speed", "units"),
    [(5e6, 2e6, ("M$", "million tokens/s")), (5e4, 2e4, ("k$", "thousand tokens/s")),
     (5e6, 20.0, ("M$", "[M$]"))],
)  # fmt: skip
def test_axes_have_units(cost, speed, units):
    plot = pareto_of((cost, speed))
    assert all(unit in plot for unit in units)


def test_equal_points_and_a_single_one_can_be_drawn():
    assert len(places(pareto_of((1e6, 100), (1e6, 100)))) == 2
    assert len(places(pareto_of((1e6, 100)))) == 1


def make_bars(**rows):
    builder = BarsBuilder("time [s]", {"a": "first", "b": "second", "c": "third"}, "{:g} s".format)
    for label, (values, interval) in rows.items():
        builder.add(label, values, interval=interval)
    return builder


def test_bars_share_an_axis():
    bars = make_bars(x=({"a": 3, "b": 1}, None), y=({"b": 2}, (1.5, 8.0))).build()
    assert [[(p.key, w) for p, w in bar.parts] for bar in bars.bars] == [
        [("a", 37.5), ("b", 12.5)], [("b", 25)]
    ]  # fmt: skip
    assert bars.bars[1].whisker == pytest.approx((18.75, 100))
    assert [bar.total for bar in bars.bars] == ["4 s", "2 s"]
    assert bars.legend == (("a", "first"), ("b", "second"))
    assert bars.ticks[-1] == (100, "8")


def test_a_limit_beyond_all_bars_ends_the_axis():
    bars = make_bars(x=({"a": 4}, None)).build(limit=(10.0, "capacity"))
    assert bars.limit == (100, "capacity")
    assert bars.bars[0].parts[0][1] == 40


def test_a_part_without_a_name_is_our_bug():
    with pytest.raises(AssertionError, match="without a name"):
        make_bars(x=({"z": 1}, None))


def test_bars_of_nothing_have_an_axis():
    bars = make_bars(x=({"a": 0}, None)).build()
    assert bars.bars[0].parts == ()
    assert bars.bars[0].total == "0 s"


def test_matrix_is_as_dark_as_its_values():
    made = matrix_drawing(np.array([[0, 4], [1, 2]]), ["p", "q"], "{:g} MB".format, "bytes")
    cells = re.findall(r'fill-opacity="([\d.]+)" data-tip="([^"]*)"', made)
    assert cells == [
        ("0", "p to p: 0 MB"), ("1", "p to q: 4 MB"), ("0.25", "q to p: 1 MB"),
        ("0.5", "q to q: 2 MB"),
    ]  # fmt: skip
    # zeros are blank, the others have their number without the unit
    assert re.findall(r'class="cell[^>]*>([^<]*)<', made) == ["4", "1", "2"]


def test_large_matrix_is_folded():
    made = matrix_drawing(np.ones((200, 200)), [str(n) for n in range(200)], str, "bytes")
    assert made.count("data-tip") == 50 * 50
    assert "0-3 to 4-7: 16" in made


def test_chords_are_as_wide_as_their_number():
    circuits = np.zeros((4, 4), dtype=int)
    circuits[0, 1] = circuits[1, 0] = 1
    circuits[2, 3] = circuits[3, 2] = 3
    made = chord_drawing(circuits, list("abcd"), "circuits", "fabric-4")
    widths = [float(w) for w in re.findall(r'stroke-width="([\d.]+)"', made)]
    assert widths[1] == pytest.approx(3 * widths[0])
    assert made.count("<circle") == 4
    assert "server c: 3 circuits" in made
    assert "servers a - b: 1 circuit&" not in made
    assert circuits_text(1) == "1 circuit"


def test_servers_are_on_the_circle():
    made = chord_drawing(np.zeros((5, 5), dtype=int), list("abcde"), "circuits", "", 100)
    at = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', made)]
    assert all(math.hypot(x - 50, y - 50) == pytest.approx(16, abs=0.02) for x, y in at)
    assert len(set(at)) == 5
