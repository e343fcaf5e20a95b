"""The page of claims is what the claims and the product say today."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch):
    path = ROOT / "experiments/claims/run.py"
    spec = importlib.util.spec_from_file_location("claims", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "claims", module)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(script):
    """If not: python experiments/claims/run.py --write."""
    pages = script.wanted()
    assert len(pages) == 2
    for path, text in pages.items():
        assert text == path.read_text(encoding="utf-8")


def test_every_number_of_monta_has_its_row(script):
    table = script.numbers_of("MoNTA")
    names = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert names == [f"MN{number}" for number in range(1, 18)]


def test_a_number_that_its_source_does_not_have_is_refused(script):
    claim = next(claim for claim in script.claims() if claim.source is not None)
    with pytest.raises(SystemExit, match=r"98765\.4 is not in"):
        script.quoted(claim.model_copy(update={"ours": "98765.4"}))
    with pytest.raises(SystemExit, match="no measure 'nothing'"):
        script.filled("{nothing}")
