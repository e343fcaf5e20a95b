"""The known errors that verdicts are said with are those of the page of public runs."""

import re
from pathlib import Path

import pytest

from lightloom.hardware import known_error

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "against-real-systems.md"


@pytest.mark.parametrize("has_experts", [True, False])
@pytest.mark.parametrize("precision", ["bf16", "fp8", "nvfp4"])
def test_known_errors_are_those_of_the_page(has_experts, precision):
    error = known_error(has_experts=has_experts, precision=precision)
    row = rf"\| {error.name} \| both \| (\d+) \| ([\d.]+) % \|"
    (runs, median), *_ = re.findall(row, PAGE.read_text())
    assert (error.runs, round(100 * error.median, 1)) == (int(runs), float(median))


@pytest.mark.parametrize("has_experts", [True, False])
@pytest.mark.parametrize("precision", ["bf16", "fp8", "nvfp4"])
def test_intervals_are_wider_than_median_errors(has_experts, precision):
    """Their values are tested where the board is, which makes them of all runs."""
    error = known_error(has_experts=has_experts, precision=precision)
    assert error.interval > 1 + error.median


def test_formats_of_eight_bits_are_one_class():
    assert known_error(has_experts=True, precision="mxfp8").name == "MoE FP8"


def test_four_bits_have_a_class_where_runs_are_known():
    assert known_error(has_experts=False, precision="nvfp4").name == "dense NVFP4"
    assert known_error(has_experts=True, precision="nvfp4").name == "MoE FP8"
