"""Functions of `lightloom.schedule` say what they return, how long that takes, and their source."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from lightloom import schedule

ROOT = Path(__file__).parents[2]
FUNCTIONS = [name for name in schedule.__all__ if inspect.isfunction(getattr(schedule, name))]

#: functions that are no algorithms, and so have no source
WITHOUT_SOURCE = {
    "changed_pairs": "counts",
    "check_coloring": "compares neighbors",
    "choices": "reads a table",
    "custom_allocators": "lists packages",
    "custom_schedulers": "lists packages",
    "parse_failures": "reads text",
    "relay_loads": "adds up",
    "upcoming_all_to_alls": "copies",
}
#: functions whose time is nobody's concern
WITHOUT_COMPLEXITY = {
    "choices": "a table of a few names",
    "custom_allocators": "as many as are installed",
    "custom_schedulers": "as many as are installed",
}
#: a paper by its year, a page that explains, or a word that it is ours
SOURCE = re.compile(r"\b(18|19|20)\d\d\b|``docs/\S+\.md``|\b(is|are) ours\b")


def sections(name):
    """The docstring, and the sections that it has."""
    text = inspect.getdoc(getattr(schedule, name))
    return text, set(re.findall(r"^(\w+)\n-+$", text, re.MULTILINE))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_says_what_it_returns_shows_it_and_how_long_it_takes(name):
    text, found = sections(name)
    assert {"Returns", "Examples"} <= found
    assert ("O(" in text) is (name not in WITHOUT_COMPLEXITY), "complexity, as O(...)"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_says_where_it_comes_from(name):
    text, _ = sections(name)
    assert bool(SOURCE.search(text)) is (name not in WITHOUT_SOURCE), "a paper's year, or a page"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pages_and_functions_that_it_names_exist(name):
    text, _ = sections(name)
    for page in re.findall(r"``(docs/\S+?|benches/\S+?)``", text):
        assert (ROOT / page).is_file(), page
    for other in re.findall(r":func:`~?([\w.]+)`", text):
        module, _, function = other.rpartition(".")
        assert hasattr(importlib.import_module(module or "lightloom.schedule"), function), other


def test_exceptions_are_public_functions():
    assert WITHOUT_SOURCE.keys() | WITHOUT_COMPLEXITY.keys() <= set(FUNCTIONS)
