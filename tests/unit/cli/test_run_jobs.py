"""``lightloom run`` of several jobs: what it prints, writes and refuses."""

import csv
import json

import pytest

JOBS = """
fabrics = ["oversub", "mixnet"]
[cluster]
gpu = "h200"
rate_gbps = 100
[plan]
tp = 2
pp = 1
ep = 8
micro_batches = 1
seq_len = 1024
[[jobs]]
model = "mixtral-8x7b"
gpus = 16
copies = 2
"""


@pytest.fixture
def jobs(tmp_path):
    path = tmp_path / "jobs.toml"
    path.write_text(JOBS)
    return path


def test_jobs_are_simulated_and_the_advice_is_last(lightloom, jobs, tmp_path):
    table, results = tmp_path / "j.csv", tmp_path / "j.json"
    found = lightloom(
        f"run {jobs} --set oversub.ratio=8 --set oversub.servers_per_tor=2"
        f" --csv {table} --json {results}"
    )
    assert found.status == 0, found.err
    lines = found.out.splitlines()
    assert lines[0] == "mixtral-8x7b (1): 16 GPUs, TP2 PP1 EP8 DP1"
    assert all(len(line) <= 80 for line in lines if "─" in line or line.startswith(" "))
    assert lines[-1] == "mixnet: the jobs do not slow each other, wherever they are placed."
    assert lines[-2].startswith("oversub: place the jobs packed, as fast as alone; placed spread, ")
    content = json.loads(results.read_text())
    places = {(row["fabric"], row["placement"]): row for row in content["placements"]}
    spread = places["oversub", "spread"]
    assert spread["jobs"][0]["slowdown"] > 1.05
    assert spread["jobs"][0]["worst_s"] >= spread["jobs"][0]["together_s"]
    assert [job["servers"] for job in spread["jobs"]] == [[0, 2], [1, 3]]
    assert places["oversub", "packed"]["speed"] == pytest.approx(1)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == sum(len(row["jobs"]) for row in content["placements"])
    assert "placement tor is as packed" in found.err


def test_options_stand_in_place_of_what_the_file_says(lightloom, jobs):
    found = lightloom(f"run {jobs} --fabrics rail --rate 400 --json -")
    content = json.loads(found.out)
    assert {row["fabric"] for row in content["placements"]} == {"rail"}
    assert content["inputs"]["cluster"]["rate_gbps"] == 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--gpus 32", "--gpus is of one job: say it in the file"),
        ("--point 3", "--point is of a sweep"),
        ("--html j.html", "--html is of one job: several write --json and --csv"),
        ("--seeds 2", "several jobs run with one seed"),
        ("--network packet", "several jobs are simulated as flows"),
        ("--fabrics nothing", "nothing"),
    ],
)
def test_what_several_jobs_have_no_use_for_is_one_line(lightloom, jobs, options, message):
    found = lightloom(f"run {jobs} {options}")
    assert found.status == 2
    assert message in found.err
    assert found.err.count("\n") == 1
