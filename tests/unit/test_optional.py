"""What works without optional packages, and what is said where one is needed."""

import subprocess
import sys

import pytest

#: blocks the import of packages as if they were not installed
BLOCK = """
import importlib.util, sys
blocked = {"polars", "scipy", "pyarrow", "highspy"}
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in blocked else found(name, *rest)

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Block())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code], capture_output=True, text=True, check=False
    )


def command(line: str) -> subprocess.CompletedProcess[str]:
    return run(f"from lightloom.cli import main\nsys.argv = {line.split()!r}\nmain()")


@pytest.mark.parametrize(
    "line",
    [
        "lightloom compare mixtral-8x7b --gpus 64 --rate 400 --seeds 1 "
        "--tp 2 --pp 4 --ep 8 --micro-batches 1",
        "lightloom schedule --synthetic pair --servers 4 --reconfiguration-delay 25ms",
        "lightloom packets --hosts 4 --rate 9 --transport roce --pattern permutation --bytes 1kB",
        "lightloom predict --synthetic calm --steps 20 --layers 2 --predictors last-step",
        "lightloom demand mixtral",
        "lightloom models",
        "lightloom fabrics",
    ],
)
def test_commands_work_in_a_plain_installation(line):
    done = command(line)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_files_that_need_a_package_say_how_to_install_it(tmp_path):
    done = command(
        "lightloom packets --hosts 4 --rate 100 --transport roce --pattern permutation "
        "--bytes 10kB --parquet "
        f"{tmp_path / 'p.parquet'}"
    )
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1] == (
        "lightloom: a Parquet file: polars is needed, which is not installed: "
        "pip install 'lightloom[tables]'"
    )
    assert not (tmp_path / "p.parquet").exists()


def test_methods_that_need_a_package_say_how_to_install_it():
    done = run(
        "import numpy as np, lightloom\n"
        "from lightloom.schedule import Region, allocate_exactly\n"
        "try:\n"
        "    allocate_exactly(np.ones((3, 3)) - np.eye(3), Region(2, 400, 100))\n"
        "except lightloom.LightloomError as error:\n"
        "    print(error)\n"
    )
    assert "exact circuits: scipy is needed" in done.stdout, done.stderr
