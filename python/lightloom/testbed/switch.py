"""The circuit switch of a testbed: the emulator, whose light carries frames.

Where light leaves a port of the emulated switch, the kernel redirects frames there; for as long as
mirrors move, or a port is closed or has failed, it does not; nor while NICs would need to notice
their light, if that is asked for. A circuit is broken before another is
made, and lit before the emulator says that it has settled. A port whose device is down has no
light. Arguments: the testbed's mark, and its folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lightloom.control.emulator import Emulator
from lightloom.control.emulator.timing import FixedTime, parse_settle_time
from lightloom.testbed.crossbar import Crossbar, is_device_up, links, route_socket
from lightloom.testbed.daemon import RECORD, Tell, go_on
from lightloom.testbed.layout import CIRCUITS
from lightloom.testbed.namespaces import enter_network, in_thread
from lightloom.testbed.record import LOG, TestbedRecord

#: time after which what no event tells is noticed, such as a shutter that was closed
_LOOK_S = 0.02
#: time between two looks whether the record is there
_RECORD_S = 2.0


class _Routes(NamedTuple):
    """Sockets in the switch's namespace, and its devices there.

    Attributes
    ----------
    commands, events
        Netlink sockets.
    indices
        Index of each device, by name.
    down
        Indices of devices that are down.
    """

    commands: socket.socket
    events: socket.socket
    indices: dict[str, int]
    down: frozenset[int]


class KernelSwitch:
    """Keeps the mirrors in the kernel as those of the emulated switch.

    Parameters
    ----------
    emulator
        The switch, which listens.
    record
        Of the testbed.
    routes
        Of the switch's namespace.
    """

    def __init__(self, emulator: Emulator, record: TestbedRecord, routes: _Routes) -> None:
        self._matrix, self._size = emulator.matrix, record.layout.ports
        layout = record.layout
        self._port_of = {
            routes.indices[nic.port]: layout.ingress_of(nic)
            for nic in layout.all_nics()
            if nic.is_optical
        }
        devices = {port: index for index, port in self._port_of.items()}
        self._crossbar = Crossbar(routes.commands, devices)
        self._events = routes.events
        self._launched_dbm = dict(self._matrix.launched_dbm)
        self._link_up_s = record.link_up_s
        self._ready_at_s: dict[tuple[int, int], float] = {}
        for index in routes.down & self._port_of.keys():
            self._set_light(self._port_of[index], is_on=False)

    def restore(self, lit: Mapping[int, int]) -> None:
        """Begin with the circuits that the kernel has: those of mirrors that stayed in place."""
        self._crossbar.lit = dict(lit)
        self._ready_at_s = dict.fromkeys(lit.items(), 0.0)
        moving_time = self._matrix.settle_time
        self._matrix.settle_time = FixedTime(0)
        self._matrix.restore({port: to + self._size for port, to in lit.items()})
        self._matrix.settle_time = moving_time

    async def follow(self) -> None:
        """Follow the emulated switch until this is canceled."""
        loop = asyncio.get_running_loop()
        self._matrix.on_change = self._on_change
        loop.add_reader(self._events, self._on_links)
        try:
            while True:
                self._show()
                await asyncio.sleep(_LOOK_S)
        finally:
            loop.remove_reader(self._events)

    def _on_change(self, settled_at_s: float) -> None:
        self._show()
        # before the emulator says that it has settled, which it does at this time, too
        asyncio.get_running_loop().call_at(settled_at_s, self._on_settled, settled_at_s)

    def _on_settled(self, settled_at_s: float) -> None:
        while self._matrix.now() < settled_at_s:
            pass  # a loop calls as early as its clock cannot tell
        self._show()

    def _on_links(self) -> None:
        for index, is_up in links(self._events.recv(1 << 16)):
            port = self._port_of.get(index)
            if port is not None:
                self._set_light(port, is_on=is_up)
        self._show()

    def _set_light(self, port: int, *, is_on: bool) -> None:
        """Let the NIC at a port send light, or none."""
        if is_on:
            self._matrix.launched_dbm[port] = self._launched_dbm[port]
        else:
            self._matrix.launched_dbm.pop(port, None)

    def _show(self) -> None:
        """Let frames go where light does, once NICs have had the time that they need for it."""
        now = self._matrix.now()
        lit = [(port, to - self._size) for port, to in self._matrix.lit().items()]
        if any(pair not in self._ready_at_s for pair in lit) and self._link_up_s:
            asyncio.get_running_loop().call_later(self._link_up_s, self._show)
        ready = now + self._link_up_s
        self._ready_at_s = {pair: self._ready_at_s.get(pair, ready) for pair in lit}
        try:
            self._crossbar.show(dict(pair for pair in lit if self._ready_at_s[pair] <= now))
        except OSError as error:
            print(f"the kernel refuses a mirror: {error}", file=sys.stderr, flush=True)


async def _serve(folder: Path, lit: dict[int, int], tell: Tell) -> None:
    record = TestbedRecord.read(folder)
    routes = _routes(record.path_of(CIRCUITS))
    layout = record.layout
    size = (layout.ports, layout.ports)
    timing = parse_settle_time(record.settle_time)
    services = {"tl1": record.tl1_port}
    async with Emulator(size, seed=record.seed, timing=timing, services=services) as emulator:
        kernel = KernelSwitch(emulator, record, routes)
        kernel.restore(lit)
        tell({"tl1_port": emulator.ports["tl1"], "url": emulator.url()})
        following = asyncio.create_task(kernel.follow())
        # it ends where nobody could find it any more
        while (folder / RECORD).exists() and not following.done():
            await asyncio.sleep(_RECORD_S)
        if not following.cancel():
            following.result()


def _routes(path: str) -> _Routes:
    def there() -> _Routes:
        enter_network(path)
        events = route_socket(events=True)  # first, so that no change is missed
        indices = {name: index for index, name in socket.if_nameindex()}
        down = frozenset(index for name, index in indices.items() if not is_device_up(name))
        return _Routes(route_socket(), events, indices, down)

    return in_thread(there)


def main(arguments: list[str]) -> None:
    """Run the switch."""
    _mark, folder, lit = arguments

    def work(tell: Tell) -> None:
        pairs = (pair.split(":") for pair in lit.split(",") if pair)
        circuits = {int(port): int(to) for port, to in pairs}
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(Path(folder), circuits, tell))

    go_on(work, Path(folder) / LOG)


if __name__ == "__main__":
    main(sys.argv[1:])
