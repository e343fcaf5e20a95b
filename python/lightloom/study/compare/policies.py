"""What each policy of switching circuits gains, from extra runs of the first sample.

Only fabrics whose circuits follow the demand have policies to compare. A policy that decides
nothing, ``never``, is the reference: with demand that all sources share it is often as good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightloom.fabric import Fabric
from lightloom.schedule import WHEN_POLICIES
from lightloom.simulate import Run
from lightloom.study.compare.results import SAME, FabricResult, LinkUpResult, PolicyResult
from lightloom.study.compare.variants import NEVER, FabricVariant, LinkUp, OtherPolicy
from lightloom.units import show_time

#: share of a step's critical path in which circuits are waited for, above which that is warned of
MUCH_WAITING = 0.5


def as_never(variant: FabricVariant, fabric: Fabric, run: Run) -> bool:
    """Whether a variant is ``never``, and the fabric's own run the same as it switched nothing.

    Break-even alone waits for nothing where it does not switch.
    """
    reconfiguration = fabric.reconfiguration()
    is_free = reconfiguration is not None and reconfiguration.when == "break-even"
    return is_free and variant == NEVER and not run.circuits.reconfigurations


def policy_results(
    fabric: Fabric, run: Run, variant_runs: Mapping[FabricVariant, Run]
) -> tuple[PolicyResult, ...]:
    """The first sample under every policy, in their order; empty if they were not all run."""
    reconfiguration = fabric.reconfiguration()
    if reconfiguration is None:
        return ()
    runs = {**variant_runs, OtherPolicy(reconfiguration.when): run}
    if any(OtherPolicy(name) not in runs for name in WHEN_POLICIES):
        return ()
    never_s = runs[NEVER].step_time_s
    return tuple(_result(name, runs[OtherPolicy(name)], never_s) for name in WHEN_POLICIES)


def _result(when: str, run: Run, never_s: float) -> PolicyResult:
    use = run.circuits
    return PolicyResult(
        when=when,
        step_time_s=run.step_time_s,
        # the oracle alone gates the very first all-to-alls, which moves others a little
        gain_s=never_s - run.step_time_s if use.reconfigurations else 0.0,
        exposed_s=run.mean_s["reconfiguration"],
        reconfigurations=use.reconfigurations,
        saved_s=use.saved_s / use.reconfigurations if use.reconfigurations else 0.0,
    )


def link_up_result(
    fabric: Fabric, run: Run, variant_runs: Mapping[FabricVariant, Run]
) -> LinkUpResult | None:
    """What bringing links up does to the first sample; ``None`` where circuits stay."""
    reconfiguration = fabric.reconfiguration()
    if reconfiguration is None or reconfiguration.link_up is None:
        return None
    bring_up = reconfiguration.link_up
    return LinkUpResult(
        delay_s=bring_up.delay_s,
        measured_s=bring_up.measured_s,
        step_time_s=run.step_time_s,
        other_delay_s=bring_up.other_delay_s,
        other_step_time_s=variant_runs[LinkUp()].step_time_s,
    )


def policies_note(results: Sequence[PolicyResult]) -> str:
    """What switching is worth here, in a sentence."""
    by_name = {result.when: result for result in results}
    never = by_name["never"].step_time_s
    best = min(
        (r for r in results if r.when not in ("never", "oracle")), key=lambda r: r.step_time_s
    )
    oracle = by_name["oracle"].gain_s / never
    if not best.reconfigurations:
        return "circuits stay as they are here: no reconfiguration saves more than it costs"
    if never <= best.step_time_s * SAME:
        return (
            "circuits that are never switched are as good here: the best policy, "
            f"{best.when}, gains {best.gain_s / never:.2%}, the oracle {oracle:.2%}"
        )
    return (
        f"switching by {best.when} gains {best.gain_s / never:.2%} over circuits that are never "
        f"switched, the oracle {oracle:.2%}"
    )


def switching_warning(fabric: Fabric, result: FabricResult) -> str | None:
    """A warning where most of a step is spent waiting for circuits, and what to do about it."""
    reconfiguration, parts = fabric.reconfiguration(), result.critical_path_s
    share = parts.get("reconfiguration", 0.0) / result.step_time_s
    if reconfiguration is None or share <= MUCH_WAITING:
        return None
    remedies = []
    if reconfiguration.when != "break-even":
        remedies.append("switch only where it pays (when = break-even)")
    if reconfiguration.link_up is not None and reconfiguration.link_up.delay_s:
        delay = show_time(reconfiguration.link_up.delay_s, 3)
        remedies.append(f"say how long your links need to come up, here {delay} (link_up_s)")
    advice = " or ".join(remedies) or "use a switch that is faster"
    return f"{fabric.name} waits for circuits in {share:.0%} of a step: {advice}"
