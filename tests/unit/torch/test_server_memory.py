"""Messages between ranks of a server: which users may send them, and who may read the secret."""

import subprocess

import pytest
from tests.torch_python import PYTHON, absent
from tests.unit.torch.test_all_to_all_tp import ENVIRONMENT

PROGRAM = """
import os, socket, threading, time
from pathlib import Path
from lightloom.torch.server_memory import ServerMemory, name_of
from lightloom.torch.waiting import Watch

secret = os.urandom(16)
memory = ServerMemory(
    0, 1, name=name_of(secret, 3), first=0, servers=1, gather=lambda told: [told],
    watch=Watch(0, 1.0),
)
heard, came = [], threading.Event()
memory.on_message = lambda text: (heard.append(text), came.set())
names = Path("/proc/net/unix").read_text()
assert secret.hex() not in names
address = memory._address(0)
assert address[1:] in names

child = os.fork()
if child == 0:
    if os.getuid() == 0:
        os.setuid(65534)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.sendto(b"stop of another user", address)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
memory.tell(0, "own")
assert came.wait(5)
print(*heard)
memory.close()
assert not any(thread.name == "lightloom-wake" for thread in threading.enumerate())
"""

if absent("torch", "numpy"):
    pytest.skip("no PyTorch: make torch", allow_module_level=True)


def test_other_users_neither_read_the_secret_nor_are_heard():
    ran = subprocess.run(
        [PYTHON, "-c", PROGRAM], env=ENVIRONMENT, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["own"]


def test_a_wrong_policy_is_refused_before_ranks_meet():
    program = """
from lightloom.errors import InputError
from lightloom.torch import MixNet

try:
    MixNet([], policy="packet")
except InputError as error:
    print(error)
"""
    ran = subprocess.run(
        [PYTHON, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert ran.stdout.startswith("policy: ")


def test_a_segment_of_a_rank_that_has_ended_is_an_error_of_the_job():
    program = """
import os
from lightloom.torch.agreement import RankError
from lightloom.torch.server_memory import _STEP_OUT, ServerMemory
from lightloom.torch.waiting import Watch

child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
watch = Watch(4, 1.0)
watch.told.set()
memory = ServerMemory(
    0, 2, name=os.urandom(8).hex(), first=4, servers=3, watch=watch,
    gather=lambda told: [told, [f"/proc/{child}/fd/{number}" for number in range(3)]],
)
memory._numbers[1, _STEP_OUT] = 7
try:
    memory.sent_by(1, 7, 100)
except RankError as error:
    print(error)
"""
    ran = subprocess.run(
        [PYTHON, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "rank 4: rank 5 does not answer: its process has ended\n"
