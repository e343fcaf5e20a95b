"""Efficiencies and start-ups with which the simulator's collectives take the measured times.

Each measured size is simulated as ``lightloom collective`` does it, on a non-blocking fat-tree of
the same servers, so that what is fitted is what a comparison uses. A tier of links, inside servers
or between them, has efficiencies (shares of the vendor's rate) and start-ups. The start-ups of one
kind of collective keep their ratios and are scaled by one factor, since one number of GPUs cannot
tell them apart. A time is nearly linear in the factors and in one over each efficiency: steps of
Gauss and Newton, least squares of relative errors, with Huber's weights, so that a size that went
wrong counts little. Links inside servers come first, and are held for those between them.

Where sizes say nothing of a start-up (none of them is small enough), it stays as it was. Sizes
below :data:`SMALLEST` are not fitted: NCCL has protocols of lower latency for them, which the
model has not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.fabric import Cluster
from lightloom.fabric.interconnect import Interconnect
from lightloom.models import load_model
from lightloom.models.model import Model
from lightloom.study.calibration.network.readings import (
    COPIES,
    RINGS,
    SIZES,
    SMALLEST,
    SPAN,
    MeasuredSize,
    Reading,
    Servers,
    Test,
    Tier,
)
from lightloom.study.collective import CollectiveScenario, run_collectives
from lightloom.units import show_bytes

Floats = npt.NDArray[np.float64]
_Key = tuple[str, Test, Servers, MeasuredSize]

#: bytes of a buffer up to which it is simulated whole
LARGEST = 2 << 30
#: share of the time that a start-up must have at one size, to be fitted
SEEN = 0.05
#: relative errors up to so many of their usual size count in full, and that size at least
_HUBER, _USUAL = 1.345, 0.01
_TURNS, _NEAR, _STEP = 10, 1e-3, 0.02
#: the efficiency and the start-ups that set the time of a test, by tier
LINKS: dict[tuple[Tier, Test], tuple[str, tuple[str, ...]]] = {}
_GATHERS = ("nvlink_gather_efficiency", ("nvlink_gather_start_up_s", "nvlink_gather_peer_s"))
_COPIES = ("nvlink_all_to_all_efficiency", ("nvlink_all_to_all_start_up_s",))
_MESSAGES = ("nic_efficiency", ("message_start_up_s",))
_ALL_TO_ALLS = (
    "nic_efficiency",
    ("all_to_all_start_up_s", "all_to_all_peer_s", "all_to_all_mixed_s"),
)
for _ring in RINGS:
    LINKS["inside servers", _ring] = _GATHERS
    LINKS["between servers", _ring] = _MESSAGES
for _moved in COPIES:
    LINKS["inside servers", _moved] = _COPIES
    LINKS["between servers", _moved] = _ALL_TO_ALLS
LINKS["inside servers", "send-receive"] = _COPIES
LINKS["between servers", "send-receive"] = _MESSAGES
#: share of a time from which it is said that a comparison simulates another
_ADDED_UP = 0.02


@dataclass(frozen=True)
class FittedSize:
    """One size: as measured, and as simulated before and after.

    Attributes
    ----------
    reading, point
        Which one.
    before_s, after_s
        Simulated with the links as they were, and as fitted.
    is_fitted
        Whether it took part.
    weight
        How much it counted, 1 for all but those that are far from the others.
    """

    reading: Reading
    point: MeasuredSize
    before_s: float
    after_s: float
    is_fitted: bool
    weight: float

    @property
    def before(self) -> float:
        """Relative error before."""
        return self.before_s / self.point.time_s - 1

    @property
    def after(self) -> float:
        """Relative error after."""
        return self.after_s / self.point.time_s - 1


@dataclass(frozen=True)
class FittedLinks:
    """What links reach on a cluster.

    Attributes
    ----------
    before, after
        Links as they were, and as fitted.
    changed
        Names of the fitted values.
    points
        Every size of every reading.
    held_out
        Mean absolute error of sizes that a fit without them did not see; ``None`` where there are
        too few to leave some out.
    remarks
        What was kept and why, a sentence each.
    """

    before: Interconnect
    after: Interconnect
    changed: tuple[str, ...]
    points: tuple[FittedSize, ...]
    held_out: float | None
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Machines:
    """The servers that were measured: GPU by name, rate of a NIC, NICs of a full server.

    ``nics_per_server`` is of a server of ``gpus_per_server`` GPUs; ``fabric`` joins them.
    """

    gpu: str
    rate_gbps: float
    gpus_per_server: int
    nics_per_server: int
    fabric: str = "fat-tree"

    def times(self, reading: Reading, links: Interconnect) -> Floats:
        """Simulated seconds of every size of a reading."""
        if reading.test == "send-receive":
            return self._sent(reading, links)
        size = reading.servers.gpus_per_server
        cluster = {
            "gpu": self.gpu,
            "rate_gbps": self.rate_gbps,
            "gpus_per_server": size,
            "nics_per_server": -(-self.nics_per_server * size // self.gpus_per_server),
        }
        gpus = reading.servers.gpus
        if reading.tokens is not None:
            return self._layer(reading, cluster, links)
        is_ring = reading.test in RINGS
        sizes = np.array([point.size_bytes for point in reading.points])
        # what is larger takes as long as parts of it, one after another: start-ups are nothing
        parts = np.maximum(1.0, sizes / LARGEST)
        scenario = CollectiveScenario.model_validate(
            {
                "collective": reading.test,
                "gpus": gpus,
                "size_bytes": tuple(max(round(size), gpus) for size in sizes / parts),
                "fabrics": (self.fabric,),
                "fabric_options": {self.fabric: {"all_to_all": "flat"}} if is_ring else {},
                "cluster": cluster,
            }
        )
        return parts * [found.time_s for found in run_collectives(scenario, links=links)]

    def _layer(
        self, reading: Reading, cluster: Mapping[str, object], links: Interconnect
    ) -> Floats:
        """Of a dispatch or combine as DeepEP does it: over the rail of the sender."""
        assert reading.tokens is not None
        gpus, size = reading.servers.gpus, reading.servers.gpus_per_server
        element = reading.tokens.element_bytes
        scenario = CollectiveScenario.model_validate(
            {
                "collective": "all-to-all",
                "gpus": gpus,
                "model": "deepseek-v3",
                "tokens": reading.tokens.tokens,
                "fabrics": (self.fabric,),
                "fabric_options": {self.fabric: {"all_to_all": "rail"}} if gpus > size else {},
                "cluster": cluster,
                "demand": {
                    "source": "balanced",
                    "dispatch_element_bytes": element,
                    "combine_element_bytes": element,
                },
            }
        )
        found = run_collectives(scenario, links=links, model=_model_of(reading))
        seconds = {timed.collective: timed.time_s for timed in found}
        return np.full(len(reading.points), seconds[reading.test])

    def _sent(self, reading: Reading, links: Interconnect) -> Floats:
        """Each GPU sends to the next: of those, the one between servers is waited for."""
        cluster = Cluster.of(gpus=2, rate_gbps=self.rate_gbps, gpu=self.gpu)
        size = np.array([point.size_bytes for point in reading.points])
        if reading.servers.tier == "inside servers":
            rate = cluster.nvlink_gbps * links.nvlink_all_to_all_efficiency
            return links.nvlink_all_to_all_start_up_s + 8e-9 * size / rate
        rate = self.rate_gbps * links.nic_efficiency
        return links.message_start_up_s + 8e-9 * size / rate


def _model_of(reading: Reading) -> Model:
    tokens, servers = reading.tokens, reading.servers
    assert tokens is not None
    return replace(
        load_model("deepseek-v3"),
        hidden_size=tokens.hidden,
        experts_per_token=tokens.top_k,
        num_experts=tokens.experts,
        num_groups=-(-servers.gpus // servers.gpus_per_server),
        top_groups=tokens.top_groups,
    )


def fit_links(readings: Sequence[Reading], machines: Machines, before: Interconnect) -> FittedLinks:
    """Fit links to readings.

    Parameters
    ----------
    readings
        What was measured.
    machines
        On which servers.
    before
        Links as they are without it.

    Raises
    ------
    InputError
        If a reading has too few sizes, or none that says something of a rate.
    """
    for reading in readings:
        _check(reading)
    # rings are what is fitted: switches that add up would hide how fast links are
    packaged, before = before, replace(before, nvlink_reduce_efficiency=0.0)
    found, changed, remarks = before, list[str](), list[str]()
    weights: dict[_Key, float] = {}
    tiers: tuple[Tier, ...] = ("inside servers", "between servers")
    for tier in tiers:
        problem = _Problem.of([r for r in readings if r.servers.tier == tier], machines, found)
        if problem is None:
            continue
        found, own = problem.solve()
        weights |= own
        changed += problem.names
        remarks += problem.remarks(found)
    points = []
    for reading in readings:
        old, new = machines.times(reading, before), machines.times(reading, found)
        for point, before_s, after_s in zip(reading.points, old, new, strict=True):
            weight = weights.get(_key(reading, point))
            points.append(
                FittedSize(
                    reading, point, float(before_s), float(after_s), weight is not None,
                    1.0 if weight is None else weight,
                )
            )  # fmt: skip
    held_out = _held_out(readings, machines, before)
    rings = found
    found = replace(found, nvlink_reduce_efficiency=packaged.nvlink_reduce_efficiency)
    remarks += _added_up(readings, machines, rings, found)
    return FittedLinks(
        packaged, found, tuple(dict.fromkeys(changed)), tuple(points), held_out, tuple(remarks)
    )


def _added_up(
    readings: Sequence[Reading], machines: Machines, rings: Interconnect, found: Interconnect
) -> list[str]:
    """What a comparison simulates otherwise than the rings that were measured and fitted."""
    shares = []
    for reading in readings:
        if (reading.servers.tier, reading.test) == ("inside servers", "all-reduce"):
            ring_s, found_s = (machines.times(reading, links)[-1] for links in (rings, found))
            shares.append(float(1 - found_s / ring_s))
    if max(shares, default=0.0) < _ADDED_UP:
        return []
    return [
        "all-reduces inside a server are simulated as its switches add up (NVLink SHARP), in up to "
        f"{max(shares):.0%} less time than the rings that are fitted; where NCCL sends rings in "
        "training, too, add reduce_efficiency with the value 0 to [nvlink] of the profile"
    ]


def _key(reading: Reading, point: MeasuredSize) -> _Key:
    """A size, whatever others of its reading take part."""
    return reading.name, reading.test, reading.servers, point


def _used(reading: Reading) -> tuple[MeasuredSize, ...]:
    """The sizes that are fitted."""
    if reading.tokens is not None:
        return reading.points
    return tuple(point for point in reading.points if point.size_bytes >= SMALLEST)


def _check(reading: Reading) -> None:
    """Refuse a table of too few sizes; of tokens there is but one, of a step what it had."""
    used = _used(reading)
    if reading.tokens is not None or (reading.any_sizes and used):
        return
    if used and replace(reading, points=used).tells_start_up:
        return
    span = f", up to {show_bytes(used[-1].size_bytes)}" if used else ""
    raise InputError(
        f"{reading.name}: {len(used)} size{'s' * (len(used) != 1)} of 256 KiB or more{span}: "
        f"expected {SIZES} or more, the largest {SPAN} times the smallest; measure with -b 256K "
        "-e 1G -f 2"
    )


@dataclass
class _Problem:
    """What is fitted of one tier.

    Each unknown is an efficiency, or start-ups with a common factor; ``kept`` start-ups are none.
    """

    readings: Sequence[Reading]
    machines: Machines
    start: Interconnect
    unknowns: list[tuple[str, ...]]
    kept: list[tuple[str, ...]]

    @classmethod
    def of(
        cls, readings: Sequence[Reading], machines: Machines, start: Interconnect
    ) -> _Problem | None:
        """What readings of one tier say something of; ``None`` without any."""
        if not readings:
            return None
        readings = [replace(reading, points=_used(reading)) for reading in readings]
        efficiencies, start_ups = dict[str, None](), dict[tuple[str, ...], bool]()
        for reading in readings:
            efficiency, names = LINKS[reading.servers.tier, reading.test]
            efficiencies[efficiency] = None
            start_ups[names] = start_ups.get(names, False) or reading.tells_start_up
        unknowns: list[tuple[str, ...]] = [(name,) for name in efficiencies]
        unknowns += [names for names, told in start_ups.items() if told]
        kept = [names for names, told in start_ups.items() if not told]
        return cls(readings, machines, start, unknowns, kept)

    @property
    def names(self) -> list[str]:
        """The values that change."""
        return [name for names in self.unknowns for name in names]

    def links(self, values: Floats) -> Interconnect:
        """Links with these values: one over each efficiency, factors of start-ups."""
        changed = {}
        for names, value in zip(self.unknowns, values, strict=True):
            for name in names:
                is_rate = name.endswith("efficiency")
                own = getattr(self.start, name)
                changed[name] = float(1 / value) if is_rate else float(own * value)
        return replace(self.start, **changed)

    def times(self, values: Floats) -> Floats:
        """Simulated seconds of all sizes."""
        links = self.links(values)
        return np.concatenate([self.machines.times(reading, links) for reading in self.readings])

    def solve(self) -> tuple[Interconnect, dict[_Key, float]]:
        """The links, and how much each size counted; start-ups that no size shows are kept."""
        found, weights = self._solve()
        unseen = [names for names in self.unknowns if not self._is_seen(names, found)]
        if not unseen:
            return found, weights
        self.unknowns = [names for names in self.unknowns if names not in unseen]
        self.kept += unseen
        return self._solve()

    def _is_seen(self, names: tuple[str, ...], found: Interconnect) -> bool:
        """Whether these start-ups, as fitted or as they were, are a share of a time that counts."""
        if names[0].endswith("efficiency"):
            return True
        old = {name: getattr(self.start, name) for name in names}
        zero = replace(found, **dict.fromkeys(names, 0.0))
        for reading in self.readings:
            measured = np.array([point.time_s for point in reading.points])
            without = self.machines.times(reading, zero)
            for links in (found, replace(found, **old)):
                taken = self.machines.times(reading, links) - without
                if (taken / measured >= SEEN).any():
                    return True
        return False

    def _solve(self) -> tuple[Interconnect, dict[_Key, float]]:
        keys = [_key(reading, point) for reading in self.readings for point in reading.points]
        measured = np.array([point.time_s for *_, point in keys])
        is_rate = np.array([names[0].endswith("efficiency") for names in self.unknowns])
        low = np.where(is_rate, 1.0, 0.0)
        values = np.array(
            [1 / getattr(self.start, names[0]) if rate else 1.0
             for names, rate in zip(self.unknowns, is_rate, strict=True)]
        )  # fmt: skip
        weights = np.ones(len(keys))
        for _ in range(_TURNS):
            now = self.times(values)
            error = now / measured - 1
            weights = huber(error)
            columns = []
            for number in range(len(values)):
                moved = values.copy()
                moved[number] += _STEP
                columns.append((self.times(moved) - now) / _STEP / measured)
            root = np.sqrt(weights)
            matrix = np.column_stack(columns) * root[:, None]
            # the new values themselves, within their bounds
            wanted = matrix @ values - error * root
            found = bounded(matrix, wanted, low)
            done = (np.abs(found - values) <= _NEAR * np.maximum(values, 1)).all()
            values = found
            if done:
                break
        return self.links(values), dict(zip(keys, map(float, weights), strict=True))

    def remarks(self, found: Interconnect) -> list[str]:
        """What stayed as it was, and what would have to be faster than the vendor's rate."""
        lines = [
            f"kept as packaged, since no size was small enough: {', '.join(names)}"
            for names in self.kept
        ]
        lines += [
            f"{name} is 1, and measured times are shorter still: switches that reduce "
            "(NVLink SHARP), or a tree, send less than rings do; measure all_gather_perf"
            for name in self.names
            if name.endswith("efficiency") and getattr(found, name) > 1 - 1e-6
        ]
        if all(reading.tokens is not None for reading in self.readings):
            lines.append(
                f"{self.unknowns[0][0]} holds what kernels that send tokens lose, too, and rings "
                "will take it as their own: give a table of all_gather_perf in addition"
            )
        return lines


def bounded(matrix: Floats, wanted: Floats, low: Floats) -> Floats:
    """Least squares of a few unknowns, none of which is below its bound.

    Every choice of those that are at their bounds is tried: the best of the solutions that keep all
    bounds is that of the problem.

    Parameters
    ----------
    matrix, wanted
        As of ``numpy.linalg.lstsq``, ``(number, unknowns)`` and ``(number,)``.
    low
        The bounds.
    """
    best, least = low.copy(), float(np.sum((matrix @ low - wanted) ** 2))
    for free in itertools.product((False, True), repeat=len(low)):
        chosen = np.array(free)
        if not chosen.any():
            continue
        values = low.copy()
        rest = wanted - matrix[:, ~chosen] @ low[~chosen]
        values[chosen] = np.linalg.lstsq(matrix[:, chosen], rest, rcond=None)[0]
        error = float(np.sum((matrix @ values - wanted) ** 2))
        if (values >= low).all() and error < least:
            best, least = values, error
    return best


def huber(errors: Floats) -> Floats:
    """Weights of errors: 1, and less beyond what is usual among them.

    The usual size is 1.4826 times their median absolute value, as of a normal distribution
    (P. J. Huber, Robust Statistics, 1981).
    """
    usual = max(1.4826 * float(np.median(np.abs(errors))), _USUAL)
    return np.minimum(1.0, _HUBER * usual / np.maximum(np.abs(errors), 1e-12))


def _held_out(
    readings: Sequence[Reading], machines: Machines, before: Interconnect
) -> float | None:
    """Mean absolute error of every second size, fitted to the others, both ways."""
    halves = []
    for first in (0, 1):
        kept = [replace(r, points=_used(r)[first::2]) for r in readings]
        left = [replace(r, points=_used(r)[1 - first :: 2]) for r in readings]
        if any(len(r.points) < SIZES for r in kept):
            return None
        halves.append((kept, left))
    errors: list[float] = []
    for kept, left in halves:
        found = before
        for tier in ("inside servers", "between servers"):
            problem = _Problem.of([r for r in kept if r.servers.tier == tier], machines, found)
            found = found if problem is None else problem.solve()[0]
        for reading in left:
            measured = np.array([point.time_s for point in reading.points])
            errors += list(np.abs(machines.times(reading, found) / measured - 1))
    return float(np.mean(errors))
