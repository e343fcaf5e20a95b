"""Put faults into changed lines of the Python package and list those that no test notices.

``make mutants`` calls it after cargo-mutants, which does the same for Rust. The lines are those
that have changed since a commit; where none has, all of a module that changes with the day. The
tests of a fault are those of its room, ``tests/unit/ROOM``, or for a module that is no package all
in ``tests/unit``.
"""

import datetime
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "mutants"
PACKAGE = Path("python/lightloom")
#: faults that are nearly always in an annotation, where nothing runs: ``int + None``
UNSEEN = ["core/ReplaceBinaryOperator_BitOr_"]


def run(*command: str | Path) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def changed_files(since: str) -> list[Path]:
    """Modules of the package that have changed since a commit and are still there."""
    names = run("git", "diff", "--name-only", "--diff-filter=d", since, "--", PACKAGE).split()
    return [Path(name) for name in names if name.endswith(".py")]


def module_of_the_day() -> Path:
    modules = sorted(path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py"))
    return modules[datetime.date.today().toordinal() % len(modules)]


def tests_of(room: str) -> str:
    return f"tests/unit/{room}" if (ROOT / "tests" / "unit" / room).is_dir() else "tests/unit"


def missed(room: str, files: list[Path], since: str | None) -> list[str]:
    """Faults in a room's files that its tests do not notice; all lines without ``since``."""
    config, session = OUT / f"{room}.toml", OUT / f"{room}.sqlite"
    session.unlink(missing_ok=True)
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {tests_of(room)}"
    config.write_text(
        "[cosmic-ray]\n"
        f"module-path = {json.dumps([str(path) for path in files])}\n"
        f"test-command = {json.dumps(command)}\n"
        "timeout = 600.0\n"
        "excluded-modules = []\n"
        'distributor.name = "local"\n'
        f"filters.git-filter.branch = {json.dumps(since or 'HEAD')}\n"
        f"filters.operators-filter.exclude-operators = {json.dumps(UNSEEN)}\n"
    )
    tools = Path(sys.executable).parent
    run(tools / "cosmic-ray", "baseline", config)  # tests that fail anyway would notice everything
    run(tools / "cosmic-ray", "init", config, session)
    run(tools / "cr-filter-operators", session, config)
    if since:
        run(tools / "cr-filter-git", session, "--config", config)
    run(tools / "cosmic-ray", "exec", config, session)
    return run(tools / "cr-report", "--surviving-only", "--show-diff", session).splitlines()


def main(since: str) -> None:
    if run("git", "status", "--porcelain", PACKAGE):
        sys.exit(f"{PACKAGE} has changes; commit them first, because faults are put into its files")
    OUT.mkdir(parents=True, exist_ok=True)
    rooms = defaultdict(list)
    files = changed_files(since)
    for path in files or [module_of_the_day()]:
        rooms[path.relative_to(PACKAGE).parts[0].removesuffix(".py")].append(path)
    for room, paths in rooms.items():
        print(room, *missed(room, paths, since if files else None), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
