"""The compare, run and explain commands on real input."""

import csv
import html
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import polars
import pytest

from lightloom.errors import LightloomError
from lightloom.report.explain import differences, load_results
from lightloom.samples import read_sample

SMALL = (
    "compare mixtral-8x7b --gpus 128 --rate 400 --plan published --micro-batches 4 "
    "--seeds 1 --fabrics fat-tree,mixnet"
)
#: long enough to be interrupted
LONG = SMALL.replace("--seeds 1", "--seeds 5000")


def table(text):
    return list(csv.DictReader(text.splitlines()))


def test_tables_on_stdout_remarks_on_stderr(lightloom, tmp_path):
    path = tmp_path / "r.json"
    done = lightloom(f"{SMALL} --json {path}")
    assert done.status == 0
    assert "tokens/s" in done.out
    assert "compared in" not in done.out
    assert f"wrote {path}" in done.err
    assert "compared in" in done.err


def test_a_plan_is_written_and_a_trace_has_none(lightloom, refused, tmp_path):
    path = tmp_path / "launch.sh"
    done = lightloom(f"{SMALL} --launch {path}")
    assert f"wrote {path}" in done.err
    text = path.read_text()
    assert text.startswith("# lightloom")
    assert "    --tensor-model-parallel-size 4\n" in text
    trace = tmp_path / "trace.json"
    trace.write_text("{}")
    assert "--launch is for a model" in refused(
        f"compare --workload {trace} --rate 400 --launch {path}"
    )
    assert "--launch writes one plan" in refused(
        f"{SMALL.replace('--gpus 128', '--gpus 128,256')} --launch {path}"
    )


def test_the_best_plans_of_a_search_are_a_table(lightloom):
    found = lightloom(
        "compare olmoe-1b-7b --gpus 16 --rate 400 --gpu h100 --plan search --seeds 1"
        " --fabrics fat-tree --no-imbalances --seq-len 1024"
    )
    assert "Plans: the best 10 of " in found.out


def test_the_job_comes_first_and_the_verdict_last(lightloom):
    lines = lightloom(SMALL).out.splitlines()
    assert lines[0].startswith("mixtral-8x7b: 32 layers")
    assert lines[-1].startswith("Build ")


def test_warnings_come_before_the_first_run(lightloom, monkeypatch):
    def no_run(*_, **__):
        raise LightloomError("no run here")

    monkeypatch.setattr("lightloom.study.compare.runner.simulate", no_run)
    done = lightloom(f"{SMALL} --recompute none --no-memory-check")
    assert "warning: the plan does not fit" in done.out
    assert done.err == "lightloom: no run here\n"


def test_json_alone_on_stdout(lightloom):
    done = lightloom(f"{SMALL} --json -")
    content = json.loads(done.out)
    assert [result["fabric"] for result in content["results"]] == ["fat-tree", "mixnet"]
    assert "tokens/s" in done.err


def test_csv_alone_on_stdout(lightloom):
    rows = table(lightloom(f"{SMALL} --csv -").out)
    assert {row["fabric"] for row in rows} == {"fat-tree", "mixnet"}
    assert all(float(row["step_time_s"]) > 0 for row in rows)


def test_csv_and_parquet_have_the_same_rows(lightloom, tmp_path):
    lightloom(f"{SMALL} --csv {tmp_path / 'r.csv'} --parquet {tmp_path / 'r.pq'}")
    rows = table((tmp_path / "r.csv").read_text())
    frame = polars.read_parquet(tmp_path / "r.pq")
    assert frame.columns == list(rows[0])
    assert [row["run_hash"] for row in rows] == frame["run_hash"].to_list()


def test_every_option_reaches_the_scenario(lightloom):
    done = lightloom(
        SMALL,
        "--gpu h100 --recompute full --tp 4 --pp 4 --dp 1 --ep 8 --vpp 1 --micro-batch-size 2",
        "--seq-len 2048 --zero1 --ep-mode axis --pp-layout 8,8,8,8 --cp 1 --etp 4",
        "--context-parallel ring",
        "--demand pair --set demand.deduplicate=on --dispatch-bytes 1 --combine-bytes 2",
        "--all-to-all flat",
        "--set mixnet.ports=4 --allocator reference --when always",
        "--fixed 10ms --designs default",
        "--set mixnet.region_servers=4 --set mixnet.split=off --set mixnet.first=block",
        "--set mixnet.link_up_s=measured --set counting.tiers=fit",
        "--set counting.host_links=aoc --set counting.ocs_ports_per_nic=2",
        "--set counting.include_nics=off --set counting.fiber_length_m=20",
        "--schedule 1f1b --overlap-all-to-all chunks --overlap-chunks 2 --communication-sms 8",
        "--overlap-tp --no-overlap-gradients --no-overlap-parameters --gradient-bytes 2",
        "--parameter-bytes 1 --set demand.dispatch_gradient_element_bytes=2",
        "--set demand.combine_gradient_element_bytes=1 --gpus-per-server 8",
        "--steps 1 --seed 3 --compute-spread 0.2 --network flow --json -",
    )
    assert done.status == 0, done.err
    scenario = json.loads(done.out)["inputs"]["scenario"]
    assert scenario["plan"] == {
        "source": "published",
        "tp": 4, "pp": 4, "dp": 1, "ep": 8, "etp": 4, "cp": 1, "vpp": 1, "micro_batches": 4,
        "context_parallel": "ring",
        "micro_batch_size": 2, "global_batch_size": None, "seq_len": 2048, "zero1": True,
        "expert_mode": "axis",
        "pp_layout": [8, 8, 8, 8], "mtp": None, "schedule": "1f1b", "overlap_all_to_all": "chunks",
        "overlap_chunks": 2, "strategy": None, "strategy_chunks": None,
        "overlap_shared_experts": None, "overlap_tp": True,
        "communication_sms": 8, "overlap_gradients": False, "overlap_parameters": False,
            "overlap_pipeline": None,
    }  # fmt: skip
    assert (scenario["gradient_bytes"], scenario["parameter_bytes"]) == (2, 1)
    assert scenario["demand"]["dispatch_gradient_element_bytes"] == 2
    assert scenario["demand"]["combine_gradient_element_bytes"] == 1
    assert scenario["fabric_options"] == {
        "all": {"all_to_all": "flat"},
        "mixnet": {
            "ports": 4, "region_servers": 4, "allocator": "reference", "split": False,
            "when": "always", "first": "block", "fixed_s": "10ms",
            "link_up_s": "measured",
        },
    }  # fmt: skip
    assert scenario["counting"] == {
        "tiers": "fit", "host_links": "aoc", "ocs_ports_per_nic": 2, "include_nics": False,
        "fiber_length_m": "20",
    }  # fmt: skip
    assert scenario["demand"]["dispatch_element_bytes"] == 1.0
    assert scenario["demand"]["deduplicate"] is True
    assert (scenario["recompute"], scenario["seed"]) == ("full", 3)
    assert scenario["designs"] == "default"
    assert scenario["compute_spread"] == 0.2
    assert scenario["cluster"]["gpu"] == "h100"
    assert scenario["cluster"]["gpus_per_server"] == 8


@pytest.fixture(scope="module")
def example(request):
    """The example study's result, run from another folder."""
    return request.config.rootpath / "examples" / "study.toml"


def test_the_example_study_runs_from_anywhere(lightloom, example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = lightloom(f"run {example} --set plan.source=published --json r.json")
    assert done.status == 0, done.err
    results = load_results(Path("r.json"))
    assert list(results) == ["fat-tree", "mixnet", "mixnet-4"]
    assert results["mixnet-4"]["parameters"]["ports"] == 4


def test_a_file_s_scenario_repeats_the_run(lightloom, tmp_path):
    first = json.loads(lightloom(f"{SMALL} --json -").out)
    scenario = first["inputs"]["scenario"]
    lines = [
        f"{k} = {json.dumps(v)}" for k, v in scenario.items() if not isinstance(v, dict | None)
    ]
    for key in ("cluster", "plan", "demand"):
        lines.append(f"[{key}]")
        lines += [f"{k} = {json.dumps(v)}" for k, v in scenario[key].items() if v is not None]
    study = tmp_path / "again.toml"
    study.write_text("\n".join(lines))
    again = json.loads(lightloom(f"run {study} --json -").out)
    hashes = [[r["run_hash"] for r in content["results"]] for content in (first, again)]
    assert hashes[0] == hashes[1]


def test_explain_sums_to_the_difference_of_steps(lightloom, tmp_path):
    path = tmp_path / "r.json"
    lightloom(f"{SMALL.replace('--seeds 1', '--seeds 2')} --json {path}")
    results = load_results(path)
    a, b = results["fat-tree"], results["mixnet"]
    total = sum(right - left for _, left, right in differences(a, b))
    assert total == pytest.approx(b["step_time_s"] - a["step_time_s"], abs=1e-9)
    text = lightloom(f"explain {path} fat-tree mixnet").out
    assert f"{1000 * (b['step_time_s'] - a['step_time_s']):+,.2f}" in text
    page = tmp_path / "again.html"
    said = lightloom(f"explain {path} --html {page}").out
    verdict = said.strip().splitlines()[-1]
    assert verdict.startswith("Build ")
    assert verdict.replace(" %", "\u00a0%") in html.unescape(page.read_text())
    for wrong in (f"explain {path}", f"explain {path} fat-tree mixnet --html {page}"):
        refused = lightloom(wrong)
        assert (refused.status, "--html" in refused.err) == (2, True)


# In separate processes: signals, pipes, full disks


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_interrupt_keeps_finished_rows(spawn, tmp_path):
    rows, frame, result = tmp_path / "r.csv", tmp_path / "r.pq", tmp_path / "r.json"
    process = spawn(
        f"{LONG} --csv {rows} --parquet {frame} --json {result}", stdout=subprocess.PIPE
    )
    wait_for(lambda: rows.exists() and rows.read_text().count("\n") > 3, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"micro-batches of" in out  # the job, before the first run
    assert b"tokens/s" not in out
    kept = table(rows.read_text())
    assert len(kept) >= 3
    assert len(polars.read_parquet(frame)) == len(kept)
    assert err.decode().splitlines() == [
        f"{len(kept)} finished runs kept in {rows} and {frame}",
        "lightloom: interrupted",
    ]
    assert sorted(os.listdir(tmp_path)) == ["r.csv", "r.pq"]


def nobody_reads(spawn, command):
    """Status and errors of a command whose standard output is closed."""
    read, write = os.pipe()
    os.close(read)
    process = spawn(command, stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=120)
    assert b"Traceback" not in err
    return process.returncode, err


@pytest.mark.parametrize("output", ["", "--json -", "--csv -"])
def test_a_closed_pipe_is_no_traceback(spawn, output):
    status, err = nobody_reads(spawn, f"{SMALL} {output}")
    assert status == 1
    assert b"BrokenPipe" not in err


def test_who_reads_no_further_gets_the_files_nevertheless(spawn, tmp_path):
    """A pager that is left, or ``head``."""
    status, _ = nobody_reads(spawn, f"{SMALL} --json {tmp_path}/a.json --html {tmp_path}/a.html")
    assert status == 0
    assert json.loads((tmp_path / "a.json").read_text())["results"]
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")


def test_files_of_every_command_are_there_if_nobody_reads(spawn, tmp_path):
    routing = tmp_path / "routing.jsonl"
    routing.write_bytes(read_sample("routing"))
    status, err = nobody_reads(spawn, f"trace inspect {routing} --json {tmp_path}/a.json")
    assert status == 0, err
    assert json.loads((tmp_path / "a.json").read_text())


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("command", "place"),
    [
        (SMALL, "standard output: "),
        (f"{SMALL} --json -", "standard output: cannot write: "),
        (f"{SMALL} --csv -", "standard output: cannot write: "),
        ("models", "standard output: "),
        ("--version", "standard output: "),
    ],
)
def test_full_disk_under_stdout(spawn, command, place):
    with open("/dev/full", "w") as full:
        process = spawn(command, stdout=full)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    last = err.decode().splitlines()[-1]
    assert last.startswith(f"lightloom: {place}No space left on device")
    assert b"Traceback" not in err


def limit_files():
    """Let this process write a few kB to a file, then fail as on a full disk."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # half a file of byte code would break whatever imports the module next
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_full_disk_leaves_no_half_file_and_still_shows_the_table(spawn, tmp_path):
    names = {name: tmp_path / f"r.{name}" for name in ("json", "html", "timeline", "parquet")}
    options = " ".join(f"--{name} {path}" for name, path in names.items())
    process = spawn(f"{SMALL} {options}", stdout=subprocess.PIPE, preexec_fn=limit_files)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert b"tokens/s" in out
    last = err.decode().splitlines()[-1]
    for path in (names["json"], names["html"], names["timeline"]):
        assert f"{path}: cannot write: File too large; choose another place" in last
    assert set(os.listdir(tmp_path)) <= {"r.parquet"}


def test_progress_on_a_terminal_and_nowhere_else(spawn):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = spawn(SMALL.replace("--seeds 1", "--seeds 6"), stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=120)
    assert b"left:" not in out + err
    command = SMALL.replace("--seeds 1", "--seeds 6").split()
    import sys

    with subprocess.Popen(
        [sys.executable, "-m", "lightloom", *command], stdout=subprocess.PIPE, stderr=theirs
    ) as shown:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        piped = shown.stdout.read()
    os.close(ours)
    assert shown.returncode == 0
    assert b"left:" in seen
    assert b"seed" in seen
    assert b"left:" not in piped
    assert b"tokens/s" in piped


def test_relaying_reaches_the_fabric_and_its_results(lightloom):
    done = lightloom(SMALL, "--fabrics mixnet --relay --json -")
    assert done.status == 0, done.err
    result = json.loads(done.out)["results"][0]
    assert result["parameters"]["relay"] is True
    counted = result["reconfiguration"]
    assert counted["relayed_exchanges"] + counted["one_hop_exchanges"] > 0
    assert any(note.startswith("servers of a region pass bytes") for note in result["notes"])
    refused = lightloom(SMALL, "--fabrics mixnet --relay --set mixnet.split=off")
    assert refused.status != 0
    assert "relay = true divides the bytes of a pair: expected split = true" in refused.err


def test_a_predictor_by_name(lightloom):
    job = "compare mixtral-8x7b --gpus 128 --rate 100 --micro-batches 4 --seeds 1 --json -"
    found = lightloom(f"{job} --fabrics mixnet --no-policies --predictor ewma")
    assert json.loads(found.out)["inputs"]["scenario"]["predictor"] == "ewma"
    wrong = lightloom(f"{job} --fabrics mixnet --predictor ewna")
    assert "unknown predictor 'ewna'; did you mean 'ewma'?" in wrong.err
