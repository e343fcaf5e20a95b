"""The board of public runs: errors and 80 % intervals by class, each row against the last release.

    python experiments/real-systems/board.py [--write | --check]
    python experiments/real-systems/board.py --register FILE
    python experiments/real-systems/board.py --release

It reads ``predictions.csv``, which ``run.py --write`` makes, and simulates nothing, so that its
``--check`` takes a second. ``--write`` makes board.md, board.svg and the values of
``hardware/data/errors.toml``. ``--register`` predicts the runs of a file, which need no published
speed yet, and adds them to ``registered.csv`` with a digest of the predictor and one of their
inputs: so does a row prove that it was predicted before it was opened. ``--release`` makes the
predictions of today those that later ones are held against.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from intervals import agreement, agrees, family, shown, spread  # noqa: E402
from predictions import FILE, RELEASE, read  # noqa: E402
from results import ROOT, command_line, write_or_check  # noqa: E402
from rows import Run, read_runs  # noqa: E402

BOARD, FIGURE, PEERS = HERE / "board.md", HERE / "board.svg", HERE / "peers.toml"
AIMS = HERE / "aims.toml"
REGISTERED, PLANNED = HERE / "registered.csv", HERE / "registered.toml"
ERRORS = ROOT / "python/lightloom/hardware/data/errors.toml"
COLUMNS = ("run", "inputs", "predictor", "predicted", "date")
#: share of the runs that test that an interval should hold
LOW, HIGH = 0.75, 0.85
#: a change of a ratio that is named
CHANGE = 0.01


@dataclass(frozen=True)
class Entry:
    """One run: speeds in tokens/s per GPU, now and at the last release (0: it was not there)."""

    run: Run
    predicted: float
    released: float

    @property
    def ratio(self) -> float:
        """Predicted over published; 0 of a run that was refused."""
        return self.predicted / self.run.published

    @property
    def size(self) -> float:
        """How far off it is, as a factor of 1 or more."""
        return max(self.ratio, 1 / self.ratio) if self.ratio else math.inf


def entries() -> list[Entry]:
    """Every run with its kept prediction.

    Raises
    ------
    SystemExit
        If a run has none, or another published speed than when it was predicted.
    """
    runs, _ = read_runs()
    now, before = read(FILE), read(RELEASE)
    found = []
    for run in runs:
        row = now.get(run.name)
        if row is None or row["published"] != f"{run.published:.6g}":
            raise SystemExit(f"{run.name}: not as predicted; run run.py --write")
        released = float(before.get(run.name, {}).get("predicted", 0))
        found.append(Entry(run, float(row["predicted"]), released))
    return found


def factors(found: Sequence[Entry]) -> dict[str, float]:
    """The interval of each class, by the runs that calibrate."""
    known = shown(found)
    return {group: spread(known, group) for group in sorted({e.run.group for e in found})}


def coverage(found: Sequence[Entry]) -> str:
    """Whether intervals hold as much as they should of the runs that test, together and by class.

    Of ``n`` runs, chance alone moves the number held as a binomial distribution of 80 % has it.
    """
    held: dict[str, tuple[int, int]] = {}
    for group, factor in factors(found).items():
        test = [e for e in found if e.run.group == group and e.run.part == "test"]
        if test:
            held[group] = sum(e.size <= factor for e in test), len(test)
    inside, tested = (sum(numbers) for numbers in zip(*held.values(), strict=True))
    is_good = LOW * tested <= inside <= HIGH * tested
    words = [
        f"{'holds' if is_good else 'does not hold'} for all of them together"
        f" ({inside} of {tested}, {100 * inside / tested:.0f} %)"
    ]
    off = {g: (k, n) for g, (k, n) in held.items() if not LOW * n <= k <= HIGH * n}
    if off:
        named = ", ".join(f"{group} ({k} of {n})" for group, (k, n) in off.items())
        words.append(f"not for these classes of few runs: {named}")
    shares = held_by_family(found)
    words[0] += f", by families {sum(shares):.1f} of {len(shares)} ({100 * mean(shares):.0f} %)"
    held["all of them together"] = inside, tested
    beyond = [g for g, (k, n) in held.items() if not agrees(k, n)]
    if beyond:
        words.append(f"chance does not explain {', '.join(beyond)}")
    return "; ".join(words)


def held_by_family(found: Sequence[Entry]) -> list[float]:
    """The share that intervals hold of each family of runs that test, by class."""
    inside, by_class = defaultdict(list), factors(found)
    for e in found:
        if e.run.part == "test":
            inside[e.run.group, family(e.run)].append(e.size <= by_class[e.run.group])
    return [mean(each) for each in inside.values()]


def sums(found: Sequence[Entry]) -> list[str]:
    """Median error, interval and its coverage by class."""
    lines = [
        "| class | runs | median error | of those that test | 80 % within a factor of |"
        " of those that test, held | agrees with 80 % |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    held = tested = 0
    for group, factor in factors(found).items():
        own = [e for e in found if e.run.group == group]
        test = [e for e in own if e.run.part == "test"]
        inside = sum(e.size <= factor for e in test)
        held, tested = held + inside, tested + len(test)
        medians = [100 * median(abs(e.ratio - 1) for e in part) for part in (own, test)]
        share = f"{inside} of {len(test)} ({100 * inside / len(test):.0f} %)"
        lines.append(
            f"| {group} | {len(own)} | {medians[0]:.1f} % | {medians[1]:.1f} % | {factor:.2f} |"
            f" {share} | {agreement(inside, len(test))} |"
        )
    every = [abs(e.ratio - 1) for e in found]
    test = [abs(e.ratio - 1) for e in found if e.run.part == "test"]
    lines.append(
        f"| all | {len(found)} | {100 * median(every):.1f} % | {100 * median(test):.1f} % | |"
        f" {held} of {tested} ({100 * held / tested:.0f} %) | {agreement(held, tested)} |"
    )
    return lines


def is_apart(entry: Entry) -> bool:
    """Whether a run is on GPUs of AMD or of torchtitan, for which an aim of its own holds."""
    return entry.run.gpu.startswith("mi") or entry.run.source.startswith("torchtitan")


def aims(found: Sequence[Entry]) -> list[str]:
    """Each aim and each class: whether it is met, by runs that calibrate and that test."""
    content = tomllib.loads(AIMS.read_text(encoding="utf-8"))
    times, shares = content["held_out"], content["held"]
    groups = {
        "dense": [e for e in found if not (e.run.is_moe or is_apart(e))],
        "MoE on Hopper and Blackwell": [
            e for e in found if e.run.is_moe and e.run.gpu != "a100" and not is_apart(e)
        ],
        "AMD and torchtitan": [e for e in found if is_apart(e)],
    }
    wanted = {aim["name"]: aim["median"] for aim in content["aim"]}
    assert wanted.keys() == groups.keys()
    missing = {each["name"]: each["missing"] for each in content["class"]}
    classes = [name for name in missing if name not in groups]
    groups |= {name: [e for e in found if e.run.group == name] for name in classes}
    lines = [
        f"| runs | number | median error | aim | calibrate | test | test / calibrate, {times:g} |"
        f" held by intervals, {100 * shares[0]:.0f} to {100 * shares[1]:.0f} % |"
        " agrees with 80 % |",
        "|---|---:|---:|---|---:|---:|---|---|---|",
    ]
    words, by_class = {True: "met", False: "**missed**"}, factors(found)
    missed = []
    for name, runs in groups.items():
        errors = {
            part: [100 * abs(e.ratio - 1) for e in runs if e.run.part == part]
            for part in ("calibrate", "test")
        }
        whole = median(error for each in errors.values() for error in each)
        own, held_out = (median(errors[part]) for part in errors)
        inside = [e.size <= by_class[e.run.group] for e in runs if e.run.part == "test"]
        share = sum(inside) / len(inside)
        aim = f"{wanted[name]} %, {words[whole <= wanted[name]]}" if name in wanted else ""
        is_even, is_held = held_out <= times * own, shares[0] <= share <= shares[1]
        lines.append(
            f"| {name} | {len(runs)} | {whole:.1f} % | {aim} | {own:.1f} % | {held_out:.1f} % |"
            f" {held_out / own:.2f}, {words[is_even]} | {sum(inside)} of {len(inside)},"
            f" {words[is_held]} | {agreement(sum(inside), len(inside))} |"
        )
        if name in missing and not (is_even and is_held):
            missed.append(f"- {name}: {missing[name]}.")
    return [*lines, "", "What is missing where a class misses one:", "", *missed]


def changes(found: Sequence[Entry]) -> list[str]:
    """Rows whose ratio differs from that at the last release, and rows that came or went."""
    lines = []
    for entry in found:
        before = entry.released / entry.run.published
        if not before:
            lines.append(f"| {entry.run.name} | {entry.run.part} | - | {entry.ratio:.2f} | new |")
        elif abs(entry.ratio - before) > CHANGE:
            closer = abs(entry.ratio - 1) < abs(before - 1)
            words = "closer" if closer else "further"
            lines.append(
                f"| {entry.run.name} | {entry.run.part} | {before:.2f} | {entry.ratio:.2f} |"
                f" {words} |"
            )
    gone = read(RELEASE).keys() - {e.run.name for e in found}
    lines += [f"| {name} | | | | gone |" for name in sorted(gone)]
    if not lines:
        return [f"No ratio differs by more than {CHANGE} from that of the last release."]
    return ["| run | set | release | now | |", "|---|---|---:|---:|---|", *lines]


def peers(found: Sequence[Entry]) -> list[str]:
    """Others on the same rows."""
    content = tomllib.loads(PEERS.read_text(encoding="utf-8"))
    own = {e.run.name: e.ratio for e in found}
    lines = ["| run | published speed | here | Calculon |", "|---|---:|---:|---:|"]
    speeds = {e.run.name: e.run.published for e in found}
    theirs = content["calculon"]
    for name, ratio in theirs.items():
        lines.append(f"| {name} | {speeds[name]:.4g} | {own[name]:.2f} | {ratio:.2f} |")
    means = [
        100 * sum(abs(values[name] - 1) for name in theirs) / len(theirs)
        for values in (own, theirs)
    ]
    lines.append(f"| mean error | | {means[0]:.1f} % | {means[1]:.1f} % |")
    steps = content["steps"]
    lines += [
        "",
        f"Of the {steps['steps']} [measured steps](../b200-steps/table.md) on eight B200, SimuMax,"
        f" who measured them, is off by {100 * steps['simumax']['mean']:.1f} % on average and by"
        f" {100 * steps['simumax']['largest']:.1f} % at most.",
        "",
    ]
    lines += [
        f"- `{name}`: [{source['text']}]({source['url']}) ({source['date']})"
        for name, source in content["sources"].items()
    ]
    return lines


def registered(found: Sequence[Entry]) -> list[str]:
    """Rows that were predicted before they were opened, and whether their inputs are the same."""
    by_name = {e.run.name: e for e in found}
    rows = _registered()
    runs = read_runs(PLANNED)[0] if rows and PLANNED.exists() else []
    opened = {run.name: run for run in runs if run.given}
    lines = ["| run | registered | by | then | now | inputs |", "|---|---|---|---:|---:|---|"]
    for row in rows:
        name = row["run"]
        if (entry := by_name.get(name)) is None and (run := opened.get(name)) is not None:
            # opened, and not among the runs yet
            entry = Entry(run, 0.0, 0.0)
        if entry is None:
            lines.append(
                f"| {name} | {row['date']} | {row['predictor'][:8]} | - | - | not opened |"
            )
            continue
        then = float(row["predicted"]) / entry.run.published
        now = f"{entry.ratio:.2f}" if entry.predicted else "-"
        same = "same" if inputs_digest(entry.run) == row["inputs"] else "**changed**"
        lines.append(
            f"| {name} | {row['date']} | {row['predictor'][:8]} | {then:.2f} | {now} | {same} |"
        )
    return lines if rows else ["None yet: the rows above were split by hash, not registered."]


def _registered() -> list[dict[str, str]]:
    if not REGISTERED.exists():
        return []
    with REGISTERED.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def inputs_digest(run: Run) -> str:
    """SHA-256 of all that a prediction of a run depends on, which its published speed does not."""
    # a model of the experiment is a file, whose place here is none of its inputs
    content = run.scenario().model_dump_json().replace(f"{ROOT}/", "")
    # nor is an option that came after the first rows were registered, unless a run has it
    content = content.replace('"mtp":null,', "")
    return hashlib.sha256(content.encode()).hexdigest()


def predictor_digest() -> str:
    """SHA-256 of the predictor: sources and data of the package and its core."""
    digest = hashlib.sha256()
    kinds = (("python/lightloom", "*.py"), ("python/lightloom", "*.toml"), ("crates", "*.rs"))
    for folder, pattern in kinds:
        for path in sorted((ROOT / folder).rglob(pattern)):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def register(path: Path) -> None:
    """Predict the runs of a file that are not registered yet and add them to ``registered.csv``.

    A run that is registered keeps its prediction.
    """
    from run import predict

    known = {row["run"] for row in _registered()}
    runs = [run for run in read_runs(path)[0] if run.name not in known]
    predictor, date = predictor_digest(), datetime.now(tz=UTC).strftime("%Y-%m-%d")
    is_new = not REGISTERED.exists()
    with REGISTERED.open("a", encoding="utf-8", newline="") as lines, ProcessPoolExecutor() as pool:
        writer = csv.writer(lines, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        for found in pool.map(predict, runs):
            speed = f"{found.predicted:.6g}"
            writer.writerow((found.run.name, inputs_digest(found.run), predictor, speed, date))
            lines.flush()
            print(f"{found.run.name}: {found.refused or speed}", flush=True)


def errors_file(found: Sequence[Entry]) -> str:
    """``errors.toml``: medians and intervals of today, of all runs, those that test among them."""
    text = ERRORS.read_text(encoding="utf-8")
    text = re.sub(r"experiments/real-systems: \d+ public", f"experiments/real-systems: {len(found)}"
                  " public", text)  # fmt: skip
    for group in sorted({e.run.group for e in found}):
        own = [abs(e.ratio - 1) for e in found if e.run.group == group]
        name = group.lower().replace(" ", "-")
        values = {
            "runs": f"{len(own)}",
            "median": f"{median(own):.3f}",
            "interval": f"{spread(found, group):.3f}",
        }
        lines = [f'{key} = {{ value = {value}, source = "real-systems" }}' for key, value in
                 values.items()]  # fmt: skip
        body = "\n".join((f"[classes.{name}]", *lines))
        text, count = re.subn(rf"\[classes\.{name}\]\n(?:\w+ = .*\n?)+", f"{body}\n", text)
        assert count == 1, name
    return text


def render(found: Sequence[Entry]) -> str:
    """The board."""
    parts = [
        "<!-- written by experiments/real-systems/board.py --write -->",
        "",
        "![Predicted over published speed of every run, by class](board.svg)",
        "",
        "## Errors and intervals",
        "",
        "An interval is a factor around the prediction that should hold 80 % of the families of"
        " runs (one model on one release) of its class, by those that calibrate"
        " ([how](../../docs/decisions/0030-intervals-by-families.md)); of the runs that test, it"
        f" should hold 75 to 85 %. That {coverage(found)}. A number of runs held agrees with 80 %"
        " if it is between the 5 % and the 95 % point of the binomial distribution, in brackets;"
        " runs of one family err alike, so that chance moves it by more.",
        "",
        *sums(found),
        "",
        "## Aims",
        "",
        *aims(found),
        "",
        "## Against the last release",
        "",
        *changes(found),
        "",
        "## Others on the same rows",
        "",
        *peers(found),
        "",
        "## Registered before they were opened",
        "",
        *registered(found),
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write, check, register or release."""
    parser = command_line(__doc__)
    parser.add_argument("--register", type=Path, metavar="FILE", help="predict runs of a file now")
    parser.add_argument("--release", action="store_true", help="hold later rows against these")
    options = parser.parse_args()
    if options.register is not None:
        register(options.register)
        return 0
    if options.release:
        RELEASE.write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
        return 0
    from board_figure import figure

    found = entries()
    text = render(found)
    print(text)
    wanted = {
        BOARD: text,
        FIGURE: figure(found, factors(found)),
        ERRORS: errors_file(found),
    }
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
