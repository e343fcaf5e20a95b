"""A 3-D torus: cubes of GPUs with electrical links inside, joined by circuit switches.

Google's TPU v4 (Jouppi et al., ISCA 2023, arXiv 2304.01433): a cube, which is a rack, has 4 x 4 x 4
processors, each with a link to the next one in six directions. The 16 links of a face end on
16 circuit switches, opposite faces on the same ones: 48 switches, whose 128 ports (and 8 spare
ones) join up to 64 cubes, 4,096 processors. Circuits make any box of cubes a torus, and are fixed
for a job. A job that needs less than a cube has a part of one, whose lines do not go around.

Here a server is a box of the GPUs that NVLink joins, 2 x 2 x 2 of eight, in place of the links
inside of it; those that leave it have the rate of a NIC each. What passes a server crosses its
NVSwitch. Bytes go along x, then y, then z, over the fewest links, equal parts of them each way
where several are as short. Rings of gradients pass their servers row by row, both ways around.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from lightloom.errors import FabricError, echo
from lightloom.fabric.base import check_layout, circuit_all_to_all, network_of
from lightloom.fabric.bill import Bill, Counting, Line, Switches, merged, nic_lines
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.lost_circuits import without_failed
from lightloom.fabric.network import Direct, Network
from lightloom.fabric.option_types import Count, PartNames, Quantity, Spares, Switch
from lightloom.fabric.torus_grid import CUBE, EDGE, FACE, TorusGrid, Triple, box_of, most_even
from lightloom.hardware import switch_names, switch_technology
from lightloom.inputs.fields import Choices
from lightloom.units import to_ps

_SHAPE = "GPUs along x, y and z, such as 8x8x16: multiples of 4, or each 1, 2 or 4"


def _shape(value: Any) -> Triple | None:
    """Read ``8x8x16``, or three numbers."""
    if value is None:
        return None
    edges: list[int] = []
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]  # as the command line splits lists
    parts = value.lower().split("x") if isinstance(value, str) else value
    with suppress(TypeError, ValueError):
        edges = [int(str(part)) for part in parts]
    is_part = all(edge in (1, 2, EDGE) for edge in edges)
    is_whole = all(EDGE <= edge <= 10_000 and edge % EDGE == 0 for edge in edges)
    if len(edges) != 3 or not (is_part or is_whole):
        raise FabricError(f"shape = {echo(value)}: expected {_SHAPE}")
    x, y, z = edges
    return x, y, z


class Torus(FabricOptions):
    """Cubes of 64 GPUs that circuits join to a torus."""

    kind: ClassVar[str] = "torus"
    title: ClassVar[str] = "torus"

    shape: Annotated[Triple | None, BeforeValidator(_shape)] = Field(
        None,
        description=f"{_SHAPE}. By default the fewest cubes, as even as they can be; less than a"
        " cube is the smallest box.",
    )
    twist: Switch = Field(
        False,
        description="Whether the circuits that go around short edges of k x k x 2k or k x 2k x 2k"
        " GPUs end half a long edge further, as a TPU v4's may.",
    )
    ends: Literal["nic", "chip"] = Field(
        "nic",
        description="What ends a link that leaves a server: a NIC of its rate, or a port on the"
        " chip, which costs nothing here, as in TPU v4.",
    )
    technology: Annotated[str, Choices(switch_names)] = Field(
        "palomar", description="Technology of the circuit switches."
    )
    ocs_ports: Count | None = Field(
        None, description="Ports of a circuit switch; by default those of its technology."
    )
    spare_ports: Spares = Field(
        8, description="Ports of a circuit switch that are left free, for tests and repairs."
    )
    relay_delay_s: Quantity = Field(
        0.0,
        description="Delay of a server that bytes pass, beside that of its links: its routers are"
        " taken to be as fast as switches, whose delay is in that of links.",
    )
    failed: PartNames = Field(
        (),
        description="Parts that are never used: nic:2/1 (server/link), or server:3, which a spare"
        " one replaces in its place.",
    )

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        failures = self.failures()
        if failures.eps_nics or failures.planes:
            raise FabricError(
                f"{self.name}: failed: all links are of one torus: expected nic:2/1 or server:3"
            )
        return self

    def adapt(self, cluster: Cluster) -> Cluster:
        """Return the cluster with whole cubes, or the part of one that the job needs; idempotent.

        Servers are boxes of a cube: of the GPUs of others as many as a power of two.
        """
        asked = super().adapt(cluster)
        wanted = self.gpus_per_server
        size = 1 << (min(asked.gpus_per_server, CUBE).bit_length() - 1)
        if wanted is not None and wanted != size:
            raise FabricError(
                f"{self.name}: gpus_per_server = {wanted}: expected a box of a cube: 1, 2, 4, 8,"
                " 16, 32 or 64"
            )
        grid = self._grid(asked.used_gpus, box_of(size))
        if self.nics_per_server not in (None, grid.ends_per_server):
            raise FabricError(
                f"{self.name}: nics_per_server = {self.nics_per_server}: a torus has a link at each"
                f" face of a GPU: expected {grid.ends_per_server} for {size} GPUs"
            )
        used = asked.used_gpus
        return dataclasses.replace(
            asked,
            gpus=grid.gpus,
            gpus_of_job=None if used == grid.gpus else used,
            gpus_per_server=size,
            nics_per_server=grid.ends_per_server,
            idle_gpus_per_server=0,
        )

    def grid(self, cluster: Cluster) -> TorusGrid:
        """Return where the servers are; ``cluster`` as :meth:`adapt` returns it."""
        return self._grid(cluster.used_gpus, box_of(cluster.gpus_per_server))

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core.

        Without a context, any two servers have a way.

        Raises
        ------
        FabricError
            If cubes are more than circuit switches join, or no link is left for some servers.
        """
        cluster = self.adapt(cluster)
        check_layout(cluster, context)
        grid = self.grid(cluster)
        self._check_ports(grid)
        direct = without_failed(
            self._direct(cluster, grid, context), self.failures(), cluster, self.name, "links"
        )
        return network_of(
            cluster, circuit_all_to_all(self.all_to_all), (direct,), (self._words(grid),)
        )

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return copper inside cubes, and a transceiver, a fiber and a port for each optical end.

        Circulators make a port and a fiber duplex, as those of the price list are.
        """
        cluster, counting = self.adapt(cluster), counting or Counting()
        grid, rate = self.grid(cluster), cluster.rate_gbps
        ends = 2 * grid.optical
        ports = self._check_ports(grid)
        # each of 48 places of a cube's faces has a switch; few cubes share one
        places, each = (3 * FACE, 2 * grid.cubes) if grid.cubes else (0, 1)
        lines = [
            *(nic_lines(2 * grid.electrical + ends, rate, counting) if self.ends == "nic" else []),
            Line("dac", rate, grid.electrical),
            Line(counting.circuit_transceiver, rate, ends),
            Line("ocs_port", rate, ends * counting.ocs_ports_per_nic, self.technology),
            Line("fiber", rate, ends),
        ]
        switches = Switches(
            component="ocs_port",
            rate_gbps=rate,
            ports=ports + self.spare_ports,
            count=-(-places // (ports // each)),
            used=ends,
            planes=max(1, places),
            technology=self.technology,
            availability=switch_technology(self.technology).availability,
        )
        torus = {"torus": self._words(grid), "ends of links": self.ends}
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=merged(lines),
            switches=(switches,) if places else (),
            fiber_length_m=counting.length_m,
            conventions={**counting.conventions(), **torus},
        )

    def knobs(self, _cluster: Cluster) -> dict[str, Sequence[Any]]:
        """Nothing: links follow from the GPUs."""
        return {}

    def _grid(self, gpus: int, box: Triple) -> TorusGrid:
        grid = TorusGrid(self._shape_of(gpus, box), box, self.twist)
        if self.twist and not grid.can_twist:
            shape = "x".join(map(str, grid.shape))
            raise FabricError(
                f"{self.name}: twist: a shape of {shape} GPUs: expected edges of k and 2k, such as"
                " shape = 4x4x8 or 4x8x8"
            )
        return grid

    def _shape_of(self, gpus: int, box: Triple) -> Triple:
        if self.shape is not None:
            shape = "x".join(map(str, self.shape))
            if math.prod(self.shape) < gpus:
                raise FabricError(
                    f"{self.name}: shape = {shape}: {math.prod(self.shape):,} GPUs: expected"
                    f" {gpus:,} or more"
                )
            if any(edge % side for edge, side in zip(self.shape, box, strict=True)):
                servers = "x".join(map(str, box))
                raise FabricError(
                    f"{self.name}: shape = {shape}: expected whole servers, boxes of {servers} GPUs"
                )
            return self.shape
        if gpus <= CUBE:
            return box_of(gpus, box)
        x, y, z = (EDGE * cubes for cubes in most_even(-(-gpus // CUBE)))
        return x, y, z

    def _ocs_ports(self) -> int:
        return self.ocs_ports or switch_technology(self.technology).ports

    def _check_ports(self, grid: TorusGrid) -> int:
        """Ports of a circuit switch that can be used: two of each cube are needed."""
        ports = self._ocs_ports() - self.spare_ports
        if 2 * grid.cubes > ports or ports < 1:
            raise FabricError(
                f"{self.name}: {grid.cubes} cubes have {2 * grid.cubes} ports on each circuit"
                f" switch ({self.technology}), which has {max(0, ports)} beside"
                f" {self.spare_ports} spare ones: expected ocs_ports or another technology"
            )
        return ports

    def _direct(self, cluster: Cluster, grid: TorusGrid, context: FabricContext | None) -> Direct:
        circuits = [(a, b, count) for (a, b), count in sorted(grid.circuits().items())]
        cycles = [] if context is None else _snakes(grid, context)
        routes = [way for pair in _pairs(grid, context, cycles) for way in grid.routes(*pair)]
        return Direct(
            nic_rate_bps=cluster.nic_rate_bps,
            link_delay_ps=cluster.link_delay_ps,
            relay_delay_ps=to_ps(self.relay_delay_s),
            circuits=np.array(circuits, np.uint32).reshape(-1, 3),
            route_offsets=_offsets(routes),
            route_servers=_column(routes),
            cycle_offsets=_offsets(cycles),
            cycle_servers=_column(cycles),
            cycle_counts=np.ones(len(cycles), np.uint32),
        )

    def _words(self, grid: TorusGrid) -> str:
        shape = "x".join(map(str, grid.shape))
        if not grid.goes_around:
            return f"a mesh of {shape} GPUs, a part of a cube, without circuits"
        cubes = "a cube" if grid.cubes == 1 else f"{grid.cubes} cubes"
        kind = "a twisted torus" if self.twist else "a torus"
        return f"{kind} of {shape} GPUs: {cubes} of 4x4x4, {grid.optical} circuits between faces"

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        shape = "x".join(map(str, self.grid(cluster).shape))
        parameters = {"shape": shape, "ocs_ports": self._ocs_ports()}
        return super()._applied(cluster, network) | parameters


def _snakes(grid: TorusGrid, context: FabricContext) -> list[list[int]]:
    """The order of each ring of the job, through its servers row by row."""
    rings = (frozenset(ring.servers.tolist()) for ring in context.mean().rings)
    return [grid.in_snake(ring) for ring in dict.fromkeys(rings) if len(ring) > 1]


def _pairs(
    grid: TorusGrid, context: FabricContext | None, cycles: Iterable[Sequence[int]]
) -> list[tuple[int, int]]:
    """Servers that may send to each other: of one group, of a pipeline, next to each other."""
    everyone = range(grid.servers)
    if context is None:
        return [(a, b) for a in everyone for b in everyone if a != b]
    mean = context.mean()
    pairs = set(zip(mean.demand_src.tolist(), mean.demand_dst.tolist(), strict=True))
    for group in {tuple(servers.tolist()) for servers in context.layout.group_servers()}:
        pairs |= {(a, b) for a in group for b in group}
    orders = [*cycles, *(ring.servers.tolist() for ring in mean.rings)]
    for order in orders:
        after = [*order[1:], order[0]]
        pairs |= {*zip(order, after, strict=True), *zip(after, order, strict=True)}
    return sorted((a, b) for a, b in pairs if a != b)


def _offsets(lists: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.cumsum([0, *map(len, lists)]).astype(np.uint32)


def _column(lists: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.array([server for route in lists for server in route], np.uint32)
