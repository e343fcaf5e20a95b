"""Workers on a cluster that is made up: what is said of it, and what is done as it changes.

tests/soak/sweep has a real one.
"""

import socket
import sys
import types

import pytest

from lightloom.errors import InputError
from lightloom.study import ray_workers
from lightloom.study.ray_workers import RayWorkers
from lightloom.study.workers import Answer


class RayError(Exception):
    """As Ray's own."""


class Double:
    """Work that doubles a number."""

    def __init__(self, version="1"):
        self._version = version

    def __call__(self, work):
        return 2 * work

    def version(self):
        return self._version


class Cluster(types.ModuleType):
    """The functions of Ray that are called: actors answer at once, unless their node is lost."""

    def __init__(self, cores=2, refusal=None, remote_version="1"):
        super().__init__("ray")
        self.cores, self.refusal, self.remote_version = cores, refusal, remote_version
        self.exceptions = types.SimpleNamespace(RayError=RayError)
        self.actors, self.killed, self.lost, self.addresses = [], [], set(), []
        self.is_open, self.error = False, RayError("the actor died unexpectedly")

    def init(self, address, **_options):
        self.addresses.append(address)
        if self.refusal is not None:
            raise self.refusal
        self.is_open = True

    def cluster_resources(self):
        return {"CPU": float(self.cores)}

    def remote(self, kind):
        cluster = self

        class Handle:
            def __init__(self, function):
                made = kind(function)
                cluster.actors.append(self)
                call = lambda work: (self, made, work)  # noqa: E731
                self.run = types.SimpleNamespace(remote=call)

        class Maker:
            @staticmethod
            def options(**options):
                assert options["num_cpus"] == 1
                assert options["max_restarts"] == options["max_task_retries"] == 0
                return types.SimpleNamespace(remote=Handle)

        return Maker

    def wait(self, refs, *, num_returns, timeout):  # noqa: ARG002
        return list(refs), []

    def get(self, ref):
        handle, made, work = ref
        if handle in self.lost:
            raise self.error
        version, content = made.run(work)
        return (self.remote_version or version), content

    def kill(self, handle):
        self.killed.append(handle)

    def shutdown(self):
        self.is_open = False


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setattr(ray_workers, "need", lambda *_: None)
    monkeypatch.setattr(ray_workers, "ASK_S", 0.0)
    monkeypatch.setattr(ray_workers, "_current_cluster", lambda: "")
    return made


def test_work_goes_to_as_many_workers_as_there_are_cores(cluster):
    workers = RayWorkers(Double(), "ray")
    assert cluster.addresses == ["auto"]
    assert workers.idle() == [0, 1]
    for worker in workers.idle():
        workers.give(worker, 10 + worker)
    assert workers.idle() == []
    assert sorted(workers.answers(0.1), key=lambda answer: answer.worker) == [
        Answer(0, "done", 20),
        Answer(1, "done", 22),
    ]
    assert len(cluster.actors) == 2
    assert len(RayWorkers(Double(), "ray", 1).idle()) == 1
    workers.stop()
    assert len(cluster.killed) == 2
    assert not cluster.is_open


def test_a_lost_worker_is_told_and_another_takes_its_place(cluster):
    workers = RayWorkers(Double(), "ray")
    workers.give(0, 1)
    cluster.lost.add(cluster.actors[0])
    assert workers.answers(0.1) == [Answer(0, "lost", "the actor died unexpectedly")]
    assert sorted(workers.idle()) == [0, 1]
    workers.give(0, 2)
    assert workers.answers(0.1) == [Answer(0, "done", 4)]


def test_workers_come_and_go_with_the_cores_of_the_cluster(cluster):
    workers = RayWorkers(Double(), "ray")
    for worker in workers.idle():
        workers.give(worker, 1)
    cluster.cores = 4
    assert len(workers.idle()) == 2
    assert set(workers.idle()).isdisjoint({0, 1})
    workers.answers(0.1)
    cluster.cores = 1
    # the other one gives its core up, since a node that had it may be gone
    assert len(workers.idle()) == 1
    assert len(cluster.killed) == 1


@pytest.mark.parametrize(
    ("error", "address", "expected"),
    [
        (ConnectionError("x"), "ray", "--on ray: no cluster runs on this machine; begin one with"),
        (
            RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.9.0"),
            "ray",
            "--on ray: it has another version of Ray or Python than this one (Version mismatch: The"
            " cluster was started with: Ray: 2.9.0)",
        ),
        (ValueError("no\nway"), "ray://head:1", "--on ray://head:1: cannot connect: no way"),
    ],
)
def test_clusters_that_refuse_are_one_line(cluster, monkeypatch, error, address, expected):
    monkeypatch.setattr(ray_workers, "check_address", lambda _: None)
    cluster.refusal = error
    with pytest.raises(InputError) as raised:
        RayWorkers(Double(), address)
    assert str(raised.value).startswith(expected)
    assert "\n" not in str(raised.value)


def test_the_address_of_a_cluster_that_was_killed_is_not_waited_at(cluster, monkeypatch):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{sock.getsockname()[1]}"
    monkeypatch.setattr(ray_workers, "_current_cluster", lambda: place)
    with pytest.raises(InputError, match="--on ray: no cluster runs on this machine"):
        RayWorkers(Double(), "ray")
    assert cluster.addresses == []


@pytest.mark.usefixtures("cluster")
def test_nodes_with_another_lightloom_are_refused():
    workers = RayWorkers(Double("2"), "ray")
    workers.give(0, 1)
    with pytest.raises(InputError, match="a worker of the cluster has lightloom 1, this is 2"):
        workers.answers(0.1)


def test_nodes_without_lightloom_are_refused(cluster):
    workers = RayWorkers(Double(), "ray")
    workers.give(0, 1)
    cluster.lost.add(cluster.actors[0])
    text = "The actor died because of an error in its creation: No module named 'lightloom'"
    cluster.error = RayError(text)
    with pytest.raises(InputError, match=r"cannot import lightloom .*; install lightloom\[ray\]"):
        workers.answers(0.1)
