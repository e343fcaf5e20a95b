"""A server of a job at its controller: what it does once the region's port map has changed."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, absent
from tests.unit.torch.test_mixnet import ENVIRONMENT, TOKEN, served

PACKAGE = Path(__file__).parents[3] / "python"
PROGRAM = """
import json, os, sys, time
import numpy as np
from lightloom.errors import LightloomError
from lightloom.torch.gate import Gate
from lightloom.torch.region_member import RegionMember
from lightloom.torch.server_memory import GATE_WORDS

gate = Gate(np.zeros(GATE_WORDS, np.int64))
member = RegionMember(
    sys.argv[1], os.environ["CONTROLLER_TOKEN"], 1,
    gate=gate, over_circuits=lambda _servers: 0, timeout_s=5.0,
)
print(json.dumps([member.is_there, sorted(gate.circuits())]), flush=True)
for line in sys.stdin:
    deadline = time.monotonic() + 20
    while member.is_there is not (line == "back\\n") and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(1.0)  # longer than until it connects again
    try:
        member.demand(np.zeros((1, 8, 8), np.uint64), {})
        said = ""
    except LightloomError as error:
        said = str(error)
    print(json.dumps([member.is_there, sorted(gate.circuits()), said]), flush=True)
member.close()
"""

if absent("torch", "numpy", "pydantic"):
    pytest.skip("no PyTorch: make torch", allow_module_level=True)


def control(*words):
    subprocess.run(
        [sys.executable, "-P", "-m", "lightloom", "control", *map(str, words)],
        env={"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )


def test_a_job_does_not_go_on_under_numbers_that_mean_other_servers(tmp_path):
    ports = tmp_path / "ports.csv"
    with served(tmp_path, when="never") as (address, token, _process):
        path = next(tmp_path.glob("*.toml"))
        control("apply", path, "--add", "0/0-1/0", "--yes")
        member = subprocess.Popen(
            [PYTHON, "-c", PROGRAM, address],
            env=ENVIRONMENT | {TOKEN: token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        watchdog = threading.Timer(60, member.kill)
        watchdog.start()

        def says(word=None):
            if word is not None:
                member.stdin.write(f"{word}\n")
                member.stdin.flush()
            return json.loads(member.stdout.readline())

        assert says() == [True, [[0, 0, 1, 0]]]
        before = ports.read_text()
        head, *rows = before.splitlines()
        ports.write_text("\n".join([head, *rows[2:4], *rows[:2], *rows[4:]]) + "\n")
        control("remap", path, "--apply", "--yes")
        is_there, circuits, said = says("gone")
        assert (is_there, circuits) == (False, [])
        assert said.endswith(
            "the port map of the region has changed since this job began; it uses circuits again "
            "after a restart"
        )
        # the same servers again: the same numbers
        ports.write_text(before)
        control("remap", path, "--apply", "--yes")
        assert says("back")[:2] == [True, [[0, 0, 1, 0]]]
        member.communicate(timeout=20)
        assert member.returncode == 0
        watchdog.cancel()
