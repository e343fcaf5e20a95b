"""Help is quick, since what is slow to import is imported when a command runs."""

import compileall
import subprocess
import sys
import zipfile

import pytest

from lightloom.cli.commands import COMMANDS

SLOW = ("numpy", "scipy", "polars", "pint", "plotly", "rich", "lightloom.simulate")


def imported_by(command):
    """Which slow modules a command has imported when it ends."""
    code = (
        "import sys; from lightloom.cli import run_command; "
        f"run_command({command.split()!r}); "
        f"print(*[name for name in {SLOW!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.split()


@pytest.mark.parametrize("command", ["--help", "--version", "--foo"])
def test_the_root_imports_no_command(command):
    assert [name for name in imported_by(command) if name in SLOW] == []


@pytest.mark.parametrize("name", [n for n in COMMANDS if n != "predict"])
def test_help_of_a_command_imports_nothing_slow(name):
    assert imported_by(f"{name} --help") == []


def test_packages_export_what_they_name():
    from lightloom import demand, fabric, packets, schedule
    from lightloom.study import compare

    for package in (demand, fabric, packets, schedule, compare):
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = package.nothing


def test_an_export_is_imported_once(monkeypatch):
    from lightloom import fabric

    monkeypatch.delitem(vars(fabric), "MixNet", raising=False)
    assert fabric.MixNet is vars(fabric)["MixNet"]


def test_exports_need_no_source_and_no_folder(tmp_path):
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from lightloom.lazy import export_on_use\n"
        "if TYPE_CHECKING:\n    from shop.fruit import apple as apple, pear as pear\n"
        "export_on_use()\n"
    )
    (package / "fruit.py").write_text("apple, pear = 'an apple', 'a pear'\n")
    assert compileall.compile_dir(package, quiet=1, legacy=True)
    archive = tmp_path / "shop.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for compiled in package.glob("*.pyc"):
            file.write(compiled, f"shop/{compiled.name}")
    code = (
        f"import sys; sys.path[:0] = [{str(archive)!r}]; import shop; print(shop.pear, dir(shop))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "a pear ['apple', 'pear']\n"
