"""What experiment.toml and tuned.toml say, checked before anything is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lightloom.errors import InputError
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import Name, Number, Strict, Whole, check, quantity

HERE = Path(__file__).parent
FILE, TUNED = HERE / "experiment.toml", HERE / "tuned.toml"

Seed = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
#: parameters of a DCQCN: its own by their names, those of ECN after ``ecn_``
Parameters = dict[str, Number]


class Demand(Strict):
    """The matrices of the figure."""

    count: Whole
    seed: Seed
    experts: Whole
    tokens: Whole
    token_bytes: Whole
    logit_sd: Positive


class Sizes(Strict):
    """A full packet."""

    mtu_bytes: Whole
    header_bytes: Whole


class Links(Strict):
    """Links between GPUs and the switch."""

    rate_gbps: Whole
    link_delay_s: Annotated[float, quantity("second")]
    sizes: Sizes


class Circuits(Strict):
    """Times to switch, the first of them that of the table of gains."""

    delays_s: Annotated[tuple[Annotated[float, quantity("second")], ...], Field(min_length=1)]


class Packets(Strict):
    """A packet simulation, of the first ``count`` matrices.

    ``tuned`` names its section of tuned.toml; without it the parameters are the profile's.
    """

    title: Name
    transport: Literal["dcqcn", "roce"]
    count: Whole
    tuned: Name | None = None
    sizes: Sizes | None = None


class Tuning(Strict):
    """How tune.py searches; ``ranges`` by section of tuned.toml, the first ones for all."""

    seed: Seed
    matrices: Whole
    trials: Whole
    sampler_seed: Seed
    ranges: dict[str, dict[str, tuple[Positive, Positive]]]


class Settings(Strict):
    """The experiment's file."""

    matrices: Demand
    network: Links
    circuits: Circuits
    packet: dict[str, Packets]
    tuning: Tuning


def load(path: Path = FILE) -> Settings:
    """Read the experiment's file.

    Raises
    ------
    InputError
        One line that names the first key that is wrong, missing or unknown.
    """
    found = check(Settings, read_toml(path, "experiment"), str(path))
    for name, packets in found.packet.items():
        if packets.count > found.matrices.count:
            raise InputError(
                f"{path}: packet.{name}.count = {packets.count}: "
                f"expected at most matrices.count = {found.matrices.count}"
            )
        if packets.tuned not in (None, *found.tuning.ranges):
            raise InputError(f"{path}: packet.{name}.tuned = {packets.tuned}: not in tuning.ranges")
    return found


def tuned(name: str | None) -> Parameters:
    """A section of tuned.toml, which tune.py writes; no parameters for no name."""
    return {} if name is None else read_toml(TUNED, "set of parameters")[name]
