"""Functions of `lightloom.schedule` say what they return, how long that takes, and their source."""

import importlib
import inspect
import re
from pathlib import Path

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


def test_they_say_what_they_return_show_it_and_how_long_it_takes():
    """A user who waits an hour for a schedule of 4,096 ranks, because nobody said O(n^4)."""
    wrong = []
    for name in FUNCTIONS:
        text, found = sections(name)
        wrong += [f"{name} has no {section}" for section in {"Returns", "Examples"} - found]
        if ("O(" in text) is (name in WITHOUT_COMPLEXITY):
            wrong.append(f"{name}: complexity, as O(...)")
    assert not wrong, "\n".join(wrong)


def test_they_say_where_they_come_from():
    """A bound that was believed to be a paper's, and was ours."""
    wrong = [
        name
        for name in FUNCTIONS
        if bool(SOURCE.search(sections(name)[0])) is (name in WITHOUT_SOURCE)
    ]
    assert not wrong, "a paper's year, or a page"


def test_pages_and_functions_that_they_name_exist():
    """A pointer to a page that has moved."""
    wrong = []
    for name in FUNCTIONS:
        text, _ = sections(name)
        pages = re.findall(r"``(docs/\S+?|benches/\S+?)``", text)
        wrong += [(name, page) for page in pages if not (ROOT / page).is_file()]
        for other in re.findall(r":func:`~?([\w.]+)`", text):
            module, _, function = other.rpartition(".")
            if not hasattr(importlib.import_module(module or "lightloom.schedule"), function):
                wrong.append((name, other))
    assert not wrong


def test_exceptions_are_public_functions():
    """An exception that outlives its function, and lets another one of that name pass."""
    assert WITHOUT_SOURCE.keys() | WITHOUT_COMPLEXITY.keys() <= set(FUNCTIONS)
