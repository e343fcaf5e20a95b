"""Allocators of installed packages: called by name, checked, and refused in one line."""

import json

import numpy as np
import pytest
from tests.packages import code_of, entry_points_of, install

from lightloom.errors import InputError
from lightloom.fabric import load_fabric
from lightloom.schedule import AllocationRequest, Region, allocator_by_name

COMPARE = (
    "compare mixtral-8x7b --gpus 128 --rate 400 --plan published --micro-batches 4 --seeds 1 "
    "--fabrics mixnet --when always --set mixnet.link_up_s=0 --json -"
)
PACKAGE = """
import numpy as np
from lightloom.schedule import allocate_region

def greedily(requests):
    return [allocate_region(r.demand, r.region, method="greedy", previous=r.previous).circuits
            for r in requests]

def broken(requests):
    raise KeyError("no\\nluck")

def crowded(requests):
    return [7 * (1 - np.eye(len(r.demand), dtype=int)) for r in requests]

def one_way(requests):
    return [np.triu(np.ones_like(r.demand), 1) for r in requests]

def short(requests):
    return []

def words(requests):
    return ["ring" for _ in requests]
"""
NAMES = ("greedily", "broken", "crowded", "one_way", "short", "words", "nowhere")


@pytest.fixture
def ring(tmp_path, monkeypatch):
    points = entry_points_of("add-an-allocator.md")
    source = code_of("add-an-allocator.md")
    monkeypatch.syspath_prepend(install(tmp_path, "lightloom_rings", source, points))


@pytest.fixture
def package(tmp_path, monkeypatch):
    names = {name: f"some_allocators:{name}" for name in NAMES}
    points = {"lightloom.allocators": names}
    monkeypatch.syspath_prepend(install(tmp_path, "some_allocators", PACKAGE, points))


def step_times(lightloom, allocator):
    done = lightloom(f"{COMPARE} --allocator {allocator}")
    assert done.status == 0, done.err
    (result,) = json.loads(done.out)["results"]
    return result["sample_step_times_s"]


@pytest.mark.usefixtures("ring", "package")
def test_compare_calls_an_installed_allocator(lightloom):
    greedy = step_times(lightloom, "greedy")
    assert step_times(lightloom, "greedily") == greedy
    assert step_times(lightloom, "ring") > greedy


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "KeyError: 'no\\nluck'"),
        ("crowded", "circuits: server 0 has 6 ports but "),
        ("one_way", "circuits: expected a symmetric matrix"),
        ("short", "expected circuits for 1 requests, got 0"),
        ("words", "circuits: "),
        ("nowhere", "AttributeError: module 'some_allocators' has no attribute 'nowhere'"),
    ],
)
def test_what_an_allocator_does_wrong_is_one_line(lightloom, name, text):
    done = lightloom(f"{COMPARE} --set mixnet.allocator={name}")
    assert done.status != 0
    # the job was printed before the allocator was called
    *job, refusal = done.err.splitlines()
    assert f"allocator '{name}': {text}" in refusal
    assert not [line for line in job if "allocator" in line or "Traceback" in line]


@pytest.mark.usefixtures("ring")
def test_unknown_names_are_refused_before_anything_runs():
    with pytest.raises(InputError, match=r"allocator = rong: expected one of paper.*, ring"):
        load_fabric("mixnet", {"allocator": "rong"})
    with pytest.raises(InputError, match="allocator 'rong': expected one of ring"):
        allocator_by_name("rong")


@pytest.mark.usefixtures("ring")
def test_pairs_that_may_not_have_circuits_are_refused():
    allowed = np.ones((3, 3), dtype=bool)
    allowed[0, 2] = allowed[2, 0] = False
    request = AllocationRequest(
        np.ones((3, 3), dtype=np.uint64), Region(2, 400.0, 800.0, allowed=allowed), None
    )
    with pytest.raises(InputError, match="'ring': circuits: servers 0 and 2 may not have"):
        allocator_by_name("ring")([request])
