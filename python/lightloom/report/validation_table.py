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


def _row(policy: ValidatedPolicy) -> list[str | float]:
    measured, simulated = policy.measured, policy.simulated
    return [
        policy.policy,
        f"{measured.step_time_s:.3f}",
        f"{simulated.step_time_s:.3f}",
        f"{100 * policy.step_error:+.1f}",
        f"{measured.moved_s:.3f}",
        f"{simulated.moved_s:.3f}",
        f"{100 * policy.worst_error:+.1f}",
        f"{measured.reconfigurations:g}, {simulated.reconfigurations:g}",
        f"{1e3 * measured.exposed_s:.0f}, {1e3 * simulated.exposed_s:.0f}",
    ]
