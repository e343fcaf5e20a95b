"""Where the time of a real profile went, against Holistic Trace Analysis 0.5.0 on the same file.

Its numbers are those of ``get_temporal_breakdown`` and ``get_comm_comp_overlap``, which leave out
the last step.
"""

from pathlib import Path

import pytest

from lightloom.trace.importers.kineto import read_kineto
from lightloom.trace.profile import step_times

PROFILE = Path(__file__).parent / "kineto_profile" / "sampled_rank-0.json.gz"
#: microseconds, and per cent
IDLE, COMPUTE, NEITHER, LENGTH, OVERLAP = 321_378, 106_252, 172_428, 600_058, 11.81


def test_times_are_those_of_holistic_trace_analysis():
    imported = read_kineto(PROFILE)
    first, last = step_times(imported.spans)
    assert (first.step, last.step) == (551, 552)
    assert first.length_s * 1e6 == pytest.approx(LENGTH, abs=0.5)
    assert first.compute_s * 1e6 == pytest.approx(COMPUTE, abs=0.5)
    assert first.idle_s * 1e6 == pytest.approx(IDLE, abs=0.5)
    neither = first.length_s - first.idle_s - first.compute_s
    assert neither * 1e6 == pytest.approx(NEITHER, abs=0.5)
    assert 100 * first.overlap == pytest.approx(OVERLAP, abs=0.005)


def test_what_else_the_profile_says():
    imported = read_kineto(PROFILE)
    assert (list(imported.trace.ranks), imported.trace.world_size) == ([0], 128)
    # of kernels that send and receive nobody says what: an all-to-all, or messages
    assert imported.trace.ranks[0].calls == ()
    assert imported.remarks[0] == "10 kernels communicate in an unknown manner: they are no calls"
