"""A drawing of a fabric: servers, switches of each tier, regions, and how loaded the links are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from lightloom.fabric.network import (
    Crossbars,
    Direct,
    Eps,
    Network,
    Ocs,
    RackCircuits,
    Scheduled,
    SwitchGraph,
)
from lightloom.report.plots_svg import Place, drawing, tag
from lightloom.report.plots_switches import SwitchRows
from lightloom.simulate.result import LinkUse
from lightloom.units import show_bytes

WIDTH, LEFT, RIGHT = 1060.0, 10.0, 800.0
#: boxes of a row: groups are cut up where there are fewer, and of more the first and last drawn
MIN_BOXES, MAX_BOXES, MAX_DOTS = 4, 16, 16
BOX, ROW = 34.0, 92.0
#: colors of loads, each for as large a part
STEPS = 5
#: what links of a class are, where they are no circuits between servers
_COUNTED = {"crossbar_up": "links into crossbars", "circuits": "pairs of racks"}


@dataclass(frozen=True)
class Group:
    """Servers under one ToR (or set of rail ToRs) and in one region; -1 is none."""

    servers: tuple[int, ...]
    tor: int
    region: int

    @property
    def name(self) -> str:
        """The servers in words."""
        first, last, count = self.servers[0], self.servers[-1], len(self.servers)
        if last - first + 1 == count and count > 1:
            return f"servers {first}-{last}"
        return f"server {first}" if count == 1 else f"{count} servers"


def groups_of(network: Network) -> list[Group]:
    """Servers by where they are connected."""
    eps, ocs = network.part(Eps), network.part(Ocs)
    servers = range(network.servers)
    tor = [server // eps.servers_per_tor if eps else -1 for server in servers]
    graph = network.part(SwitchGraph)
    if graph is not None:
        tor = same_switches(graph, network.servers)
    region = [-1] * network.servers
    if ocs is not None:
        none = np.iinfo(np.uint32).max
        region = [-1 if r == none else int(r) for r in np.asarray(ocs.region_of_server).tolist()]
    members: dict[tuple[int, int], list[int]] = {}
    for server in servers:
        members.setdefault((tor[server], region[server]), []).append(server)
    groups = [Group(tuple(mine), *key) for key, mine in sorted(members.items())]
    return groups if len(groups) >= MIN_BOXES else [part for box in groups for part in _parts(box)]


def same_switches(graph: SwitchGraph, servers: int) -> list[int]:
    """A number for each server, the same for those whose links lead to the same switches."""
    ports = np.sort(np.asarray(graph.switch_of_port).reshape(servers, -1), axis=1)
    return [int(n) for n in np.unique(ports, axis=0, return_inverse=True)[1].reshape(-1)]


def _parts(group: Group) -> list[Group]:
    """A large group as several boxes."""
    size = max(1, math.ceil(len(group.servers) / (2 * MIN_BOXES)))
    starts = range(0, len(group.servers), size)
    cut = [group.servers[start : start + size] for start in starts]
    return [Group(servers, group.tor, group.region) for servers in cut]


def count_uplinks(eps: Eps, servers: int) -> int:
    """Uplinks of all ToRs; one that is filled in part uses them in proportion."""
    full = eps.servers_per_tor * eps.nics // eps.rails
    if eps.tor_uplink_bps is not None:
        full = round(eps.tor_uplink_bps / eps.nic_rate_bps)
    tors, rest = divmod(servers, eps.servers_per_tor)
    return eps.rails * (tors * full + math.ceil(full * rest / eps.servers_per_tor))


def fabric_drawing(network: Network, links: Sequence[LinkUse], switch_ports: int | None) -> Markup:
    """Draw a fabric from its packet switches at the top to its circuit switches at the bottom.

    Parameters
    ----------
    network
        What was simulated.
    links
        Use of its links.
    switch_ports
        Ports of a packet switch, if the fabric says.
    """
    picture = Picture(network, {use.name: use for use in links}, switch_ports)
    picture.draw()
    text = f"{network.servers} servers, their switches and the load of the links between them"
    return drawing(WIDTH, picture.height, text, picture.parts, "fabric-drawing")


def load_text(use: LinkUse | None) -> str:
    """Mean and largest load of a class of links."""
    if use is None:
        return "never a bottleneck"
    return f"{100 * use.mean:.1f} % used, the busiest {100 * use.max:.1f} %"


def load_class(use: LinkUse | None) -> str:
    """The class of a bundle, by the mean load of its links."""
    if use is None:
        return "bundle unknown"
    return f"bundle load-{min(STEPS - 1, int(STEPS * use.mean))}"


class Picture:
    """Rows of boxes from top to bottom, and bundles of links between them.

    ``uses`` are of classes of links by name; empty where nothing has run.
    """

    def __init__(
        self, network: Network, uses: dict[str, LinkUse], switch_ports: int | None
    ) -> None:
        self.network, self.uses, self.ports = network, uses, switch_ports
        self.groups = groups_of(network)
        self.shown = shown_of(len(self.groups))
        self.lines: list[Markup] = []
        self.boxes: list[Markup] = []
        self.parts_below: list[Markup] = []
        self.top = 6.0

    @property
    def places(self) -> list[tuple[float, Group]]:
        """Where groups of servers are drawn, and which these are."""
        places = zip(places_of(len(self.shown)), self.shown, strict=True)
        return [(place, self.groups[number]) for place, number in places if number is not None]

    @property
    def height(self) -> float:
        """Where it ends."""
        return self.top

    @property
    def parts(self) -> list[Markup]:
        """Links lie below boxes."""
        return [*self.lines, *self.boxes, *self.parts_below]

    def draw(self) -> None:
        """Add all rows."""
        places = places_of(len(self.shown))
        eps = self.network.part(Eps)
        if eps is not None:
            self._packet_rows(eps, places)
        if (graph := self.network.part(SwitchGraph)) is not None:
            servers = [(place, group.servers[0]) for place, group in self.places]
            SwitchRows(self, graph, servers, ROW, BOX, _row_of).draw()
        for place, number in zip(places, self.shown, strict=True):
            if number is None:
                self.dots(place, self.top)
            else:
                self._group(place, self.groups[number])
        gpus = f"{self.network.gpus_per_server} GPUs each"
        self.note(self.top + 16, f"{self.network.servers} servers", gpus)
        self.top += BOX + 6
        ocs, direct = self.network.part(Ocs), self.network.part(Direct)
        if ocs is not None:
            self._regions(ocs, places)
        if direct is not None:
            self._panel(direct, places)
        crossbars = self.network.part(Crossbars)
        if crossbars is not None:
            text = f"crossbars of {crossbars.nics} planes, no packet switch"
            use = self.uses.get("crossbar_up")
            self._below(places, text, f"{crossbars.nic_rate_bps / 1e9:.0f} Gb/s reached", use)
        racks = self.network.part(RackCircuits)
        if racks is not None:
            text = f"{racks.racks} racks, circuits between them that change"
            rate = f"{racks.circuit_rate_bps / 1e9:.0f} Gb/s a port"
            self._below(places, text, rate, self.uses.get("circuits"))
        if self.network.part(Scheduled) is not None:
            self._below(places, "circuits that follow the clock", "", self.uses.get("scheduled"))
        if self.uses:
            self._legend()

    def _legend(self) -> None:
        """What the colors of bundles mean."""
        y = self.top + 10
        self.parts_below.append(tag("text", "mean load of links", x=LEFT, y=y + 4, class_="note"))
        for step in range(STEPS):
            x = LEFT + 140 + 112 * step
            text = f"{100 * step // STEPS} to {100 * (step + 1) // STEPS} %"
            self.parts_below += [
                tag("line", x1=x, y1=y, x2=x + 24, y2=y, class_=f"bundle load-{step}",
                    stroke_width=5),
                tag("text", text, x=x + 30, y=y + 4, class_="note"),
            ]  # fmt: skip
        self.top += 24

    def _packet_rows(self, eps: Eps, places: list[float]) -> None:
        tors = max(group.tor for group in self.groups) + 1
        switches = tors * eps.rails
        # one switch of each plane needs nothing above it
        if switches > eps.planes:
            self._spines(eps, switches)
        rate = f"{eps.nic_rate_bps / 1e9:.0f} Gb/s reached"
        use = self.uses.get("server_up")
        nics = self.network.servers * eps.nics
        self.note(self.top + BOX + 22, f"{nics:,} links", rate, self.load(use))
        if eps.rails > 1:
            self._rails(switches, places, use)
        else:
            self._tors(tors, places, use)
        self.top += ROW

    def _spines(self, eps: Eps, tors: int) -> None:
        """What joins the ToRs: spines, or aggregation and core."""
        pods = -(-self.network.servers // eps.servers_per_pod)
        uplinks = count_uplinks(eps, self.network.servers)
        name = "spines" if pods == 1 else f"aggregation of {pods} pods and core"
        if self.ports and pods == 1:
            name = f"{-(-uplinks // self.ports):,} spines of {self.ports} ports"
        if eps.planes > 1:
            name += f", apart on {eps.planes} planes"
        self.box(LEFT, self.top, RIGHT - LEFT, name, "switch", f"{name}; {uplinks:,} uplinks")
        use = self.uses.get("tor_up")
        self.note(self.top + BOX + 22, f"{uplinks:,} uplinks", f"of {tors} ToRs", self.load(use))
        shown = shown_of(tors)
        for place, number in zip(places_of(len(shown)), shown, strict=True):
            if number is not None:
                self.line((place, self.top + BOX), (place, self.top + ROW), use)
        self.top += ROW

    def _tors(self, tors: int, places: list[float], use: LinkUse | None) -> None:
        at: dict[int, list[float]] = {}
        for place, number in zip(places, self.shown, strict=True):
            if number is not None:
                at.setdefault(self.groups[number].tor, []).append(place)
        below = self.top + ROW
        width = box_width(len(places))
        for tor, mine in at.items():
            for place in mine:
                self.line((place, self.top + BOX), (place, below), use)
            first, last = min(mine) - width / 2, max(mine) + width / 2
            name = f"ToR {tor}" if tors > 1 else "one switch"
            ports = f", {self.ports} ports" if self.ports else ""
            self.box(first, self.top, last - first, name, "switch", f"{name}{ports}")

    def _rails(self, tors: int, places: list[float], use: LinkUse | None) -> None:
        shown = shown_of(tors)
        width = box_width(len(shown))
        for x, number in zip(places_of(len(shown)), shown, strict=True):
            if number is None:
                self.dots(x, self.top)
                continue
            for place, group in zip(places, self.shown, strict=True):
                if group is not None:
                    ends = (x, self.top + BOX), (place, self.top + ROW)
                    self.line(*ends, use, 1.5)
            tip = f"rail ToR {number}"
            self.box(x - width / 2, self.top, width, f"rail {number}", "switch", tip)

    def _group(self, place: float, group: Group) -> None:
        width = box_width(len(self.shown))
        tip = f"{group.name} ({len(group.servers)})"
        if group.region >= 0:
            tip += f", region {group.region}"
        self.box(place - width / 2, self.top, width, group.name, "servers", tip)
        count = min(len(group.servers), MAX_DOTS)
        step = min(8.0, (width - 8) / count)
        for index in range(count):
            x = place + (index - (count - 1) / 2) * step
            self.boxes.append(tag("circle", cx=x, cy=self.top + 26, r=min(2.5, step / 2.6),
                                  class_="server"))  # fmt: skip

    def _regions(self, ocs: Ocs, places: list[float]) -> None:
        use = self.uses.get("circuit")
        mine = [(place, self.groups[n]) for place, n in zip(places, self.shown, strict=True)
                if n is not None and self.groups[n].region >= 0]  # fmt: skip
        sizes: dict[int, int] = {}
        for group in self.groups:
            if group.region >= 0:
                sizes[group.region] = sizes.get(group.region, 0) + len(group.servers)
        below, width = self.top + ROW - BOX, box_width(len(places))
        for region in dict.fromkeys(group.region for _, group in mine):
            at = [place for place, group in mine if group.region == region]
            x = sum(at) / len(at)
            for place in at:
                self.line((place, self.top - 6), (x, below), use)
            ports = sizes[region] * ocs.ports
            tip = f"circuit switch of region {region}: {sizes[region]} servers, {ports} ports"
            self.box(x - width / 2, below, width, f"OCS {region}", "circuits", tip)
        circuits = sum(sizes.values()) * ocs.ports
        self.note(self.top + 14, f"{circuits:,} optical links", f"{ocs.ports} per server",
                   self.load(use))  # fmt: skip
        text = "one switch" if len(sizes) == 1 else f"{len(sizes)} switches"
        self.note(below + 16, f"{text} of circuits", f"{ocs.nic_rate_bps / 1e9:.0f} Gb/s reached")
        self.top = below + BOX + 8

    def _panel(self, direct: Direct, places: list[float]) -> None:
        count = int(np.asarray(direct.circuits)[:, 2].sum())
        use, relay = self.uses.get("direct"), self.uses.get("relay")
        rate = f"{direct.nic_rate_bps / 1e9:.0f} Gb/s reached"
        text = f"{count:,} fixed circuits from server to server, {rate}"
        passing = "" if relay is None else f"{relay.links} servers pass bytes of others on"
        self._below(places, text, passing, use)

    def _below(self, places: list[float], text: str, more: str, use: LinkUse | None) -> None:
        below = self.top + ROW - BOX
        for place, number in zip(places, self.shown, strict=True):
            if number is not None:
                self.line((place, self.top - 6), (place, below), use)
        self.box(LEFT, below, RIGHT - LEFT, text, "circuits", text)
        what = _COUNTED.get(use.name, "pairs of servers") if use else ""
        links = "" if use is None else f"{use.links:,} {what}"
        self.note(self.top + 14, links, self.load(use), more)
        self.top = below + BOX + 8

    def box(self, x: float, y: float, width: float, text: str, class_: str, tip: str) -> None:
        """Add a box with its name, cut where it is too narrow."""
        self.boxes.append(tag("rect", x=x, y=y, width=width, height=BOX, rx=5.0,
                              class_=f"box {class_}", data_tip=tip))  # fmt: skip
        fits = max(1, int(width / 6.6))
        short = text if len(text) <= fits else text.rsplit(" ", 1)[-1][:fits]
        line = 14 if class_ == "servers" else 21
        self.boxes.append(tag("text", short, x=x + width / 2, y=y + line, text_anchor="middle",
                              class_="tick"))  # fmt: skip

    def line(
        self,
        start: Place,
        end: Place,
        use: LinkUse | None,
        width: float = 6.0,
    ) -> None:
        """Add a bundle of links, colored by its load."""
        load = 0.0 if use is None else min(1.0, use.mean)
        self.lines.append(
            tag("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1],
                class_=load_class(use), stroke_width=width / 4 * (1 + 4 * load),
                data_tip=self._tip(use))
        )  # fmt: skip

    def load(self, use: LinkUse | None) -> str:
        """Load of a class of links, where something has run."""
        return load_text(use) if self.uses else ""

    def _tip(self, use: LinkUse | None) -> str:
        """What the links of a class are, their load, and what they have carried."""
        if use is None:
            return self.load(use)
        carried = show_bytes(use.carried_bytes)
        name = use.name.replace("_", " ")
        return f"{name}: {use.links:,} links, {self.load(use)}, {carried} carried"

    def dots(self, place: float, top: float) -> None:
        """Say that some of a row are left out."""
        self.boxes.append(tag("text", "...", x=place, y=top + 21, text_anchor="middle",
                              class_="tick"))  # fmt: skip

    def note(self, y: float, *texts: str) -> None:
        """Add lines of text beside the drawing."""
        for number, text in enumerate(text for text in texts if text):
            self.boxes.append(
                tag("text", text, x=RIGHT + 22, y=y + 17 * number,
                    class_="name" if number == 0 else "note")
            )  # fmt: skip


def shown_of(count: int) -> list[int | None]:
    """Which of a row are drawn; None stands for those that are left out."""
    if count <= MAX_BOXES:
        return list(range(count))
    return [*range(MAX_BOXES - 2), None, count - 1]


def places_of(count: int) -> list[float]:
    """Middles of the boxes of a row."""
    step = (RIGHT - LEFT) / count
    return [LEFT + (index + 0.5) * step for index in range(count)]


def box_width(count: int) -> float:
    """Width of each box of a row."""
    return min(170.0, (RIGHT - LEFT) / count - math.ceil(30 / count) - 4)


def _row_of(count: int) -> tuple[list[int | None], list[float], float]:
    """Which of a row are drawn, the middles of their boxes, and how wide these are."""
    shown = shown_of(count)
    return shown, places_of(len(shown)), box_width(len(shown))
