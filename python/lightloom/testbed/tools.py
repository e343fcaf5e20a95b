"""What ``ip``, ``bridge`` and ``tc`` are told in a testbed's namespaces, and what they show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

from lightloom.errors import echo
from lightloom.testbed import commands
from lightloom.testbed.daemon import run_bounded
from lightloom.testbed.layout import CIRCUITS, PACKETS, ServerNic, server_place
from lightloom.testbed.record import TestbedRecord
from lightloom.testbed.refusals import KernelError, TestbedError

_REDIRECT = re.compile(r"Redirect to device ([^)\s]+)")


class NicBytes(NamedTuple):
    """What a NIC has sent and received, as the device at the other end of its cable counts it."""

    sent_bytes: int
    received_bytes: int
    sent_frames: int
    received_frames: int


class CableState(NamedTuple):
    """Whether the device at the switch's end of a cable is up, and what the NIC has carried."""

    is_up: bool
    carried: NicBytes


class KernelTools:
    """The devices of one testbed.

    Parameters
    ----------
    record
        Of the testbed, with a keeper.
    """

    def __init__(self, record: TestbedRecord) -> None:
        self._record, self._layout = record, record.layout
        has_circuits = bool(self._layout.optical_nics)
        self._switches = (CIRCUITS, PACKETS) if has_circuits else (PACKETS,)

    def make(self) -> None:
        """Make all devices: no circuit is lit.

        Raises
        ------
        KernelError
            If the kernel refuses one.
        """
        record, layout = self._record, self._layout
        for place in layout.places():
            self._batch("ip", place, [f"link set lo alias {record.mark}"])

        def place_of(server: int) -> str:
            return record.path_of(server_place(server))

        for place in self._switches:
            self._batch("ip", place, commands.cables(layout, place_of, optical=place == CIRCUITS))
        self._batch("bridge", PACKETS, commands.stations(layout))
        self._batch("tc", PACKETS, commands.port_shapers(layout))
        if layout.optical_nics:
            self._batch("tc", CIRCUITS, commands.mirror_mounts(layout))
        for server in range(layout.servers):
            self._batch("ip", server_place(server), commands.addresses(layout, server))
            self._batch("tc", server_place(server), commands.shapers(layout, server))

    def set_ports(self, nics: Iterable[ServerNic], *, is_up: bool) -> None:
        """Let cables carry frames, or none."""
        lines: dict[str, list[str]] = {}
        for nic in nics:
            place = CIRCUITS if nic.is_optical else PACKETS
            state = "up" if is_up else "down"
            lines.setdefault(place, []).append(f"link set {nic.port} {state}")
        for place, batch in lines.items():
            self._batch("ip", place, batch)

    def ports(self) -> dict[str, CableState]:
        """Return the state of each NIC's port, by the NIC's part."""
        states: dict[str, CableState] = {}
        for place in self._switches:
            words = [*self._record.nsenter(place), "ip", "-json", "-statistics", "link", "show"]
            done = run_bounded(words)
            if done.returncode != 0:
                raise TestbedError(f"cannot look at the testbed: {' '.join(done.stderr.split())}")
            for device in json.loads(done.stdout):
                sent, received = device["stats64"]["rx"], device["stats64"]["tx"]
                carried = NicBytes(
                    sent["bytes"], received["bytes"], sent["packets"], received["packets"]
                )
                states[device["ifname"]] = CableState("UP" in device["flags"], carried)
        return {nic.part: states[nic.port] for nic in self._layout.all_nics()}

    def lit(self) -> dict[int, int]:
        """Return the port at which frames leave that enter each port of the circuit switch."""
        layout = self._layout
        nics = [nic for nic in layout.all_nics() if nic.is_optical]
        ports = {nic.port: layout.ingress_of(nic) for nic in nics}
        lines = [
            line
            for name in ports
            for line in (f"qdisc show dev {name}", f"filter show dev {name} ingress")
        ]
        # what tc shows does not name the device: the line of its mount says where the next begins
        _, *shown = self._batch("tc", CIRCUITS, lines).split("qdisc clsact")
        redirects = zip(ports.values(), map(_REDIRECT.search, shown), strict=True)
        return {port: ports[match[1]] for port, match in redirects if match is not None}

    def _batch(self, program: str, place: str, lines: Iterable[str]) -> str:
        """Run lines in a namespace; return what they print."""
        text = "".join(f"{line}\n" for line in lines)
        done = run_bounded([*self._record.nsenter(place), program, "-batch", "-"], text)
        if done.returncode != 0:
            reason = " ".join(done.stderr.split())
            raise KernelError(f"{program}: {echo(reason, quoted=False, limit=200)}")
        return done.stdout
