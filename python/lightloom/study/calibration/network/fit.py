"""Efficiencies and start-ups with which the simulator's collectives take the measured times.

Each measured size is simulated as ``lightloom collective`` does it, on a non-blocking fat-tree of
the same servers, so that what is fitted is what a comparison uses. A tier of links, inside servers
or between them, has efficiencies (shares of the vendor's rate) and start-ups. The start-ups of one
kind of collective keep their ratios and are scaled by one factor, since one number of GPUs cannot
tell them apart. A time is nearly linear in the factors and in one over each efficiency: steps of
Gauss and Newton, least squares of relative errors, with Huber's weights, so that a size that went
wrong counts little. Links inside servers come first, and are held for those between them.

An all-reduce is what the simulator takes for the fastest at its size: a ring, a tree, or switches
that add up, whose efficiency is then fitted; or rings alone, where these explain the measured times
better or the command above a table says so (``NCCL_ALGO``, ``NCCL_NVLS_ENABLE=0``).

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
#: by how much less of an efficiency it is tried whether a time depends on it
_LESS = 0.05
#: the efficiency and the start-ups that set the time of a test, by tier
LINKS: dict[tuple[Tier, Test], tuple[str, tuple[str, ...]]] = {}
_GATHERS = ("nvlink_gather_efficiency", ("nvlink_gather_start_up_s", "nvlink_gather_peer_s"))
_REDUCE = "nvlink_reduce_efficiency"
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
        if reading.is_ring:
            links = _rings(links)
        sizes = np.array([point.size_bytes for point in reading.points])
        test = reading.test
        if test == "broadcast":
            # each GPU passes all of it on, as it does all but its own part of a gather
            test, sizes = "all-gather", sizes * gpus / (gpus - 1)
        # what is larger takes as long as parts of it, one after another: start-ups are nothing
        parts = np.maximum(1.0, sizes / LARGEST)
        scenario = CollectiveScenario.model_validate(
            {
                "collective": test,
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
    fitted = _fit_tiers(readings, machines, before)
    points = []
    for reading in readings:
        is_ring = reading.servers.tier in fitted.rings
        old, new = (
            machines.times(reading, _rings(links) if is_ring else links)
            for links in (before, fitted.links)
        )
        for point, before_s, after_s in zip(reading.points, old, new, strict=True):
            weight = fitted.weights.get(_key(reading, point))
            points.append(
                FittedSize(
                    reading, point, float(before_s), float(after_s), weight is not None,
                    1.0 if weight is None else weight,
                )
            )  # fmt: skip
    remarks = (*fitted.remarks, *_added_up(readings, machines, fitted))
    held_out = _held_out(readings, machines, before)
    changed = tuple(dict.fromkeys(fitted.changed))
    return FittedLinks(before, fitted.links, changed, tuple(points), held_out, remarks)


def _rings(links: Interconnect) -> Interconnect:
    """The same without switches that add up."""
    return replace(links, nvlink_reduce_efficiency=0.0)


@dataclass(frozen=True)
class _Fitted:
    """Links of all tiers, what changed, and the tiers whose all-reduces rings explain better."""

    links: Interconnect
    changed: tuple[str, ...]
    weights: Mapping[_Key, float]
    rings: frozenset[Tier]
    remarks: tuple[str, ...]


def _fit_tiers(readings: Sequence[Reading], machines: Machines, before: Interconnect) -> _Fitted:
    """Fit one tier after the other, each by the algorithm that explains its all-reduces best."""
    found, changed, remarks = before, list[str](), list[str]()
    weights: dict[_Key, float] = {}
    rings = set[Tier]()
    tiers: tuple[Tier, ...] = ("inside servers", "between servers")
    for tier in tiers:
        own = [r for r in readings if r.servers.tier == tier]
        starts = [found]
        reduced = [r for r in own if r.test == "all-reduce"]
        if found.nvlink_reduce_efficiency and reduced:
            is_said = all(reading.is_ring for reading in reduced)
            starts = [_rings(found)] if is_said else [found, _rings(found)]
        solved = []
        for start in starts:
            problem = _Problem.of(own, machines, start, changed)
            if problem is not None:
                links, of_sizes = problem.solve()
                solved.append((problem.error(links), problem, links, of_sizes))
        if not solved:
            continue
        _, problem, links, of_sizes = min(solved, key=lambda each: each[0])
        if found.nvlink_reduce_efficiency and not problem.start.nvlink_reduce_efficiency:
            rings.add(tier)
            reduce = found.nvlink_reduce_efficiency
            links = replace(links, nvlink_reduce_efficiency=reduce)
        found = links
        weights |= of_sizes
        changed += problem.names
        remarks += problem.remarks(found)
    return _Fitted(found, tuple(changed), weights, frozenset(rings), tuple(remarks))


def _added_up(readings: Sequence[Reading], machines: Machines, fitted: _Fitted) -> list[str]:
    """What a comparison simulates otherwise than the rings that were measured and fitted."""
    shares = []
    for reading in readings:
        if reading.servers.tier in fitted.rings and reading.test == "all-reduce":
            ring_s, found_s = (
                machines.times(reading, links)[-1] for links in (_rings(fitted.links), fitted.links)
            )
            shares.append(float(1 - found_s / ring_s))
    if max(shares, default=0.0) < _ADDED_UP:
        return []
    return [
        "all-reduces were measured as rings, and are simulated as switches of a server add up "
        f"(NVLink SHARP), in up to {max(shares):.0%} less time; where NCCL sends rings in "
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
        cls,
        readings: Sequence[Reading],
        machines: Machines,
        start: Interconnect,
        held: Sequence[str] = (),
    ) -> _Problem | None:
        """What readings of one tier say something of, but ``held``; ``None`` without any."""
        if not readings:
            return None
        readings = [replace(reading, points=_used(reading)) for reading in readings]
        efficiencies, start_ups = dict[str, None](), dict[tuple[str, ...], bool]()
        for reading in readings:
            efficiency, names = LINKS[reading.servers.tier, reading.test]
            efficiencies[efficiency] = None
            start_ups[names] = start_ups.get(names, False) or reading.tells_start_up
            if reading.test == "all-reduce" and start.nvlink_reduce_efficiency:
                efficiencies[_REDUCE] = None
        for name in held:
            efficiencies.pop(name, None)
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

    def error(self, links: Interconnect) -> float:
        """Mean absolute error of all sizes."""
        measured = np.array([p.time_s for reading in self.readings for p in reading.points])
        times = np.concatenate([self.machines.times(reading, links) for reading in self.readings])
        return float(np.mean(np.abs(times / measured - 1)))

    def solve(self) -> tuple[Interconnect, dict[_Key, float]]:
        """The links, and how much each size counted; what no size shows is kept."""
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
            return self._is_rate_seen(names[0], found)
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

    def _is_rate_seen(self, name: str, found: Interconnect) -> bool:
        """Whether a time depends on an efficiency, as fitted or as it was."""
        for links in (found, replace(found, **{name: getattr(self.start, name)})):
            less = replace(links, **{name: getattr(links, name) * (1 - _LESS)})
            for reading in self.readings:
                moved = self.machines.times(reading, less) / self.machines.times(reading, links)
                if (np.abs(moved - 1) > SEEN * _LESS).any():
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
        why = {True: "no time depends on it", False: "no size was small enough"}
        lines = [
            f"kept as packaged, since {why[names[0].endswith('efficiency')]}: {', '.join(names)}"
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
        fitted = _fit_tiers(kept, machines, before)
        for reading in left:
            measured = np.array([point.time_s for point in reading.points])
            is_ring = reading.servers.tier in fitted.rings
            links = _rings(fitted.links) if is_ring else fitted.links
            errors += list(np.abs(machines.times(reading, links) / measured - 1))
    return float(np.mean(errors))
