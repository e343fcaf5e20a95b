"""Hooks of training frameworks: versions that they do not know; `tests/soak/hooks` runs them."""

import subprocess

import pytest
from tests.torch_python import PYTHON, absent
from tests.unit.torch.test_all_to_all_tp import ENVIRONMENT

PROGRAM = """
from importlib import metadata
from torch import nn
from lightloom.errors import InputError
from lightloom.torch import use_in_deepspeed, use_in_megatron

def version(package):
    if number is None:
        raise metadata.PackageNotFoundError
    return number

metadata.version = version
for number in (None, "0.9.2", "1.16.0"):
    for use in (use_in_megatron, use_in_deepspeed):
        try:
            use(nn.Linear(2, 2), strategy="O2")
        except InputError as error:
            print(error)
"""

if absent("torch", "numpy"):
    pytest.skip("no PyTorch: make torch", allow_module_level=True)


def test_a_package_that_is_missing_or_of_another_version_is_refused():
    run = subprocess.run(
        [PYTHON, "-c", PROGRAM], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    lines = run.stdout.splitlines()
    assert len(lines) == 6
    assert lines[:3] == [
        "megatron-core is not installed: pip install 'megatron-core==0.16.*'",
        "deepspeed is not installed: pip install 'deepspeed==0.19.*'",
        "megatron-core 0.9.2: expected 0.16.x, whose layers this version of Lightloom knows "
        "(pip install 'megatron-core==0.16.*')",
    ]
    assert lines[-1].startswith("deepspeed 1.16.0: expected 0.19.x")
