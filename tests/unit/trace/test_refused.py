"""Programs that cannot be traced, or must not: one line says what to do, and nothing is left."""

import os
import time
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, in_soak

from lightloom.trace.record import TracedJob, TraceError, record

pytestmark = pytest.mark.usefixtures("pytorch")

#: a training step, without which a program is refused
STEP = """
import torch
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
torch.nn.Linear(3, 3)(weight).sum().backward()
optimizer.step()
"""
START = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"


def trace(tmp_path, text, **job):
    script = tmp_path / "script.py"
    script.write_text(text)
    return record([PYTHON, str(script)], TracedJob(2, **job))


def refusal(tmp_path, text, **job):
    """The one line that a program is refused with."""
    with pytest.raises(TraceError) as refused:
        trace(tmp_path, text, **job)
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_a_program_that_fails(tmp_path):
    line = refusal(tmp_path, "def work():\n    raise ValueError('no data')\nwork()")
    assert line.startswith("rank 0 failed: ValueError: no data at ")
    assert "script.py:2 in work; its traceback is above" in line


def test_a_program_that_returns_a_status(tmp_path):
    assert "rank 0 failed: exit status 3" in refusal(tmp_path, "import sys\nsys.exit(3)")


def test_a_program_that_does_not_train(tmp_path):
    assert "without a training step" in refusal(tmp_path, "print('nothing to do')")


def test_a_program_that_crashes(tmp_path):
    line = refusal(tmp_path, "import os\nos.abort()")
    assert "rank 0 was killed, by signal 6, at " in line
    assert "script.py:2 in <module>" in line


def test_a_program_that_hangs(tmp_path):
    line = refusal(tmp_path, "while True:\n    pass", time_limit_s=20.0)
    assert "runs for more than 20 s, at " in line
    assert "script.py" in line
    assert "raise --timeout" in line


def test_a_program_that_takes_too_much_memory(tmp_path):
    text = "import torch\ntorch.zeros(10**9, dtype=torch.int64).view(-1)\nb = bytearray(10**11)"
    line = refusal(tmp_path, text)
    assert "script.py:3 in <module> takes more memory than --memory-limit allows" in line


def test_a_gpu_function_that_nothing_answers(tmp_path):
    line = refusal(tmp_path, "import torch\ntorch.cuda.CUDAGraph()")
    assert "script.py:2 in <module> needs a GPU that answers more than a trace does" in line
    assert "(torch.cuda.CUDAGraph())" in line
    assert "--device cpu" in line


def test_a_program_that_starts_ranks_itself(tmp_path):
    text = "import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)"
    line = refusal(tmp_path, text)
    assert "script.py:2 in <module> starts ranks itself" in line
    assert "as torchrun would" in line


def test_a_process_of_the_program_that_communicates(tmp_path):
    forked = (
        "import os\nif child := os.fork():\n    os.waitpid(child, 0)\nelse:\n    dist.barrier()\n"
    )
    line = refusal(tmp_path, START + forked + STEP)
    assert "script.py:7 in <module> communicates in a process of its own" in line


def test_a_process_of_the_program_that_does_not_communicate(tmp_path):
    forked = "import os\nif child := os.fork():\n    os.waitpid(child, 0)\n"
    recorded = trace(tmp_path, START + "dist.barrier()\n" + forked + STEP)
    assert len(recorded.ranks[0].calls) == 1


def test_workers_that_load_data_are_left_out(tmp_path):
    loaded = """
from torch.utils.data import DataLoader
loader = DataLoader([torch.ones(3)] * 4, batch_size=2, num_workers=2, persistent_workers=True)
for batch in loader:
    dist.all_reduce(batch)
"""
    recorded = trace(tmp_path, START + STEP + loaded, device="cpu")
    assert [call.shape for call in recorded.ranks[0].calls] == [(2, 3), (2, 3)]


def test_files_are_left_alone(tmp_path):
    kept = tmp_path / "checkpoint.pt"
    kept.write_text("weights of last week")
    line = refusal(tmp_path, STEP + f"torch.save({{'weight': weight}}, {str(kept)!r})")
    assert f"writes {kept}: a trace leaves files alone" in line
    assert f"--writable {tmp_path}" in line
    assert kept.read_text() == "weights of last week"


@pytest.mark.parametrize(
    "change",
    [
        "open({name!r}, 'a')",
        "os.remove({name!r})",
        "os.rename({name!r}, '/dev/null/x')",
        "Path({name!r}).write_text('')",
        "os.makedirs({name!r} + 's/deep')",
        "os.open({name!r}, os.O_WRONLY | os.O_TRUNC)",
    ],
)
def test_no_change_of_a_file_is_let_through(tmp_path, change):
    kept = tmp_path / "notes"
    kept.write_text("mine")
    before = sorted(tmp_path.iterdir())
    text = "import os\nfrom pathlib import Path\n" + change.format(name=str(kept))
    assert "leaves files alone" in refusal(tmp_path, text)
    assert kept.read_text() == "mine"
    assert set(tmp_path.iterdir()) <= {*before, tmp_path / "script.py"}


def test_folders_may_be_allowed_and_temporary_files_are_removed(tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    text = f"""
import tempfile
with open({str(folder / "log")!r}, "w") as log, tempfile.NamedTemporaryFile(delete=False) as other:
    log.write(other.name)
"""
    trace(tmp_path, STEP + text, writable=(folder,))
    assert not Path((folder / "log").read_text()).exists()


def test_connections_are_refused(tmp_path):
    text = "import urllib.request\nurllib.request.urlopen('http://192.0.2.1:8080/data')"
    line = refusal(tmp_path, text)
    assert "script.py:2 in <module> connects to 192.0.2.1:8080: a trace has no network" in line
    assert "--connections" in line


@in_soak
def test_connections_may_be_allowed(tmp_path):
    text = """
import socket
try:
    socket.getaddrinfo("nowhere.invalid", 80)
except socket.gaierror:
    print("asked, and not found")
"""
    trace(tmp_path, STEP + text, network=True)
    assert "connects to nowhere.invalid:80" in refusal(tmp_path, STEP + text)


def test_nothing_is_left_running(tmp_path):
    text = f"""
import subprocess
other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
with open({str(tmp_path / "number")!r}, "w") as file:
    file.write(str(other.pid))
"""
    trace(tmp_path, STEP + text, writable=(tmp_path,))
    number = int((tmp_path / "number").read_text())
    for _ in range(500):
        if not Path(f"/proc/{number}").exists():
            break
        time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@in_soak
def test_what_is_drawn_at_random_is_drawn_alike(tmp_path):
    text = """
import random
import numpy
sizes = {str(random.random()), "a", "b", "c", str(numpy.random.rand())}
for size in sizes:
    dist.all_reduce(torch.ones(len(size) + random.randrange(100), torch.randint(9, (1,)).item()))
"""
    first, again = (trace(tmp_path, START + STEP + text) for _ in "ab")
    assert first.calls_hash == again.calls_hash
    assert len(first.ranks[0].calls) == 5
