"""A sweep on a two-node Ray cluster of this machine, a worker and a node of which are killed."""

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import polars
import pytest
from tests.ray_cluster import PYTHON, Cluster, lacking

SOAKED = bool(os.environ.get("LIGHTLOOM_SOAK"))
REASON = lacking() if SOAKED else "a long test: make soak"
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

STUDY = """model = "mixtral-8x7b"
gpus = 64
fabrics = ["fat-tree", "mixnet"]
seeds = 1
policies = false
imbalances = false
[cluster]
rate_gbps = 400
[plan]
tp = 2
pp = 4
ep = 8
[sweep.axes]
cluster.rate_gbps = [100, 200, 400]
mixnet.fixed_s = ["1 us", "1 ms", "25 ms", "1 s"]
plan.micro_batches = [4, 8]
"""
POINTS = 24


@pytest.fixture
def cluster():
    """Two nodes of one core each."""
    # sockets of Ray need a short path
    with tempfile.TemporaryDirectory(prefix="lr", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder))
        try:
            made.add_node()
            made.add_node()
            yield made
        finally:
            made.close()


def start(cluster, study, out, *more):
    command = [str(PYTHON), "-m", "lightloom", "sweep", str(study), "--out", str(out), *more]
    return subprocess.Popen(
        command, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows(out):
    """All rows as text, sorted."""
    return polars.read_parquet(out / "rows/*.parquet").sort("point", "fabric").write_csv()


def wait_for(out, count, process):
    """Wait until so many points are done."""
    end = time.monotonic() + 240
    while time.monotonic() < end and process.poll() is None:
        manifest = out / "manifest.json"
        if manifest.exists() and json.loads(manifest.read_text())["done"] >= count:
            return
        time.sleep(0.2)
    pytest.fail(f"{count} points are not done: {process.communicate()[1]}")


def descendants(pid):
    """All processes below one, by their parents."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    todo, found = [pid], []
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def actors(node):
    """Processes of workers of a node."""
    found = []
    for pid in descendants(node.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"ray::_RayWorker"):
            found.append(pid)
    return found


def test_nothing_is_lost_repeated_or_changed_when_a_worker_and_a_node_are_killed(cluster, tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    here = start(cluster, study, tmp_path / "here", "--workers", "1")
    out, errors = here.communicate(timeout=400)
    assert here.returncode == 0, errors
    process = start(cluster, study, tmp_path / "there", "--on", "ray")
    wait_for(tmp_path / "there", 3, process)
    for pid in [pid for node in cluster.nodes for pid in actors(node)][:1]:
        os.kill(pid, signal.SIGKILL)
    wait_for(tmp_path / "there", 8, process)
    cluster.kill_node(1)
    out, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    assert f"{POINTS} of {POINTS} points are done, 0 failed, 0 open" in out
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    # the sweep goes on where it was, by the client's port as well
    manifest = tmp_path / "there/manifest.json"
    removed = sorted((tmp_path / "there/rows").iterdir())[0]
    removed.unlink()
    assert json.loads(manifest.read_text())["done"] == POINTS
    address = f"ray://127.0.0.1:{cluster.client}"
    process = start(cluster, study, tmp_path / "there", "--on", address, "--resume")
    out, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    assert rows(tmp_path / "there") == rows(tmp_path / "here")


def test_a_cluster_that_is_gone_leaves_what_is_finished(cluster, tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    process = start(cluster, study, tmp_path / "out", "--on", "ray")
    wait_for(tmp_path / "out", 3, process)
    cluster.close()
    process.communicate(timeout=400)
    assert process.returncode != 0
    assert polars.read_parquet(tmp_path / "out/rows/*.parquet")["point"].n_unique() >= 3
