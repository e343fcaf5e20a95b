"""All ranks from one of each role: the same calls as if all had been recorded."""

import dataclasses
from typing import ClassVar

import pytest
from tests.trace_jobs import GridJob, recording

from lightloom.errors import InputError
from lightloom.trace import record
from lightloom.trace.check import disagreements
from lightloom.trace.expand import Expansion
from lightloom.trace.job import find_job, missing_ranks
from lightloom.trace.trace import make_trace

GRID = GridJob(tp=2, pp=3, dp=4, ep=2)


def test_every_rank_is_what_its_recording_is():
    some, every = GRID.trace(), GRID.trace(range(GRID.ranks))
    expanded = Expansion(find_job(some)).trace(some, range(GRID.ranks))
    assert expanded == every
    assert not disagreements(expanded)


def test_other_recorded_ranks_are_compared():
    job = find_job(GRID.trace([0, 3, 8, 16, 23]))
    verified = Expansion(job).verify()
    calls = len(job.calls[3]) + len(job.calls[23])
    assert (verified.ranks, verified.calls, verified.sizes) == (2, calls, calls)


def recorded_with(change):
    """A trace with rank 3 of role 0 in addition, whose first call of an op is changed."""
    calls = GRID.calls(3)
    index = next(i for i, call in enumerate(calls) if call.op == "all_to_all")
    calls[index] = dataclasses.replace(calls[index], **change)
    ranks = [*GRID.trace().ranks.values(), recording(3, calls)]
    return make_trace(GRID.ranks, ["python"], ranks, GRID.groups())


def test_a_rank_that_differs_is_found():
    with pytest.raises(InputError, match="rank 3, call 1: by symmetry dtype is bfloat16"):
        Expansion(find_job(recorded_with({"dtype": "float32"}))).verify()


def test_sizes_that_depend_on_data_may_differ():
    verified = Expansion(find_job(recorded_with({"input_bytes": 1}))).verify()
    assert verified.sizes == verified.calls - 1


class FakeRecorder:
    """Records ranks of the grid, and which it was asked for."""

    requested: ClassVar = []

    def __init__(self, _programs, _job, **_):
        self.requested[:] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def record_together(self, program, ranks, _progress):
        self.requested.append([(program, rank) for rank in ranks])

    def trace(self, _program, ranks):
        return GRID.trace(ranks)


def roles_of(monkeypatch, programs, *others, **drawn):
    monkeypatch.setattr(record, "Recorder", FakeRecorder)
    return record.record_roles(programs, record.TracedJob(GRID.ranks), others, **drawn)


def test_recording_goes_on_until_each_role_has_a_rank(monkeypatch):
    """From one rank it shows that there is a pipeline, and so which ranks are missing."""
    (trace,) = roles_of(monkeypatch, [["python"]], 5)
    assert FakeRecorder.requested == [[(0, 0)], [(0, 5), (0, 8), (0, 16)]]
    assert sorted(trace.ranks) == [0, 5, 8, 16]
    assert missing_ranks(trace) == []


def test_other_programs_are_recorded_as_the_same_ranks(monkeypatch):
    roles_of(monkeypatch, [["python", "9"], ["python", "10"]])
    assert FakeRecorder.requested == [[(0, 0)], [(0, 8), (0, 16)], [(1, 0), (1, 8), (1, 16)]]


def test_ranks_are_drawn_by_the_seed(monkeypatch):
    first, again = (roles_of(monkeypatch, [["python"]], 5, random_ranks=3)[0] for _ in "ab")
    assert sorted(first.ranks) == sorted(again.ranks)
    assert len(set(first.ranks) - {0, 5, 8, 16}) >= 1
    assert len(Expansion(find_job(first)).job.roles) == 3


def test_a_rank_beyond_the_job():
    with pytest.raises(InputError, match="rank 24: the job has ranks 0 to 23"):
        list(Expansion(find_job(GRID.trace())).calls(24))
