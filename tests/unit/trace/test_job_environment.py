"""The environment of a recorded rank, as a launcher sets it."""

import os

import pytest

from lightloom.trace.recorder.__main__ import prepare


@pytest.mark.parametrize(
    ("rank", "world", "local", "expected"),
    [
        (3, 4, 8, ("3", "4", "0", "1")),  # a server of which a part is used
        (5, 16, 8, ("5", "8", "0", "2")),
        (11, 16, 8, ("3", "8", "1", "2")),
        (3, 4, 3, ("0", "1", "1", "2")),  # the last server has what is left
    ],
)
def test_a_rank_finds_itself_and_the_ranks_of_its_server(monkeypatch, rank, world, local, expected):
    monkeypatch.setattr(os, "environ", {})
    prepare({"rank": rank, "world_size": world, "local_world_size": local})
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
    assert tuple(os.environ[name] for name in names) == expected
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == (str(rank), str(world))
