"""What the docstrings of schedulers show is what they return."""

import doctest
import inspect

import pytest

from lightloom import schedule

FUNCTIONS = [name for name in schedule.__all__ if inspect.isfunction(getattr(schedule, name))]
#: functions that are still without an example
WITHOUT = {
    "allocate_exactly", "allocate_on_planes", "allocate_relayed", "allocator_by_name",
    "check_coloring", "custom_allocators", "custom_schedulers",
    "cycles_in_order", "decompose_all", "helios_epochs",
    "relay", "relay_loads", "rotornet_schedule",
    "route_permutation", "schedule_by_name", "xnest_epochs", "xnest_plan",
    "xnest_sub_matrices",
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_run(name):
    text = getattr(schedule, name).__doc__
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert bool(found.examples) == (name not in WITHOUT)
    report = []
    failures = doctest.DocTestRunner(verbose=False).run(found, out=report.append).failed
    assert not failures, "".join(report)
