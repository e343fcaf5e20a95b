"""Files on the command line: what is read is never written, and no name is a traceback."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

ROOT = Path(__file__).parents[3]
SMALL = "--gpus 64 --rate 400 --fabrics fat-tree --seeds 1 --no-imbalances"
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(MIXTRAL))
    return path


@pytest.mark.parametrize("flag", ["--json", "--csv", "--html", "--timeline"])
def test_a_model_that_is_read_is_not_written(refused, config, flag):
    before = config.read_text()
    expected = f"{config}: is read as well; write results to another file"
    assert refused(f"compare {config} {SMALL} {flag} {config}") == expected
    assert config.read_text() == before


def test_nor_under_another_name(refused, config, tmp_path):
    fabric, link = tmp_path / "four.toml", tmp_path / "link.json"
    fabric.write_text('kind = "mixnet"\nports = 4\n')
    link.symlink_to(config)
    job = f"compare {config} --gpus 64 --rate 400 --fabrics fat-tree,{fabric}"
    assert refused(f"{job} --json {link}").startswith(f"{link}: is read as well")
    assert refused(f"{job} --csv {fabric}").startswith(f"{fabric}: is read as well")


def test_a_study_and_a_demand_are_not_written(refused, tmp_path):
    study, demand = tmp_path / "study.toml", tmp_path / "demand.csv"
    study.write_text('model = "mixtral-8x7b"\ngpus = 128\n')
    demand.write_text("0,1\n1,0\n")
    assert refused(f"run {study} --json {study}").startswith(f"{study}: is read as well")
    command = f"schedule {demand} --reconfiguration-delay 1ms --json {demand}"
    assert refused(command).startswith(f"{demand}: is read as well")


def test_nor_where_a_folder_or_a_study_names_it(refused, config, tmp_path):
    model = config.rename(tmp_path / "config.json")
    before = model.read_text()
    expected = f"{model}: is read as well; write results to another file"
    assert refused(f"compare {tmp_path} {SMALL} --json {model}") == expected
    study = tmp_path / "study.toml"
    study.write_text('model = "./config.json"\ngpus = 64\n[cluster]\nrate_gbps = 400\n')
    assert refused(f"run {study} --json {model}") == expected
    assert model.read_text() == before


def test_what_is_being_written_is_named(lightloom, tmp_path, monkeypatch):
    shown = []
    status = Console.status

    def note(self, text):
        shown.append(text)
        return status(self, text)

    monkeypatch.setattr(Console, "status", note)
    job = f"compare mixtral-8x7b --micro-batches 1 --no-policies {SMALL.replace('64', '128')}"
    result = tmp_path / "r.json"
    assert lightloom(f"{job} --json {result}").status == 0
    assert shown == [f"writing {result}"]
    rows = tmp_path / "r.csv"
    assert lightloom(f"{job} --csv {rows}").status == 0
    assert shown[1:] == [f"writing {rows}"]


@pytest.mark.parametrize("flag", ["--json", "--html"])
def test_links_to_one_another_are_refused(refused, config, tmp_path, flag):
    first, second = tmp_path / "a", tmp_path / "b"
    first.symlink_to(second)
    second.symlink_to(first)
    expected = f"{first}: symbolic links lead to one another"
    assert refused(f"compare {config} {SMALL} {flag} {first}") == expected


def test_results_are_compressed_by_name(lightloom, config, tmp_path):
    result, rows = tmp_path / "r.json.gz", tmp_path / "r.csv.gz"
    assert lightloom(f"compare {config} {SMALL} --json {result} --csv {rows}").status == 0
    content = json.loads(gzip.decompress(result.read_bytes()))
    assert [found["fabric"] for found in content["results"]] == ["fat-tree"]
    assert gzip.decompress(rows.read_bytes()).startswith(b"model,gpus,")


def test_a_fabric_in_a_file_is_shown(lightloom, refused, tmp_path):
    path = tmp_path / "four.toml"
    path.write_text('kind = "mixnet"\nports = 4\n')
    shown = lightloom(f"fabrics {path}")
    assert shown.status == 0
    assert ["ports", "N", "4"] in [line.split()[:3] for line in shown.out.splitlines()]
    path.write_text('kind = "mixnett"\n')
    assert refused(f"fabrics {path}").startswith(f"{path}: unknown fabric 'mixnett'")


def test_one_fabric_is_charged_for_the_cluster_that_is_given(lightloom, refused):
    cluster = "--gpus 512 --rate 200"
    every = json.loads(lightloom(f"fabrics {cluster} --json -").out)["fabrics"]
    one = json.loads(lightloom(f"fabrics mixnet {cluster} --json -").out)
    costs = {fabric["fabric"]: fabric["network_cost_usd"] for fabric in every}
    assert one["network_cost_usd"] == costs["mixnet"]
    assert "512 GPUs at 200 Gb/s" in lightloom(f"fabrics mixnet {cluster}").out
    assert refused("fabrics mixnet --prices nowhere.toml").startswith("nowhere.toml: ")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_any_encoding_can_be_printed(spawn, encoding):
    process = spawn(
        "demand mixtral",
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert "@@ to " in out.decode(encoding)


@pytest.mark.parametrize(
    "module", ["lightloom.cli", "lightloom.errors", "difflib", "typer", "lightloom.cli.root"]
)
def test_an_interrupt_while_modules_are_imported_is_one_line(module):
    """Whatever is imported when Ctrl-C comes, from the first module of the command on."""
    code = f"""
import runpy, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv = ["lightloom", "models"]
runpy.run_module("lightloom", run_name="__main__")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "lightloom: interrupted\n")


def test_what_comes_before_the_command_takes_no_time():
    """Python itself cannot be told what to say of Ctrl-C, so little is imported before."""
    code = (
        "import sys; before = set(sys.modules); import lightloom; print(*{*sys.modules} - before)"
    )
    run = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "python")},
        check=True,
    )
    assert {"typing", "pathlib", "ast", "re"}.isdisjoint(run.stdout.split())


def test_sigterm_is_an_interrupt(spawn, tmp_path):
    rows, result = tmp_path / "r.csv", tmp_path / "r.json"
    process = spawn(
        f"compare mixtral-8x7b --gpus 128 --rate 400 --csv {rows} --json {result}",
        stdout=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while not rows.exists():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "lightloom: interrupted"
    assert os.listdir(tmp_path) == ["r.csv"]


def test_a_page_that_cannot_be_made_costs_one_line(lightloom, tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("no bars")

    monkeypatch.setattr("lightloom.report.page.write_page", fail)
    page, result = tmp_path / "r.html", tmp_path / "r.json"
    job = f"compare mixtral-8x7b --micro-batches 1 --no-policies {SMALL.replace('64', '128')}"
    done = lightloom(f"{job} --html {page} --json {result}")
    assert done.status == 2
    assert "Speed and cost" in done.out
    assert json.loads(result.read_text())["results"]
    assert not page.exists()
    assert done.err.splitlines()[-1] == (
        f"lightloom: {page}: not written, by a defect of Lightloom: ZeroDivisionError: no bars"
    )
