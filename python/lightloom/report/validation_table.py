"""Steps on a testbed beside the same steps in the simulator, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.report.grid import Grid
from lightloom.testbed.validation import ValidatedPolicy

_TITLE = "A step on the testbed and in the simulator"
_CAPTION = "Changes of circuits, and seconds that wait for them: on the testbed, in the simulator"


def validation_grid(found: Sequence[ValidatedPolicy]) -> Grid:
    """A row per policy."""
    headers = [
        ("policy", ""),
        ("step", "s"),
        ("simu-\nlated", "s"),
        ("differs", "%"),
        ("all-to-\nalls", "s"),
        ("simu-\nlated", "s"),
        ("worst", "%"),
        ("changes", ""),
        ("exposed", "ms"),
    ]
    return Grid(_TITLE, headers, [_row(policy) for policy in found], -1, _CAPTION)


def all_to_all_grid(found: Sequence[ValidatedPolicy]) -> Grid:
    """A row per all-to-all of a step, and for each policy what it took and is to take."""
    headers = [("all-to-all", ""), ("layer", "")]
    for one in found:
        headers += [(one.policy, "s"), ("simulated", "s"), ("differs", "%")]
    rows: list[list[str | float]] = []
    for number, moved in enumerate(found[0].measured.all_to_alls):
        row: list[str | float] = [moved.name.replace("_", "-"), str(moved.layer)]
        for one in found:
            times = [side.all_to_alls[number].moved_s for side in (one.measured, one.simulated)]
            row += [
                *(f"{time:.3f}" for time in times),
                f"{100 * one.all_to_all_errors[number]:+.1f}",
            ]
        rows.append(row)
    return Grid("Each all-to-all", headers, rows, -1, "")


def _row(one: ValidatedPolicy) -> list[str | float]:
    measured, simulated = one.measured, one.simulated
    return [
        one.policy,
        f"{measured.step_time_s:.3f}",
        f"{simulated.step_time_s:.3f}",
        f"{100 * one.step_error:+.1f}",
        f"{measured.moved_s:.3f}",
        f"{simulated.moved_s:.3f}",
        f"{100 * one.worst_error:+.1f}",
        f"{measured.reconfigurations:g}, {simulated.reconfigurations:g}",
        f"{1e3 * measured.exposed_s:.0f}, {1e3 * simulated.exposed_s:.0f}",
    ]
