"""Few of the random changes, faults and kills that ``make soak`` makes many of."""

import asyncio

import pytest
from tests.control_neighbors import Neighborhood
from tests.control_soak import KINDS, PROMPT, Soak, kill_at_random, run


@pytest.mark.parametrize(("seed", "kinds"), [(1, PROMPT), (2, PROMPT), (3, KINDS)])
def test_switch_journal_and_controller_agree(tmp_path, seed, kinds):
    soak = asyncio.run(run(Soak(seed), 60, tmp_path, kinds=kinds))
    assert soak.results["done"] > 20


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_others_stays_and_nothing_dark_is_called_lit(tmp_path, seed):
    counts = asyncio.run(Neighborhood(seed, tmp_path).run(80))
    assert counts["done"] > 30
    assert counts["circuits called lit"] > 100


def test_the_same_after_every_kill(tmp_path):
    assert kill_at_random(tmp_path, 4, seed=1) > 4
