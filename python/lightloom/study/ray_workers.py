"""Workers on a Ray cluster: an actor for each, wherever the cluster has a core.

A node or a worker may go at any moment; what it had is told to be lost, and Ray repeats nothing by
itself. The cluster may grow and shrink while the work goes on.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import socket
import tempfile
import time
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from lightloom.errors import InputError
from lightloom.optional import need
from lightloom.study.workers import Answer

Work = TypeVar("Work")
Work_contra = TypeVar("Work_contra", contravariant=True)
#: what comes before the place of a cluster
SCHEME = "ray"
#: seconds in which the port of a cluster answers
REACHED_S = 10.0
NO_CLUSTER = "no cluster runs on this machine; begin one with ray start --head"
#: and after which its size is asked for again
ASK_S = 2.0


class WorkerFunction(Protocol[Work_contra]):
    """What a worker does, and the version of its code."""

    def __call__(self, work: Work_contra, /) -> Any:
        """Do a piece of work."""
        ...

    def version(self) -> str:
        """The version of the code."""
        ...


class _RayWorker:
    """The process of a worker; Ray makes an actor of it."""

    def __init__(self, function: WorkerFunction[object]) -> None:
        self._function = function

    def run(self, work: object) -> tuple[str, Any]:
        """Do a piece of work; with the version of the code that did it."""
        return self._function.version(), self._function(work)


class RayWorkers(Generic[Work]):
    """Actors on a cluster.

    Parameters
    ----------
    function
        What is done with a piece of work; its package is installed on every node.
    address
        ``ray`` for the cluster of this machine, ``ray://HOST:PORT`` for another one.
    most
        Workers at most; by default as many as the cluster has cores.

    Raises
    ------
    InputError
        If there is no such cluster, or it has another version of Ray.
    """

    def __init__(
        self, function: WorkerFunction[Work], address: str, most: int | None = None
    ) -> None:
        check_address(address)
        need("ray", "a sweep on Ray")
        self._ray: Any = importlib.import_module("ray")
        self._function, self._most = function, most
        self._connect(address)
        self._actor_class = self._ray.remote(_RayWorker)
        self._actors: dict[int, Any] = {}
        self._busy: dict[Any, int] = {}
        self._asked_s = -ASK_S
        self.count = 0
        self._ask()

    def _connect(self, address: str) -> None:
        if address == SCHEME and not _answers(_current_cluster()):
            raise InputError(f"--on {address}: {NO_CLUSTER}")
        quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
        try:
            place = "auto" if address == SCHEME else address
            self._ray.init(address=place, **quiet)
        except Exception as error:  # of many classes, by the way of connecting
            text = " ".join(str(error).split())
            if "ersion mismatch" in text:
                reason = f"it has another version of Ray or Python than this one ({text[:300]})"
            elif address == SCHEME:
                reason = NO_CLUSTER
            else:
                reason = f"cannot connect: {text[:300]}"
            raise InputError(f"--on {address}: {reason}") from None

    def _ask(self) -> None:
        """Look how many cores the cluster has now."""
        if time.monotonic() - self._asked_s < ASK_S:
            return
        self._asked_s = time.monotonic()
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        self.count = max(1, cores if self._most is None else min(cores, self._most))

    def idle(self) -> list[int]:
        """Workers that have no work; those that the cluster has lost the cores of are ended."""
        self._ask()
        busy = set(self._busy.values())
        free = [worker for worker in self._actors if worker not in busy]
        while free and len(self._actors) > self.count:
            self._end(free.pop())
        missing = self.count - len(self._actors)
        unused = (n for n in range(self.count + len(self._actors)) if n not in self._actors)
        return free + [next(unused) for _ in range(missing)]

    def give(self, worker: int, work: Work) -> None:
        """Give an idle worker work; makes its actor if there is none."""
        if worker not in self._actors:
            options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
            actor = self._actor_class.options(**options, scheduling_strategy="SPREAD")
            self._actors[worker] = actor.remote(self._function)
        self._busy[self._actors[worker].run.remote(work)] = worker

    def answers(self, timeout_s: float) -> list[Answer]:
        """What came in, after this time at the latest."""
        waiting = list(self._busy)
        if not waiting:
            time.sleep(timeout_s)
            return []
        self._ray.wait(waiting, num_returns=1, timeout=timeout_s)
        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return [self._answer(ref) for ref in ready]

    def _answer(self, ref: object) -> Answer:
        worker = self._busy.pop(ref)
        try:
            version, content = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self._end(worker)
            text = " ".join(str(error).split())
            if missing := re.search(r"No module named '[\w.]+'", text):
                raise InputError(
                    f"a worker of the cluster cannot import lightloom ({missing[0]}); install"
                    " lightloom[ray] on every node"
                ) from None
            return Answer(worker, "lost", text[:200])
        if version != self._function.version():
            raise InputError(
                f"a worker of the cluster has lightloom {version}, this is"
                f" {self._function.version()}; install the same on every node"
            )
        return Answer(worker, "done", content)

    def _end(self, worker: int) -> None:
        with contextlib.suppress(Exception):  # it may have ended
            self._ray.kill(self._actors[worker])
        self._actors.pop(worker, None)

    def stop(self) -> None:
        """End all workers, and leave the cluster."""
        for worker in list(self._actors):
            self._end(worker)
        self._busy.clear()
        with contextlib.suppress(Exception):
            self._ray.shutdown()


def _current_cluster() -> str:
    """Where Ray says that the cluster of this machine is; empty if it does not.

    A cluster that was killed leaves its address, at which Ray would wait for minutes.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    if address:
        return address
    with contextlib.suppress(OSError):
        return (Path(tempfile.gettempdir()) / "ray/ray_current_cluster").read_text().strip()
    return ""


def _answers(place: str) -> bool:
    """Whether somebody listens at ``HOST:PORT``; what is no such place is left to Ray."""
    host, colon, port = place.rpartition(":")
    if not (colon and host and port.isdecimal()) or "/" in host:
        return True
    try:
        socket.create_connection((host, int(port)), REACHED_S).close()
    except (OSError, OverflowError):
        return False
    return True


def check_address(address: str) -> None:
    """Refuse what is no address of a cluster, or does not answer.

    Raises
    ------
    InputError
        If it is neither ``ray`` nor ``ray://HOST:PORT``, or nobody listens there.
    """
    if address == SCHEME:
        return
    host, colon, port = address.removeprefix(f"{SCHEME}://").rpartition(":")
    if not (address.startswith(f"{SCHEME}://") and colon and host and port.isdecimal()):
        raise InputError(
            f"--on {address}: expected ray, or ray://HOST:PORT such as ray://head:10001"
        )
    try:
        socket.create_connection((host, int(port)), REACHED_S).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--on {address}: cannot be reached ({error}); expected the head of a cluster and the"
            " port of its client server, 10001 by default"
        ) from None
