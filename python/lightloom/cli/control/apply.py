"""``lightloom control apply``: changes the circuits of a region once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from lightloom.cli.control.target import (
    AT_ONCE,
    TargetOptions,
    at_once,
    log_of_command,
    outputs_and_options,
    read_wanted,
    run_until_complete,
    target_panel,
)
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.cli.terminal import confirm
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Switch
from lightloom.units import show_things

if TYPE_CHECKING:
    from lightloom.control.documents import Document
    from lightloom.control.operations import PlannedChange
    from lightloom.control.operator import RegionOperator

EXAMPLES = (
    "lightloom control apply region.toml --demand-file demand.npy",
    "lightloom control apply region.toml plan.json",
    "lightloom control apply region.toml --add 0/1-3/0 --yes",
    "lightloom control apply region.toml --reapply --conflicts overwrite",
    "lightloom control apply region.toml --clear",
)
NOTES = (
    "What changes is shown, and asked on a terminal. A plan of lightloom control plan --json is "
    "applied only if nothing has changed since. While the region is served, the service makes the "
    "change. Once begun, a change is carried through, also on Ctrl-C."
)
_MAX_PLAN_BYTES = 1 << 26
#: what stands for the answer where nobody can be asked: of a change, and of a rollback
_WITHOUT_ASKING = (
    "a plan of lightloom control plan --json, or --yes",
    "--yes, or lightloom control apply a plan of lightloom control rollback --json",
)


class ApplyOptions(TargetOptions):
    """What is applied, and whether it is asked."""

    plan: File | None = Field(None, description="A plan that was written with --json.")
    yes: Switch = Field(False, description="Do not ask.")
    at_once: Switch = AT_ONCE

    def named(self) -> dict[str, bool]:
        """Which targets are given."""
        return {"PLAN": self.plan is not None, **super().named()}


def command() -> Command:
    """Describe the command."""
    panel = target_panel(option(ApplyOptions, "plan", "PLAN", common=True))
    asking = Panel("Asking", (option(ApplyOptions, "yes", common=True), at_once(ApplyOptions)))
    panels = (panel, asking, json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, ApplyOptions)
    options.check_one()
    if options.plan is not None and options.conflicts is not None:
        raise InputError("--conflicts: the plan says it; plan again to change it")
    run_until_complete(_apply(options, outputs))


async def _apply(options: ApplyOptions, outputs: Outputs) -> None:
    from lightloom.control.operator import operator_of

    if options.plan is not None:
        planned = _read_plan(options)
        remaps = planned.kind == "remap"
        async with operator_of(options.region, log_of_command(), remaps=remaps) as operator:
            outputs.say(f"{planned.region}: {planned.why}")
            content: Document = {"plan": planned.model_dump(mode="json")}
            await _make(operator, planned, outputs, content, at_once=options.at_once)
        return
    from lightloom.control.change import ConflictMode

    wanted = read_wanted(options)
    conflicts = None if options.conflicts is None else ConflictMode(options.conflicts)
    async with operator_of(options.region, log_of_command()) as operator:
        document = await operator.plan(wanted.target, conflicts, wanted.demand)
        await apply_shown(
            operator, document, outputs, asks=not options.yes, at_once=options.at_once
        )


async def apply_shown(
    operator: RegionOperator,
    document: Document,
    outputs: Outputs,
    *,
    asks: bool,
    at_once: bool,
) -> None:
    """Show a plan, ask unless nobody is to be asked, and make it, if need be outside its window.

    Raises
    ------
    InputError
        If nobody can be asked.
    ControlError
        If it is refused, or not all is as wanted.
    """
    from lightloom.cli.control.show import plan_lines
    from lightloom.control.operations import PlannedChange

    outputs.say(*plan_lines(document))
    planned = PlannedChange.model_validate(document["plan"])
    change = document.get("change", {})
    is_empty = not any(change.get(key) for key in ("creates", "moves", "deletes", "replaced"))
    if "map" in document:
        dark = show_things(len(document["dark"]), "circuit")
        if asks:
            confirm(f"T{planned.why[1:]}? {dark} will go dark", "--yes")
    elif asks and not (change and is_empty):
        confirm(_question(document), _WITHOUT_ASKING[planned.kind == "roll-back"])
    await _make(operator, planned, outputs, document, checks=asks, at_once=at_once)


def _question(document: Document) -> str:
    region, change = document["region"]["name"], document.get("change")
    if change is None:
        return f"Adopt {show_things(len(document['adopts']), 'circuit')} in {region}?"
    dark = len(change["deletes"]) + len(change["moves"])
    text = f"Change {region}? {show_things(dark, 'circuit')} of {len(document['region']['held'])}"
    foreign = change["replaced"]
    others = f", and {show_things(len(foreign), 'cross-connect')} of others" if foreign else ""
    return f"{text} will go dark{others}"


async def _make(
    operator: RegionOperator,
    planned: PlannedChange,
    outputs: Outputs,
    content: Document,
    *,
    checks: bool = True,
    at_once: bool = False,
) -> None:
    from lightloom.cli.control.show import check_done, report_lines

    report = await operator.apply(planned, checks=checks, at_once=at_once)
    outputs.say(*report_lines(report))
    outputs.write_json({**content, **report})
    check_done(report["failed"], "not as wanted", f" ({report['result']})")


def _read_plan(options: ApplyOptions) -> PlannedChange:
    from lightloom.control.operations import PlannedChange
    from lightloom.inputs.files import read_file, shown_path
    from lightloom.inputs.formats import parse_json
    from lightloom.inputs.strict import check

    assert options.plan is not None
    name = shown_path(options.plan)
    content = parse_json(read_file(options.plan, "plan", _MAX_PLAN_BYTES), name)
    plan = content.get("plan") if isinstance(content, dict) else None
    if not isinstance(plan, dict):
        raise InputError(f"{name}: expected a plan of lightloom control plan --json")
    fields = PlannedChange.model_fields.items()
    missing = [key for key, field in fields if field.is_required() and key not in plan]
    if missing:
        raise InputError(
            f"{name}: a plan of another version, without {missing[0]}; make it anew with lightloom "
            "control plan --json"
        )
    return check(PlannedChange, plan, name)
