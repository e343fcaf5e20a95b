"""What a failed part costs: the first sample again without it.

What is avoided and what replaces it is decided as for a running job
(:func:`lightloom.control.failures.respond`), with a spare server in the region and a pool that the
EPS alone reaches: a failed optical NIC, link or transceiver takes a NIC from the circuits, a server
is replaced from the pool, a GPU by one of the spare server (:mod:`lightloom.workload.backup_gpu`),
over the EPS or over circuits that its server then lacks for all-to-alls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lightloom.control.failures import (
    GpuPlace,
    PartKind,
    RegionPart,
    RegionShape,
    parse_part,
    respond,
)
from lightloom.errors import InputError
from lightloom.fabric import Fabric
from lightloom.fabric.network import Eps, Network, Ocs
from lightloom.units import show_time
from lightloom.workload.backup_gpu import BackupGpu, BackupTraffic, backup_traffic
from lightloom.workload.task_graph import TaskGraph

_PREFIX = "failed="
_INDEX = re.compile(r"(nic|gpu):([0-9]{1,9})")
_SIMULATED = {
    PartKind.NIC,
    PartKind.LINK,
    PartKind.TRANSCEIVER,
    PartKind.EPS_NIC,
    PartKind.GPU,
    PartKind.SERVER,
}


@dataclass(frozen=True)
class FailedVariant:
    """A fabric without a part, and what replaces a failed GPU."""

    fabric: Fabric
    backup: BackupGpu | None = None


def parse_parts(
    texts: Sequence[str], degree: int, gpus: int, servers: int, eps_nics: int
) -> list[tuple[str, RegionPart]]:
    """Return parts that fail, as they were given and what they are.

    Parameters
    ----------
    texts
        The parts; ``nic:3`` is the NIC of this index among all optical NICs, ``gpu:17`` the GPU
        of this index among all.
    degree, gpus, servers, eps_nics
        Optical NICs and GPUs of a server, servers of the job, and EPS NICs of a server.

    Raises
    ------
    InputError
        If one is no part of a job, or its failure is not simulated.
    """
    counts = {"nic": degree, "gpu": gpus}
    found = [(text, _checked(text, parse_part(_placed(text, counts), "fail"))) for text in texts]
    for text, part in found:
        own = {PartKind.GPU: gpus, PartKind.EPS_NIC: eps_nics}.get(part.kind, degree)
        is_server = part.kind is PartKind.SERVER
        if part.server >= servers or (not is_server and part.number >= own):
            last = f"{part.kind}:{servers - 1}" + ("" if is_server else f"/{own - 1}")
            raise InputError(
                f"fail {text}: the job has {servers:,} servers"
                f"{'' if is_server else f' with {own} of these each'}; the last is {last}"
            )
    return found


def refuse_unless_simulated(names: Iterable[str], fabrics: Sequence[Fabric], text: str) -> None:
    """Refuse failures that no fabric is simulated with.

    Parameters
    ----------
    names
        Of the variants that will run.
    fabrics, text
        What is compared, and the first part that fails.

    Raises
    ------
    InputError
        If no variant is of a failure.
    """
    if not any(name.startswith(_PREFIX) for name in names):
        compared = ", ".join(fabric.name for fabric in fabrics)
        raise InputError(
            f"fail {text}: a failure is simulated on a fabric with packet and circuit switches, "
            f"such as mixnet; none of {compared} is one: add mixnet, or leave the failures out"
        )


def _placed(text: str, counts: Mapping[str, int]) -> str:
    """A NIC or GPU that is named by its index among all, by its server."""
    found = _INDEX.fullmatch(text)
    if found is None:
        return text
    server, place = divmod(int(found[2]), counts[found[1]])
    return f"{found[1]}:{server}/{place}"


def _checked(text: str, part: RegionPart) -> RegionPart:
    if part.kind not in _SIMULATED:
        raise InputError(
            f"fail {text}: the failure of a {part.kind} is not simulated; expected of nic:2/1 "
            "(server/NIC), link:2/1, transceiver:2/1, eps:0/1, gpu:2/5, server:3"
        )
    return part


def failed_variants(
    fabric: Fabric, network: Network, graph: TaskGraph, texts: Sequence[str]
) -> dict[str, FailedVariant]:
    """Return the fabric without each of the parts, by name; none where it lacks such parts.

    Parameters
    ----------
    fabric, network
        The fabric with all parts.
    graph
        The step of the job.
    texts
        The parts.

    Raises
    ------
    InputError
        As :func:`parse_parts`; also if the job does not use a failed GPU.
    """
    eps, ocs = network.part(Eps), network.part(Ocs)
    if eps is None or ocs is None:
        return {}
    shape = _with_spare_server(network, eps, ocs)
    eps_bps = eps.nics * eps.nic_rate_bps
    found = {}
    for text, part in parse_parts(
        texts, ocs.degree, network.gpus_per_server, network.servers, eps.nics
    ):
        name, backup = _PREFIX + text, None
        response = respond([part], shape)
        lost = response.excluded.names
        if part.kind is PartKind.GPU:
            traffic = backup_traffic(graph, part.server, part.number)
            (replacement,) = response.replacements
            in_region = ocs.degree if replacement.backup.server >= 0 else 0
            circuits = backup_circuits(traffic, in_region, ocs.nic_rate_bps, eps_bps)
            backup = BackupGpu(part.server, part.number, circuits * ocs.nic_rate_bps or eps_bps)
            path = f"backup on {circuits} circuits" if circuits else "backup over the EPS"
            name = f"{name} ({path})"
            lost += tuple(f"nic:{part.server}/{ocs.degree - 1 - nic}" for nic in range(circuits))
        without = fabric.without(lost)
        if without is not None:
            found[name] = FailedVariant(without, backup)
    return found


def _with_spare_server(network: Network, eps: Eps, ocs: Ocs) -> RegionShape:
    """The servers of the job, one whose GPUs are spare, and a pool of as many GPUs."""
    gpus, spare = network.gpus_per_server, network.servers
    return RegionShape(
        optical_nics=[ocs.degree] * (spare + 1),
        eps_nics=eps.nics,
        gpus=gpus,
        spares=[GpuPlace(spare, gpu) for gpu in range(gpus)],
        pool=gpus,
    )


def backup_circuits(traffic: BackupTraffic, degree: int, circuit_bps: int, eps_bps: int) -> int:
    """Return how many circuits of a server its backup GPU gets; 0 if the EPS serves it better.

    What is taken for the backup all-to-alls lack: the sum of both times is least, at line rate and
    as if the server held all others up. Of equals the fewest.

    Parameters
    ----------
    traffic
        Bytes of a step.
    degree
        Circuits of the server; one at least stays for all-to-alls.
    circuit_bps, eps_bps
        Rate of a circuit, and of the server on the EPS.
    """

    def time_s(circuits: int) -> float:
        path_bps = circuits * circuit_bps or eps_bps
        left_bps = (degree - circuits) * circuit_bps + eps_bps
        return 8 * (traffic.crossing / path_bps + traffic.all_to_all / left_bps)

    return min(range(max(degree, 1)), key=time_s)


def failures_note(step_time_s: float, variants_s: Mapping[str, float]) -> str | None:
    """Return what each failed part adds to the first sample, in words."""
    parts = [
        f"without {name.removeprefix(_PREFIX)} {show_time(seconds)} "
        f"({seconds / step_time_s - 1:+.1%})"
        for name, seconds in variants_s.items()
        if name.startswith(_PREFIX)
    ]
    if not parts:
        return None
    return f"failures: {show_time(step_time_s)} with all parts, {', '.join(parts)}"
