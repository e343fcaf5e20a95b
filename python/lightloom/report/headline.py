"""Differences of step times in words."""

from __future__ import annotations


def difference(ratios: tuple[float, float, float]) -> str:
    """Ratios of step times (least, of the means, largest) as "+6.3 % (5.3 to 6.7)"."""
    low, middle, high = (100 * (ratio - 1) for ratio in ratios)
    return f"{_signed(middle)} % ({_plain(low)} to {_plain(high)})"


def _signed(percent: float) -> str:
    text = f"{percent:+.1f}"
    return "0.0" if text in {"+0.0", "-0.0"} else text


def _plain(percent: float) -> str:
    text = f"{percent:.1f}"
    return "0.0" if text == "-0.0" else text
