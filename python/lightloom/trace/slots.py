"""The length of time slots, and what a step loses to them (Chronos, section 6).

A slot is as long as its payload takes on the link, and the largest one-way latency, and the guard
time in which crossbars turn. A transfer takes whole slots. Short slots spend their time on latency
and guard, long ones on transfers that do not fill them; in between lies the length with which the
busiest role is done first. Each tier of a fabric may have slots of a length of its own.

Computation is left out: times are of communication alone, one call after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.trace.local import LocalStack
from lightloom.trace.stack import PermutationStack

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: slots that a transfer is divided into, where lengths are tried
MAX_SLOTS_EACH = 10_000
#: lengths that are tried at once
_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class SlotTiming:
    """What a slot has to wait for.

    Attributes
    ----------
    rate_gbps
        Of a link.
    latency_s
        Largest one-way latency between ranks.
    guard_s
        Time in which crossbars change and nothing can be sent.
    """

    rate_gbps: float
    latency_s: float
    guard_s: float

    @property
    def overhead_s(self) -> float:
        """What every slot takes in addition to its payload."""
        return self.latency_s + self.guard_s

    @property
    def overhead_bytes(self) -> float:
        """What a link could send meanwhile."""
        return self.overhead_s * self.rate_gbps * 1e9 / 8

    def sending_s(self, size_bytes: float) -> float:
        """Time of so many bytes on a link."""
        return size_bytes * 8 / (self.rate_gbps * 1e9)

    def slot_s(self, size_bytes: float) -> float:
        """The slot that carries so many bytes: b/c + t_max + t_x."""
        return self.sending_s(size_bytes) + self.overhead_s

    def efficiency(self, size_bytes: float) -> float:
        """The share of such a slot in which data is sent: (b/c) / T."""
        return self.sending_s(size_bytes) / self.slot_s(size_bytes)

    def size_for(self, efficiency: float) -> float:
        """Bytes in a slot of an efficiency between 0 and 1."""
        return self.overhead_bytes * efficiency / (1 - efficiency)


@dataclass(frozen=True, eq=False)
class Transfers:
    """What is sent in permutations that turn round at one tier.

    Attributes
    ----------
    tier
        From 1; 1 for a single crossbar.
    size_bytes
        Sizes of transfers that differ, ``(sizes,)``.
    count
        Permutations of each size that each role sees, ``(roles, sizes)``.
    """

    tier: int
    size_bytes: Ints
    count: Ints


@dataclass(frozen=True)
class SlotPlan:
    """Slots of one tier.

    Attributes
    ----------
    tier, timing
        Where, and what a slot waits for.
    payload_bytes
        That a slot carries.
    role
        The role that takes longest with it.
    slots
        That it sees.
    time_s
        That they take.
    sending_s
        That its bytes take on a link: the least.
    """

    tier: int
    timing: SlotTiming
    payload_bytes: float
    role: int
    slots: int
    time_s: float
    sending_s: float

    @property
    def slot_s(self) -> float:
        """Length of a slot."""
        return self.timing.slot_s(self.payload_bytes)

    @property
    def overhead_s(self) -> float:
        """Time lost to latency and guard time."""
        return self.slots * self.timing.overhead_s

    @property
    def rounding_s(self) -> float:
        """Time lost where transfers do not fill their slots."""
        return self.time_s - self.sending_s - self.overhead_s

    @property
    def efficiency(self) -> float:
        """The share of the time in which data is sent."""
        return self.sending_s / self.time_s


def transfers_of(stack: PermutationStack, local: LocalStack | None = None) -> list[Transfers]:
    """What roles send, by tier: over one crossbar, or over the switches of a fabric."""
    parts: list[list[int]] = [[1]] * len(stack.permutations)
    if local is not None:
        parts = [[] for _ in stack.permutations]
        for index, tier in zip(local.parent.tolist(), local.tier.tolist(), strict=True):
            parts[index].append(max(tier, 1))
    tiers = sorted({tier for tiers_of in parts for tier in tiers_of})
    table: dict[int, dict[int, Ints]] = {tier: {} for tier in tiers}
    roles = len(stack.sequences)
    issued = np.stack([np.bincount(calls, minlength=len(stack.calls)) for calls in stack.sequences])
    for number, call in enumerate(stack.calls):
        for block in call.blocks:
            if not block.size_bytes:
                continue
            for tier in (tier for index in block.permutations for tier in parts[index]):
                counts = table[tier].setdefault(block.size_bytes, np.zeros(roles, dtype=np.int64))
                counts += issued[:, number] * block.repeats
    return [
        Transfers(
            tier, np.array(sorted(row)), np.stack([row[size] for size in sorted(row)], axis=1)
        )
        for tier, row in table.items()
        if row
    ]


def plan_with(transfers: Transfers, timing: SlotTiming, payload_bytes: float) -> SlotPlan:
    """Slots of a given payload."""
    slots_each = _slots_each(transfers.size_bytes, np.array([payload_bytes]))[0]
    slots = transfers.count @ slots_each.astype(np.int64)
    role = int(slots.argmax())
    sending = timing.sending_s(float(transfers.count[role] @ transfers.size_bytes))
    count = int(slots[role])
    time_s = count * timing.slot_s(payload_bytes)
    return SlotPlan(transfers.tier, timing, payload_bytes, role, count, time_s, sending)


def smallest_chunk(transfers: Transfers, timing: SlotTiming) -> SlotPlan:
    """Slots that carry the smallest transfer, as the paper chooses them."""
    return plan_with(transfers, timing, float(transfers.size_bytes.min()))


def best_slots(transfers: Transfers, timing: SlotTiming) -> SlotPlan:
    """The slots with which the busiest role is done first.

    Between two lengths at which a transfer just fills its slots the longer one only wastes time,
    so only those are tried, up to 10,000 slots for a transfer; lengths that lose more to latency
    and guard time than the best one so far loses in all are left out.

    Raises
    ------
    InputError
        If slots wait for nothing: the shorter, the better.
    """
    if timing.overhead_s <= 0:
        raise InputError("with neither latency nor guard time slots may be as short as can be")
    sizes = transfers.size_bytes.astype(np.float64)
    tried = np.unique(np.concatenate([sizes, np.geomspace(sizes.min(), sizes.max(), 64)]))
    best = float(_times(transfers, timing, tried).min())
    sending = max(timing.sending_s(float(counts @ sizes)) for counts in transfers.count)
    busiest = max(float(counts @ sizes) for counts in transfers.count)
    shortest = timing.overhead_s * busiest / max(best - sending, 1e-300)
    candidates = [sizes]
    for size in sizes.tolist():
        largest = int(min(MAX_SLOTS_EACH, size / shortest + 1))
        candidates.append(size / np.arange(1, largest + 1))
    payloads = np.unique(np.concatenate(candidates))
    times = np.concatenate(
        [
            _times(transfers, timing, payloads[start : start + _AT_ONCE])
            for start in range(0, len(payloads), _AT_ONCE)
        ]
    )
    # of equal ones the longest, which turns least often
    fastest = np.flatnonzero(times <= times.min() * (1 + 1e-12))[-1]
    return plan_with(transfers, timing, float(payloads[fastest]))


def _slots_each(sizes: npt.NDArray[np.number], payloads: Floats) -> Floats:
    """Slots of each size, ``(payloads, sizes)``; a payload of size / m takes m slots of it."""
    slots: Floats = np.maximum(np.ceil(sizes / payloads[:, None] * (1 - 1e-12)), 1)
    return slots


def _times(transfers: Transfers, timing: SlotTiming, payloads: Floats) -> Floats:
    """Time of the busiest role with each payload."""
    slots_each = _slots_each(transfers.size_bytes, payloads)
    slots: Floats = (slots_each @ transfers.count.T).max(axis=1)
    return slots * np.asarray(payloads * 8 / (timing.rate_gbps * 1e9) + timing.overhead_s)
