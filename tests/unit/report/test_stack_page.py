"""The drawing of a stack of permutations, and the tables of its settings on a fabric."""

import io

import pytest
from rich.console import Console
from tests.trace_jobs import GridJob

from lightloom.report.plots_stack import stack_drawing
from lightloom.report.stack_table import print_local, stack_page
from lightloom.trace.job import find_job
from lightloom.trace.local import ClosSizes, route_stack
from lightloom.trace.stack_build import build_stack


@pytest.fixture(scope="module")
def trace():
    return GridJob(tp=2, pp=2, dp=4, ep=2).trace()


def test_a_matrix_has_a_mark_for_each_circuit(trace):
    stack = build_stack(find_job(trace))
    svg = str(stack_drawing(stack)[0])
    circuits = {
        (call.group, call.algorithm, rank, int(destination))
        for call in stack.calls
        for block in call.blocks
        for index in block.permutations
        for rank, destination in enumerate(stack.permutations[index])
        if destination >= 0
    }
    assert svg.count("opacity=") == len(circuits)
    for group in ("tp", "dp", "ep", "pp", "world"):
        assert f">{group}</text>" in svg
    assert "<script" not in stack_page(stack)


def test_lacking_up_links_are_told(trace):
    stack = build_stack(find_job(trace), local_size=4)
    console = Console(file=io.StringIO(), width=120)
    print_local(stack, route_stack(stack, ClosSizes(4, spines=1)), console)
    assert "for want of up-links" in console.file.getvalue()
