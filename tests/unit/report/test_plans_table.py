"""The best plans of a search as a table."""

import pytest

from lightloom.report.plans_table import SHOWN, plans_grid


def candidate(step_s, *, screened=False, **degrees):
    values = {"tp": 1, "pp": 1, "ep": 8, "cp": 1, "etp": 1, "vpp": 1, "dp": 1, "micro_batches": 8}
    return {
        **values, "micro_batch_size": 1, "recompute": "none", "peak_memory_bytes": 5e10,
        "predicted_step_time_s": step_s, "is_screened": screened, **degrees,
    }  # fmt: skip


def column(grid, words):
    place = [header.replace("\n", " ") for header, _ in grid.headers].index(words)
    return [row[place] for row in grid.texts]


def test_steps_are_of_equal_tokens():
    # twice the tensor parallelism is half the sequences of a step
    grid = plans_grid([candidate(1.0), candidate(0.6, tp=2), candidate(1.5, vpp=4)])
    assert column(grid, "step") == ["1.0", "1.2", "1.5"]
    assert column(grid, "vs best") == ["1.000", "1.200", "1.500"]
    assert column(grid, "VPP") == ["1", "1", "4"]


def test_at_most_ten_that_were_simulated():
    many = [candidate(1 + n / 10) for n in range(14)]
    grid = plans_grid([*many, candidate(0.5, screened=True)])
    assert len(grid.rows) == SHOWN == 10
    assert grid.title == "Plans: the best 10 of 15 that fit"
    assert column(grid, "step")[0] == "1.0"


@pytest.mark.parametrize("name", ["CP", "ETP", "VPP"])
def test_what_no_plan_has_is_no_column(name):
    headers = [header for header, _ in plans_grid([candidate(1.0)]).headers]
    assert name not in headers
