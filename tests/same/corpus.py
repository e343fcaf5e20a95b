"""The calls whose results a change of form leaves as they are."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tests.fresh.test_commands import NOT_RUN, PAGES, commands_of

from lightloom.cli.commands import COMMANDS
from lightloom.packets import TRANSPORTS
from lightloom.schedule import ALLOCATION_METHODS, WHEN_POLICIES

#: commands of pages that need a switch, or leave the process in the background
NEEDS_MORE = (
    *NOT_RUN,
    *(
        "lightloom control ",
        "lightloom ocs-emulator",
        "lightloom testbed ",
        "lightloom trace record",
    ),
)

FABRICS = ("fat-tree", "oversub", "rail", "topoopt", "mixnet", "chronos")
PLANS = (
    "mixtral-8x7b --gpus 64 --tp 2 --pp 2 --ep 8",
    "qwen-moe --gpus 128 --tp 1 --pp 4 --ep 16",
    "deepseek-v2 --gpus 128 --tp 1 --pp 4 --ep 32 --recompute full",
    "mixtral-8x7b --gpus 64 --tp 1 --pp 2 --ep 8 --ep-mode folded --vpp 2 --cp 2",
)
SMALL = "qwen-moe --gpus 64 --rate 100 --tp 1 --pp 2 --ep 16 --micro-batches 2 --seeds 1"
MOVING = f"{SMALL} --fabrics mixnet --demand skewed"

SYNTHETIC = ("auxiliary", "mixtral", "pair", "sparse", "extreme", "uniform")
DELAYS = ("10us", "1ms", "25ms")

HOSTS = "packets --hosts 16 --rate 100"
PATTERNS = (
    "--pattern permutation --bytes 200kB",
    "--pattern incast --fan-in 8 --bytes 100kB",
    "--pattern all-to-all --group-size 8 --bytes 20kB",
)
TOPOLOGIES = (
    "--topology leaf-spine --hosts-per-leaf 4 --oversubscription 2",
    "--topology rail --hosts-per-server 4",
    "--topology dragonfly --routing ugal-l",
    "--topology star",
    "--planes 2 --plane-choice spray",
    "--routing adaptive",
    "--routing flowlet",
    "--failure tor-0:agg-0@5us+20us",
    "--threads 2",
)

ERRORS = (
    "compare",
    "compare mixtral-8x9b --gpus 64 --rate 100",
    "compare mixtral-8x7b --gpus 0 --rate 100",
    "compare mixtral-8x7b --gpus 64 --rate fast",
    "compare mixtral-8x7b --gpus 64 --rate 100 --tp 3",
    "compare mixtral-8x7b --gpus 64 --rate 100 --fabrics moon",
    "compare mixtral-8x7b --gpus 64 --rate 100 --set mixnet.prots=4",
    "compare mixtral-8x7b --gpus 64 --rate 100 --set mixnet.ports=-1",
    "compare mixtral-8x7b --gpus 64 --rate 100 --when sometimes",
    "compare mixtral-8x7b --gpus 64 --rate 100 --allocator worst",
    "compare mixtral-8x7b --gpus 64 --rate 100 --fail moon:1",
    "compare mixtral-8x7b --gpus 64 --rate 100 --gpu z80",
    "compare mixtral-8x7b --gpus 64 --rate 100 --demand nothing.csv",
    "compare mixtral-8x7b --gpus 64 --rate 100 --network packet --set packet.transport=pigeon",
    "schedule",
    "schedule nothing.npy --reconfiguration-delay 1ms",
    "schedule demand.npy",
    "schedule demand.npy --reconfiguration-delay 1",
    "schedule demand.npy --reconfiguration-delay 1ms --methods magic",
    "schedule demand.npy --reconfiguration-delay 1ms --ports 4 --failed moon:1",
    f"{HOSTS} --transport pigeon --pattern permutation --bytes 1MB",
    f"{HOSTS} --transport ndp --pattern permutation --bytes 1",
    f"{HOSTS} --transport ndp --pattern permutation --bytes 1MB --set transport.gain=2",
    f"{HOSTS} --transport dctcp --pattern permutation --bytes 1MB --set transport.gain=2",
    f"{HOSTS} --transport ndp --pattern permutation --bytes 1MB --set queue.size=1",
    f"{HOSTS} --transport roce --pattern permutation --bytes 1MB --ecn 9,1,2",
    "run nothing.toml",
    "explain nothing.json fat-tree mixnet",
    "memory mixtral-8x7b",
    "demand moon",
    "predict nothing.jsonl",
    "trace show nothing.json",
    "fabrics moon",
    "models moon",
    "example moon",
    "fly",
)


def pages() -> list[str]:
    """What the README, the tutorial and the guides show."""
    commands = [command for page in PAGES for command in commands_of(Path(page))]
    return list(dict.fromkeys(c for c in commands if not c.startswith(NEEDS_MORE)))


def helps() -> list[str]:
    """Every command and its options."""
    return [f"lightloom {name} --help-all" for name in COMMANDS]


def comparisons() -> list[str]:
    """Fabrics, plans, policies, with flows and with packets."""
    calls = [
        f"{plan} --rate 100 --micro-batches 4 --seeds 1 --fabrics {fabric}"
        for plan, fabric in product(PLANS, FABRICS)
    ]
    calls += [
        f"{MOVING} --when {when} --set mixnet.first={first} --fixed {delay}"
        for when, first, delay in product(
            WHEN_POLICIES, ("reuse", "block", "predict"), ("100us", "25ms")
        )
    ]
    calls += [f"{MOVING} --allocator {name} --fixed 1ms" for name in ALLOCATION_METHODS]
    calls += [
        f"{SMALL} --fabrics fat-tree,topoopt,mixnet",
        f"{SMALL} --fabrics fat-tree,mixnet --all-to-all flat",
        f"{SMALL} --fabrics all --relay",
        f"{SMALL} --fabrics fat-tree,mixnet --designs tuned",
        f"{SMALL} --fabrics fat-tree,mixnet --fail server:0",
        f"{SMALL} --fabrics fat-tree,mixnet --demand balanced",
        f"{SMALL} --fabrics fat-tree,mixnet --demand 1.2",
        f"{SMALL} --fabrics fat-tree,rail,mixnet --network packet"
        " --transport ideal --set packets.phases=1",
        "mixtral-8x7b --gpus 64 --rate 100 --micro-batches 8 --seeds 1 --plan search"
        " --fabrics fat-tree,mixnet",
        "qwen-moe --gpus 64,128 --rate 100,400 --tp 1 --pp 2 --ep 16 --micro-batches 2 --seeds 1"
        " --fabrics fat-tree,mixnet",
        "--workload trace.json --rate 100 --fabrics fat-tree,mixnet",
    ]
    return [f"lightloom compare {call} --json out.json --verbose" for call in calls]


def schedules() -> list[str]:
    """Schedules of permutations, circuits and other systems."""
    calls = [
        f"--synthetic {name} --servers {servers} --reconfiguration-delay {delay} --ports 4"
        for name, servers, delay in product(SYNTHETIC, (8, 12), DELAYS)
    ]
    calls += [
        f"--synthetic {name} --reconfiguration-delay 1ms {options}"
        for name, options in product(
            ("mixtral", "extreme"),
            (
                "--partial",
                "--switches 3",
                "--ports 6 --relay",
                "--ports 6 --planes",
                "--ports 6 --planes --failed plane:1,nic:2/0",
                "--ports 4 --failed server:3,eps:0/1",
                "--ports 4 --allocators exact --eps-rate 100",
                "--chunks 4 --produced-over 5ms",
                "--chunks 4 --produced-over 5ms --needed-over 5ms",
                "--methods bvn,threshold",
            ),
        )
    ]
    return [f"lightloom schedule {call} --json out.json" for call in calls]


def packet_runs() -> list[str]:
    """Every transport under every pattern; topologies, routing, failures."""
    calls = [f"--transport {name} {pattern}" for name, pattern in product(TRANSPORTS, PATTERNS)]
    calls += [
        f"--transport {name} {PATTERNS[0]} {options}"
        for name, options in product(("roce", "ndp", "dctcp"), TOPOLOGIES)
    ]
    calls += [
        f"--transport dctcp {PATTERNS[1]} --set transport.gain=0.5 --set queue.size_bytes=50kB",
        f"--transport roce {PATTERNS[1]} --ecn 20kB,50kB,0.5 --pfc 60kB,40kB",
        f"--transport ndp {PATTERNS[2]} --mtu 4000 --header 40 --paths 3",
    ]
    return [f"lightloom {HOSTS} {call} --json out.json --csv out.csv" for call in calls]


def others() -> list[str]:
    """Commands that are called once or twice, and the decisions of regions."""
    calls = [
        "memory deepseek-v3 --gpus 2048 --gpu h800",
        "memory mixtral-8x22b --gpus 128 --gpu h100 --tp 2 --pp 4 --ep 8",
        "collective --gpus 64 --rate 400 --bytes 64MB --fabrics fat-tree,mixnet",
        "traffic mixtral-8x7b --gpus 64 --rate 100",
        "alltoall --cluster a800x16 --hidden 8192 --chunks 4",
        "alltoall mixtral-8x7b --gpu h100 --rate 400 --tp 4 --ep 8 --demand 1.5",
        *(f"demand {name}" for name in SYNTHETIC),
        "predict routing.jsonl",
        *(f"fabrics {name}" for name in FABRICS),
        "fabrics --gpus 4096 --rate 800",
        "models deepseek-v3",
    ]
    results = f"lightloom compare {SMALL} --fabrics fat-tree,mixnet --json results.json --quiet"
    readers = [
        "explain results.json fat-tree mixnet",
        "price results.json --tokens 15T",
        "price results.json --budget 20M",
    ]
    return [
        *(f"lightloom {call} --json out.json" for call in calls),
        *(f"{results} && lightloom {reader}" for reader in readers),
    ] + [f"python -m tests.same.decisions {seed}" for seed in range(10)]


def corpus() -> list[str]:
    """Every call, once."""
    errors = [f"lightloom {call}" for call in ERRORS]
    rooms = [pages(), helps(), comparisons(), schedules(), packet_runs(), others(), errors]
    return list(dict.fromkeys(call for room in rooms for call in room))
