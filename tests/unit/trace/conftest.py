"""What tests of the recorder share."""

import pytest
from tests.torch_python import absent


@pytest.fixture(scope="session")
def pytorch():
    """Skips where PyTorch is not installed."""
    if absent("torch"):
        pytest.skip("no PyTorch: make torch, or set LIGHTLOOM_TORCH_PYTHON to a Python that has it")
