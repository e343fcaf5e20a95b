"""Few of the random changes, faults and kills that ``make soak`` makes many of."""

import asyncio

import pytest
from tests.control_soak import KINDS, PROMPT, Soak, kill_at_random, run


@pytest.mark.parametrize(("seed", "kinds"), [(1, PROMPT), (2, PROMPT), (3, KINDS)])
def test_switch_journal_and_controller_agree(tmp_path, seed, kinds):
    soak = asyncio.run(run(Soak(seed), 60, tmp_path, kinds=kinds))
    assert soak.results["done"] > 20


def test_the_same_after_every_kill(tmp_path):
    assert kill_at_random(tmp_path, 4, seed=1) > 4
