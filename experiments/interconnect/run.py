"""Start-up and efficiency of collectives, fitted to measured tables of NCCL.

    python experiments/interconnect/run.py --data FOLDER [--write | --check]

The folder is ``astra-sim-alibabacloud/inputs/ratio`` of SimAI (github.com/aliyun/SimAI,
Apache-2.0). Its tables have the bus bandwidth of collectives over what the links of 8 H100s and
of 8 NICs of 400 Gb/s would allow, by buffer size and number of servers. A time of
``start-up + bytes / (efficiency x rate)`` is fitted to each, with least squares of relative
errors. table.md has the result, which is what ``fabric/data/cluster.toml`` has.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import command_line, write_or_check  # noqa: E402

TABLE = HERE / "table.md"
Floats = npt.NDArray[np.float64]

#: bytes per second of one GPU into NVSwitch and of one NIC, and GPUs of a server
NVLINK, NIC, GPUS = 450e9, 50e9, 8
#: columns of the tables, after the size: servers, or ranks where each server has one
INSIDE = 0
SERVERS = {1: 2, 2: 4, 3: 8, 4: 16, 5: 32, 6: 64, 7: 128}
ALIGNED = {8: 16, 9: 32, 10: 64}
#: NCCL 2.30, src/graph/tuning.cc: seconds of a step of a ring, protocol Simple, by kind of link,
#: and of any operation
NVLINK_STEP, NET_STEP, BASE = 3.4e-6, 14e-6, 8.4e-6


@dataclass(frozen=True)
class Column:
    """Measurements of one collective among one set of ranks.

    ``link_bytes`` is what the busiest link carries; the start-up of an all-to-all depends on
    ``peers`` and ``is_mixed``.
    """

    name: str
    size: Floats
    link_bytes: Floats
    rate: float
    seconds: Floats
    ranks: int
    peers: int = 0
    is_mixed: bool = False

    def errors(self, efficiency: float, start_up: float) -> Floats:
        """Relative errors of fitted times."""
        return (self.link_bytes / (efficiency * self.rate) + start_up) / self.seconds - 1


def read(path: Path) -> dict[int, tuple[Floats, Floats]]:
    """Buffer sizes and ratios by column."""
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    found = {}
    for column in (INSIDE, *SERVERS, *ALIGNED):
        kept = [(float(row[0]), float(row[column + 1])) for row in rows if row[column + 1]]
        sizes, ratios = np.array(kept, dtype=np.float64).reshape(-1, 2).T
        found[column] = (sizes, ratios)
    return found


def inside(name: str, table: dict[int, tuple[Floats, Floats]]) -> Column:
    """The column of one server: each GPU sends all but an eighth of its buffer."""
    size, ratio = table[INSIDE]
    sent = size * (GPUS - 1) / GPUS
    return Column(name, size, sent, NVLINK, sent / (ratio * NVLINK), GPUS)


def all_to_all(table: dict[int, tuple[Floats, Floats]], column: int) -> Column:
    """An all-to-all among all GPUs of some servers, or among one GPU of each."""
    size, ratio = table[column]
    on_server = GPUS if column in SERVERS else 1
    ranks = SERVERS[column] * GPUS if column in SERVERS else ALIGNED[column]
    remote = ranks - on_server
    # the bus counts what stays in a server, too, while the NIC is waited for
    bus = NIC * (ranks - 1) / remote
    seconds = size * (ranks - 1) / ranks / (ratio * bus)
    name = f"{ranks // on_server} servers, {on_server} rank{'s' * (on_server > 1)} on each"
    return Column(name, size, size * remote / ranks, NIC, seconds, ranks, remote, on_server > 1)


def gather(table: dict[int, tuple[Floats, Floats]], column: int) -> Column:
    """A ring among all GPUs of some servers, over all of their NICs."""
    size, ratio = table[column]
    ranks = SERVERS[column] * GPUS
    sent = size * (ranks - 1) / ranks / GPUS
    name = f"{SERVERS[column]} servers, {GPUS} ranks on each"
    return Column(name, size, sent, NIC, sent / (ratio * NIC), ranks)


def fit(columns: Sequence[Column], terms: Sequence[Sequence[float]], base: float = 0.0) -> Floats:
    """Time over that at full rate, and seconds per term of the start-up, that fit all columns."""
    rows = []
    for column, own in zip(columns, terms, strict=True):
        full = column.link_bytes / column.rate
        rows.append(np.column_stack([full, *(np.full(len(full), term) for term in own)]))
    seconds = np.concatenate([column.seconds for column in columns])
    found, _ = nnls(np.concatenate(rows) / seconds[:, None], 1 - base / seconds)
    return np.asarray(found)


def line(column: Column, efficiency: float, start_up: float) -> str:
    """A row of a table: the model's values and the errors for this column."""
    error = np.abs(column.errors(efficiency, start_up))
    return (
        f"| {column.name} | {efficiency:.3f} | {start_up * 1e6:.1f} | {100 * error.mean():.1f} |"
        f" {100 * error.max():.1f} |"
    )


HEADER = [
    "| ranks | efficiency | start-up [us] | mean error [%] | maximum [%] |",
    "|---|" + "---:|" * 4,
]


def render(folder: Path) -> str:
    """All fits as text."""
    tables = {name: read(folder / f"{name}_ratio.csv") for name in ("ata", "nvlink", "nic")}
    lines = ["# Start-up and efficiency of collectives", "", "## Inside a server", "", *HEADER]
    for title, name in (("all-to-all", "ata"), ("gather or reduce", "nvlink")):
        column = inside(f"8, {title}", tables[name])
        per_byte, start_up = fit([column], [[1.0]])
        lines.append(line(column, 1 / per_byte, start_up))
    lines += ["", "## All-to-alls between servers", ""]
    chosen = [all_to_all(tables["ata"], column) for column in (2, 3, 4, *ALIGNED)]
    base = BASE + NET_STEP
    terms = [[c.peers, float(c.is_mixed)] for c in chosen]
    per_byte, peer, mixed = fit(chosen, terms, base)
    lines += [
        f"One efficiency, {1 / per_byte:.3f}, and a start-up of {base * 1e6:.1f} us (NCCL's own"
        f" constants), {peer * 1e6:.2f} us per rank of another server, and {mixed * 1e6:.1f} us"
        " where ranks also send inside their server and across rails; fitted to all but two servers"
        " of 8 ranks.",
        "",
        *HEADER,
    ]
    for column in [all_to_all(tables["ata"], 1), *chosen]:
        start_up = base + peer * column.peers + mixed * column.is_mixed
        lines.append(line(column, 1 / per_byte, start_up))
    lines += [
        "",
        "## Rings between servers",
        "",
        f"Not fitted: {NET_STEP * 1e6:g} us for a step between servers and {NVLINK_STEP * 1e6:g} us"
        " inside (NCCL's own constants), at the efficiency above. Last: microseconds per step if"
        " the start-up is fitted.",
        "",
        HEADER[0] + " fitted step [us] |",
        HEADER[1] + "---:|",
    ]
    for number in SERVERS:
        column = gather(tables["nic"], number)
        steps = column.ranks - 1
        step = NVLINK_STEP + (NET_STEP - NVLINK_STEP) / GPUS
        _, free = fit([column], [[1.0]])
        lines.append(f"{line(column, 1 / per_byte, steps * step)} {free / steps * 1e6:.1f} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment."""
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of SimAI's ratio tables")
    options = parser.parse_args(arguments)
    text = render(options.data)
    print(text, end="")
    return write_or_check({TABLE: text}, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
