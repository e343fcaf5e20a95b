"""The comparison made by hand, as a fixture."""

import pytest

from .hand_made_results import comparison


@pytest.fixture
def make_comparison():
    """A function that makes a comparison of three fabrics; see ``hand_made_results``."""
    return comparison
