"""One file of a fabric, simulated and served: the same circuits for the same demand."""

from collections import Counter

import numpy as np

from lightloom.control.decisions import RegionDecider, circuits_of
from lightloom.control.region_file import read_region
from lightloom.fabric import Cluster, FabricContext, load_fabric
from lightloom.fabric.network import Ocs
from lightloom.schedule import Held
from lightloom.simulate import record_decisions
from lightloom.workload import Block
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.task_graph import Layout

FILES = 60
GPU = "h100"
#: decisions that all runs together take at least
MIN_DECISIONS = 500
SWITCHES = """
[switches.leaf]
servers = {leaf}
ports = 64
[switches.spine]
count = 2
[[links]]
ends = ["servers", "leaf"]
count = {links}
{rate}
[[links]]
ends = ["leaf", "spine"]
count = 4
[circuits]
"""


def quoted(value):
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def draw_file(rng):
    """The text of a file of either kind with circuits, and what is expected of a region."""
    optical, packet = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    relay = bool(rng.random() < 0.25)
    options = {
        "ports": optical,
        "when": str(rng.choice(["always", "per-layer", "break-even", "oracle"])),
        "allocator": str(rng.choice(["paper", "greedy", "best", "static", "parametric"])),
        "fixed_s": rng.choice(["25 ms", "10 us", "measured", "measured-p99"]),
        "link_up_s": rng.choice(["0 s", "1 ms"]),
        "control_s": float(rng.choice([0.0, 1e-4])),
        "keep_unchanged": bool(rng.random() < 0.8),
        "relay": relay,
    }
    options = {key: str(it) if isinstance(it, np.str_) else it for key, it in options.items()}
    if not relay and rng.random() < 0.5:
        options["split"] = bool(rng.random() < 0.5)
    if relay and rng.random() < 0.5:
        options |= {"relay_chunk_bytes": 65_536, "relay_delay_s": "3 us"}
    if rng.random() < 0.3:
        options["planes"] = str(rng.choice(["duplex", "crossed"]))
    common = {"nics_per_server": optical + packet, "gpus_per_server": int(rng.choice([2, 4, 8]))}
    if rng.random() < 0.5:
        common["nic_efficiency"] = 0.87
    if rng.random() < 0.5:
        common["interconnect"] = "ideal"
    text = "".join(f"{key} = {quoted(it)}\n" for key, it in options.items())
    head = "".join(f"{key} = {quoted(it)}\n" for key, it in common.items())
    rate = float(rng.choice([100, 400, 25.5]))
    if rng.random() < 0.5:
        eps = float(rng.choice([100, 200]))
        rates = f"rate_gbps = {rate}\neps_nic_gbps = {eps}\n"
        return f'kind = "mixnet"\n{rates}{head}{text}', common, options
    split = int(rng.choice([1, 2]))
    of_links = rng.random() < 0.5
    switches = SWITCHES.format(
        leaf=int(rng.integers(1, 5)),
        links=packet * split,
        rate=f"rate_gbps = {rate / split}" if of_links else "",
    )
    rates = "" if of_links else f"rate_gbps = {rate}\n"
    return f'kind = "topology"\n{rates}{head}{switches}{text}', common, options


def region_of(folder, text, servers, optical, planes):
    """A region of the file whose port map has the servers and fibers that it says."""
    (folder / "my.toml").write_text(text)
    rows = ["server,nic,switch,ingress,egress_switch,egress"]
    for server in range(servers):
        for nic in range(optical):
            far = nic ^ 1 if planes == "crossed" and nic ^ 1 < optical else nic
            sends, gets = (f"s{nic}", f"s{far}") if planes else ("s0", "s0")
            place = server * optical + nic
            rows.append(f"n{server},{nic},{sends},{place + 1},{gets},{place + 501}")
    (folder / "ports.csv").write_text("\n".join(rows) + "\n")
    names = [f"s{nic}" for nic in range(optical if planes else 1)]
    switches = "".join(f'[switches.{name}]\nurl = "polatis+tl1://h"\n' for name in names)
    path = folder / "region.toml"
    job = f'[job]\ngpu = "{GPU}"\n'
    path.write_text(
        f'name = "r"\nport_map = "ports.csv"\njournal = "j"\nfabric = "my.toml"\n{job}{switches}'
    )
    region = read_region(path)
    return region, region.read_port_map(folder)


def run_of(rng, fabric, cluster, servers):
    """A run of all-to-alls with skewed demand, one EP group on all servers."""
    members = np.arange(servers)
    step = TaskGraphBuilder(members.tolist(), cluster.gpus_per_server)
    family = step.family("ep", [members.tolist()])
    blocks = 12
    demand = (1e6 * rng.random((1, blocks, servers, servers)) ** 6).astype(np.uint32)
    demand[:, :, members, members] = 0
    step.demand("bytes", family, demand)
    trainer = step.role("all", members)
    unit_bytes = int(rng.choice([100, 1_000, 10_000]))
    for block in range(blocks):
        trainer.compute("forward", float(rng.choice([0.0, 1e-3, 3e-2])), layer=block // 2)
        known = Block(0, block, unit_bytes, bool(block % 2), False)
        trainer.all_to_all(family, known, "ep", layer=block // 2)
    layout = Layout.grid(
        stages=1,
        replicas=1,
        members=servers,
        gpus_per_worker=cluster.gpus_per_server,
        worker_server=members.astype(np.uint32),
    )
    network = fabric.network(cluster, FabricContext(layout))
    return record_decisions(step.build(), network), network


def test_a_file_leads_to_the_circuits_of_its_simulation(tmp_path):
    rng, seen = np.random.default_rng(33), Counter()
    for number in range(FILES):
        folder = tmp_path / str(number)
        folder.mkdir()
        text, common, options = draw_file(rng)
        servers, planes = int(rng.integers(2, 8)), options.get("planes")
        region, port_map = region_of(folder, text, servers, options["ports"], planes)
        fabric = load_fabric(folder / "my.toml")
        gpus = servers * common["gpus_per_server"]
        # what the file leaves open is that of the cluster; the rate of NICs is not
        cluster = fabric.adapt(Cluster.of(gpus=gpus, rate_gbps=7, gpu=GPU))
        assert cluster.servers == servers
        run, network = run_of(rng, fabric, cluster, servers)
        decider = RegionDecider(region, port_map)
        assert decider.timing == network.part(Ocs).timing
        assert decider.ranks == servers * common["gpus_per_server"]
        assert len(run.decisions.records) == run.circuits.decisions
        assert decider.start() == circuits_of(run.decisions.decider(0).start())
        for record in run.decisions.records:
            held = Held.from_json(record.held.to_json())
            assert decider.hold(circuits_of(held)).nics.tolist() == held.nics.tolist()
            demand = np.array([upcoming.demand for upcoming in record.upcoming])
            hidden_s = [upcoming.hidden_ps / 1e12 for upcoming in record.upcoming]
            found = decider.decide(held, demand, hidden_s)
            assert found == record.decision, text
            assert circuits_of(found) == circuits_of(record.decision)
            seen[found.reason] += 1
            seen[fabric.kind] += 1
            seen["changed"] += found.reconfigure
            seen["planes"] += planes is not None
            seen["relay"] += options["relay"]
    assert seen["mixnet"] + seen["topology"] >= MIN_DECISIONS
    for name in ("mixnet", "topology", "changed", "planes", "relay", "pays", "does-not-pay"):
        assert seen[name] >= 20, (name, seen)
