"""What an emulated SONiC switch has configured, and what its hardware reports."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from enum import StrEnum

from lightloom.control.emulator.device import EmulatedSwitch

_PAIR = re.compile(r"(\d{1,5})A(?:\.\.(\d{1,5})A)?-(\d{1,5})B(?:\.\.(\d{1,5})B)?")
_MAX_PAIRS = 4096


class AddMode(StrEnum):
    """What adding cross-connects does with those that exist."""

    UPDATE = "update"
    SAFE = "safe"
    OVERWRITE = "overwrite"


class SonicRefusedError(Exception):
    """A request is refused, with a text."""


class SonicTables:
    """Configured and reported cross-connects, and ports, of a switch.

    Ingress port ``i`` is called ``iA``, egress port ``N + j`` of the matrix ``jB``.
    """

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        self._wanted: dict[int, int] = {}
        #: those that lost their ports to others, or did not get them: configured, and not made
        self._invalid: set[tuple[int, int]] = set()

    @property
    def has_state_module(self) -> bool:
        """Whether the hardware reports in a module of its own."""
        return self._switch.has_state_module

    def parse_pairs(self, text: str) -> list[tuple[int, int]]:
        """Return the pairs of a list such as ``1A-2B,3A..4A-5B..6B``, as the matrix numbers them.

        Raises
        ------
        SonicRefusedError
            If a part is no pair, or a port does not exist.
        """
        pairs: list[tuple[int, int]] = []
        for part in filter(None, text.split(",")):
            match = _PAIR.fullmatch(part)
            if match is None:
                raise SonicRefusedError(f"invalid cross-connect {part[:40]}")
            first, last, start, stop = (None if end is None else int(end) for end in match.groups())
            assert first is not None
            assert start is not None
            sources = range(first, (last or first) + 1)
            targets = range(start, (stop or start) + 1)
            if len(sources) != len(targets) or len(pairs) + len(sources) > _MAX_PAIRS:
                raise SonicRefusedError(f"invalid range {part[:40]}")
            pairs += [(a, self._egress(b)) for a, b in zip(sources, targets, strict=True)]
        rows, columns = self._switch.matrix.size
        for a, b in pairs:
            if not (1 <= a <= rows < b <= rows + columns):
                raise SonicRefusedError(f"no such port in {self.name(a, b)}")
        if not pairs:
            raise SonicRefusedError("no cross-connect given")
        return pairs

    async def add(self, pairs: Sequence[tuple[int, int]], mode: AddMode = AddMode.UPDATE) -> None:
        """Configure cross-connects.

        In the mode ``update``, those that lose ports to new ones stay configured, and are invalid.

        Raises
        ------
        SonicRefusedError, MatrixRefusalError
            If the switch refuses.
        """
        ports = list(itertools.chain.from_iterable(pairs))
        if len(set(ports)) < len(ports):
            raise SonicRefusedError("a port is in several cross-connects")
        current = self._switch.matrix.circuits.items()
        taken = [pair for pair in current if set(pair) & set(ports) and pair not in pairs]
        if mode is AddMode.SAFE and taken:
            raise SonicRefusedError(f"port {taken[0][0]}A is in use")
        if mode is AddMode.OVERWRITE:
            others = [pair for pair in self.configured() if pair not in pairs]
            await self._make(others, pairs)
            return
        await self._make(taken, pairs)
        # as public tests saw on a switch: what lost its ports stays configured
        self._invalid |= set(taken)

    async def change(
        self,
        deletes: Sequence[tuple[int, int]],
        creates: Sequence[tuple[int, int]],
    ) -> None:
        """Delete and then create cross-connects, all of them or none.

        Raises
        ------
        SonicRefusedError, MatrixRefusalError
            If one to delete does not exist, or a port is used by two afterwards.
        """
        self._check_configured(deletes)
        ports = list(itertools.chain.from_iterable(creates))
        freed = set(deletes) | set(creates)
        busy = [
            self.name(a, b)
            for a, b in self._switch.matrix.circuits.items()
            if (a in ports or b in ports) and (a, b) not in freed
        ]
        if busy or len(set(ports)) < len(ports):
            raise SonicRefusedError(f"a port is in several cross-connects {' '.join(busy[:1])}")
        await self._make(deletes, creates)

    async def update_in_bulk(
        self, deletes: Sequence[tuple[int, int]], adds: Sequence[tuple[int, int]]
    ) -> tuple[int, int]:
        """Delete and then add cross-connects as the operation ``bulk-update`` does.

        What is not there is not deleted, and what is there is not added again. Of two or more
        additions, new ones take their ports from others, which stay configured and are invalid;
        a single one that needs a busy port is invalid itself.

        Returns
        -------
        tuple
            How many were deleted, and how many added.

        Raises
        ------
        MatrixRefusalError
            If the switch refuses; nothing is changed then.
        """
        present = {*self._configured().items(), *self._invalid}
        gone = [pair for pair in dict.fromkeys(deletes) if pair in present]
        left = present - set(gone)
        new = [pair for pair in dict.fromkeys(adds) if pair not in left]
        ports = set(itertools.chain.from_iterable(new))
        circuits = self._switch.matrix.circuits.items()
        losers = [pair for pair in circuits if pair in left and set(pair) & ports]
        if losers and len(adds) == 1:
            await self._make(gone, [])
            self._invalid |= set(new)
        else:
            await self._make([*gone, *losers], new)
            self._invalid |= set(losers)
        return len(gone), len(adds)

    async def _make(
        self, deletes: Sequence[tuple[int, int]], creates: Sequence[tuple[int, int]]
    ) -> None:
        circuits = self._switch.matrix.circuits.items()
        await self._switch.change([a for a, b in deletes if (a, b) in circuits], creates)
        self._wanted = {a: b for a, b in self._wanted.items() if (a, b) not in deletes} | dict(
            creates
        )
        self._invalid -= {*deletes, *creates}

    def _check_configured(self, pairs: Sequence[tuple[int, int]]) -> None:
        configured = self._configured().items()
        for a, b in pairs:
            if (a, b) not in configured and (a, b) not in self._invalid:
                raise SonicRefusedError(f"cross-connect {self.name(a, b)} does not exist")

    async def delete(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Delete cross-connects that exist.

        Raises
        ------
        SonicRefusedError
            If one does not exist.
        """
        self._check_configured(pairs)
        await self._make(pairs, [])

    def config_rows(self) -> list[dict[str, str]]:
        """Return the configured cross-connects."""
        return [self._row(a, b) for a, b in self.configured()]

    def configured(self) -> list[tuple[int, int]]:
        """Return the configured cross-connects, also those that are not made."""
        return sorted({*self._configured().items(), *self._invalid})

    def status_rows(self) -> list[dict[str, str]]:
        """Return the cross-connects that the hardware reports."""
        return [
            self._row(a, b) | {"a_side_status": self._status(a), "b_side_status": self._status(b)}
            for a, b in sorted({*self._switch.matrix.circuits.items(), *self._invalid})
        ]

    def port_config_rows(self) -> list[dict[str, str]]:
        """Return the label and the configured state of all ports."""
        state = "state" if self.has_state_module else "config_status"
        matrix, labels = self._switch.matrix, self._switch.labels
        return [
            {
                "id": self._port_name(port),
                "label": labels.get(port, ""),
                state: "force_blocked" if port in matrix.disabled else "normal",
            }
            for port in matrix.ports
        ]

    def path_rows(self) -> list[dict[str, str | list[str]]]:
        """Return the cross-connects that the hardware reports as the guide has them."""
        rows: list[dict[str, str | list[str]]] = []
        for a, b in sorted({*self._switch.matrix.circuits.items(), *self._invalid}):
            is_tuned = self._status(a) == self._status(b) == "tuned"
            status = "invalid" if (a, b) in self._invalid else "disabled"
            ends = self._row(a, b)
            inside = [f"panel IN {a}", f"panel OUT {b - self._switch.matrix.size[0]}"]
            rows.append(
                {
                    "id": ends["id"],
                    "status": "enabled" if is_tuned else status,
                    "physical_path": [ends["a_side"], *inside, ends["b_side"]],
                }
            )
        return rows

    def port_rows(self) -> list[dict[str, str]]:
        """Return all ports."""
        matrix = self._switch.matrix
        status, words = "status", {"tuned": "tuned"}
        if not self.has_state_module:
            status, words = "oper_status", {"tuned": "connected"}
        rows = []
        for port in matrix.ports:
            peer = matrix.peer_of(port)
            rows.append(
                {
                    "id": self._port_name(port),
                    "connector_type": "LC UPC",
                    "connector_pin": "2" if matrix.is_ingress(port) else "1",
                    "target_simplex_port_id": "" if peer is None else self._port_name(peer),
                    status: words.get(self._status(port), self._status(port)),
                }
            )
        return rows

    def _configured(self) -> dict[int, int]:
        """Return what was added here, less what another controller took, plus what it made."""
        actual = self._switch.matrix.circuits
        used = set(itertools.chain.from_iterable(actual.items()))
        kept = {a: b for a, b in self._wanted.items() if a not in used and b not in used}
        return kept | actual

    def _status(self, port: int) -> str:
        matrix = self._switch.matrix
        if port in matrix.failed:
            return "failed"
        if port in matrix.disabled or matrix.peer_of(port) is None:
            return "blocked"
        return "tuning" if matrix.is_tuning(port) else "tuned"

    def _row(self, a: int, b: int) -> dict[str, str]:
        return {
            "id": self.name(a, b),
            "a_side": self._port_name(a),
            "b_side": self._port_name(b),
        }

    def _egress(self, index: int) -> int:
        return index + self._switch.matrix.size[0]

    def _port_name(self, port: int) -> str:
        rows = self._switch.matrix.size[0]
        return f"{port}A" if port <= rows else f"{port - rows}B"

    def name(self, a: int, b: int) -> str:
        """Return the name of a cross-connect."""
        return f"{self._port_name(a)}-{self._port_name(b)}"
