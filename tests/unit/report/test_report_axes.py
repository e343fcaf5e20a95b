"""Marks of axes: what a logarithmic one says are values, not their logarithms."""

import math

import pytest

from lightloom.report.plots_svg import Axis, decades, grid_lines


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [(0.9, 25, ["1", "2", "5", "10", "20"]), (3, 4, []), (1, 5000, ["1", "10", "100", "1000"])],
)
def test_marks_of_a_logarithmic_axis_are_values(low, high, texts):
    axis = Axis(math.log10(low), math.log10(high), 300.0, 0.0)
    marks = decades(axis)
    assert [text for _, text in marks] == texts
    assert all(10**place == pytest.approx(float(text)) for place, text in marks)


def test_an_axis_without_a_mark_shows_no_logarithm_instead():
    x, y = Axis(0.0, 1.0, 0.0, 100.0), Axis(math.log10(3), math.log10(4), 100.0, 0.0)
    drawn = "".join(grid_lines(x, y, [(0.0, "left")], decades(y)))
    assert "left" in drawn
    assert "0.5" not in drawn
    assert drawn.count("<line") == 1
