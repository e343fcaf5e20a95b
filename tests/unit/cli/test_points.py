"""Lists of GPUs, rates and types on the command line."""

import csv
import gzip
import json
import os
import signal
import time

import pytest
from tests.trace_jobs import program

from lightloom.samples import read_sample

SMALL = (
    "compare mixtral-8x7b --plan published --micro-batches 1 --seeds 1 "
    "--fabrics fat-tree,mixnet --no-policies --no-imbalances --compute-spread 0"
)
BATCHES = SMALL.replace("--micro-batches 1", "--tp 4 --pp 4 --ep 8 --micro-batch-size 1")
BATCHES += " --gpus 128,256 --rate 400"


def test_lists_make_one_table_one_page_and_one_file(lightloom, tmp_path):
    page, rows, file = (tmp_path / name for name in ("p.html", "r.csv", "r.json"))
    done = lightloom(
        f"{SMALL} --gpus 128,256 --rate 100,400 --html {page} --csv {rows} --json {file}"
    )
    assert done.status == 0, done.err
    content = json.loads(file.read_text())
    values = [point["values"] for point in content["points"]]
    assert [(v["gpus"], v["rate_gbps"]) for v in values] == [
        (128, 100.0), (128, 400.0), (256, 100.0), (256, 400.0)
    ]  # fmt: skip
    scenarios = [point["comparison"]["inputs"]["scenario"] for point in content["points"]]
    assert [one["gpus"] for one in scenarios] == [128, 128, 256, 256]
    assert {row["gpus"] for row in csv.DictReader(rows.read_text().splitlines())} == {"128", "256"}
    assert "<polyline" in page.read_text()
    lines = [line.split() for line in done.out.splitlines() if line.startswith(" 256 ")]
    # plans, and results
    assert len(lines) == 2 + 4
    assert "fastest is fat-tree from 128 to 256 GPUs." in done.out
    assert done.out.rstrip().endswith(".")


@pytest.mark.parametrize(("given", "expected"), [("16", [16, 16]), ("16,32", [16, 32])])
def test_batches_go_with_numbers_of_gpus(lightloom, tmp_path, given, expected):
    file = tmp_path / "r.json"
    done = lightloom(f"{BATCHES} --global-batch-size {given} --json {file}")
    assert done.status == 0, done.err
    content = json.loads(file.read_text())
    inputs = [point["comparison"]["inputs"] for point in content["points"]]
    assert [one["sequences_per_step"] for one in inputs] == expected
    assert content["plans"] == "plans: as given"
    assert content["command"].startswith("lightloom")
    assert done.out.startswith("mixtral-8x7b: 32 layers")
    assert "Plans and scaling" in done.out


@pytest.mark.parametrize("form", ["trace", "phases"])
def test_a_job_without_a_model_at_two_rates(lightloom, tmp_path, form):
    """It says itself how many GPUs it has; points were once taken for models."""
    file = tmp_path / ("trace.json" if form == "trace" else "phases.csv")
    file.write_bytes(
        json.dumps(program().to_json()).encode() if form == "trace" else read_sample("phases")
    )
    done = lightloom(f"compare --workload {file} --rate 100,200 --fabrics fat-tree,rail")
    assert done.status == 0, done.err
    assert "0 GPUs" not in done.out
    assert sum(line.split()[:2] == ["16", "200"] for line in done.out.splitlines()) == 2


def test_wrong_batches_are_refused(refused):
    assert "has 3 values, --gpus 2: give one" in refused(f"{BATCHES} --global-batch-size 16,32,64")
    assert "has 2 values, --gpus 1: give one" in refused(
        f"{BATCHES.replace('128,256', '128')} --global-batch-size 16,32"
    )
    assert "--global-batch-size x: expected a whole number" in refused(
        f"{BATCHES} --global-batch-size 16,x"
    )


def test_wrong_lists_are_refused(refused):
    assert "--gpus ten: expected a whole number" in refused(f"{SMALL} --gpus 128,ten --rate 400")
    assert "unknown GPU 'x1'" in refused(f"{SMALL} --gpus 128 --rate 400 --gpu x1,x2")


def points_in(rows):
    """The points that have rows."""
    text = rows.read_text() if rows.exists() else ""
    return {(row["gpus"], row["rate_gbps"]) for row in csv.DictReader(text.splitlines())}


def test_an_interrupt_keeps_finished_points(spawn, tmp_path):
    file = tmp_path / "r.json"
    rows = tmp_path / "r.csv"
    process = spawn(
        f"{SMALL} --gpus 128,256,384,512 --rate 50,100,200,400 --json {file} --csv {rows}"
    )
    at_once = max(1, (os.cpu_count() or 1) // 4)
    end = time.monotonic() + 180
    while len(points_in(rows)) <= at_once:  # once another point begins, the first is done
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    content = json.loads(file.read_text())
    done = [point for point in content["points"] if point["comparison"]]
    assert content["interrupted"]
    assert 1 <= len(done) < len(content["points"])
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "r.json"]


def test_every_point_has_a_timeline_of_its_own(lightloom, tmp_path):
    done = lightloom(
        f"{SMALL} --gpus 128,256 --rate 400 --timeline {tmp_path}/t.json.gz --no-color"
    )
    assert done.status == 0, done.err
    names = sorted(os.listdir(tmp_path))
    assert names == [f"t-{gpus}-gpus-400-gb-s-a100.json.gz" for gpus in (128, 256)]
    for name in names:
        assert f"wrote {tmp_path / name}" in done.err
        with gzip.open(tmp_path / name, "rt") as stream:
            assert json.load(stream)["traceEvents"]
