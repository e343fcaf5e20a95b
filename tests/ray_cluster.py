"""A Ray cluster of several nodes on this machine, whose processes are those of the test alone."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: where ``ray`` is: that of the Python of the tests, or another one
PYTHON = Path(os.environ.get("LIGHTLOOM_RAY_PYTHON", sys.executable))
ROOT = Path(__file__).parents[1]
#: bytes of the object store of a node: rows are small
STORE = 80_000_000


def lacking() -> str:
    """Why there can be no cluster; empty if there can be one."""
    found = subprocess.run(
        [PYTHON, "-c", "import ray, polars"], capture_output=True, text=True, check=False
    )
    return "" if found.returncode == 0 else "no Ray: pip install 'lightloom[ray]'"


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Cluster:
    """Nodes of one core each; the first is the head."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.client = folder, free_port(), free_port()
        self.nodes: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Variables of nodes and of who connects."""
        path = os.pathsep.join([str(ROOT / "python"), str(ROOT)])
        return {
            **os.environ,
            "PYTHONPATH": path,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": f"127.0.0.1:{self.port}",
        }

    def add_node(self) -> None:
        """Start one more node, and wait until it is there."""
        common = ["--node-ip-address", "127.0.0.1", "--num-cpus", "1", "--block"]
        common += ["--object-store-memory", str(STORE), "--disable-usage-stats"]
        if self.nodes:
            words = ["--address", f"127.0.0.1:{self.port}"]
        else:
            words = ["--head", "--port", str(self.port), "--include-dashboard", "false"]
            words += ["--ray-client-server-port", str(self.client)]
            words += ["--temp-dir", str(self.folder)]
        environment = {k: v for k, v in self.environment.items() if k != "RAY_ADDRESS"}
        command = [str(PYTHON), "-m", "ray.scripts.scripts", "start", *words, *common]
        with (self.folder / f"node{len(self.nodes)}.log").open("wb") as log:
            node = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.nodes.append(node)
        self._wait(len(self.nodes))

    def _wait(self, count: int) -> None:
        ask = (
            "import ray, time\n"
            "ray.init(log_to_driver=False, logging_level='ERROR')\n"
            f"while ray.cluster_resources().get('CPU', 0) < {count}: time.sleep(0.2)\n"
        )
        end = time.monotonic() + 90
        while time.monotonic() < end:
            done = subprocess.run(
                [PYTHON, "-c", ask], env=self.environment, capture_output=True, check=False,
                timeout=90,
            )  # fmt: skip
            if done.returncode == 0:
                return
        pytest.fail(f"the cluster has no {count} nodes: {done.stderr[-500:]!r}")

    def kill_node(self, number: int) -> None:
        """Kill all processes of a node at once."""
        os.killpg(self.nodes[number].pid, signal.SIGKILL)
        self.nodes[number].wait()

    def close(self) -> None:
        """End what is left of it."""
        for node in self.nodes:
            if node.poll() is None:
                os.killpg(node.pid, signal.SIGKILL)
                node.wait()
