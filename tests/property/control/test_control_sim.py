"""Seeds of the simulated region: no light of others is touched, nothing dark is called lit."""

import subprocess
import sys

import pytest
from tests.control_sim import simulate

#: together over 10,000 requests
SEEDS, REQUESTS = 30, 350


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_switch_journal_and_answers_agree(seed):
    counts = simulate(seed, REQUESTS)
    assert counts["requests"] >= REQUESTS
    assert counts["changes"] + counts["use the EPS"] > 0


def test_a_seed_is_replayed_exactly_by_another_process():
    command = [sys.executable, "-m", "tests.control_sim", "--seed", "5", "--requests", "60"]
    first, second = (
        subprocess.run(
            command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": salt}
        ).stdout.splitlines()[1:]
        for salt in ("1", "2")
    )
    assert first == second
    assert len(first) > 10
