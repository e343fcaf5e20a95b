"""The public API: few names, each documented with an example that runs, imported when used."""

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import lightloom
from lightloom import schedule

ROOT = Path(__file__).parents[2]
MAX_NAMES = 30
#: what the README and the guides begin with
NEEDED = {"compare", "compare_schedules", "decompose", "allocate", "simulate_flows", "predict"}


def lazy_packages() -> list[Path]:
    """The ``__init__`` of each package that imports its exports when they are used."""
    files = sorted((ROOT / "python" / "lightloom").rglob("__init__.py"))
    return [file for file in files if "export_on_use()" in file.read_text()]


@pytest.mark.parametrize("file", lazy_packages(), ids=lambda file: file.parent.name)
def test_programs_see_the_names_that_type_checkers_see(file):
    """A name that type checkers see and a program does not, or the other way round."""
    name = ".".join(file.parent.relative_to(ROOT / "python").parts)
    block = next(node for node in ast.parse(file.read_text()).body if isinstance(node, ast.If))
    imports = [(node.module, alias) for node in block.body for alias in node.names]
    package = importlib.import_module(name)
    assert dir(package) == sorted(alias.name for _, alias in imports)
    for module, alias in imports:
        # type checkers take a name that is imported as itself for an export
        assert alias.asname == alias.name
        assert getattr(package, alias.name) is getattr(importlib.import_module(module), alias.name)


def test_the_names():
    """An API that grows, or whose names are in no order."""
    assert len(lightloom.__all__) <= MAX_NAMES
    assert set(lightloom.__all__) >= NEEDED
    assert set(dir(lightloom)) == {*lightloom.__all__, "__version__"}
    assert lightloom.__version__


@pytest.mark.parametrize("name", lightloom.__all__)
def test_every_name_has_an_example_that_runs(name, monkeypatch):
    """An example that was true of an earlier signature."""
    monkeypatch.chdir(ROOT)
    thing = getattr(lightloom, name)
    examples = doctest.DocTestParser().get_doctest(thing.__doc__, {}, name, None, None)
    assert examples.examples, f"{name} has no example"
    report: list[str] = []
    failures = doctest.DocTestRunner(verbose=False).run(examples, out=report.append).failed
    assert not failures, "".join(report)


def test_a_name_that_is_not_there_is_an_attribute_error():
    """A lazy package that answers ``hasattr`` with a KeyError."""
    with pytest.raises(AttributeError, match="'lightloom' has no attribute 'comapre'"):
        lightloom.comapre  # noqa: B018


def test_a_name_of_before_is_answered_by_the_one_of_now():
    """A name that was renamed for the sake of one idea, and leaves who uses it alone."""
    with pytest.raises(AttributeError, match="did you mean 'WHEN_POLICIES'"):
        schedule.RECONFIGURE_POLICIES  # noqa: B018


def test_import_loads_nothing_heavy():
    """Help that takes two seconds because some module imports polars."""
    code = (
        "import sys, lightloom; lightloom.__all__; "
        "print([m for m in ('numpy', 'pydantic', 'polars', 'rich') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"
