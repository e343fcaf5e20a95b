"""What a failed part costs: the first sample again without it, on every fabric.

Parts are named as for a running job (:func:`lightloom.control.failures.parse_part`), NICs in the
cluster's numbering. What each fabric has of them, and what follows, is in :mod:`.lost_parts`; a GPU
of a fabric with regional circuits is replaced by one of a spare server
(:mod:`lightloom.workload.backup_gpu`), over the EPS or over circuits that its server then lacks for
all-to-alls, unless a whole spare server is on the circuit switch. A part that a fabric does not
have leaves it as it is; one that none has is refused.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightloom.control.failures import PartKind, RegionPart, parse_part
from lightloom.errors import FabricError, InputError
from lightloom.fabric import Chronos, Cluster, Fabric, TopoOpt
from lightloom.fabric.alone import network_alone
from lightloom.fabric.network import Network, Ocs
from lightloom.fabric.torus import Torus
from lightloom.hardware import load_failure_rates
from lightloom.schedule import Failures
from lightloom.study.compare.lost_parts import (
    EXPECTED,
    KINDS,
    UNKNOWN,
    Counts,
    counts_of,
    counts_of_servers,
    loss_of,
    packet_bps,
)
from lightloom.study.compare.results import NOT_SIMULATED, UNAFFECTED, FailureResult
from lightloom.study.compare.variants import OWN, FabricVariant, Failed
from lightloom.units import show_change, show_time
from lightloom.workload.backup_gpu import BackupGpu, BackupTraffic, backup_traffic
from lightloom.workload.task_graph import TaskGraph

#: parts of the network that are no server's
_OF_SWITCHES = frozenset({PartKind.TOR, PartKind.OCS, PartKind.PLANE, PartKind.PORT})
_INDEX = re.compile(r"(nic|gpu):([0-9]{1,9})")
#: a circuit switch and a rack
_PORT = re.compile(r"port:([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True)
class NamedPart:
    """A part by the name that a user gave it.

    ``part`` is without a server where it is the NIC or GPU of its index among all of a network, as
    ``nic:13``.
    """

    name: str
    part: RegionPart

    @property
    def kind(self) -> PartKind:
        """What fails."""
        return self.part.kind

    def of(self, cluster: Cluster) -> RegionPart:
        """Return which part of a cluster it is."""
        part = self.part
        if part.server >= 0 or part.kind not in (PartKind.NIC, PartKind.GPU):
            return part
        is_nic = part.kind is PartKind.NIC
        each = cluster.nics_per_server if is_nic else cluster.gpus_per_server
        server, number = divmod(part.number, each)
        return part._replace(server=server, number=number)


@dataclass(frozen=True)
class Failure:
    """What one failure means for a fabric.

    Attributes
    ----------
    part
        What fails.
    response
        What takes its place, or why the fabric has no such part, in words.
    variant, fabric
        What to run, and the fabric without the part; ``None`` where it has no such part, or stops.
    stops
        Whether the job cannot go on.
    mean_out
        How many such parts of the fabric are out at a time, on average, if a rate is known.
    spare_servers
        Spare servers that take the place of servers.
    """

    part: NamedPart
    response: str
    variant: FabricVariant = OWN
    fabric: Fabric | None = None
    stops: bool = False
    mean_out: float | None = None
    spare_servers: int = 0

    def result(
        self, step_time_s: float, variants_s: Mapping[FabricVariant, float]
    ) -> FailureResult:
        """Return its outcome, given the first sample's step with all parts, and variants."""
        without_s = None if self.stops else variants_s.get(self.variant, step_time_s)
        share = None if without_s is None else without_s / step_time_s - 1
        is_unaffected = self.fabric is None and not self.stops
        is_known = self.response != UNKNOWN
        why = UNAFFECTED if is_known else NOT_SIMULATED
        words = why + self.response if is_unaffected else self.response
        mean_out = self.mean_out if is_known else None
        name, kind = self.part.name, self.part.kind
        return FailureResult(
            name, kind, words, without_s, share, mean_out, is_unaffected, self.spare_servers
        )


@dataclass(frozen=True)
class FabricOfJob:
    """A fabric of a comparison, and its network for the job."""

    fabric: Fabric
    cluster: Cluster
    network: Network
    graph: TaskGraph


def named_parts(texts: Sequence[str]) -> list[NamedPart]:
    """Return the parts of a network that texts name.

    Raises
    ------
    InputError
        If one is no such part.
    """
    parts = []
    for text in texts:
        index, port = _INDEX.fullmatch(text), _PORT.fullmatch(text)
        if index is not None:
            part = RegionPart(PartKind(index[1]), number=int(index[2]))
        elif port is not None:
            part = RegionPart(PartKind.PORT, int(port[1]), int(port[2]))
        else:
            part = parse_part(text, "fail")
        if part.kind not in KINDS or (part.kind is PartKind.PORT and port is None):
            raise InputError(
                f"fail {text}: the failure of a {part.kind} is not simulated; {EXPECTED}"
            )
        parts.append(NamedPart(text, part))
    return parts


def check_servers(clusters: Mapping[str, Cluster], parts: Sequence[NamedPart]) -> None:
    """Refuse servers, and their GPUs and NICs, that no fabric has, before a step is built.

    Parameters
    ----------
    clusters
        The servers of each fabric, by its name.
    parts
        What fails.

    Raises
    ------
    InputError
        If one is not there.
    """
    fabrics = [
        _Parts(name, cluster, counts_of_servers(cluster)) for name, cluster in clusters.items()
    ]
    for named in parts:
        _check(fabrics, named)


def check_switches(
    fabrics: Sequence[Fabric], clusters: Mapping[str, Cluster], parts: Sequence[NamedPart]
) -> None:
    """Refuse switches, planes and ports that no fabric has, before a step is built.

    Circuit switches of regions depend on the job: fabrics with such are looked at later.

    Parameters
    ----------
    fabrics, clusters
        Each fabric, and its servers by its name.
    parts
        What fails.

    Raises
    ------
    InputError
        If one is not there.
    """
    wanted = [named for named in parts if named.kind in _OF_SWITCHES]
    has_regions = any(fabric.reconfiguration() is not None for fabric in fabrics)
    wanted = [named for named in wanted if named.kind is not PartKind.OCS or not has_regions]
    if not wanted:
        return
    there = [_parts_alone(fabric, clusters[fabric.name]) for fabric in fabrics]
    if None not in there:
        for named in wanted:
            _check([parts for parts in there if parts is not None], named)


def _parts_alone(fabric: Fabric, cluster: Cluster) -> _Parts | None:
    """The parts of a fabric that do not depend on the job; ``None`` if it cannot be built so."""
    if isinstance(fabric, TopoOpt | Torus | Chronos):
        return _Parts(fabric.name, cluster, counts_of_servers(cluster))
    try:
        return _Parts(fabric.name, cluster, counts_of(network_alone(fabric, cluster), cluster))
    except FabricError:
        return None


def failures_of(
    compared: Sequence[FabricOfJob], parts: Sequence[NamedPart]
) -> dict[str, list[Failure]]:
    """Return what each failure means for each fabric, by the fabric's name.

    Raises
    ------
    InputError
        If a part is none of any fabric, or the job does not use a failed GPU.
    """
    failures: dict[str, list[Failure]] = {each.fabric.name: [] for each in compared}
    for named in parts:
        _check([_parts(each) for each in compared], named)
        for each in compared:
            mean_out = _mean_out(each, named.kind)
            failure = dataclasses.replace(_failure(each, named), mean_out=mean_out)
            failures[each.fabric.name].append(failure)
    return failures


@dataclass(frozen=True)
class _Parts:
    """How many of each part a fabric has."""

    fabric: str
    cluster: Cluster
    counts: Mapping[PartKind, Counts]

    def has(self, named: NamedPart) -> bool | None:
        """Whether the part is there; ``None`` if there is none of the kind."""
        part = named.of(self.cluster)
        counts = self.counts.get(part.kind)
        if counts is None:
            return None
        place = [index for index in (part.server, part.number) if index >= 0]
        return all(index < count for index, count in zip(place, counts, strict=True))

    def range(self, kind: PartKind) -> str:
        """All parts of a kind, such as ``nic:0/0 to nic:15/7``."""
        counts = self.counts[kind]
        first = "/".join("0" for _ in counts)
        last = "/".join(str(count - 1) for count in counts)
        return f"{kind}:{first}" + (f" to {kind}:{last}" if last != first else "")


def _parts(there: FabricOfJob) -> _Parts:
    return _Parts(there.fabric.name, there.cluster, counts_of(there.network, there.cluster))


def _check(fabrics: Sequence[_Parts], named: NamedPart) -> None:
    """Refuse a part that no fabric has, unless they have none of its kind."""
    has = [parts.has(named) for parts in fabrics]
    server = max(named.of(parts.cluster).server for parts in fabrics)
    server = -1 if named.kind is PartKind.PORT else server
    servers = max(parts.cluster.servers for parts in fabrics)
    if True in has or (False not in has and server < servers):
        return
    if False not in has:
        raise InputError(f"fail {named.name}: there are {servers:,} servers, counted from 0")
    ranges: dict[str, list[str]] = {}
    for parts, is_there in zip(fabrics, has, strict=True):
        if is_there is False:
            ranges.setdefault(parts.range(named.kind), []).append(parts.fabric)
    clauses = [
        f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} {places}"
        for places, names in ranges.items()
    ]
    raise InputError(f"fail {named.name}: {'; '.join(clauses)}")


def _mean_out(there: FabricOfJob, kind: PartKind) -> float | None:
    number = math.prod(_parts(there).counts.get(kind, (0,)))
    return load_failure_rates().mean_out(kind, number)


def _failure(there: FabricOfJob, named: NamedPart) -> Failure:
    parts = _parts(there)
    part = named.of(there.cluster)
    if parts.has(named) is False:
        return Failure(named, f"it has {parts.range(named.kind)}")
    ocs = there.network.part(Ocs)
    has_backups = ocs is not None and not ocs.spare_servers and there.network.delegates
    if part.kind is PartKind.GPU and has_backups:
        return _with_backup(there, named, part)
    if part.kind is PartKind.GPU:
        backup_traffic(there.graph, part.server, part.number)
    loss = loss_of(part, there.network, there.cluster, there.graph.gpus_per_worker)
    if loss.lost is None:
        return Failure(named, loss.response, stops=loss.stops)
    without = there.fabric.without(loss.lost)
    if without is None:
        return Failure(named, UNKNOWN)
    spares = len(loss.lost.servers)
    return Failure(named, loss.response, Failed(named.name), without, spare_servers=spares)


def _with_backup(there: FabricOfJob, named: NamedPart, part: RegionPart) -> Failure:
    """A spare GPU takes over, over the EPS or circuits of the failed one's server."""
    ocs, eps_bps = there.network.part(Ocs), packet_bps(there.network)
    assert ocs is not None
    traffic = backup_traffic(there.graph, part.server, part.number)
    circuits = backup_circuits(traffic, ocs.ports, ocs.nic_rate_bps, eps_bps)
    backup = BackupGpu(part.server, part.number, circuits * ocs.nic_rate_bps or eps_bps)
    path = f"backup on {circuits} circuits" if circuits else "backup over the EPS"
    lost = Failures(nics=[(part.server, ocs.ports - 1 - nic) for nic in range(circuits)])
    without = there.fabric.without(lost)
    if without is None:
        return Failure(named, UNKNOWN)
    return Failure(named, path, Failed(named.name, backup, path), without, spare_servers=1)


def backup_circuits(traffic: BackupTraffic, ports: int, circuit_bps: int, eps_bps: int) -> int:
    """Return how many circuits of a server its backup GPU gets; 0 if the EPS serves it better.

    What is taken for the backup all-to-alls lack: the sum of both times is least, at line rate and
    as if the server held all others up. Equals go to the fewest.

    Parameters
    ----------
    traffic
        Bytes of a step.
    ports
        Circuits of the server; one at least stays for all-to-alls.
    circuit_bps, eps_bps
        Rate of a circuit, and of the server on the EPS.
    """

    def time_s(circuits: int) -> float:
        path_bps = circuits * circuit_bps or eps_bps
        left_bps = (ports - circuits) * circuit_bps + eps_bps
        return 8 * (traffic.crossing / path_bps + traffic.all_to_all / left_bps)

    return min(range(max(ports, 1)), key=time_s)


def failures_note(step_time_s: float, failures: Sequence[FailureResult]) -> str | None:
    """Return what each failed part adds to the first sample, in words."""
    if not failures:
        return None
    parts = [_words(failure) for failure in failures]
    return f"failures: {show_time(step_time_s)} with all parts, {', '.join(parts)}"


def _words(failure: FailureResult) -> str:
    if failure.step_time_s is None or failure.longer_share is None:
        return f"without {failure.part} the job stops ({failure.response})"
    if failure.is_unaffected:
        return f"without {failure.part} {failure.response}"
    longer = f"{show_change(failure.longer_share)}; {failure.response}"
    return f"without {failure.part} {show_time(failure.step_time_s)} ({longer})"
