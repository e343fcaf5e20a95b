"""``lightloom sweep``: processes that are killed, what is printed, and what is refused."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import polars
import pytest

STUDY = """model = "mixtral-8x7b"
gpus = 32
fabrics = ["fat-tree", "mixnet"]
seeds = 1
compute_spread = 0
policies = false
imbalances = false
[cluster]
rate_gbps = 400
[plan]
tp = 2
pp = 2
ep = 8
[sweep.axes]
cluster.rate_gbps = [200, 400]
mixnet.fixed_s = ["1 us", "25 ms"]
plan.micro_batches = [2, 3, 65]
"""
AXES = "cluster.rate_gbps, mixnet.fixed_s, plan.micro_batches"


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def start(study, out, *more):
    command = [sys.executable, "-m", "lightloom", "sweep", str(study), "--out", str(out), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def done(out):
    manifest = out / "manifest.json"
    return json.loads(manifest.read_text())["done"] if manifest.exists() else 0


def rows(out):
    return polars.read_parquet(out / "rows/*.parquet").sort("point", "fabric").write_csv()


def children(process):
    tasks = f"/proc/{process.pid}/task/{process.pid}/children"
    return [int(word) for word in Path(tasks).read_text(encoding="ascii").split()]


def test_killed_workers_and_a_killed_driver_change_nothing(study, tmp_path):
    """A worker is killed, then the driver with it, then the rest runs, by two workers."""
    whole = start(study, tmp_path / "whole", "--workers", "1")
    out, errors = whole.communicate(timeout=100)
    assert whole.returncode == 0, errors
    assert errors.splitlines()[0] == f"12 points over {AXES}"
    assert "12 of 12 points are done, 0 failed, 0 open" in out
    assert "task graphs: " in out
    folder = tmp_path / "killed"
    process = start(study, folder, "--workers", "1")
    killed = False
    while done(folder) < 2 and process.poll() is None:
        time.sleep(0.05)
        if not killed and done(folder) == 1:
            os.kill(children(process)[-1], signal.SIGKILL)
            killed = True
    process.kill()
    process.communicate(timeout=30)
    assert 0 < done(folder) < 12
    process = start(study, folder, "--workers", "2", "--resume")
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert rows(folder) == rows(tmp_path / "whole")


def test_an_interrupt_keeps_what_is_finished(study, tmp_path):
    folder = tmp_path / "out"
    process = start(study, folder, "--workers", "1")
    while done(folder) < 1 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"points kept in {folder}; go on with --resume" in errors
    assert errors.splitlines()[-1] == "lightloom: interrupted"
    assert polars.read_parquet(folder / "rows/*.parquet")["point"].n_unique() == done(folder) > 0


def test_a_point_that_fails_says_why_and_the_others_are_done(tmp_path, lightloom):
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("[2, 3, 65]", "[2]").replace("[200, 400]", "[300, 400]"))
    found = lightloom(f"sweep {study} --workers 1 --out {tmp_path / 'out'}")
    assert found.status == 0, found.err
    assert "2 of 4 points are done, 2 failed, 0 open" in found.out
    assert "failed: 2 points from 0: prices (prices.toml): nothing for 300 Gb/s links" in found.out


def test_a_sweep_of_which_no_point_can_be_is_an_error(tmp_path, lightloom):
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("[2, 3, 65]", "[2]").replace("[200, 400]", "[300]"))
    found = lightloom(f"sweep {study} --workers 1 --out {tmp_path / 'out'}")
    assert found.status == 2
    assert "0 of 2 points are done, 2 failed, 0 open" in found.out
    assert "lightloom: no point is done, such as point 0: prices (prices.toml)" in found.err


def test_many_points_are_said_and_asked_for(tmp_path, refused):
    study = tmp_path / "study.toml"
    ranges = (
        "cluster.rate_gbps = [400]\nmixnet.fixed_s = { from = 0, to = 1, count = 100000 }\n"
        "compute_spread = { from = 0, to = 0.5, count = 10000 }\n"
    )
    study.write_text(STUDY.partition("cluster.rate_gbps")[0] + ranges)
    message = refused(f"--quiet sweep {study} --out {tmp_path / 'out'}")
    assert message == (
        f"{study} has 1,000,000,000 points: nobody can be asked here, and nothing was changed; "
        "give --yes"
    )
    assert not (tmp_path / "out").exists()


def test_a_billion_points_with_a_budget(tmp_path, lightloom):
    study = tmp_path / "study.toml"
    ranges = (
        "mixnet.fixed_s = { from = 0, to = 1, count = 100000 }\n"
        "compute_spread = { from = 0, to = 0.5, count = 10000 }\n"
    )
    study.write_text(STUDY.partition("cluster.rate_gbps =")[0] + ranges)
    text = study.read_text().replace("compute_spread = 0\n", "", 1)
    study.write_text(text)
    found = lightloom(f"sweep {study} --out {tmp_path / 'out'} --yes --budget 1ms --workers 1")
    assert found.status == 0, found.err
    assert "1,000,000,000 points over" in found.err
    assert "the time is up: what is open runs with --resume" in found.err


def test_clusters_that_cannot_be_used(study, tmp_path, refused):
    call = f"--quiet sweep {study} --out {tmp_path / 'out'} --on"
    assert refused(f"{call} head:6379").startswith("--on head:6379: expected ray, or ray://HOST")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    assert refused(f"{call} ray://127.0.0.1:{port}").startswith(
        f"--on ray://127.0.0.1:{port}: cannot be reached"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_ray_is_named_where_it_is_missing(study, tmp_path, refused):
    assert refused(f"--quiet sweep {study} --out {tmp_path / 'out'} --on ray") == (
        "a sweep on Ray: ray is needed, which is not installed: pip install 'lightloom[ray]'"
    )


def test_explore_and_run_one_point(study, tmp_path, lightloom, refused):
    text = STUDY.replace("[2, 3, 65]", "[2]").replace("[200, 400]", "[400]")
    study.write_text(text)
    out, page, record = tmp_path / "out", tmp_path / "e.html", tmp_path / "r.json"
    assert lightloom(f"sweep {study} --workers 1 --out {out}").status == 0
    found = lightloom(f"explore {out} --html {page}")
    assert found.status == 0, found.err
    assert f"lightloom run {study} --point" in page.read_text()
    assert "2 of 2 points are done" in found.out
    table = polars.read_parquet(out / "rows/*.parquet").sort("point", "fabric")
    assert lightloom(f"run {study} --point 1 --json {record}").status == 0
    results = {r["fabric"]: r for r in json.loads(record.read_text())["results"]}
    for row in table.filter(polars.col("point") == 1).to_dicts():
        assert results[row["fabric"]]["step_time_s"] == row["step_time_s"]
        assert results[row["fabric"]]["run_hash"] == row["run_hash"]
    assert "no point 2; expected the number of one, up to 1" in refused(f"run {study} --point 2")
    table.write_csv(tmp_path / "rows.csv")
    found = lightloom(f"explore {tmp_path / 'rows.csv'} --html {page}")
    assert found.status == 0, found.err
    assert found.out == f"{tmp_path / 'rows.csv'}: 4 rows of {len(table.columns)} columns\n"


def test_what_cannot_be_explored(tmp_path, refused):
    (tmp_path / "empty").mkdir()
    assert "no rows of a sweep" in refused(f"explore {tmp_path / 'empty'}")
    assert "no such file or folder" in refused(f"explore {tmp_path / 'none'}")
    (tmp_path / "a.txt").write_text("x")
    assert "expected the folder of a sweep, or a .parquet or .csv file" in refused(
        f"explore {tmp_path / 'a.txt'}"
    )
    (tmp_path / "a.parquet").write_text("x")
    assert "a.parquet: cannot be read as a table" in refused(f"explore {tmp_path / 'a.parquet'}")


def test_odd_tables_are_explored_or_refused_in_one_line(tmp_path, lightloom, refused):
    page, table = tmp_path / "e.html", tmp_path / "t.parquet"
    # fabrics that are yes and no, and kinds that are missing
    frame = polars.DataFrame({"fabric": [True, False], "kind": [None, "x"], "y": [1.5, 2.5]})
    frame.write_parquet(table)
    found = lightloom(f"explore {table} --html {page}")
    assert found.status == 0, found.err
    assert page.exists()
    frame.clear().write_parquet(table)
    found = lightloom(f"explore {table} --html {page}")
    assert found.status == 2
    assert found.err == "lightloom: a page holds 1 to 200,000 rows, and there are 0\n"
    # a folder of rows that are not those of a sweep
    rows = tmp_path / "folder" / "rows"
    rows.mkdir(parents=True)
    frame.write_parquet(rows / "a.parquet")
    text = refused(f"explore {tmp_path / 'folder'}")
    assert "no rows of a sweep: there is no column point" in text
    (rows / "a.parquet").write_text("x")
    assert "rows cannot be read" in refused(f"explore {tmp_path / 'folder'}")


def test_wrong_calls(study, tmp_path, refused):
    out = tmp_path / "out"
    assert "--budget 30: a time needs its unit" in refused(f"sweep {study} --out {out} --budget 30")
    assert "--workers 0: expected at least 1" in refused(f"sweep {study} --out {out} --workers 0")
    assert "[sweep], many points: run it with lightloom sweep" in refused(f"run {study}")
    study.write_text(STUDY.partition("[sweep")[0])
    assert "no table [sweep.axes]" in refused(f"sweep {study} --out {out}")
    assert "no such file" in refused(f"sweep {tmp_path / 'none.toml'} --out {out}")
