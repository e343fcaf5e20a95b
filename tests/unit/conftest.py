"""No unit test takes long."""

import os
import time

import pytest

#: processor time of a test or its fixtures on a common machine, and how much slower others may be
LIMIT_S, SLOWER = 5.0, 2.0


def processor_s():
    """Processor time of this process and its threads.

    Programs that a test starts are left out: most of their time is the first import of somebody
    else's packages, and depends on what the machine has in its caches.
    """
    return time.process_time()


def limited(what):
    """Run a phase of a test; fail it for the time that it takes.

    It catches what makes everybody wait: a product that does its work twice, or a test of the
    whole that belongs into ``tests/golden`` or ``tests/fresh``. One once took 200 s of a suite of
    20 minutes, as a number of micro-batches in flight was found by playing whole pipelines.
    """
    start = processor_s()
    outcome = yield
    spent_s = processor_s() - start
    if spent_s > LIMIT_S * SLOWER and "LIGHTLOOM_SOAK" not in os.environ:
        pytest.fail(
            f"{what} took {spent_s:.1f} s of processor time, expected {LIMIT_S:g} at most: make "
            "the product faster or the input smaller, or move the test out of tests/unit",
            pytrace=False,
        )
    return outcome


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    return (yield from limited("its fixtures"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from limited("it"))
