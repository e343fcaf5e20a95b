"""``lightloom example``: small files to try the other commands with."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.inputs.strict import Name, Strict

EXAMPLES = (
    "lightloom example",
    "lightloom example study > study.toml",
    "lightloom example demand > demand.npy",
    "lightloom example routing > routing.jsonl",
    "lightloom example eight-planes > eight-planes.toml",
)


class ExampleOptions(Strict):
    """Which file is written."""

    name: Name | None = Field(None, description="A name of the list, which is shown by default.")


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Arguments", (option(ExampleOptions, "name", "NAME", common=True),)),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
    )


def _run(call: CommandCall) -> None:
    import sys

    from lightloom.errors import InputError
    from lightloom.samples import SAMPLES, read_sample

    outputs = call.take(Outputs, "output")
    outputs.check()
    name = call.build(ExampleOptions).name
    if name is None:
        listed = [{"name": key, **vars(sample)} for key, sample in SAMPLES.items()]
        outputs.write_json({"examples": listed})
        names = max(map(len, SAMPLES))
        files = max(len(sample.file) for sample in SAMPLES.values())
        outputs.say(
            *(
                f"lightloom example {key:{names}} > {sample.file:{files}}  {sample.summary}"
                for key, sample in SAMPLES.items()
            )
        )
        return
    if outputs.json_target is not None:
        raise InputError(f"--json is of the list; write the file with: lightloom example {name}")
    content = read_sample(name)
    if b"\0" in content and sys.stdout.isatty():
        raise InputError(f"example {name} is no text: write it to a file, with > {name}")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
