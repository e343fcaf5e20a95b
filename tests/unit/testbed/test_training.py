"""Training in a testbed: which controller serves its circuits, and what its first rank warns of."""

import contextlib
import socket
from types import SimpleNamespace

import pytest

from lightloom.testbed import training
from lightloom.testbed.ranks import RankStatus


@pytest.fixture
def begun(monkeypatch):
    """Controllers that were started."""
    found = []

    @contextlib.contextmanager
    def serving(testbed):
        found.append(testbed)
        yield

    monkeypatch.setattr(training, "serving", serving)
    return found


@pytest.mark.parametrize("is_served", [True, False])
def test_circuits_are_served_unless_a_controller_answers(tmp_path, begun, is_served):
    """The socket of a controller that was killed is still there."""
    testbed = SimpleNamespace(folder=tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "testbed.sock"))
        if is_served:
            listener.listen()
        else:
            listener.close()
        with training._served(testbed, "break-even"):
            assert begun == ([] if is_served else [testbed])
    with training._served(testbed, "packets"):
        assert len(begun) == (not is_served)


def test_warnings_of_the_first_rank_are_said(tmp_path, monkeypatch, begun):
    def run_ranks(_testbed, _words, say):
        say("[1] a.py:3: UserWarning: of another rank")
        say("[0] a.py:3: UserWarning: all bytes take the packet network: nobody answers")
        say("[0]   warnings.warn(text)")
        return [RankStatus(0, 0, 0)]

    monkeypatch.setattr(training, "run_ranks", run_ranks)
    said = []
    training.train(
        SimpleNamespace(folder=tmp_path), steps=1, policy="never", python="python", say=print,
        warn=said.append,
    )  # fmt: skip
    assert begun
    assert said == ["all bytes take the packet network: nobody answers"]
