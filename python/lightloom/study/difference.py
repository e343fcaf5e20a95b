"""What moved between two results: their numbers side by side, the largest change first.

Results are nested tables, as commands write them as JSON. Entries of a list are matched by what
names them (a fabric, a part, a number), or else by their place; candidates of a purchase by what
they are, since their numbers are places. What was asked for is told apart from what came of it; how
long a computer took is left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeGuard

from lightloom.errors import InputError
from lightloom.inputs.files import read_compressed
from lightloom.inputs.formats import parse_json
from lightloom.shown import ShownRows

#: keys that name an entry of a list, those that say the most first
NAMES = (
    *("number", "point", "fabric", "part", "name", "component", "kind", "variant", "imbalance"),
    *("when", "strategy", "scheduler", "method", "predictor", "title"),
)
#: and those that tell entries of one name apart
MORE = ("gpus", "rate_gbps", "degree", "delay_s", "interval_s", "spares", "options")
#: bytes of a file at most
MAX_FILE_BYTES = 200_000_000
#: what was asked for, and what no result depends on
INPUTS = ("inputs", "command", "schema_version", "lightloom", "axes", "best_by")
ASIDE = ("wall_s", "simulation_wall_s", "run_hash", "events")
#: what results of any command may have
COMMON = ("warnings", "remarks", "summary")
#: what comes first of all that moved
FIRST = ("recommended",)
#: numbers of candidates
NUMBERS = ("other", "best_low", "best_high")


@dataclass(frozen=True)
class MovedValue:
    """A value that differs.

    Attributes
    ----------
    path
        Where it is, such as ``results.fat-tree.step_time_s``.
    before, after
        What it is in both; ``None`` where it is missing or has no value.
    """

    path: str
    before: Any
    after: Any

    @property
    def change(self) -> float | None:
        """By what share a number has grown; ``None`` for what is no number or was 0."""
        if not _is_number(self.before) or not _is_number(self.after) or not self.before:
            return None
        return float(self.after / self.before - 1)

    @property
    def size(self) -> tuple[int, float]:
        """How much it moved, to be sorted by: numbers by their ratio, all else first."""
        if not _is_number(self.before) or not _is_number(self.after):
            return 2, 0.0
        if self.before * self.after <= 0:
            return 1, abs(self.after - self.before)
        return 0, abs(math.log(self.after / self.before))

    def row(self) -> dict[str, Any]:
        """The values with the change."""
        return asdict(self) | {"change": self.change}


@dataclass(frozen=True, repr=False)
class Difference(ShownRows):
    """What differs between two results.

    Attributes
    ----------
    before, after
        Names of both.
    inputs
        What was asked for that differs.
    moved
        What came of it that differs, the largest change first.
    unchanged
        How many values are the same.
    """

    before: str
    after: str
    inputs: tuple[MovedValue, ...]
    moved: tuple[MovedValue, ...]
    unchanged: int

    def __repr__(self) -> str:
        return f"Difference({len(self.moved)} moved, {self.unchanged} unchanged)"

    def rows(self) -> list[dict[str, Any]]:
        """A row for each value that came out otherwise."""
        return [value.row() for value in self.moved]

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "before": self.before,
            "after": self.after,
            "inputs": [value.row() for value in self.inputs],
            "moved": self.rows(),
            "unchanged": self.unchanged,
        }


def difference(
    before: Mapping[str, object],
    after: Mapping[str, object],
    name: str = "before",
    other: str = "after",
) -> Difference:
    """Compare two results, which messages call ``name`` and ``other``.

    Raises
    ------
    InputError
        If they are not of the same command.

    Examples
    --------
    >>> runs = [{"results": [{"fabric": "rail", "step_time_s": s}]} for s in (2.0, 3.0)]
    >>> [(value.path, value.change) for value in difference(*runs).moved]
    [('results.rail.step_time_s', 0.5)]
    """
    aside = (*INPUTS, *ASIDE, *COMMON)
    of = [{key for key in content if key not in aside} for content in (before, after)]
    if not of[0] & of[1]:
        raise InputError(
            f"{name} and {other}: expected two results of the same command; they have"
            f" {_listed(of[0])}, and {_listed(of[1])}"
        )
    flat = [dict(_flat(_named(content))) for content in (before, after)]
    differing = [
        MovedValue(path, flat[0].get(path), flat[1].get(path))
        for path in dict.fromkeys([*flat[0], *flat[1]])
        if flat[0].get(path) != flat[1].get(path)
    ]
    is_input = [value.path.partition(".")[0] in INPUTS for value in differing]
    moved = [value for value, of_inputs in zip(differing, is_input, strict=True) if not of_inputs]
    moved.sort(key=lambda value: (value.path in FIRST, value.size), reverse=True)
    same = sum(
        1 for path in flat[0]
        if path in flat[1] and flat[0][path] == flat[1][path]
        and path.partition(".")[0] not in INPUTS
    )  # fmt: skip
    inputs = [value for value, of_inputs in zip(differing, is_input, strict=True) if of_inputs]
    return Difference(name, other, tuple(inputs), tuple(moved), same)


def read_difference(before: Path, after: Path) -> Difference:
    """Compare two files that commands have written as JSON, compressed or not.

    Raises
    ------
    InputError
        If one cannot be read, or they are not of the same command.
    """
    contents = [_read(path) for path in (before, after)]
    return difference(contents[0], contents[1], str(before), str(after))


def _read(path: Path) -> Mapping[str, Any]:
    content = parse_json(read_compressed(path, "results", MAX_FILE_BYTES), str(path))
    if not isinstance(content, dict):
        raise InputError(f"{path}: no results in it; expected a file that --json has written")
    return content


def _listed(keys: set[str]) -> str:
    return ", ".join(sorted(keys)[:5]) or "nothing"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(content: Mapping[str, object]) -> Mapping[str, object]:
    """Results in which candidates of a purchase have names in place of their numbers."""
    candidates = content.get("candidates")
    if not isinstance(candidates, list) or not all(
        isinstance(candidate, Mapping) and "number" in candidate for candidate in candidates
    ):
        return content
    names: dict[object, str] = {}
    counts = Counter[str]()
    for candidate in candidates:
        name = _candidate(candidate)
        counts[name] += 1
        names[candidate["number"]] = name if counts[name] == 1 else f"{name} #{counts[name]}"

    def renamed(value: object) -> object:
        return names.get(value, value)

    def told(text: object) -> str:
        return re.sub(r"candidate (\d+)", lambda found: str(renamed(int(found[1]))), str(text))

    changed: dict[str, object] = {**content, "recommended": renamed(content.get("recommended"))}
    changed["candidates"] = {
        names[candidate["number"]]: {
            key: told(value) if key == "why" else value
            for key, value in candidate.items()
            if key != "number"
        }
        for candidate in candidates
    }
    changed["best"] = [renamed(number) for number in _list(content, "best")]
    changed["front"] = {str(renamed(number)): True for number in _list(content, "front")}
    for key in ("effects", "flips"):
        changed[key] = {
            _input(entry): {
                key: renamed(value) if key in NUMBERS else value for key, value in entry.items()
            }
            for entry in _list(content, key)
        }
    return changed


def _list(content: Mapping[str, object], key: str) -> list[Any]:
    entries = content.get(key)
    return entries if isinstance(entries, list) else []


def _candidate(one: Mapping[str, Any]) -> str:
    """What a candidate is."""
    options = [f"{key}={value}" for key, value in sorted(dict(one.get("options") or {}).items())]
    rate = f"{one.get('rate_gbps', 0):g}G"
    return " ".join([f"{one.get('gpus')}x{rate}", str(one.get("fabric")), *options,
                     str(one.get("plan"))])  # fmt: skip


def _input(entry: Mapping[str, Any]) -> str:
    """An input of a purchase, and on which side of it the answer holds."""
    below = entry.get("holds_below")
    side = "" if below is None else "below" if below else "above"
    return " ".join(filter(None, [str(entry.get("name")), side, entry.get("limit")]))


def _flat(content: object, before: str = "") -> Iterator[tuple[str, Any]]:
    """Values by their paths."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            if key not in ASIDE:
                yield from _flat(value, f"{before}.{key}" if before else str(key))
    elif isinstance(content, list):
        names = [_name(entry, place) for place, entry in enumerate(content)]
        if len(set(names)) < len(names):
            names = [str(place) for place in range(len(content))]
        for name, value in zip(names, content, strict=True):
            yield from _flat(value, f"{before}.{name}")
    else:
        yield before, content


def _name(entry: object, place: int) -> str:
    """What an entry of a list is called."""
    if not isinstance(entry, Mapping):
        return str(place)
    name = next((entry[key] for key in NAMES if entry.get(key) not in (None, "")), place)
    if "number" in entry or "point" in entry:
        return str(name)
    more = [f"{key}={entry[key]:g}" for key in MORE if _is_number(entry.get(key))]
    return " ".join([str(name), *more])
