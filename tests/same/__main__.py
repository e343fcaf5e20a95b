"""Whether calls give what they gave: ``make same``; ``make same RENEW=--renew`` renews that.

Each call runs in a folder with the files that it names. What it prints and writes, without the
times of this machine, is one digest in ``expected.txt``. Outputs are kept by digest in
``out/same``, so that a difference is shown where the earlier output is still there.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fresh.test_commands import PACKAGES, write_inputs
from tests.same.corpus import corpus

ROOT = Path(__file__).parents[2]
EXPECTED = Path(__file__).with_name("expected.txt")
OUTPUTS = ROOT / "out" / "same"
LIMIT_S = 300
#: of the machine, not of the result
TIMES = {"simulation_wall_s", "time_spent_s", "wall_s", "computed_s"}
CLOCK = re.compile(
    r"(?<=compared|computed)\s+in [\d.,]+ (?:[um]?s|min)\b"
    r"|(?<=events)\s+in\s+[\d.,]+\s+(?:[um]?s|min):\s+[\d.,]+[kMG]?\s+packet-hops/s"
)
#: how far a long comparison is, by the clock
PROGRESS = re.compile(r"^\d+\s%\sin \d+:\d\d.*\n?", re.MULTILINE)
#: the times that predictors took, the last column of a table
PREDICTED = re.compile(
    r"^( (?:uniform|previous|last|ewma|copilot|ridge)\S* .*) [\d.,]+$", re.MULTILINE
)
#: a run, as --verbose says it when it ends
RUN = re.compile(r"^.*\bseed \d+ step \d+.*\n", re.MULTILINE)
#: a table with a column of the time that was computed
TIMED = re.compile(r"^.*\bcomputed\b.*\n(?:.*\S.*\n)*", re.MULTILINE)
SHOWN = 40
#: what packages of guides add
INSTALLED = ("halved", "ring")


def stable(value: object) -> object:
    """Numbers to 6 digits, which another processor's last bit does not reach, without times."""
    if isinstance(value, dict):
        return {key: stable(inner) for key, inner in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [stable(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def output_of(command: str) -> str:
    """What a call prints and writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        before = set(folder.iterdir())
        programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
        paths = [ROOT / "python", ROOT]
        if any(word in command for word in INSTALLED):
            paths.append(folder / PACKAGES)
        environment = {
            **os.environ,
            "PATH": os.pathsep.join(programs),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "COLUMNS": "100",
            "PYTHONHASHSEED": "0",
        }
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
            check=False, timeout=LIMIT_S,
        )  # fmt: skip
        parts = [f"status {done.returncode}", done.stdout, done.stderr]
        for path in sorted(set(folder.iterdir()) - before):
            if path.suffix == ".json":
                content = stable(json.loads(path.read_text()))
                parts.append(f"{path.name}\n{json.dumps(content, indent=1)}")
            elif path.suffix == ".csv" and "time" not in path.read_text()[:200]:
                parts.append(f"{path.name}\n{path.read_text()}")
            else:
                parts.append(path.name)
        return normal("\n".join(parts).replace(str(folder), "FOLDER"))


def normal(text: str) -> str:
    """Return a text without times of the machine, its runs in an order that does not hang on it."""
    text = PROGRESS.sub("", text)
    runs = sorted(RUN.findall(text))
    for pattern in (RUN, TIMED, CLOCK):
        text = pattern.sub("", text)
    if PREDICTED.search(text):
        # the width of a column of times shifts the columns and rules of its table
        text = re.sub(r"[ ─]+", " ", PREDICTED.sub(r"\1", text))
    return text + "\n" + "".join(runs)


def digest(text: str) -> str:
    """Return a short name of an output, wherever its lines are broken."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def run(command: str) -> str:
    """Call, keep the output and return its digest."""
    text = output_of(command)
    (OUTPUTS / digest(text)).write_text(text)
    return digest(text)


def show_difference(before: str, after: str) -> None:
    """Show how an output differs from the one that is expected, if that is still there."""
    if not before or not (OUTPUTS / before).exists():
        print((OUTPUTS / after).read_text()[:2000])
        return
    texts = [(OUTPUTS / name).read_text().splitlines() for name in (before, after)]
    lines = list(difflib.unified_diff(*texts, "expected", "now", lineterm="", n=1))
    print(*lines[:SHOWN], *(["..."] if len(lines) > SHOWN else []), sep="\n")


def main() -> int:
    """Compare, or renew what is expected."""
    parser = argparse.ArgumentParser(description="Compare the outputs of calls with earlier ones.")
    parser.add_argument("--renew", action="store_true", help="write what is expected")
    parser.add_argument("--only", default="", metavar="REGEX", help="calls that match alone")
    options = parser.parse_args()
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    expected = {}
    if EXPECTED.exists():
        for line in EXPECTED.read_text().splitlines():
            name, _, command = line.partition("  ")
            expected[command] = name
    calls = [command for command in corpus() if re.search(options.only, command)]
    found = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for command, name in zip(calls, pool.map(run, calls), strict=True):
            found[command] = name
            print(f"\r{len(found)} of {len(calls)} calls", end="", file=sys.stderr)
    print(file=sys.stderr)
    if options.renew:
        merged = {**expected, **found}
        lines = [f"{merged[command]}  {command}\n" for command in corpus() if command in merged]
        EXPECTED.write_text("".join(lines))
    different = [command for command in calls if found[command] != expected.get(command)]
    for command in different:
        print(f"\n$ {command}")
        show_difference(expected.get(command, ""), found[command])
    print(f"{len(calls) - len(different)} of {len(calls)} calls give what they gave")
    return bool(different) and not options.renew


if __name__ == "__main__":
    sys.exit(main())
