"""Lists of transports, rates and hosts: one table, one page and one file of all runs."""

import csv
import json
import signal
from itertools import groupby
from pathlib import Path

import pytest

from lightloom.cli.outputs import path_of_point

ROOT = Path(__file__).parents[3]
RUN = "packets --hosts 8 --pattern incast --fan-in 4 --bytes 200kB"
RING = f"packets --scenario {ROOT}/examples/ring/deadlock.toml"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_every_run_is_that_of_its_own_command(lightloom):
    done = lightloom(f"{RUN} --rate 100,400 --transport dcqcn,ndp --json all.json --csv all.csv")
    assert done.status == 0, done.err
    content = json.loads(Path("all.json").read_text())
    values = [tuple(run["values"].values()) for run in content["runs"]]
    assert values == [("dcqcn", 100), ("dcqcn", 400), ("ndp", 100), ("ndp", 400)]
    for (transport, rate), run in zip(values, content["runs"], strict=True):
        one = f"{RUN} --rate {rate:g} --transport {transport} --json one.json --csv one.csv"
        assert lightloom(one).status == 0
        found, alone = run["result"], json.loads(Path("one.json").read_text())
        for result in (found, alone):
            del result["work"]["wall_s"]
        assert found == alone
        with Path("all.csv").open() as rows:
            own = [
                {key: row[key] for key in row if key not in {"transport", "rate_gbps"}}
                for row in csv.DictReader(rows)
                if (row["transport"], float(row["rate_gbps"])) == (transport, rate)
            ]
        assert own == list(csv.DictReader(Path("one.csv").read_text().splitlines()))


def test_loads_are_a_list_and_each_is_that_of_its_own_command(lightloom):
    run = "packets --hosts 8 --rate 100 --transport ndp --pattern load --flow-sizes hadoop"
    run += " --load-time 100us"
    assert lightloom(f"{run} --load 0.3,0.6 --csv all.csv").status == 0
    with Path("all.csv").open() as rows:
        runs = {load: list(own) for load, own in groupby(csv.DictReader(rows), lambda r: r["load"])}
    assert list(runs) == ["0.3", "0.6"]
    for load, own in runs.items():
        assert lightloom(f"{run} --load {load} --csv one.csv").status == 0
        alone = list(csv.DictReader(Path("one.csv").read_text().splitlines()))
        assert [{"load": load, **row} for row in alone] == own


def test_the_table_has_a_row_of_each_run_and_the_slowest_flows_of_each(lightloom):
    done = lightloom(f"{RUN} --rate 100 --transport ideal,dctcp,ndp --json all.json")
    assert max(map(len, done.out.splitlines())) <= 80
    content = json.loads(Path("all.json").read_text())
    lines = [line.split() for line in done.out.splitlines()]
    for run in content["runs"]:
        name, fct = run["values"]["transport"], run["result"]["fct_s"]
        first, *slowest = [words for words in lines if words[:1] == [name]]
        shown = [float(one) for one in first[2:5]]
        assert shown == pytest.approx([1e6 * fct[q] for q in ("p50", "p99", "max")], rel=1e-4)
        assert len(slowest) == 3
        slowdowns = [float(words[-1]) for words in slowest]
        assert slowdowns == sorted(slowdowns, reverse=True)
        assert slowdowns[0] == pytest.approx(run["result"]["slowdown"]["max"], abs=1e-3)
    tails = {run["values"]["transport"]: run["result"]["fct_s"]["p99"] for run in content["runs"]}
    last = " ".join(done.out.splitlines()[-2:])
    assert f"shortest with {min(tails, key=tails.get)} " in last
    assert f"longest with {max(tails, key=tails.get)} " in last


def test_one_page_holds_all_runs(lightloom):
    done = lightloom(f"{RUN} --rate 100 --transport dctcp,ndp --html all.html")
    assert done.status == 0, done.err
    page = Path("all.html").read_text()
    assert page.count('class="line series-0"') == page.count('class="line series-1"') == 2
    assert "<td>4 to 0</td>" in page


def test_series_are_a_file_for_each_run(lightloom):
    assert lightloom(f"{RUN} --rate 100 --transport dctcp,ndp --series s.csv").status == 0
    assert sorted(path.name for path in Path().glob("s*.csv")) == ["s-dctcp.csv", "s-ndp.csv"]


def test_events_are_a_file_for_each_run(lightloom):
    done = lightloom(f"{RUN} --rate 100 --transport dctcp,ndp --events events.csv")
    assert done.status == 0
    names = [f"events-{name}.csv" for name in ("dctcp", "ndp")]
    assert [line for line in done.err.splitlines() if line] == [f"wrote {name}" for name in names]
    for name in names:
        assert Path(name).read_text().startswith("time_us,event,flow")
    assert not Path("events.csv").exists()


@pytest.mark.parametrize(
    ("path", "title", "expected"),
    [
        ("t.pftrace", "512 GPUs, 200 Gb/s, h100", "t-512-gpus-200-gb-s-h100.pftrace"),
        ("a/t.json.gz", "1,024 GPUs", "a/t-1024-gpus.json.gz"),
        ("v1.2.csv", "ndp", "v1.2-ndp.csv"),
        ("plain", "my gpu.toml", "plain-my-gpu.toml"),
    ],
)
def test_the_file_of_a_point(path, title, expected):
    assert path_of_point(Path(path), title) == Path(expected)


def test_a_run_that_is_stuck_leaves_the_others(lightloom):
    done = lightloom(f"{RING} --transport roce,ndp --json all.json --csv all.csv")
    assert done.status == 3
    assert done.err.startswith("lightloom: roce: ") or "\nlightloom: roce: " in done.err
    stuck, finished = json.loads(Path("all.json").read_text())["runs"]
    assert (stuck["result"], finished["stuck"]) == (None, None)
    assert "wait for one another" in stuck["stuck"]
    assert len(finished["result"]["unfinished"]) == 0
    rows = list(csv.DictReader(Path("all.csv").read_text().splitlines()))
    done_of = {name: [bool(row["fct_us"]) for row in own]
               for name, own in groupby(rows, lambda row: row["transport"])}  # fmt: skip
    assert done_of == {"roce": [False] * 3, "ndp": [True] * 3}


def test_wrong_lists_are_refused_before_anything_is_simulated(refused, tmp_path):
    line = refused(f"{RUN} --rate 100 --transport ndp,npd --csv all.csv")
    assert "did you mean 'ndp'?" in line
    assert "--hosts eight: expected a whole number" in refused(
        "packets --hosts 8,eight --rate 100 --transport ndp --pattern permutation --bytes 1kB"
    )
    assert "--flows - is read once" in refused(
        "packets --hosts 8 --rate 100 --transport ndp,dctcp --flows -"
    )
    assert not list(tmp_path.iterdir())


def test_an_interrupt_keeps_finished_runs(spawn, tmp_path):
    file, rows = tmp_path / "r.json", tmp_path / "r.csv"
    process = spawn(
        "packets --hosts 128 --rate 100 --transport ideal,ndp --pattern all-to-all "
        f"--bytes 200kB,200MB --json {file} --csv {rows}"
    )
    # the second run, of 3.25 TB, would take hours, and says so as it begins
    while "packets, which cross" not in (line := process.stderr.readline().decode()):
        assert line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    content = json.loads(file.read_text())
    assert content["interrupted"]
    assert [run["values"]["size_bytes"] for run in content["runs"]] == [200_000]
