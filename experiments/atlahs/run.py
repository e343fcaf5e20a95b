"""What is public of ATLAHS, packet by packet: LogGOPSim's examples, and a trace of MPI.

    python experiments/atlahs/run.py FOLDER [--write | --check]

FOLDER has the four files of the trace. Prints the tables; ``--write`` puts them into table.md.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import command_line, finish, markdown, settings

from lightloom.packets import PacketScenario, simulate_flows
from lightloom.packets.goal import parse_goal

HERE = Path(__file__).parent
VALUES = settings(HERE)
#: tags of collectives begin here
COLLECTIVE_TAG = 1_000_000


@dataclass
class Rank:
    """A program: every operation waits for the one before it."""

    overhead_ns: int
    lines: list[str] = field(default_factory=list)
    #: label of the last operation, and whether it is enough that it has begun
    last: tuple[str, str] | None = None
    collectives: int = 0

    def _add(self, operation: str, *, eager: bool = False) -> None:
        label = f"l{len(self.lines)}"
        self.lines.append(f"{label}: {operation}")
        if self.last is not None:
            self.lines.append(f"{label} {self.last[1]} {self.last[0]}")
        self.last = label, "irequires" if eager else "requires"

    def calc(self, span_ns: int) -> None:
        """Compute."""
        if span_ns > 0:
            self._add(f"calc {span_ns}")

    def send(self, peer: int, size: int, tag: int) -> None:
        """Send without waiting, after the overhead."""
        self.calc(self.overhead_ns)
        self._add(f"send {size}b to {peer} tag {tag}", eager=True)

    def receive(self, peer: int, size: int, tag: int) -> None:
        """Receive, and spend the overhead."""
        self._add(f"recv {size}b from {peer} tag {tag}")
        self.calc(self.overhead_ns)

    def dissemination(self, rank: int, ranks: int, size: int) -> None:
        """Barrier, or a small all-reduce: to the rank 1, 2, 4, ... further, and from as far."""
        self.collectives += 1
        distance = 1
        while distance < ranks:
            tag = COLLECTIVE_TAG + 100 * self.collectives + distance
            self.send((rank + distance) % ranks, size, tag)
            self.receive((rank - distance) % ranks, size, tag)
            distance *= 2

    def broadcast(self, rank: int, ranks: int, size: int) -> None:
        """From rank 0, by a binomial tree."""
        self.collectives += 1
        tag, distance = COLLECTIVE_TAG + 100 * self.collectives, 1
        while distance < ranks:
            if rank < distance and rank + distance < ranks:
                self.send(rank + distance, size, tag)
            elif distance <= rank < 2 * distance:
                self.receive(rank - distance, size, tag)
            distance *= 2

    def reduce(self, rank: int, ranks: int, size: int) -> None:
        """To rank 0, by a binomial tree: the larger distances first."""
        distance = ranks // 2
        while distance:
            if rank < distance:
                self.receive(rank + distance, size, distance)
            elif rank < 2 * distance:
                self.send(rank - distance, size, distance)
            distance //= 2


def ends_ns(ranks: Sequence[Rank], values: Mapping[str, Any], packet: int) -> list[float]:
    """When each rank ends, on one switch; of packets of so many bytes without headers."""
    blocks = [f"rank {n} {{\n" + "\n".join(r.lines) + "\n}" for n, r in enumerate(ranks)]
    flows = parse_goal("\n".join([f"num_ranks {len(ranks)}", *blocks]).encode(), "programs")
    scenario = PacketScenario(
        network={
            "topology": "star",
            "hosts": len(ranks),
            "rate_gbps": 8 / values["ns_per_byte"],
            "link_delay_s": values["latency_ns"] * 1e-9 / 2,
        },
        transport="ideal",
        seed=1,
        packet={"mtu_bytes": packet, "header_bytes": 0, "control_bytes": 1},
    )
    found = simulate_flows(flows, scenario)
    assert flows.programs is not None
    computing = flows.programs.flow < 0
    of_rank = [np.asarray(flows.programs.rank) == rank for rank in range(len(ranks))]
    return [1e9 * float(found.operations.end_s[own & computing].max()) for own in of_rank]


def examples() -> str:
    """LogGOPSim's examples."""
    values, rows = VALUES["parameters"]["LogGOPSim"], []
    for name, example in VALUES["published"].items():
        ranks = [Rank(values["overhead_ns"]) for _ in range(example["ranks"])]
        for number, rank in enumerate(ranks):
            getattr(rank, name)(number, len(ranks), example["bytes"])
        ends = ends_ns(ranks, values, packet=1)
        for number, published in enumerate(example["ends_ns"]):
            here = ends[number]
            error = f"{100 * (here / published - 1):+.2f}"
            rows.append([f"{name}, rank {number}", f"{published}", f"{here:.0f}", error])
    return markdown(["program", "LogGOPSim [ns]", "here [ns]", "difference [%]"], rows)


# The trace


def calls(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Name and fields of each call."""
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("MPI_"):
            name, *fields = line.split(":")
            yield name.removeprefix("MPI_"), fields


def size(count: str, kind: str) -> int:
    """Bytes of so many of a type, which is a number, a size and an extent."""
    return int(count) * int(kind.split(",")[1])


def of_trace(path: Path, number: int, ranks: int, overhead_ns: int) -> tuple[Rank, float, float]:
    """The program of a rank, and its measured length and the part of it outside of MPI, in s."""
    rank, before, begin, outside = Rank(overhead_ns), 0.0, 0.0, 0.0
    for name, fields in calls(path):
        if name == "Init":
            begin = before = float(fields[-1])
            continue
        start = float(fields[0])
        rank.calc(round(1000 * (start - before)))
        outside += start - before
        if name == "Finalize":
            return rank, (start - begin) * 1e-6, outside * 1e-6
        before = float(fields[-1])
        if name == "Send":
            rank.send(int(fields[4]), size(*fields[2:4]), int(fields[5]))
        elif name == "Recv":
            rank.receive(int(fields[4]), size(*fields[2:4]), int(fields[5]))
        elif name == "Bcast":
            rank.broadcast(number, ranks, size(*fields[2:4]))
        elif name == "Allreduce":
            rank.dissemination(number, ranks, size(*fields[3:5]))
        elif name == "Barrier":
            rank.dissemination(number, ranks, 1)
        elif not name.startswith("Comm_"):
            raise SystemExit(f"{path}: MPI_{name} is not read")
    raise SystemExit(f"{path}: has no MPI_Finalize")


def trace(folder: Path) -> str:
    """The trace of Sweep3D, with the parameters of both."""
    paths = [folder / f"pmpi-trace-rank-{rank}.txt" for rank in range(VALUES["ranks"])]
    content = b"".join(path.read_bytes() for path in paths)
    if hashlib.sha256(content).hexdigest() != VALUES["sha256"]:
        raise SystemExit(f"{folder}: not the trace of {VALUES['source']}")
    rows = []
    for name, values in VALUES["parameters"].items():
        read = [
            of_trace(path, number, len(paths), values["overhead_ns"])
            for number, path in enumerate(paths)
        ]
        measured, outside = max(part[1] for part in read), max(part[2] for part in read)
        found = max(ends_ns([part[0] for part in read], values, VALUES["packet"])) * 1e-9
        error = f"{100 * (found / measured - 1):+.2f}"
        rows.append([name, f"{measured:.3f}", f"{outside:.3f}", f"{found:.3f}", error])
    head = ["parameters", "measured [s]", "outside of MPI [s]", "here [s]", "difference [%]"]
    return markdown(head, rows)


def render(folder: Path) -> dict[Path, str]:
    """The tables."""
    text = (
        "# What is public of ATLAHS\n\nMade by run.py; see [README.md](README.md).\n\n"
        f"## Programs that LogGOPSim publishes times of\n\n{examples()}\n"
        f"## Sweep3D on {VALUES['ranks']} hosts\n\n{trace(folder)}"
    )
    return {HERE / "table.md": text}


def main() -> int:
    """Print, write or check."""
    parser = command_line(__doc__)
    parser.add_argument("folder", type=Path, help="of the four files")
    options = parser.parse_args()
    return finish(render(options.folder), options)


if __name__ == "__main__":
    sys.exit(main())
