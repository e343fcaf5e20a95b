"""Ranks of a job end together, whatever they have started; here as plain processes."""

import os
import time
from types import SimpleNamespace

import pytest

from lightloom.testbed import ServerLayout
from lightloom.testbed.ranks import run_ranks

HERE = SimpleNamespace(
    layout=ServerLayout(servers=3, nics=3, rate_gbps=0.1, eps_gbps=0.1),
    command=lambda _server, words: words,
    environment=lambda server, _local_rank: {"RANK": str(server)},
)


@pytest.mark.parametrize("start", ["sleep 60 &", ""])
def test_the_first_rank_that_fails_ends_the_others(start):
    """A failed rank whose child holds its output."""
    begun, lines = time.monotonic(), []
    words = [
        "sh",
        "-c",
        f"echo begun; if test $RANK = 1; then {start or ':'}\nexit 7; fi; sleep 60",
    ]
    ended = run_ranks(HERE, words, lines.append)
    assert [rank.status for rank in ended] == [143, 7, 143]
    assert "[1] begun" in lines
    assert time.monotonic() - begun < 30


def test_a_process_that_leaves_the_group_of_a_failed_rank_holds_nobody(monkeypatch, tmp_path):
    monkeypatch.setattr("lightloom.testbed.ranks._READ_S", 0.3)
    file = tmp_path / "number"
    begun = time.monotonic()
    leave = f"setsid sh -c 'echo $$ > {file}; exec sleep 60' &"
    words = ["sh", "-c", f"{leave}\nuntil test -s {file}; do sleep 0.01; done; exit 3"]
    try:
        assert [rank.status for rank in run_ranks(HERE, words, print, [1])] == [3]
        assert time.monotonic() - begun < 30
    finally:
        os.kill(int(file.read_text()), 9)
