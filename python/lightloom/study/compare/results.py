"""What a comparison found: plain data that tables, pages and files are made from.

``docs/reference/results.md`` documents the file format. Its ``schema_version`` grows when a key
goes away or changes its meaning; a new key alone does not increase it.
"""

from __future__ import annotations

import functools
import json
import statistics as stats
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from rich.console import Console

from lightloom.errors import InputError, echo
from lightloom.hardware import load_ownership
from lightloom.optional import need
from lightloom.parallel.plan import Plan
from lightloom.shown import Shown, views
from lightloom.study.compare.certainty import certainty
from lightloom.study.compare.supply import Supply
from lightloom.study.compare.switching import SwitchGear
from lightloom.units import show_things, show_time

if TYPE_CHECKING:
    import polars

    from lightloom.report.figure import Figure

SCHEMA_VERSION = 1
#: ratios of step times up to this one count as the same time: what a simulation resolves
SAME = 1.005
#: what carries bytes without a circuit
PACKETS = ("nvswitch", "eps")
#: how files say that a fabric has no part that fails
UNAFFECTED = "unaffected: "
#: of a part that a fabric may have, but does not say how it lacks
NOT_SIMULATED = "not simulated: "
#: attributes of a result that have other names in files
_WRITTEN_AS = {
    "network_power_w": "power_w",
    "critical_path_s": "breakdown_critical_path_s",
    "mean_s": "breakdown_mean_s",
    "variants_s": "variants_step_time_s",
}


@dataclass(frozen=True)
class Sample:
    """One simulated step.

    ``seed`` and ``step`` choose the demand; ``compute_scale`` is a factor on every compute time,
    below 1 for GPUs that are faster than assumed.
    """

    seed: int
    step: int
    compute_scale: float = 1.0


@dataclass(frozen=True)
class PolicyResult:
    """The first sample's step under one policy of switching circuits.

    Attributes
    ----------
    when
        ``never``, ``always``, ``per-layer``, ``break-even`` or ``oracle``.
    step_time_s
        Step time.
    gain_s
        By how much switching makes it shorter than under ``never``; negative if longer, 0 where
        nothing was switched.
    exposed_s
        Time in which the mean GPU waits for circuits.
    reconfigurations
        How often circuits changed, over all regions.
    saved_s
        By how much less the upcoming all-to-alls take at line rate, mean of a reconfiguration.
    """

    when: str
    step_time_s: float
    gain_s: float
    exposed_s: float
    reconfigurations: int
    saved_s: float


@dataclass(frozen=True)
class LinkUpResult:
    """What the bring-up of links after a reconfiguration does to the first sample.

    Attributes
    ----------
    delay_s
        Bring-up in the results: from settled circuits to links that carry traffic.
    measured_s
        Bring-up that was measured on network interfaces of today.
    step_time_s
        Step time with ``delay_s``.
    other_delay_s, other_step_time_s
        The same with the measured bring-up where the results leave it out, or without any where
        they include it.
    """

    delay_s: float
    measured_s: float
    step_time_s: float
    other_delay_s: float
    other_step_time_s: float


@dataclass(frozen=True)
class LoadResult:
    """The step under another load of the experts, such as ``balanced``: one nominal sample.

    ``all_to_all`` is how all-to-alls were spread, which is chosen for each load;
    ``ratio_to_fastest`` the step time over that of the fastest fabric under the same load.
    """

    imbalance: str
    step_time_s: float
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    tflops_per_gpu: float | None
    mfu: float | None
    days_per_trillion_tokens: float | None
    straggler_wait_s: float
    all_to_all: str
    ratio_to_fastest: float = 1.0


@dataclass(frozen=True)
class StrategyResult:
    """The first sample's step with one strategy of the all-to-alls to experts.

    Attributes
    ----------
    strategy
        ``baseline`` or ``O1`` to ``O4`` for all layers, or ``layers``, the choice for each.
    step_time_s
        Step time.
    fits
        Whether its plan fits the memory of the GPUs.
    """

    strategy: str
    step_time_s: float
    fits: bool


@dataclass(frozen=True)
class FailureResult:
    """The first sample's step without a part that has failed.

    Attributes
    ----------
    part, kind
        As it was named, and its kind.
    response
        What takes its place or is left, in words.
    step_time_s
        Step time; ``None`` if the job stops.
    longer_share
        By what share that is longer than with all parts; ``None`` if the job stops.
    mean_out
        How many such parts of the fabric are out at a time, on average, with one day to repair
        each; ``None`` where no rate is known.
    is_unaffected
        Whether the fabric has no such part, or what it would be without is not simulated.
    spare_servers
        Spare servers that take the place of servers.
    """

    part: str
    kind: str
    response: str
    step_time_s: float | None
    longer_share: float | None
    mean_out: float | None = None
    is_unaffected: bool = False
    spare_servers: int = 0

    @property
    def lost_share(self) -> float | None:
        """Share of the pace that all such parts cost on average, if each costs what this one does.

        A job that stops loses all of it until the part is repaired.
        """
        if self.mean_out is None:
            return None
        longer = self.longer_share
        return self.mean_out * (1.0 if longer is None else longer / (1 + longer))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> FailureResult:
        """The result that :meth:`to_json` made plain values of."""
        kind = content["part"].partition(":")[0]
        is_unaffected = content["response"].startswith((UNAFFECTED, NOT_SIMULATED))
        return cls(**content, kind=kind, is_unaffected=is_unaffected)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file, whose part and response say the rest."""
        names = (*("part", "response", "step_time_s", "longer_share", "mean_out", "spare_servers"),)
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class FabricResult:
    """One fabric's outcome over all samples.

    Times are seconds, money US dollars, power watts. ``step_time_s`` is the mean over seeds and
    steps at the nominal compute speed; the interval spans every sample. ``tflops_per_gpu``
    counts model FLOPs (:func:`~lightloom.models.attention_work.training_flops_per_token`), and
    ``mfu`` is their share of the GPUs' BF16 peak. ``ratio_to_fastest`` is the
    least ratio to the fastest fabric on the same sample, that of the means, and the largest; a
    fabric is tied where one sample at least is no slower, or the means differ by less than
    :data:`SAME`.
    ``strategies`` has the first sample with each strategy of all-to-alls, if a plan has ``auto``.
    ``switching`` says in which switches the network comes, ``supply`` what can be bought,
    ``failures`` what each part that fails costs the first sample.
    ``loads`` has the step under other loads, where there is any.
    ``critical_path_s``, ``mean_s``, ``straggler_wait_s`` (the part of ``mean_s["straggler"]`` spent
    in all-to-alls whose last member has not arrived), ``carried_bytes`` and ``reconfiguration`` are
    means over the same samples, so that each of the first two sums to ``step_time_s``.
    ``variants_s``, ``policies``, ``run_hash``, ``events`` and ``simulation_wall_s`` are of the
    first sample. ``plan`` has every field of the parallelism plan, which a search may find for
    each fabric; a traced program has none.
    """

    fabric: str
    kind: str
    step_time_s: float
    step_time_low_s: float
    step_time_high_s: float
    sample_step_times_s: tuple[float, ...]
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    tflops_per_gpu: float | None
    mfu: float | None
    days_per_trillion_tokens: float | None
    network_cost_usd: float
    cluster_cost_usd: float
    network_power_w: float
    cluster_power_w: float
    critical_path_s: dict[str, float]
    mean_s: dict[str, float]
    carried_bytes: dict[str, int]
    cost_by_component_usd: dict[str, float]
    reconfiguration: dict[str, float]
    variants_s: dict[str, float]
    parameters: dict[str, Any]
    notes: tuple[str, ...]
    run_hash: str
    events: int
    simulation_wall_s: float
    ratio_to_fastest: tuple[float, float, float] = (1.0, 1.0, 1.0)
    tied_with_fastest: bool = True
    power_by_component_w: dict[str, float] = field(default_factory=dict)
    straggler_wait_s: float = 0.0
    policies: tuple[PolicyResult, ...] = ()
    packets: dict[str, Any] = field(default_factory=dict)
    loads: tuple[LoadResult, ...] = ()
    link_up: LinkUpResult | None = None
    switching: SwitchGear = field(default_factory=SwitchGear)
    plan: dict[str, Any] = field(default_factory=dict)
    supply: Supply = field(default_factory=Supply)
    failures: tuple[FailureResult, ...] = ()
    strategies: tuple[StrategyResult, ...] = ()

    def load(self, imbalance: str) -> LoadResult | None:
        """The step under a certain load, if it was simulated."""
        return next((load for load in self.loads if load.imbalance == imbalance), None)

    def ratio_to(self, other: FabricResult) -> tuple[float, float, float]:
        """The ratio of step times to another fabric: minimum, of the means, maximum of samples.

        Both see the same samples, so that what moves them alike cancels.
        """
        pairs = zip(self.sample_step_times_s, other.sample_step_times_s, strict=True)
        ratios = [own / its for own, its in pairs]
        return min(ratios), self.step_time_s / other.step_time_s, max(ratios)

    def is_as_fast_as(self, other: FabricResult) -> bool:
        """Whether neither is faster on every sample, or the means differ by less than ``SAME``."""
        low, mean, high = self.ratio_to(other)
        return low <= 1 <= high or 1 / SAME < mean < SAME

    @property
    def lost_to_failures(self) -> float | None:
        """Share of the pace that parts of the kinds that were simulated cost on average.

        Of parts of one kind the mean counts; ``None`` where no rate is known of any.
        """
        shares: dict[str, list[float]] = {}
        for failure in self.failures:
            if (share := failure.lost_share) is not None:
                shares.setdefault(failure.kind, []).append(share)
        return sum(map(stats.fmean, shares.values())) if shares else None

    @property
    def has_idle_circuits(self) -> bool:
        """Whether circuit switches are paid for, and no circuit carries a byte."""
        carriers = self.carried_bytes.items()
        carried = sum(size for name, size in carriers if name not in PACKETS)
        return "ocs_port" in self.cost_by_component_usd and not carried

    @property
    def never_switches(self) -> bool:
        """Whether there are circuits that could be switched, and none ever was."""
        return self.reconfiguration.get("reconfigurations") == 0 and not self.has_idle_circuits

    @property
    def pace(self) -> float:
        """Tokens per second; steps per hour where the tokens of a step are not known."""
        return 3600 / self.step_time_s if self.tokens_per_s is None else self.tokens_per_s

    @property
    def pace_unit(self) -> str:
        """Unit of :attr:`pace`."""
        return "steps/h" if self.tokens_per_s is None else "tokens/s"

    @property
    def perf_per_usd(self) -> float:
        """Pace per dollar of network."""
        return self.pace / self.network_cost_usd

    @property
    def perf_per_cluster_usd(self) -> float:
        """Pace per dollar of network, servers and GPUs."""
        return self.pace / self.cluster_cost_usd

    @property
    def tokens_per_day(self) -> float | None:
        """Tokens that train in a day."""
        return None if self.tokens_per_s is None else self.tokens_per_s * 86_400

    @property
    def tokens_per_s_per_w(self) -> float | None:
        """Tokens per second and watt of network, servers and GPUs, without cooling."""
        return None if self.tokens_per_s is None else self.tokens_per_s / self.cluster_power_w

    @property
    def energy_per_token_j(self) -> float | None:
        """Energy of the hall per token, cooling included (PUE)."""
        if self.tokens_per_s is None:
            return None
        return load_ownership().energy_per_token_j(self.cluster_power_w, self.tokens_per_s)

    @property
    def usd_per_token(self) -> float | None:
        """Price over the life of the cluster and electricity, per token."""
        if self.tokens_per_s is None:
            return None
        return load_ownership().usd_per_token(
            self.cluster_cost_usd, self.cluster_power_w, self.tokens_per_s
        )

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> FabricResult:
        """The result that :meth:`to_json` made plain values of.

        Raises
        ------
        KeyError, TypeError, ValueError
            If they are no such values.
        """
        low, high = content["step_time_interval_s"]
        minimum, maximum = content["ratio_to_fastest_interval"]
        link_up = content["link_up"]
        written = {name: content[key] for name, key in _WRITTEN_AS.items()}
        same = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        return cls(
            **same | written | {
                "step_time_low_s": low,
                "step_time_high_s": high,
                "sample_step_times_s": tuple(content["sample_step_times_s"]),
                "ratio_to_fastest": (minimum, content["ratio_to_fastest"], maximum),
                "loads": tuple(LoadResult(**load) for load in content["loads"]),
                "policies": tuple(PolicyResult(**policy) for policy in content["policies"]),
                "link_up": None if link_up is None else LinkUpResult(**link_up),
                "failures": tuple(map(FailureResult.from_json, content.get("failures", ()))),
                "strategies": tuple(
                    StrategyResult(**each) for each in content.get("strategies", ())
                ),
                "notes": tuple(content["notes"]),
                "switching": SwitchGear.from_json(content),
                "supply": Supply.from_json(content),
            }
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file; keys carry their units."""
        return {
            "fabric": self.fabric,
            "kind": self.kind,
            "step_time_s": self.step_time_s,
            "step_time_interval_s": [self.step_time_low_s, self.step_time_high_s],
            "sample_step_times_s": list(self.sample_step_times_s),
            "ratio_to_fastest": self.ratio_to_fastest[1],
            "ratio_to_fastest_interval": [self.ratio_to_fastest[0], self.ratio_to_fastest[2]],
            "tied_with_fastest": self.tied_with_fastest,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "tflops_per_gpu": self.tflops_per_gpu,
            "mfu": self.mfu,
            "days_per_trillion_tokens": self.days_per_trillion_tokens,
            "network_cost_usd": self.network_cost_usd,
            **self.switching.to_json(),
            **self.supply.to_json(),
            "cluster_cost_usd": self.cluster_cost_usd,
            "power_w": self.network_power_w,
            "cluster_power_w": self.cluster_power_w,
            "pace_unit": self.pace_unit,
            "perf_per_usd": self.perf_per_usd,
            "perf_per_cluster_usd": self.perf_per_cluster_usd,
            "tokens_per_s_per_w": self.tokens_per_s_per_w,
            "energy_per_token_j": self.energy_per_token_j,
            "usd_per_token": self.usd_per_token,
            "breakdown_critical_path_s": self.critical_path_s,
            "breakdown_mean_s": self.mean_s,
            "straggler_wait_s": self.straggler_wait_s,
            "carried_bytes": self.carried_bytes,
            "cost_by_component_usd": self.cost_by_component_usd,
            "power_by_component_w": self.power_by_component_w,
            "reconfiguration": self.reconfiguration,
            "variants_step_time_s": self.variants_s,
            "loads": [asdict(load) for load in self.loads],
            "policies": [asdict(policy) for policy in self.policies],
            "link_up": None if self.link_up is None else asdict(self.link_up),
            "plan": self.plan,
            "failures": [failure.to_json() for failure in self.failures],
            "strategies": [asdict(each) for each in self.strategies],
            "parameters": self.parameters,
            "packets": self.packets,
            "notes": list(self.notes),
            "run_hash": self.run_hash,
            "events": self.events,
            "simulation_wall_s": self.simulation_wall_s,
        }


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Everything that one comparison used and found.

    ``inputs`` holds every parameter that was read with its value and provenance; ``demand`` the
    first block's server x server bytes and its imbalance; ``details`` what only a page needs (runs,
    timelines, circuits), which files do not carry.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.Comparison({}, (), {}, {}, {})
    Comparison(training job: no fabrics)
    """

    inputs: dict[str, Any]
    results: tuple[FabricResult, ...]
    demand: dict[str, Any]
    memory: dict[str, Any]
    traffic_shares: dict[str, float]
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        name = self.inputs.get("model", {}).get("name", "training job")
        times = ", ".join(f"{r.fabric} {show_time(r.step_time_s)}" for r in self.results)
        return f"Comparison({name}: {times or 'no fabrics'})"

    def print(self, console: Console | None = None, *, details: bool = False) -> None:
        """Print speed, cost and the verdict, or with details all tables and remarks."""
        views().show(self, console or Console(), details=details)

    def rows(self) -> list[dict[str, Any]]:
        """A row per fabric: every value of its result that is not a table."""
        return [
            {
                key: value
                for key, value in result.to_json().items()
                if key != "link_up" and not isinstance(value, dict | list)
            }
            for result in self.results
        ]

    def to_polars(self) -> polars.DataFrame:
        """Return the :meth:`rows` as a table."""
        need("polars", "to_polars")
        import polars

        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def plot(self) -> Figure:
        """Draw the speed of each fabric against the cost of its network."""
        return views().draw(self)

    def result(self, fabric: str) -> FabricResult:
        """The result of one fabric.

        Raises
        ------
        InputError
            If it was not compared.
        """
        for candidate in self.results:
            if candidate.fabric == fabric:
                return candidate
        compared = ", ".join(result.fabric for result in self.results)
        raise InputError(f"fabric {echo(fabric)}: not compared; expected one of {compared}")

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Comparison:
        """The comparison that :meth:`to_json` made plain values of, without what files lack.

        Raises
        ------
        InputError
            If they are no such values.
        """
        try:
            comparison = cls(
                inputs=content["inputs"],
                results=tuple(map(FabricResult.from_json, content["results"])),
                demand=content["demand"],
                memory=content["memory"],
                traffic_shares=content["traffic_shares"],
                warnings=tuple(content["warnings"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"no results of this version ({error}); run compare again") from None
        _check_tables(comparison)
        _check_values(comparison.results)
        return comparison

    def _certainty(self) -> dict[str, Any] | None:
        """How often each fabric trains the most per dollar; ``None`` for one fabric."""
        return asdict(certainty(self.results)) if len(self.results) > 1 else None

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "inputs": self.inputs,
            "demand": self.demand,
            "memory": self.memory,
            "traffic_shares": self.traffic_shares,
            "warnings": list(self.warnings),
            "results": [result.to_json() for result in self.results],
            "certainty": self._certainty(),
        }


class _Table(BaseModel):
    """What a page reads of a table of a file; there may be more in it."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Stage(_Table):
    __pydantic_extra__: dict[str, float]
    stage: int


class _Memory(_Table):
    stages: list[_Stage]
    limit_bytes: float
    fits: bool


class _Candidate(_Table):
    __pydantic_extra__: dict[str, str | float | bool | dict[str, float] | None]
    is_screened: bool
    schedule: str = ""
    strategy: str = ""


class _LayerStrategy(_Table):
    layer: int
    strategy: str
    chunks: int


class _Inputs(_Table):
    summary: list[str] = []
    plan_candidates: list[_Candidate] = []
    strategies: list[_LayerStrategy] = []


class _Demand(_Table):
    copies_per_expert: float | None = None


class _Tables(_Table):
    inputs: _Inputs
    demand: _Demand
    memory: _Memory | None
    traffic_shares: dict[str, float]
    warnings: list[str]


@functools.cache
def _values() -> TypeAdapter[FabricResult]:
    return TypeAdapter(FabricResult)


@functools.cache
def _plans() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def _check_type(values: TypeAdapter[Any], content: object, name: str) -> None:
    """Refuse content with a value of another type.

    Raises
    ------
    InputError
        Naming the first key that is wrong, as files call it.
    """
    try:
        values.validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        wrong = error.errors()[0]
        first, *rest = map(str, wrong["loc"] or ("",))
        key = ".".join(part for part in (name, _WRITTEN_AS.get(first, first), *rest) if part)
        raise InputError(f"{key}: {echo(wrong['input'])}: {wrong['msg']}") from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _check_tables(comparison: Comparison) -> None:
    """Refuse tables of inputs, demand and memory with values of another type.

    Raises
    ------
    InputError
        Naming the first key that is wrong.
    """
    tables = {name: getattr(comparison, name) for name in _Tables.model_fields}
    # a program that was recorded does not say its memory
    _check_type(
        TypeAdapter(_Tables),
        tables | {"memory": None if comparison.memory == {} else comparison.memory},
        "",
    )


def _check_values(results: Sequence[FabricResult]) -> None:
    """Refuse results with values of another type, and those that lack what others have.

    Raises
    ------
    InputError
        Naming the first key that is wrong, as files call it.
    """
    for place, result in enumerate(results):
        name = f"results[{place}]"
        _check_type(_values(), asdict(result), name)
        if result.plan:
            degrees = {f.name: result.plan[f.name] for f in fields(Plan) if f.name in result.plan}
            _check_type(_plans(), degrees, f"{name}.plan")
        numbers = [result.step_time_s, *result.sample_step_times_s, result.network_cost_usd]
        numbers += [result.cluster_cost_usd, result.cluster_power_w]
        numbers += [] if result.tokens_per_s is None else [result.tokens_per_s]
        if min([*numbers, *(load.step_time_s for load in result.loads)]) <= 0:
            raise InputError(f"{name}: a step time or a pace, power or cost of 0 or less")
        loads, expected = ([load.imbalance for load in r.loads] for r in (result, results[0]))
        if loads != expected:
            raise InputError(
                f"{name}.loads: {', '.join(loads) or 'none'}; expected those of results[0]: "
                f"{', '.join(expected) or 'none'}"
            )
        samples, wanted = (len(r.sample_step_times_s) for r in (result, results[0]))
        if samples != wanted or not samples:
            raise InputError(
                f"{name}.sample_step_times_s: {show_things(samples, 'number')}; expected "
                f"{max(wanted, 1):,}, as in results[0]"
            )
