"""``lightloom control apply``: changes the circuits of a region once."""

from __future__ import annotations

from lightloom.cli.control.target import TargetOptions, run_until_complete, target_panel
from lightloom.cli.options import Command, Given

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
    return Command(panels=(target_panel(),), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    options = given.build(TargetOptions)
    options.check_one()
    run_until_complete(_apply(options))


async def _apply(options: TargetOptions) -> None:
    from lightloom.cli.control.show import change_lines, region_line, report_lines
    from lightloom.cli.control.target import wanted_circuits
    from lightloom.control.change import ConflictMode
    from lightloom.control.refusals import ControlError
    from lightloom.control.running import open_region, reason_of, running

    region = open_region(options.region)
    if options.conflicts is not None:
        change = region.file.change.model_copy(
            update={"conflicts": ConflictMode(options.conflicts)}
        )
        region.controller.region = region.file.model_copy(update={"change": change})
    async with running(region) as controller:
        print(region_line(controller))
        if options.adopt:
            found = await controller.adopt(reason_of("adopt"))
            print(f"adopted: {len(found)} circuits")
            return
        wanted, why = wanted_circuits(controller, options)
        kind = "reapply" if options.reapply else "apply"
        report = await controller.apply(wanted, reason_of(why), kind)
        print(*change_lines(report.change), sep="\n")
        print(*report_lines(report), sep="\n")
        if report.failed:
            raise ControlError(
                f"{len(report.failed)} circuits are not as wanted ({report.result}); see above"
            )
