"""Every command of the README, the tutorial and the guides, in a plain installation and a full one.

The full one is whatever runs the tests; ``make plain`` installs the wheel, without extras, into
``.venv/plain``, where nothing of the checkout is on the path.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests import chakra_files
from tests.kineto_files import Profile
from tests.packages import code_of, entry_points_of, install
from tests.trace_jobs import program
from tests.unit.testbed.conftest import lacking

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs/how-to").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "docs/tutorial.md", *GUIDES]
INSTALLATIONS = {"full": Path(sys.executable).parent, "plain": ROOT / ".venv/plain/bin"}
#: what is not run: it needs a training program or a graphics card or a cluster, goes on until it is
#: stopped, or asks what does; and the demo, which tests/golden runs in the plain installation
NOT_RUN = (
    *("lightloom trace record ", "lightloom calibrate gpu ", "lightloom control serve "),
    "lightloom ocs-emulator ",
    *("lightloom control service ", "lightloom sweep sweep.toml --out results --on "),
    "lightloom compare qwen3-235b-a22b ",
    "lightloom testbed train ",
    "lightloom testbed validate",
)
#: what a page takes for granted
BEFORE = {"run-a-region": ["lightloom control apply rack7.toml --circuits circuits.txt --yes"]}
#: what a plain installation refuses, in one line
NEEDS_EXTRAS = ("--parquet ", ".parquet ", "lightloom sweep ", "lightloom explore ")
#: what ends with another status than 0, as its page says
STATUSES = {"lightloom packets --scenario examples/ring/deadlock.toml": 3}

#: pages of what not every kernel can do, or allows
NEEDS_KERNEL = ("emulate-a-testbed", "train-over-circuits")

#: where packages that guides write are installed
PACKAGES = "site-packages"

FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIMAI = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 \
all_gpus: 16 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0
1
moe -1 1 ALLTOALL_EP 320 1 ALLTOALL_EP 320 1 ALLREDUCE_DP_EP 80 100
"""


def commands_of(page: Path) -> list[str]:
    """The lines of a page's blocks that call the command, each whole and without its comment."""
    found = []
    for block in FENCED.findall(page.read_text()):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            command = line.removeprefix("$ ").partition("  #")[0].strip()
            if command.startswith("lightloom ") and not command.startswith("lightloom: "):
                found.append(command)
    return found


CASES = [
    (installation, page)
    for page in PAGES
    if any(not command.startswith(NOT_RUN) for command in commands_of(page))
    for installation in INSTALLATIONS
]


def block_with(page: str, text: str) -> str:
    """The block of a guide that has a text."""
    blocks = FENCED.findall((ROOT / "docs/how-to" / page).read_text())
    return next(block for block in blocks if text in block)


@pytest.fixture
def switch():
    """The TL1 port of an emulated switch."""
    command = [sys.executable, "-m", "lightloom", "ocs-emulator", "--tl1-port", "0", "--json", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    place = next(line for line in process.stdout if "polatis+tl1://" in line)
    yield int(place.rpartition(":")[2].strip('",\n'))
    process.terminate()
    process.communicate(timeout=30)


def write_inputs(folder: Path) -> None:
    """Write the files that pages name, but for that of a switch."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    samples = ROOT / "python/lightloom/samples"
    (folder / "path/to").mkdir(parents=True)
    for name, target in {
        "config.json": "path/to/config.json",
        "routing.jsonl": "log.jsonl",
        "demand.npy": "demand.npy",
        "flows.csv": "flows.csv",
        "leaf-spine.toml": "my.toml",
        "eight-planes.toml": "eight-planes.toml",
        "eight-planes-cpo.toml": "eight-planes-cpo.toml",
    }.items():
        shutil.copy(samples / name, folder / target)
    table = (ROOT / "tests/golden/schedule_demand.csv").read_text()
    for name in ("demand.csv", "next.csv"):
        (folder / name).write_text(table)
    (folder / "four.toml").write_text(block_with("add-a-fabric.md", "kind ="))
    (folder / "trace.json").write_text(json.dumps(program(dp=8).to_json()))
    (folder / "workload.txt").write_text(SIMAI)
    (folder / "profiles").mkdir()
    profile = Profile(groups={"0": [0, 1]})
    profile.step(1, 0, 100)
    profile.kernel("gemm", 0, 50)
    profile.nccl("allreduce", 60, 20, 1024)
    profile.write(folder / "profiles/rank0.json")
    node = chakra_files.node(1, 7, micros=5, comm_type=0, comm_size=1024)
    chakra_files.write(folder / "chakra_traces", [node], [node])
    (folder / "ports.csv").write_text(block_with("control-a-switch.md", "server,nic,ingress"))
    (folder / "password").write_text("root\n")
    (folder / "password").chmod(0o600)
    (folder / "circuits.txt").write_text("0/1-1/0\n")
    for module, page in (
        ("lightloom_halved", "add-a-fabric.md"),
        ("lightloom_rings", "add-an-allocator.md"),
    ):
        packages = folder / PACKAGES
        packages.mkdir(exist_ok=True)
        install(packages, module, code_of(page), entry_points_of(page))


@pytest.fixture
def folder(tmp_path, switch):
    """A folder with the files that pages name."""
    write_inputs(tmp_path)
    region = block_with("control-a-switch.md", "polatis+tl1")
    region = region.replace("10.0.0.5:3082", f"127.0.0.1:{switch}")
    for name in ("rack7", "rack8"):
        (tmp_path / f"{name}.toml").write_text(region.replace("rack7", name))
    return tmp_path


@pytest.mark.parametrize(
    ("installation", "page"), CASES, ids=[f"{page.stem}-{name}" for name, page in CASES]
)
def test_every_command_of_a_page_runs(installation, page, folder, switch):
    commands = INSTALLATIONS[installation]
    if not (commands / "lightloom").exists():
        pytest.skip("no plain installation of the wheel: make plain")
    if page.stem in NEEDS_KERNEL and (reason := lacking()):
        pytest.skip(reason)
    environment = {
        **os.environ,
        "LIGHTLOOM_TESTBED": str(folder / "lab"),
        "OCS_PASSWORD": "root",
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder / PACKAGES),
    }
    for command in [*BEFORE.get(page.stem, []), *commands_of(page)]:
        if command.startswith(NOT_RUN):
            continue
        # a region of an example is that of the emulated switch here
        line = command.replace("> region.toml", f"| sed s/:3082/:{switch}/ > region.toml")
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            capture_output=True, cwd=folder, env=environment, check=False,
        )  # fmt: skip
        error = done.stderr.decode()
        assert "Traceback" not in error, f"{command}: {error}"
        if installation == "plain" and any(option in command for option in NEEDS_EXTRAS):
            assert done.returncode == 2, command
            assert "pip install 'lightloom[" in error.splitlines()[-1], command
            assert "wrote" not in error, f"{command} is refused before it runs"
            continue
        assert done.returncode == STATUSES.get(command, 0), f"{command}: {error}"


@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_the_page_of_a_region_is_served_as_the_guide_says(installation, folder):
    python = INSTALLATIONS[installation] / "python"
    if not python.exists():
        pytest.skip("no plain installation of the wheel: make plain")
    guide = (ROOT / "docs/how-to/control-a-switch.md").read_text()
    key = re.search(r"`(http_port = \d+)` in `(\[serve\])`", guide)
    paths = re.findall(r"^\| `http://127.0.0.1:\d+(/.*?)` \|", guide, re.MULTILINE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    region = folder / "rack7.toml"
    setting = re.sub(r"\d+", str(port), key[1])
    region.write_text(f"{region.read_text()}\n{key[2]}\n{setting}\n")
    process = subprocess.Popen(
        [python, "-m", "lightloom", "control", "serve", region],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline().startswith("unix:")
        shown = {}
        for path in paths:
            address = f"http://127.0.0.1:{port}{path}"
            with (
                contextlib.suppress(urllib.error.HTTPError),
                urllib.request.urlopen(address) as reply,
            ):
                shown[path] = reply.read().decode()
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert shown["/"].startswith("<!doctype html>")
    assert json.loads(shown["/region.json"])["region"]["name"] == "rack7"
    assert len(paths) == 3
    assert ("lightloom_state" in shown.get("/metrics", "")) == (installation == "full")


def test_pages_have_commands():
    assert sum(len(commands_of(page)) for page in PAGES) > 50
    assert commands_of(ROOT / "README.md")[-1].startswith("lightloom compare --workload trace.json")
