"""Calls of kernels that communicate, in a profile of PyTorch: of what, among whom, how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lightloom.trace.check import MESSAGES
from lightloom.trace.importers.kineto_events import MAX_RANKS, GpuWork, numbers_of
from lightloom.trace.importers.kineto_requests import CallRequest
from lightloom.trace.importers.libraries import CommunicationKernel, is_fused, parts_of
from lightloom.trace.importers.program import EMPTY_CALL, message_bytes
from lightloom.trace.trace import Call

#: kernels of no library that are named
_MAX_SHOWN = 3


@dataclass
class Remarks:
    """What was missing in the files of a job.

    Attributes
    ----------
    counts
        How often, by what is said of it.
    unknown
        Kernels of no library that communicate by their names.
    fused
        Kernels of no library that seem to compute as well, and count as computation.
    """

    counts: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    fused: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """A sentence each."""
        remarks = [f"{number:,} {what}" for what, number in self.counts.items()]
        if self.unknown:
            remarks.append(
                f"{self.unknown.total():,} kernels of a library that is not known count as "
                f"communication by their names: {_names(self.unknown)}"
            )
        if self.fused:
            remarks.append(
                f"{self.fused.total():,} kernels of a library that is not known seem to compute "
                f"and communicate, and count as computation: {_names(self.fused)}"
            )
        return remarks


def _names(counts: Counter[str]) -> str:
    often = sorted(counts, key=lambda name: -counts[name])[:_MAX_SHOWN]
    shown = ["::".join(parts_of(name))[:80] for name in often]
    return ", ".join(shown) + ", ..." * (len(counts) > _MAX_SHOWN)


@dataclass
class CallMaker:
    """Makes calls of one rank's kernels, and says what is missing.

    Attributes
    ----------
    rank, world_size
        Whose they are; ``None`` where the number of ranks is not known.
    known
        Ranks of groups by the names that its file has for them.
    groups
        Name and ranks of the groups that are called, of all files.
    remarks
        Of all files.
    """

    rank: int
    world_size: int | None
    known: Mapping[str, tuple[int, ...]]
    groups: dict[tuple[str, tuple[int, ...]], None]
    remarks: Remarks

    def calls(self, work: GpuWork, step: int, phase: str) -> list[Call]:
        """The calls of a kernel; none where it only prepares one, or nobody says which.

        Calls that one kernel executes at once share its time: those of the same operation one after
        another, the operations at the same time.
        """
        kernel = work.kernel
        if work.copies and "PtoP" in work.name:
            self.remarks.counts["copies between GPUs count as copies, not as communication"] += 1
        if kernel is None and not work.copies and is_fused(work.name):
            self.remarks.fused[work.name] += 1
        if kernel is None or not kernel.carries:
            return []
        if not kernel.library:
            self.remarks.unknown[work.name] += 1
        merged: dict[object, Call] = {}
        for request in work.requests:
            call = self.call(kernel, work.name, request)
            if call is None:
                continue
            key = (call.op, call.group, call.ranks, call.peer)
            merged[key] = _together(merged[key], call) if key in merged else call
        of_op = Counter(call.op for call in merged.values())
        duration_s = (work.end_us - work.start_us) * 1e-6
        return [
            replace(
                call,
                phase=phase,
                step=step,
                stream=work.stream,
                duration_s=duration_s / of_op[call.op],
            )
            for call in merged.values()
        ]

    def call(self, kernel: CommunicationKernel, name: str, request: CallRequest) -> Call | None:
        """The call that was requested of a kernel; ``None`` where nobody says which."""
        counts = self.remarks.counts
        said = "Collective name" in request.arguments
        # one kernel of symmetric memory does several operations
        exact = said or request.function.startswith("symm_mem::")
        op = request.op if exact and request.op is not None else kernel.op or request.op
        if op is None:
            counts["kernels communicate in an unknown manner: they are no calls"] += 1
            return None
        group, ranks = self.group(request.arguments)
        if kernel.place or (not said and kernel.library not in ("", "NCCL")):
            group = f"{kernel.library} {kernel.place}".strip()
        peer = None
        if op in MESSAGES:
            peer = self._peer(op, request, ranks)
            if peer is None:
                counts["messages do not say between whom: they are no calls"] += 1
                return None
        if len(ranks) > 1:
            self.groups.setdefault((group, ranks))
        if request.put_bytes is None:
            of = "" if kernel.library in ("", "NCCL", "c10d") else f" of {kernel.library}"
            counts[f"kernels{of} do not say how many bytes they carry, and count as 0"] += 1
        put, got = _sizes(op, request, len(ranks))
        return replace(
            EMPTY_CALL, op=op, function=(request.function or name)[:200], group=group,
            ranks=ranks, dtype=request.dtype, input_bytes=put, output_bytes=got, peer=peer,
            input_splits=_splits(request.arguments.get("In split size"), ranks),
            output_splits=_splits(request.arguments.get("Out split size"), ranks),
        )  # fmt: skip

    def _peer(self, op: str, request: CallRequest, ranks: tuple[int, ...]) -> int | None:
        peer = request.arguments.get("Dst Rank" if op == "send" else "Src Rank")
        if peer is None and request.place is not None and request.place < len(ranks):
            peer = ranks[request.place]
        return peer if peer in ranks and peer != self.rank else None

    def group(self, arguments: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
        """Name and ranks of a group, from whatever says them."""
        number = str(arguments.get("Process Group Name", ""))
        size = arguments.get("Group size")
        start, stride = arguments.get("Global rank start"), arguments.get("Global rank stride")
        ranks = self.known.get(number) or numbers_of(arguments.get("Process Group Ranks"))
        members = size if isinstance(size, int) and 0 < size <= MAX_RANKS else 0
        if not ranks and isinstance(start, int) and isinstance(stride, int) and stride:
            ranks = tuple(start + stride * place for place in range(members))
        if not ranks or self.rank not in ranks or min(ranks) < 0:
            members = members or max(self.world_size or 1, self.rank + 1)
            first = self.rank // members * members
            ranks = tuple(range(first, first + members))
            self.remarks.counts["calls do not say their ranks: they are taken to be adjacent"] += 1
        name = str(arguments.get("Process Group Description", ""))
        if name in ("", "undefined"):
            name = f"group of {len(ranks)}"
        return name[:100], ranks


def _sizes(op: str, request: CallRequest, ranks: int) -> tuple[int, int]:
    if op == "barrier" or (request.put_bytes is None and request.got_bytes is None):
        return 0, 0
    put = request.put_bytes or 0
    if request.got_bytes is None:
        return message_bytes(op, put, ranks)
    if op == "send":
        return put, 0
    return (0, request.got_bytes or put) if op == "receive" else (put, request.got_bytes)


def _together(call: Call, other: Call) -> Call:
    """Two calls of the same kind as one of several tensors."""
    return replace(
        call, tensors=call.tensors + 1, input_splits=None, output_splits=None,
        input_bytes=call.input_bytes + other.input_bytes,
        output_bytes=call.output_bytes + other.output_bytes,
    )  # fmt: skip


def _splits(value: object, ranks: tuple[int, ...]) -> tuple[int, ...] | None:
    splits = numbers_of(value)
    return splits if splits and len(splits) == len(ranks) else None
