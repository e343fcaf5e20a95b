"""Every command writes what it found as JSON: to a file, or to standard output and nothing else."""

import json
import os
import signal
import subprocess
import sys
import threading
from typing import ClassVar

import pytest
from tests.control_regions import emulated
from tests.kineto_files import Profile
from tests.torch_python import PYTHON, absent
from tests.trace_jobs import GridJob
from tests.unit.cli.conftest import SMALL
from tests.unit.testbed.conftest import lacking

from lightloom.cli import run_command
from lightloom.cli.commands import COMMANDS, described
from lightloom.control.emulator.timing import FixedTime
from lightloom.control.example import write_example
from lightloom.errors import OutputError
from lightloom.samples import SAMPLES
from lightloom.study.calibration import torch_device
from lightloom.testbed import Testbed, validation
from lightloom.testbed.layout import ServerLayout
from lightloom.testbed.replay import RuntimeDelays
from lightloom.testbed.replay_simulated import simulated
from lightloom.trace import record
from lightloom.trace.trace import read_trace

TESTBED = "--servers 2 --nics 2 --rate 50M --dir {folder}/testbed"
#: what each command is called with, and a key of what it writes; ``control`` has a region
CALLS = {
    "compare": (SMALL, "results"),
    "run": ("run {study} --seeds 1 --set plan.source=published", "results"),
    "sweep": ("sweep {sweep} --workers 1 --out {folder}/swept --resume --budget 2s", "best"),
    "explore": ("explore {table}", "columns"),
    "explain": ("explain {results} fat-tree mixnet", "step_time_s"),
    "price": ("price {results} --tokens 15T", "fabrics"),
    "advise": (
        "advise mixtral-8x7b --gpus 32 --rate 100 --fabrics rail-only --no-uncertainty"
        " --set plan.tp=2 --set plan.pp=2 --set plan.ep=8 --set plan.micro_batches=2",
        "candidates",
    ),
    "diff": ("diff {results} {results}", "moved"),
    "goodput": (
        "goodput mixtral-8x7b --gpus 64 --fabrics fat-tree --runs 5 --set plan.tp=4"
        " --set plan.pp=2 --set plan.ep=8 --set plan.micro_batches=2",
        "results",
    ),
    "map": (
        "map mixtral-8x7b --gpus 64 --rates 400 --degrees 6 --no-variants --set plan.tp=4"
        " --set plan.pp=2 --set plan.ep=8 --set plan.micro_batches=2",
        "curves",
    ),
    "memory": ("memory mixtral-8x7b", "memory"),
    "collective": (
        "collective all-to-all --bytes 1MB --gpus 16 --rate 400 --fabrics rail",
        "collectives",
    ),
    "alltoall": ("alltoall mixtral-8x7b --cluster a800x16 --seq 4K", "rows"),
    "traffic": ("traffic qwen3-30b-a3b --gpus 16 --tp 2 --pp 2 --ep 4", "traffic"),
    "schedule": ("schedule {demand} --reconfiguration-delay 25ms --methods greedy", "schedules"),
    "predict": ("predict --synthetic drifting --steps 120 --predictors last-step", "scores"),
    "demand": ("demand {routing} --experts 64", "matrix"),
    "packets": (
        "packets --hosts 4 --rate 100 --transport ndp --pattern permutation --bytes 9kB",
        "fct_s",
    ),
    "trace record": ("trace record --world-size 2 PROGRAM", "ranks"),
    "trace inspect": ("trace inspect {trace}", "volumes"),
    "trace expand": ("trace expand {trace} --only-ranks 0", "calls_hash"),
    "trace permutations": ("trace permutations {trace}", "roles"),
    "trace slots": ("trace slots {trace}", "tiers"),
    "calibrate gpu": (
        "calibrate gpu --gpu h100 --write-profile {folder}/profile.toml",
        "operators",
    ),
    "calibrate network": (
        "calibrate network {nccl} --gpu h100 --gpus 16 --rate 400"
        " --write-profile {folder}/links.toml",
        "links",
    ),
    "calibrate step": ("calibrate step {results} {recorded} mixnet", "terms"),
    "control plan": ("control plan {region} --circuits {circuits}", "change"),
    "control apply": ("control apply {region} --circuits {circuits} --yes", "result"),
    "control remap": ("control remap {region}", "map"),
    "control drain": ("control drain {region} nic:3/1", "response"),
    "control resume": ("control resume {region} nic:3/1", "response"),
    "control service": ("control service {region}", "clients"),
    "control watch": ("control watch {region} --once", "light"),
    "control serve": ("control serve {region}", "address"),
    "control rollback": ("control rollback {region}", "change"),
    "control audit": ("control audit {region}", "changes"),
    "control tour": ("control tour", "lines"),
    "ocs-emulator": ("ocs-emulator --tl1-port 0 --run-time 50ms", "urls"),
    "testbed up": (f"testbed up {TESTBED}", "nics"),
    "testbed status": ("testbed status --dir {folder}/testbed", "circuits"),
    "testbed run": ("testbed run --dir {folder}/testbed pwd", "ranks"),
    "testbed train": (
        f"testbed train --steps 1 --policy packets --python {PYTHON} --dir {{folder}}/testbed",
        "steps",
    ),
    "testbed fail": ("testbed fail --dir {folder}/testbed nic:1/0", "failed"),
    "testbed repair": ("testbed repair --dir {folder}/testbed nic:1/0", "failed"),
    "testbed self-test": ("testbed self-test --servers 2 --nics 1 --rate 50M", "checks"),
    "testbed validate": ("testbed validate --repeats 1", "policies"),
    "testbed down": ("testbed down --dir {folder}/testbed", "removed"),
    "models": ("models", "models"),
    "fabrics": ("fabrics", "fabrics"),
    "example": ("example", "examples"),
}


class FakeDevice:
    """A GPU of 500 TFLOPS and 2 TB/s, with layers of 10 ms."""

    title = "fake"
    remarks: ClassVar[dict[str, str]] = {}

    def prepare(self, operation):
        work = operation.flops / 5e14 + operation.size_bytes / 2e12
        return lambda: operation.parts * work

    def prepare_layer(self, *_):
        return lambda: 1e-2

    def seconds(self, run, times):
        return times * run()

    def launches(self):
        return {"host_s": 1e-5}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Files that commands read, and a region of an emulated switch with one change made."""
    folder = tmp_path_factory.mktemp("places")
    assert run_command(f"{SMALL} --quiet --json {folder}/results.json".split()) == 0
    found = {"folder": folder, "results": folder / "results.json"}
    for name in ("study", "demand", "routing", "sweep"):
        sample = folder / SAMPLES[name].file
        with sample.open("wb") as stream:
            subprocess.run(
                [sys.executable, "-m", "lightloom", "example", name], stdout=stream, check=True
            )
        found[name] = sample
    found["trace"] = folder / "trace.json"
    # what a program that needs PyTorch would leave
    found["trace"].write_text(json.dumps(GridJob(tp=2, pp=1, dp=1, ep=1).trace().to_json()))
    found["nccl"] = folder / "all_gather_perf.txt"
    rows = (f"{2**power} 1 float none -1 {10 + 2**power / 2e4}" for power in range(20, 28))
    found["nccl"].write_text("\n".join(("# size count type redop root time", *rows)))
    found["recorded"] = folder / "rank0.json"
    profile = Profile(0, 64)
    profile.kernel("gemm", 0, 10_000)
    profile.nccl("all_to_allv", 10_000, 4_000, 1024)
    profile.write(found["recorded"])
    found["table"] = folder / "rows.csv"
    found["table"].write_text("gpus,step_time_s\n64,1.5\n128,2.5\n")
    found["circuits"] = folder / "circuits.txt"
    found["circuits"].write_text("0/0-1/0 1/1-2/0")
    with emulated() as emulator:
        found["region"] = write_example(folder, emulator.url(), servers=4, nics=2, size=12)
        words = f"control apply {found['region']} --circuits {found['circuits']} --yes"
        assert run_command(words.split()) == 0
        yield found
    Testbed.clear(folder / "testbed")


def serve_to(words, target, act=lambda: None):
    """Run ``serve`` until it has said where it is reached, and act; return what it wrote."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lightloom", *words, "--json", target],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
    )  # fmt: skip
    drained = threading.Thread(target=process.stderr.read)
    try:
        first = process.stdout.readline()
        drained.start()
        act()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(timeout=30) == 0
        drained.join()
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()
    return first + rest


def called(words, target, capfd):
    """Run a command; return what it wrote to standard output."""
    if words[:2] == ["control", "serve"]:
        return serve_to(words, target)
    if words[:2] == ["control", "resume"]:
        assert run_command(["control", "drain", *words[2:]]) == 0
    if words[0] == "testbed" and words[1] not in {"self-test", "validate"}:
        folder = words[words.index("--dir") + 1]
        assert run_command(["testbed", "down", "--dir", folder]) == 0
        if words[1] != "up":
            template = f"testbed up {TESTBED}".replace("{folder}/testbed", folder)
            assert run_command(template.split()) == 0
    outputs = []

    def call():
        capfd.readouterr()
        status = run_command([*words, "--json", target])
        out, err = capfd.readouterr()
        assert status == 0, err
        outputs.append(out)

    if words[:2] == ["control", "service"]:
        serve_to(["control", "serve", *words[2:]], os.devnull, call)
    else:
        call()
    return outputs[0]


def validated(_sizes, job, **_):
    """What a minute on a testbed would find, if it found what is simulated."""
    delays = RuntimeDelays(0.0, 0.0, 0.0, 0.0)
    layout = ServerLayout(servers=4, nics=4, rate_gbps=0.05, eps_gbps=0.05)
    for policy in validation.POLICIES:
        found = simulated(job, layout, policy=policy, settle=FixedTime(0.02), delays=delays)
        yield validation.ValidatedPolicy(policy, found, found, delays, 0.0)


def test_the_table_has_every_command():
    assert list(CALLS) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_option(name):
    flags = {option.flag: option for panel in described(name).panels for option in panel.options}
    assert flags["--json"].key == "output.json_target"
    assert flags["--json"].common


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_all_of_standard_output_or_a_file_alongside_the_text(
    name, places, capfd, monkeypatch, tmp_path
):
    monkeypatch.setattr(torch_device, "open_device", FakeDevice)
    monkeypatch.setattr(record, "record", lambda *_: read_trace(places["trace"]))
    monkeypatch.setattr(validation, "validate", validated)
    template, key = CALLS[name]
    if name.startswith("testbed ") and (reason := lacking()):
        pytest.skip(reason)
    if name == "testbed train" and absent("torch", "numpy", "pydantic"):
        pytest.skip("no PyTorch: make torch")
    words = template.format(**places).split()
    content = json.loads(called(words, "-", capfd))
    assert key in content
    target = tmp_path / "found.json"
    out = called(words, str(target), capfd)
    assert content.keys() == json.loads(target.read_text()).keys()
    if name != "calibrate gpu":  # whose text is remarks
        assert out
        with pytest.raises(json.JSONDecodeError):
            json.loads(out)


@pytest.mark.parametrize(
    "words",
    [
        "models mixtral-8x7b",
        "fabrics",
        "fabrics mixnet",
        "memory mixtral-8x7b",
        "traffic qwen3-30b-a3b --gpus 16 --tp 2 --pp 2 --ep 4",
        "collective all-to-all --bytes 1MB --gpus 16 --rate 400 --fabrics rail",
    ],
)
def test_results_are_printed_before_a_file_is_written(lightloom, tmp_path, monkeypatch, words):
    plain = lightloom(words).out
    target = tmp_path / "a.json"
    done = lightloom(f"{words} --json {target}")
    assert (done.status, done.out) == (0, plain)
    assert done.err.splitlines()[-1] == f"wrote {target}"
    assert json.loads(target.read_text())["schema_version"] == 1

    def fail(_content, path):
        raise OutputError(f"{path}: the disk is full")

    monkeypatch.setattr("lightloom.cli.outputs.write_json", fail)
    done = lightloom(f"{words} --json {target}")
    assert (done.status, done.out) == (2, plain)
    assert done.err.splitlines()[-1] == f"lightloom: {target}: the disk is full"
