"""Decisions on circuits beside the job's computation: asked for ahead, awaited by the all-to-all.

The first rank asks the controller; all ranks learn circuits and what has failed over a process
group of their own, in the order in which decisions were asked for. Without a controller there are
no circuits, and all bytes take packets.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from lightloom.control.documents import Document
from lightloom.control.refusals import ServiceError
from lightloom.demand.predictors import make_predictor
from lightloom.errors import InputError, LightloomError, expected_one_of
from lightloom.torch.region_member import RegionMember

CircuitUse = Literal["break-even", "never", "packets"]
CIRCUIT_USES: tuple[str, ...] = get_args(CircuitUse)
Demand = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class RegionCircuits:
    """What all ranks know of circuits from a decision on.

    Attributes
    ----------
    revision
        Counts decisions.
    circuits
        Those that carry traffic: server, NIC, server, NIC.
    relays
        For each server without packet NICs that work, the one that it reaches packets through.
    failures
        Failed parts, as the controller names them.
    carrying
        Rates and more, by which bytes are divided; empty where there is no controller.
    why
        Of the decision, or why there are no circuits.
    times
        Seconds since the epoch when it was asked for and answered.
    """

    revision: int = 0
    circuits: tuple[tuple[int, ...], ...] = ()
    relays: Mapping[int, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    carrying: Document = field(default_factory=dict)
    why: str = ""
    times: tuple[float, float] = (0.0, 0.0)


def check_use(use: str) -> None:
    """Refuse what is no use of circuits.

    Raises
    ------
    InputError
        If it is none.
    """
    if use not in CIRCUIT_USES:
        raise InputError(f"policy: {expected_one_of(use, CIRCUIT_USES)}")


class CircuitDecisions:
    """Asks for circuits and tells all ranks.

    Parameters
    ----------
    group
        A process group of all ranks that nothing else uses.
    member
        That of the first server, on the first rank; None elsewhere and without a controller.
    use
        Whether to ask at each all-to-all, never, or to take packets alone.
    wait
        Waits for an operation of a process group, and raises what ends the job.
    on_decision
        Called when circuits of a decision are there.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        member: RegionMember | None,
        use: str,
        wait: Callable[[dist.Work | None], None],
        on_decision: Callable[[], None],
    ) -> None:
        self._group, self._member, self._use, self._wait = group, member, use, wait
        self._on_decision = on_decision
        self._threads = ThreadPoolExecutor(1, "lightloom-decisions")
        self._rank, self._ranks = dist.get_rank(group), dist.get_world_size(group)
        self._upcoming: dict[Hashable, Future[RegionCircuits]] = {}
        self._has_warned = False
        self.current = self._submit(None, None, ()).result()

    @property
    def follow_demand(self) -> bool:
        """Whether each all-to-all is decided on."""
        return self._use == "break-even"

    def upcoming(
        self,
        layer: int | None,
        demand: Demand | list[int],
        hidden_s: Sequence[float] = (0.0,),
        *,
        key: Hashable = None,
    ) -> None:
        """Begin to decide for an all-to-all; all ranks call it in the same order.

        Parameters
        ----------
        layer
            Of the all-to-all.
        demand
            Bytes from rank to rank, which the first rank alone must know, or those of this rank to
            each, which are gathered. Several matrices are all-to-alls in a row; after a single one
            its combine is expected, the transpose.
        hidden_s
            Seconds until each of them is reached, after the one before.
        key
            What takes the decision; by default the layer.
        """
        if self.follow_demand:
            self._upcoming[layer if key is None else key] = self._submit(demand, layer, hidden_s)

    def take(self, layer: int | None, demand: Demand) -> RegionCircuits:
        """Wait for the decision on an all-to-all; decide now if none was begun."""
        if self.follow_demand:
            future = self._upcoming.pop(layer, None)
            if future is None:
                future = self._submit(demand, layer, (0.0,))
            self.current = future.result()
        return self.current

    def take_begun(self, key: Hashable) -> RegionCircuits:
        """Wait for a decision if one was begun; else the circuits are those of the latest."""
        if (future := self._upcoming.pop(key, None)) is not None:
            self.current = future.result()
        return self.current

    def close(self) -> None:
        """Decide no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _submit(
        self, demand: Demand | list[int] | None, layer: int | None, hidden_s: Sequence[float]
    ) -> Future[RegionCircuits]:
        return self._threads.submit(self._decide, demand, layer, hidden_s)

    def _decide(
        self, demand: Demand | list[int] | None, layer: int | None, hidden_s: Sequence[float]
    ) -> RegionCircuits:
        if isinstance(demand, list):
            mine = torch.tensor(demand, dtype=torch.int64)
            every = mine.new_empty(self._ranks * self._ranks)
            self._wait(dist.all_gather_into_tensor(every, mine, self._group, async_op=True))
            demand = every.view(self._ranks, self._ranks).numpy().astype(np.uint64)
        told = self._asked(demand, layer, hidden_s) if self._rank == 0 else None
        decided = broadcast(told, self._group, self._wait)
        self._on_decision()
        return decided

    def _asked(
        self, demand: Demand | None, layer: int | None, hidden_s: Sequence[float]
    ) -> RegionCircuits:
        """What the controller says, on the first rank."""
        begin = time.time()
        revision = self.current.revision + 1 if demand is not None else 0
        if self._use == "packets":
            return RegionCircuits(revision, why="packets alone")
        if self._member is None:
            return self._without("no controller was named", revision)
        try:
            if demand is None:
                reply = self._member.region
                if not self._member.is_there:
                    raise ServiceError(self._member.problem)
            else:
                if demand.ndim == 2:
                    # circuits are duplex: the combine that follows takes the same ones
                    demand, hidden_s = np.stack([demand, demand.T]), (*hidden_s, 0.0)
                facts: Document = {"job": "torch", "layer": layer, "hidden_s": list(hidden_s)}
                reply = self._member.demand(demand, facts)
        except LightloomError as error:
            return self._without(str(error), revision)
        self._has_warned = False
        delegates = reply.get("delegates", {})
        return RegionCircuits(
            revision,
            tuple(tuple(row) for row in reply.get("circuits", ())),
            {int(server): int(peer) for server, peer in delegates.get("relays", ())},
            tuple(reply.get("failures", ())),
            self._member.region.get("carrying", {}),
            str(reply.get("why", reply.get("error", ""))),
            (begin, time.time()),
        )

    def _without(self, why: str, revision: int) -> RegionCircuits:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(f"all bytes take the packet network: {why}", stacklevel=2)
        return RegionCircuits(revision, why=why)


def broadcast(
    told: RegionCircuits | None,
    group: dist.ProcessGroup,
    wait: Callable[[dist.Work | None], None],
) -> RegionCircuits:
    """Return on all ranks what the first one tells."""
    data = b"" if told is None else json.dumps(asdict(told)).encode()
    size = torch.tensor([len(data)], dtype=torch.int64)
    first = dist.get_process_group_ranks(group)[0]
    wait(dist.broadcast(size, first, group, async_op=True))
    body = torch.empty(int(size), dtype=torch.uint8)
    if told is not None:
        body.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    wait(dist.broadcast(body, first, group, async_op=True))
    values = json.loads(body.numpy().tobytes())
    return RegionCircuits(
        **{
            **values,
            "circuits": tuple(map(tuple, values["circuits"])),
            "relays": {int(server): peer for server, peer in values["relays"].items()},
            "failures": tuple(values["failures"]),
            "times": tuple(values["times"]),
        }
    )


class DemandMonitor:
    """Predicts the demand of a layer's dispatch from those that were seen.

    Parameters
    ----------
    ranks
        Of the job.
    predictor
        Name of a predictor; see ``lightloom predict``. Its shares are those of pairs of ranks.
    """

    def __init__(self, ranks: int, predictor: str = "last-step") -> None:
        self._ranks = ranks
        self._predictor = make_predictor(predictor, ranks * ranks)
        self._steps: dict[int, int] = {}
        self._bytes: dict[int, int] = {}

    def observe(self, layer: int, demand: Demand) -> None:
        """Take the demand of a dispatch, bytes from rank to rank."""
        total = int(demand.sum())
        if total:
            step = self._steps[layer] = self._steps.get(layer, -1) + 1
            self._bytes[layer] = total
            self._predictor.observe(step, layer, demand.reshape(-1))

    def predict(self, layer: int) -> Demand | None:
        """The demand of the layer's next dispatch; None before the first was seen."""
        if layer not in self._steps:
            return None
        shares = self._predictor.predict(self._steps[layer] + 1, layer)
        whole = np.rint(np.asarray(shares) * self._bytes[layer]).astype(np.uint64)
        return whole.reshape(self._ranks, self._ranks)
