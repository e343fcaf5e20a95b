"""Where time went: closed forms, and brute force over instants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto_files import Profile

from lightloom.trace.importers.kineto import read_kineto
from lightloom.trace.importers.program import Span
from lightloom.trace.profile import (
    bus_factor,
    collective_times,
    covered,
    length,
    step_times,
    times_of,
    union,
)


def span(start, duration, kind, stream=0, call=None):
    return Span(start, duration, stream, 0, kind, kind, call)


def test_half_of_the_communication_is_hidden():
    """Compute 0 to 10; communication 5 to 15; a copy 14 to 18; nothing until 20, compute to 21."""
    times = times_of(3, 7, [
        span(0, 10, "compute"), span(5, 10, "communication"), span(14, 4, "copy"),
        span(20, 1, "compute"),
    ])  # fmt: skip
    assert (times.rank, times.step, times.length_s) == (3, 7, 21)
    assert (times.compute_s, times.communication_s, times.copy_s) == (11, 10, 4)
    assert (times.exposed_s, times.idle_s) == (5, 2)
    assert times.overlap == 0.5


def test_copies_do_not_hide_communication():
    times = times_of(0, 0, [span(0, 10, "communication"), span(0, 10, "copy")])
    assert (times.exposed_s, times.overlap) == (10, 0)


def test_nothing_is_hidden_where_nothing_is_communicated():
    assert times_of(0, 0, [span(0, 3, "compute")]).overlap == 1
    assert times_of(0, 0, []).length_s == 0


KINDS = ("compute", "communication", "copy")
SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.sampled_from(KINDS)), max_size=12
)


@given(SPANS)
def test_times_are_those_of_instants(drawn):
    """Whole times, so that each unit is of one kind throughout."""
    busy = {kind: np.zeros(64, dtype=bool) for kind in KINDS}
    for start, duration, kind in drawn:
        busy[kind][start : start + duration] = True
    times = times_of(0, 0, [span(*ends) for ends in drawn])
    assert times.compute_s == busy["compute"].sum()
    assert times.communication_s == busy["communication"].sum()
    assert times.copy_s == busy["copy"].sum()
    assert times.exposed_s == (busy["communication"] & ~busy["compute"]).sum()
    anything = np.any([*busy.values()], axis=0)
    if drawn:
        first = min(start for start, _, _ in drawn)
        last = max(start + duration for start, duration, _ in drawn)
        assert times.length_s == last - first
        assert times.idle_s == last - first - anything.sum()


@given(SPANS)
def test_what_joined_intervals_cover(drawn):
    starts = np.array([float(start) for start, _, _ in drawn])
    ends = starts + np.array([duration for _, duration, _ in drawn])
    joined = union(starts, ends)
    assert (joined[1:, 0] > joined[:-1, 1]).all()
    assert covered(joined, starts, ends) == pytest.approx(ends - starts)
    assert covered(joined, np.array([-5.0]), np.array([99.0]))[0] == pytest.approx(length(joined))


@pytest.mark.parametrize(
    ("op", "factor"),
    [("all_reduce", 1.75), ("all_gather", 0.875), ("reduce_scatter", 0.875), ("all_to_all", 0.875),
     ("broadcast", 1.0), ("send", 1.0)],
)  # fmt: skip
def test_bus_bandwidth_over_algorithm_bandwidth(op, factor):
    assert bus_factor(op, 8) == factor


def test_times_of_collectives(tmp_path):
    profile = Profile()
    profile.step(1, -10, 200)
    profile.step(2, 190, 200)
    profile.kernel("gemm", 0, 100, launched=-5)
    profile.nccl("allreduce", 80, 40, 1000, launched=-4)
    profile.nccl("_allgather_base", 130, 10, (500, 1000), launched=-3)
    profile.nccl("allreduce", 300, 60, 1000, launched=250)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    reduces, gathers = collective_times(imported.trace, imported.spans)
    assert (reduces.op, reduces.calls, reduces.size_bytes) == ("all_reduce", 2, 4000)
    assert reduces.duration_s == pytest.approx(100e-6)
    # the first one is hidden for 20 us
    assert reduces.exposed_s == pytest.approx(80e-6)
    assert reduces.algorithm_gbps == pytest.approx(4000 * 8 / 100e-6 / 1e9)
    assert reduces.bus_gbps == pytest.approx(reduces.algorithm_gbps)
    assert (gathers.op, gathers.size_bytes) == ("all_gather", 2000)
    assert gathers.bus_gbps == pytest.approx(2000 * 8 / 10e-6 / 1e9 / 2)
    first, second = step_times(imported.spans)
    assert (first.step, second.step) == (1, 2)
    assert first.length_s == pytest.approx(140e-6)
    assert first.exposed_s == pytest.approx(30e-6)
    assert first.idle_s == pytest.approx(10e-6)
    assert second.overlap == 0
