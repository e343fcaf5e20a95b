"""What the docstrings of schedulers show is what they return."""

import doctest
import inspect

import pytest

from lightloom import schedule

FUNCTIONS = [name for name in schedule.__all__ if inspect.isfunction(getattr(schedule, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_run(name):
    text = getattr(schedule, name).__doc__
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert found.examples
    assert "Returns\n" in text
    report = []
    failures = doctest.DocTestRunner(verbose=False).run(found, out=report.append).failed
    assert not failures, "".join(report)
