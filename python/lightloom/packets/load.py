"""Flows that arrive at random, as many as load the links of hosts by a share.

Hosts send to each other at times that are a Poisson process, each as often as its rate is large
and to others as often as theirs are; sizes are drawn from a published distribution
(``flow_sizes.toml``). Assumes hosts that do not wait for each other, and none that has half of the
rate of all: more would be sent to it than it is asked to take.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from lightloom.demand.streams import Stream
from lightloom.errors import InputError, expected_one_of
from lightloom.inputs.formats import parse_toml
from lightloom.packets.flows import MAX_FLOWS, Flows, make_flows
from lightloom.units import show_time

#: names of the distributions of flow sizes
FLOW_SIZES = ("websearch", "hadoop", "storage")


class SizeDistribution(BaseModel):
    """A cumulative distribution of flow sizes, and where it is from.

    Attributes
    ----------
    points
        ``(n, 2)``: bytes, and the percentage of flows that are no larger; linear in between.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    date: str
    points: tuple[tuple[float, float], ...]

    @property
    def mean_bytes(self) -> float:
        """The mean size: between two points sizes are uniform."""
        sizes, percent = np.array(self.points).T
        return float(((sizes[1:] + sizes[:-1]) / 2 * np.diff(percent)).sum() / 100)

    def sizes(self, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The sizes, at least a byte, than which these shares of flows, 0 to 1, are smaller."""
        sizes, percent = np.array(self.points).T
        drawn = np.rint(np.interp(100 * shares, percent, sizes))
        return np.asarray(np.maximum(1, drawn), np.int64)


@cache
def _distributions() -> dict[str, Any]:
    content = resources.files(__package__).joinpath("flow_sizes.toml").read_bytes()
    return parse_toml(content, "flow_sizes.toml")


def size_distribution(name: str) -> SizeDistribution:
    """A published distribution of flow sizes.

    Raises
    ------
    InputError
        If there is none of this name.

    Examples
    --------
    >>> size_distribution("websearch").mean_bytes
    1711250.0
    """
    if name not in FLOW_SIZES:
        raise InputError(f"flow sizes {name}: {expected_one_of(name, FLOW_SIZES)}")
    return SizeDistribution(**_distributions()[name])


def random_load(
    rates_gbps: npt.NDArray[np.float64], *, load: float, sizes: str, duration_s: float, seed: int
) -> Flows:
    """Flows that begin within a time and load what hosts send by a share of their rate.

    Parameters
    ----------
    rates_gbps
        ``(hosts,)``: what each host can send, and receive, over the links that flows take.
    load
        Share of it that payload takes in the mean, above 0.
    sizes
        Name of a distribution of :data:`FLOW_SIZES`.
    duration_s
        Time within which flows begin.
    seed
        Seed of starts, sizes and ends.

    Raises
    ------
    InputError
        If there is no such distribution, or there would be no flow or too many.
    """
    distribution = size_distribution(sizes)
    hosts, total_gbps = len(rates_gbps), float(rates_gbps.sum())
    expected = load * total_gbps * 1e9 / 8 / distribution.mean_bytes * duration_s
    if expected > MAX_FLOWS:
        raise InputError(
            f"a load of {load:g} for {show_time(duration_s)} is {expected:,.0f} flows; expected at "
            f"most {MAX_FLOWS:,}: shorten the time"
        )
    draw = Stream(seed, "packets: load").at(0)
    count = int(draw.poisson(expected))
    if hosts < 2 or not count:
        raise InputError(
            f"a load of {load:g} for {show_time(duration_s)} begins {expected:.2g} flows in the "
            "mean, and none was drawn; expected 2 hosts and a time of several flows"
        )
    start_s = np.sort(draw.uniform(0, duration_s, count))
    source, destination = _ends(draw, rates_gbps, count)
    name = f"load of {load:g} by {sizes}"
    return make_flows(
        source, destination, distribution.sizes(draw.random(count)), start_s, name=name
    )


def _ends(
    draw: np.random.Generator, rates_gbps: npt.NDArray[np.float64], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sources, as likely as their rates are large, and likewise another host for each."""
    hosts = len(rates_gbps)
    if (rates_gbps == rates_gbps[0]).all():
        source = draw.integers(hosts, size=count)
        return source, (source + draw.integers(1, hosts, size=count)) % hosts
    ends = np.concatenate([[0], np.cumsum(rates_gbps)])
    source = np.searchsorted(ends, draw.uniform(0, ends[-1], count), side="right") - 1
    # a place on the line of all rates behind that of the source, which is left out
    others = ends[-1] - rates_gbps[source]
    place = (ends[source + 1] + draw.uniform(0, 1, count) * others) % ends[-1]
    destination = np.searchsorted(ends, place, side="right") - 1
    return source, destination
