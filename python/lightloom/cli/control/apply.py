"""``lightloom control apply``: changes the circuits of a region once."""

from __future__ import annotations

from typing import Any

from lightloom.cli.control.target import (
    TargetOptions,
    open_for_command,
    outputs_and_options,
    read_target,
    run_until_complete,
    target_panel,
    wanted_circuits,
)
from lightloom.cli.options import Command, CommandCall
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.units import show_things

EXAMPLES = (
    "lightloom control apply region.toml --demand-file demand.npy",
    "lightloom control apply region.toml --circuits circuits.txt",
    "lightloom control apply region.toml --reapply --conflicts overwrite",
    "lightloom control apply region.toml --clear",
)
NOTES = (
    "Once begun, a change is carried through, also on Ctrl-C. It is refused while another "
    "controller holds the lease of the region."
)


def command() -> Command:
    """Describe the command."""
    return Command(panels=(target_panel(), json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, TargetOptions)
    options.check_one()
    run_until_complete(_apply(options, outputs))


async def _apply(options: TargetOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.documents import change_as_json, region_as_json, report_as_json
    from lightloom.cli.control.show import change_lines, region_line, report_lines
    from lightloom.control.change import ConflictMode
    from lightloom.control.refusals import ControlError
    from lightloom.control.running import reason_of, running

    region = open_for_command(options.region)
    target = read_target(region, options)
    if options.conflicts is not None:
        change = region.file.change.model_copy(
            update={"conflicts": ConflictMode(options.conflicts)}
        )
        region.controller.region = region.file.model_copy(update={"change": change})
    async with running(region) as controller:
        outputs.say(region_line(controller))
        content: dict[str, Any] = {"region": region_as_json(controller)}
        if options.adopt:
            adopted = await controller.adopt(reason_of("adopt"))
            outputs.say(f"adopted: {show_things(len(adopted), 'circuit')}")
            outputs.write_json({**content, "adopts": [str(circuit) for circuit in sorted(adopted)]})
            return
        wanted, why = wanted_circuits(controller, options, target)
        kind = "reapply" if options.reapply else "apply"
        report = await controller.apply(wanted, reason_of(why), kind)
        outputs.say(why, *change_lines(report.change), *report_lines(report))
        content |= {"why": why, "change": change_as_json(report.change)}
        outputs.write_json({**content, **report_as_json(report)})
        if report.failed:
            raise ControlError(
                f"not as wanted: {show_things(len(report.failed), 'circuit')} ({report.result}); "
                "see above"
            )
