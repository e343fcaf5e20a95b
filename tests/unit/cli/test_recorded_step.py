"""``compare --set packets.record``: folders that ``lightloom packets`` plays again."""

import json
import re
from pathlib import Path

import polars
import pytest

JOB = (
    "compare olmoe-1b-7b --gpus 16 --rate 400 --gpu h100 --pp 1 --ep 16 --micro-batches 1 "
    "--seq-len 16 --no-imbalances --seeds 1 --network packet"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_a_recorded_step_takes_as_long_when_it_is_played_again(lightloom):
    record = "--fabrics fat-tree,rail --transport roce --set packets.record=step --json -"
    found = json.loads(lightloom(JOB, record).out)
    assert [result["packets"]["simulated"] for result in found["results"]] == ["whole"] * 2
    for fabric in ("fat-tree", "rail"):
        scenario = f"step/{fabric}/scenario.toml"
        outputs = "--json run.json --series series.parquet --html page.html"
        assert lightloom("packets", "--scenario", scenario, outputs).status == 0
        run = json.loads(Path("run.json").read_text())
        spans = [row["step_time_s"] for row in found["results"] if row["fabric"] == fabric]
        # the mean of three compute speeds; the first sample is at the nominal one
        assert run["operations"]["makespan_s"] == pytest.approx(spans[0], rel=0.02)
        rows = polars.read_parquet("series.parquet").filter(polars.col("kind") == "flow")
        assert rows["bytes"].sum() == run["traffic"]["bytes"]
        assert "The busiest links over time" in Path("page.html").read_text()


def test_a_recorded_step_is_played_by_other_transports(lightloom):
    for transport in ("dctcp", "ndp"):
        lightloom(
            JOB, f"--fabrics fat-tree --transport {transport} --set packets.record={transport}"
        )
        lightloom(f"packets --scenario {transport}/fat-tree/scenario.toml --transport ndp --json",
                  f"{transport}.json")  # fmt: skip
    first, again = (json.loads(Path(f"{name}.json").read_text()) for name in ("dctcp", "ndp"))
    # queues of its own, as if the step had been recorded so: those of DCTCP would never be trimmed
    assert first["settings"] == again["settings"]
    assert first["given"] == []
    lightloom(JOB, "--fabrics fat-tree --transport ideal --set packets.record=step")
    done = lightloom("packets --scenario step/fat-tree/scenario.toml --transport ndp,swift --csv -")
    assert done.status == 0
    assert re.search(r"^ndp,", done.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"{JOB} --fabrics fat-tree --phases all --set packets.record=new",
         "packets.record is for whole steps in which nothing fails: leave phases and plane_failure "
         "out"),
        (f"{JOB.replace('--rate 400', '--rate 400,800')} --set packets.record=new",
         "packets.record keeps one comparison; give one number of GPUs and one rate"),
        (f"{JOB} --set packets.record=used",
         "used: there is something in it; choose an empty or a new folder"),
        (f"{JOB.replace(' --network packet', '')} --set packets.record=new",
         "packets.record is for packets; add --network packet"),
    ],
)  # fmt: skip
def test_what_cannot_be_recorded_is_refused_in_one_line(refused, command, expected):
    Path("used").mkdir()
    Path("used/mine.txt").write_text("keep")
    assert refused(command) == expected
    assert [path.name for path in Path("used").iterdir()] == ["mine.txt"]


def test_circuits_are_refused_before_packets_are_simulated(lightloom):
    done = lightloom(JOB, "--fabrics fat-tree,mixnet --set packets.record=new")
    assert done.status == 2
    assert done.err.splitlines()[-1] == (
        "lightloom: packets.record: mixnet has circuits, whose changes are no part of a recording; "
        "leave it out of --fabrics"
    )
    assert not Path("new").exists()
