"""Whether a run that was repeated gave the same results."""

from __future__ import annotations

from typing import Any

from lightloom import __version__
from lightloom.errors import echo
from lightloom.study.compare.results import Comparison
from lightloom.units import show_time


def check_repeated(content: dict[str, Any], comparison: Comparison, name: str) -> str:
    """One sentence: the results of a file's run and of its repetition, alike or not.

    Parameters
    ----------
    content
        Of the file.
    comparison
        What the same inputs gave now.
    name
        The file.
    """
    before = {result.get("fabric"): result for result in content["results"]}
    changes = []
    for result in comparison.results:
        former = before.pop(result.fabric, {})
        if former.get("run_hash") == result.run_hash:
            continue
        time_s = former.get("step_time_s")
        was = show_time(time_s, 6) if isinstance(time_s, int | float) else "not there"
        changes.append(f"{result.fabric} {show_time(result.step_time_s, 6)}, was {was}")
    changes += [f"{echo(str(fabric), quoted=False)} is gone" for fabric in before]
    if not changes:
        return f"the same results as in {name}"
    made_by = echo(str(content.get("inputs", {}).get("lightloom", "?")), quoted=False)
    maker = "" if made_by == __version__ else f" (made by lightloom {made_by}, now {__version__})"
    return f"other results than in {name}{maker}: {'; '.join(changes)}"
