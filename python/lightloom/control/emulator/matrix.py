"""The emulated optics: ports, mirrors that settle, light, and what goes wrong with them.

Ports are numbers, ingress 1 to N and egress N + 1 to N + M. A circuit carries no light while it
settles. Nothing here waits or knows a protocol: the time is an argument of the constructor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lightloom.control.emulator.timing import SettleTime

#: what a dark monitor measures
DARK_DBM = -60.0
#: loss of a datasheet that a testbed keeps: 1.5 dB typical, 2.7 dB at most
_LOSS_DB = (0.5, 1.35)
_LAUNCH_DBM = (0.0, 3.0)


class BusyPolicy(StrEnum):
    """What connecting a busy port does."""

    MOVE = "move"
    REFUSE = "refuse"


class Atomicity(StrEnum):
    """What a list with a bad pair does."""

    ALL_OR_NOTHING = "all-or-nothing"
    PREFIX = "prefix"


class Refusal(StrEnum):
    """Why the matrix refuses a change."""

    NO_SUCH_PORT = "no such port"
    WRONG_SIDE = "wrong side"
    REPEATED = "repeated"
    BUSY = "busy"
    DISABLED = "disabled"
    FAILED = "failed"


class MatrixRefusalError(Exception):
    """The matrix refuses a pair of ports."""

    def __init__(self, reason: Refusal, port: int) -> None:
        super().__init__(f"port {port}: {reason}")
        self.reason, self.port = reason, port


@dataclass(slots=True)
class OpticalMatrix:
    """Circuits between N ingress and M egress ports.

    Attributes
    ----------
    size
        N and M.
    settle_time
        How long a change takes.
    now
        Returns the time in seconds.
    rng
        Draws settle times.
    busy, atomicity
        What the switch does where no source says what a real one does.
    stuck
        Ports whose mirror does not move: commands succeed without effect on them.
    failed
        Ports whose mirror has failed: they carry no light, and connecting them is refused.
    disabled
        Ports with a closed shutter: they carry no light.
    blocked
        Ports whose flap blocks the light at present.
    limits_dbm
        Most power that leaves an egress port, where an attenuator limits it.
    launched_dbm
        Power of the light that arrives at an ingress port; no light if the port is missing.
    on_change
        Called when circuits have changed, with the time at which all are settled.
    """

    size: tuple[int, int]
    settle_time: SettleTime
    now: Callable[[], float]
    rng: random.Random
    busy: BusyPolicy = BusyPolicy.MOVE
    atomicity: Atomicity = Atomicity.ALL_OR_NOTHING
    stuck: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    disabled: set[int] = field(default_factory=set)
    blocked: set[int] = field(default_factory=set)
    limits_dbm: dict[int, float] = field(default_factory=dict)
    launched_dbm: dict[int, float] = field(default_factory=dict)
    on_change: Callable[[float], None] = lambda _: None
    _peers: dict[int, int] = field(default_factory=dict)
    _settled_at_s: dict[int, float] = field(default_factory=dict)
    _loss_db: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        optics = random.Random(self.rng.random())
        self._loss_db = [0.0, *(optics.uniform(*_LOSS_DB) for _ in self.ports)]
        if not self.launched_dbm:
            self.launched_dbm = {port: optics.uniform(*_LAUNCH_DBM) for port in self.ingress_ports}

    @property
    def ports(self) -> range:
        """All ports."""
        return range(1, sum(self.size) + 1)

    @property
    def ingress_ports(self) -> range:
        """The ports that light enters."""
        return range(1, self.size[0] + 1)

    def is_ingress(self, port: int) -> bool:
        """Whether light enters the port."""
        return port <= self.size[0]

    @property
    def circuits(self) -> dict[int, int]:
        """Egress port of every connected ingress port, in the order of these."""
        return {port: self._peers[port] for port in sorted(self._peers) if self.is_ingress(port)}

    def peer_of(self, port: int) -> int | None:
        """Return the other port of a port's circuit."""
        return self._peers.get(port)

    def is_tuning(self, port: int) -> bool:
        """Whether the port's circuit settles at present."""
        return self.now() < self._settled_at_s.get(self._ingress_of(port), 0.0)

    def loss_db(self, ingress: int, egress: int) -> float:
        """Return the insertion loss of a circuit, whether or not it exists."""
        return round(self._loss_db[ingress] + self._loss_db[egress], 2)

    def power_dbm(self, port: int) -> float:
        """Return the power of the light that enters an ingress, or leaves an egress port."""
        if self.is_ingress(port):
            return round(self.launched_dbm.get(port, DARK_DBM), 2)
        ingress = self._peers.get(port)
        if ingress is None or self.is_tuning(port) or not self._carries_light(ingress, port):
            return DARK_DBM
        power_dbm = self.launched_dbm.get(ingress, DARK_DBM) - self.loss_db(ingress, port)
        return round(min(power_dbm, self.limits_dbm.get(port, power_dbm)), 2)

    def lit(self) -> dict[int, int]:
        """Return the egress port of every ingress port whose light leaves the switch at present."""
        return {a: b for a, b in self.circuits.items() if self.power_dbm(b) > DARK_DBM}

    def change(self, deletes: Iterable[int], creates: Sequence[tuple[int, int]]) -> float:
        """Delete the circuits of ports, then create circuits; return when all are settled.

        Raises
        ------
        MatrixRefusalError
            For the first bad pair. Nothing is changed then, or the pairs before it and all deletes
            are, depending on ``atomicity``.
        """
        deletes = list(deletes)
        for port in deletes:
            if port not in self.ports:
                raise MatrixRefusalError(Refusal.NO_SUCH_PORT, port)
        num_good, refusal = self._check(creates, freed=self._with_peers(deletes))
        if refusal is not None and self.atomicity is Atomicity.ALL_OR_NOTHING:
            raise refusal
        for port in deletes:
            self._disconnect(port)
        settled_at_s = self._create(creates[:num_good])
        if refusal is not None:
            raise refusal
        return settled_at_s

    def restore(self, circuits: dict[int, int]) -> float:
        """Replace all circuits at once, as after a restart; return when they are settled."""
        self._peers.clear()
        self._settled_at_s.clear()
        return self._create(list(circuits.items()))

    def _create(self, creates: Sequence[tuple[int, int]]) -> float:
        # a mirror that does not move keeps its circuit, and with it the port at the other end
        new = [
            (a, b)
            for a, b in creates
            if self._peers.get(a) != b and not self._with_peers((a, b)) & self.stuck
        ]
        settled_at_s = self.now()
        if new:
            settled_at_s += self.settle_time.draw_s(len(new), self.rng)
        for ingress, egress in new:
            self._disconnect(ingress)
            self._disconnect(egress)
            self._peers |= {ingress: egress, egress: ingress}
            self._settled_at_s[ingress] = settled_at_s
        self.on_change(settled_at_s)
        return settled_at_s

    def _check(
        self, creates: Sequence[tuple[int, int]], freed: set[int]
    ) -> tuple[int, MatrixRefusalError | None]:
        """Return how many pairs come before the first bad one, and what is wrong with it."""
        used: set[int] = set()
        for index, pair in enumerate(creates):
            refusal = self._refusal_of(pair, used, freed)
            if refusal is not None:
                return index, refusal
            used |= set(pair)
        return len(creates), None

    def _refusal_of(
        self, pair: tuple[int, int], used: set[int], freed: set[int]
    ) -> MatrixRefusalError | None:
        ingress, egress = pair
        for port in pair:
            if port not in self.ports:
                return MatrixRefusalError(Refusal.NO_SUCH_PORT, port)
        if not self.is_ingress(ingress):
            return MatrixRefusalError(Refusal.WRONG_SIDE, ingress)
        if self.is_ingress(egress):
            return MatrixRefusalError(Refusal.WRONG_SIDE, egress)
        is_new = self._peers.get(ingress) != egress
        for port in pair:
            is_busy = is_new and port in self._peers and port not in freed
            for is_bad, reason in (
                (port in used, Refusal.REPEATED),
                (port in self.failed, Refusal.FAILED),
                (port in self.disabled, Refusal.DISABLED),
                (is_busy and self.busy is BusyPolicy.REFUSE, Refusal.BUSY),
            ):
                if is_bad:
                    return MatrixRefusalError(reason, port)
        return None

    def _with_peers(self, ports: Iterable[int]) -> set[int]:
        return {end for port in ports for end in (port, self._peers.get(port, port))}

    def _disconnect(self, port: int) -> None:
        peer = self._peers.get(port)
        if peer is None or {port, peer} & self.stuck:
            return
        del self._peers[port], self._peers[peer]
        self._settled_at_s.pop(min(port, peer), None)

    def _ingress_of(self, port: int) -> int:
        return port if self.is_ingress(port) else self._peers.get(port, port)

    def _carries_light(self, ingress: int, egress: int) -> bool:
        return not {ingress, egress} & (self.failed | self.disabled | self.blocked)
