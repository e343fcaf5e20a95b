"""The tree of errors, and suggestions."""

import inspect

import numpy as np
import pytest

from lightloom import errors
from lightloom.errors import (
    InputError,
    LightloomError,
    OutputError,
    StuckError,
    did_you_mean,
    echo,
)


def classes():
    found = inspect.getmembers(errors, inspect.isclass)
    return [cls for _, cls in found if cls.__module__ == "lightloom.errors"]


def test_one_base_for_all():
    assert all(issubclass(cls, LightloomError) for cls in classes())
    others = {cls for cls in classes() if not issubclass(cls, InputError)}
    assert others == {LightloomError, OutputError, StuckError}


def test_none_is_an_error_of_python():
    # so that "except ValueError" in a caller's code does not swallow them
    for cls in classes():
        assert not issubclass(cls, ValueError | OSError | TypeError)


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("mixnett", ["fat-tree", "mixnet"], "; did you mean 'mixnet'?"),
        ("zzz", ["fat-tree", "mixnet"], ""),
        ("", ["a"], ""),
        ("a", [], ""),
        ("rate_gpbs", ("rate_gbps", "link_delay_s"), "; did you mean 'rate_gbps'?"),
    ],
)
def test_suggestions(word, known, expected):
    assert did_you_mean(word, known) == expected


def test_suggestions_take_any_iterable():
    assert did_you_mean("raill", iter(["rail"])) == "; did you mean 'rail'?"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("a\nb", r"'a\nb'"),
        (np.zeros((2, 2)), "array([[0., 0.], [0., 0.]])"),
        ("x" * 99, "'" + "x" * 56 + "..."),
    ],
)
def test_wrong_values_are_echoed_in_one_short_line(value, text):
    assert echo(value) == text


def test_a_number_of_thousands_of_digits_is_not_echoed():
    assert echo(10**5000) == "a huge int"
