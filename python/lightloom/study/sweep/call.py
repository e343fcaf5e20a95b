"""What a call of a sweep says beside its study: where it goes, who computes, and for how long."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.inputs.strict import File, Name, Strict, Switch, Whole, quantity


class SweepCallOptions(Strict):
    """Which study, who computes it, and where the results go."""

    study: File = Field(description="A study (TOML) with a table [sweep.axes].")
    workers: Annotated[Whole, Field(le=4096)] | None = Field(
        None, description="Processes at once; by default one for each core of the machine."
    )
    on: Name | None = Field(
        None,
        description="Ray cluster that computes: 'ray' for that of this machine, or"
        " ray://HOST:PORT; local processes by default.",
    )
    out: File = Field(description="Folder of the results.")
    resume: Switch = Field(
        False, description="Go on in a folder with results: run what is missing."
    )
    budget_s: Annotated[float, quantity("second"), Field(gt=0)] | None = Field(
        None, description="Begin no point after this time, such as '30 min'."
    )
    yes: Switch = Field(False, description="Do not ask.")
