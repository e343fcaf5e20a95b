"""Rows of a topology in the drawing of a fabric: a row for each kind of switches, and its links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lightloom.fabric.network import SwitchGraph
from lightloom.report.plots_svg import Place
from lightloom.simulate.result import LinkUse


class Drawing(Protocol):
    """What rows are added to."""

    uses: dict[str, LinkUse]
    top: float

    def box(self, x: float, y: float, width: float, text: str, class_: str, tip: str) -> None:
        """Add a box with its name."""
        ...

    def line(self, start: Place, end: Place, use: LinkUse | None, width: float = 6.0) -> None:
        """Add a bundle of links."""
        ...

    def note(self, y: float, *texts: str) -> None:
        """Add lines of text beside the drawing."""
        ...

    def dots(self, place: float, top: float) -> None:
        """Say that some of a row are left out."""
        ...

    def load(self, use: LinkUse | None) -> str:
        """The load of a class of links."""
        ...


class SwitchRows:
    """The switches of the first plane, farthest from the servers at the top.

    Parameters
    ----------
    drawing
        What is added to.
    graph
        The topology.
    places
        Where servers are drawn, and the first server of each box.
    row, box
        Height of a row, and of the boxes in it.
    layout
        Which of so many are drawn, where, and how wide.
    """

    def __init__(
        self,
        drawing: Drawing,
        graph: SwitchGraph,
        places: Sequence[tuple[float, int]],
        row: float,
        box: float,
        layout: Callable[[int], tuple[list[int | None], list[float], float]],
    ) -> None:
        self.drawing, self.graph, self.places = drawing, graph, places
        self.row, self.box, self.layout = row, box, layout
        first_plane = graph.switches // graph.planes
        bundles = np.asarray(graph.bundles).astype(np.int64)
        self.bundles = bundles[(bundles[:, :2] < first_plane).all(axis=1)]
        self.ports = np.asarray(graph.switch_of_port).reshape(-1, graph.nics * graph.ports)
        #: where the switches are that are drawn
        self.at: dict[int, Place] = {}
        self.level = np.zeros(graph.switches, np.int64)

    def draw(self) -> None:
        """Add a row for each kind of switches, then all links."""
        drawing, planes = self.drawing, self.graph.planes
        self.level = self._levels()
        tiers = sorted(self.graph.tiers, key=lambda tier: -self.level[tier[1]])
        for name, first, count in tiers:
            shown, places, width = self.layout(count)
            for number, place in zip(shown, places, strict=True):
                if number is None:
                    drawing.dots(place, drawing.top)
                    continue
                self.at[first + number] = (place, drawing.top)
                text = f"{name} {number}"
                drawing.box(place - width / 2, drawing.top, width, text, "switch", text)
            each = f", {planes} times" if planes > 1 else ""
            drawing.note(drawing.top + 16, f"{count:,} {name}{each}", *self._links(first, count))
            drawing.top += self.row
        self._between()
        self._to_servers()

    def _levels(self) -> npt.NDArray[np.int64]:
        """How many links the nearest switch of each one's kind is away from servers."""
        level = np.full(self.graph.switches, len(self.graph.tiers) + 1)
        level[self.ports.reshape(-1)] = 1
        for _ in self.graph.tiers:
            for a, b in ((0, 1), (1, 0)):
                np.minimum.at(level, self.bundles[:, a], level[self.bundles[:, b]] + 1)
        for _, first, count in self.graph.tiers:
            level[first : first + count] = level[first : first + count].min()
        return level

    def _links(self, first: int, count: int) -> list[str]:
        """What leads from a kind of switches towards servers, and among them, in words."""
        ends = self.bundles[:, :2]
        of_it = ((ends >= first) & (ends < first + count)).any(axis=1)
        down = self.level[ends].max(axis=1) <= self.level[first]
        texts = []
        for layer in np.unique(self.bundles[of_it & down][:, 5]).tolist():
            rows = self.bundles[self.bundles[:, 5] == layer]
            name = self.graph.layers[layer][0]
            links = int(rows[:, 2].sum()) * self.graph.planes
            rate = rows[0, 3] / 1e9
            texts.append(f"{links:,} links {name}, {rate:.0f} Gb/s")
            texts.append(self.drawing.load(self._use(layer)))
        return texts[:4]

    def _use(self, layer: int) -> LinkUse | None:
        """The use of links of a layer, of both directions that with more."""
        uses = [self.drawing.uses.get(name) for name in self.graph.layers[layer]]
        measured = [use for use in uses if use is not None]
        return max(measured, key=lambda use: use.mean) if measured else None

    def _between(self) -> None:
        for a, b, *_, layer in self.bundles.tolist():
            if a not in self.at or b not in self.at:
                continue
            # from the lower edge of the one above to the upper edge of the other
            (xa, ya), (xb, yb) = sorted((self.at[a], self.at[b]), key=lambda place: place[1])
            edge = self.box if ya < yb else self.box / 2
            below = yb if ya < yb else yb + self.box / 2
            self.drawing.line((xa, ya + edge), (xb, below), self._use(layer), 2.5)

    def _to_servers(self) -> None:
        use = self.drawing.uses.get("server_up")
        for place, server in self.places:
            for switch in sorted(set(self.ports[server].tolist()) & set(self.at)):
                x, y = self.at[switch]
                self.drawing.line((x, y + self.box), (place, self.drawing.top), use, 4.0)
        rate = self.graph.port_rate_bps / 1e9
        self.drawing.note(
            self.drawing.top - self.row / 2 + 14,
            f"{self.ports.size:,} links",
            f"{rate:.0f} Gb/s reached",
            self.drawing.load(use),
        )
