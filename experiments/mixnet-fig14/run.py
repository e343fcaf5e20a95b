"""What a failed NIC, GPU or server adds to a step on MixNet (MixNet, 7.5).

    python experiments/mixnet-fig14/run.py [--write | --check | --fast]

Prints the table; ``--write`` puts it into table.md and draws figure.svg.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lightloom import Scenario
from lightloom.fabric import job_context, load_fabric
from lightloom.fabric.network import Eps, Ocs
from lightloom.simulate import simulate
from lightloom.study.compare.job import demand_source, prepare
from lightloom.workload.backup_gpu import BackupGpu, with_backup_gpu
from lightloom.workload.build import build
from lightloom.workload.options import WorkloadOptions

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from one_sample import ONE_SAMPLE
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)
GPUS_PER_SERVER = 8
#: failures by name, in the order in which they are said to cost more
CASES = {
    "nic": "NIC",
    "two_nics": "two NICs",
    "gpu_over_packets": "GPU, backup over packets",
    "gpu_over_circuits": "GPU, backup over circuits",
    "server": "server",
}


class Job:
    """A model's step on MixNet, with and without parts."""

    def __init__(self, model: str) -> None:
        scenario = Scenario(
            model=model,
            gpus=VALUES["gpus"],
            cluster={"gpu": VALUES["gpu"], "rate_gbps": VALUES["rate_gbps"]},
            plan={"micro_batches": VALUES["micro_batches"]},
            demand={"source": VALUES["load"]},
            fabrics=("mixnet",),
            **ONE_SAMPLE,
        )
        job = prepare(scenario)
        self.cluster = job.cluster
        self.graph = build(
            job.model,
            job.plan,
            demand=demand_source(job.scenario, job.model, job.plan, 0),
            compute=job.compute,
            gpus_per_server=GPUS_PER_SERVER,
            options=WorkloadOptions(rank_level=job.plan.etp < GPUS_PER_SERVER),
        ).graph
        self.context = job_context([self.graph])

    def step_s(self, failed: Sequence[str] = (), backup: BackupGpu | None = None) -> float:
        """Seconds of a step without parts, and with a backup for a GPU."""
        fabric = load_fabric("mixnet", {**VALUES["mixnet"], "failed": list(failed)})
        network = fabric.network(self.cluster, self.context)
        graph = self.graph
        if backup is not None:
            graph = with_backup_gpu(graph, backup, network.nvswitch.collective_rate_bps)
        return simulate(graph, network).step_time_s

    def longer(self) -> tuple[dict[str, float], int]:
        """Percent that each failure adds, and the circuits that serve a backup best."""
        server, part = VALUES["server"], VALUES["part"]
        network = load_fabric("mixnet", VALUES["mixnet"]).network(self.cluster, self.context)
        ocs, eps = network.part(Ocs), network.part(Eps)
        assert ocs is not None
        assert eps is not None
        over_packets = BackupGpu(server, part, eps.nics * eps.nic_rate_bps)
        over_circuits = {}
        for circuits in range(1, ocs.ports):
            nics = [f"nic:{server}/{ocs.ports - 1 - nic}" for nic in range(circuits)]
            backup = BackupGpu(server, part, circuits * ocs.nic_rate_bps)
            over_circuits[circuits] = self.step_s(nics, backup)
        best = min(over_circuits, key=over_circuits.__getitem__)
        steps = {
            "nic": self.step_s([f"nic:{server}/{part}"]),
            "two_nics": self.step_s([f"nic:{server}/{part}", f"nic:{server}/{part + 1}"]),
            "gpu_over_packets": self.step_s(backup=over_packets),
            "gpu_over_circuits": over_circuits[best],
            "server": self.step_s([f"server:{server}"]),
        }
        healthy = self.step_s()
        return {case: 100 * (step / healthy - 1) for case, step in steps.items()}, best


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    rows, lines = [], []
    for color, model in enumerate(VALUES["models"][: 1 if fast else None]):
        found, circuits = Job(model).longer()
        published = VALUES["published"][model]
        for case, words in CASES.items():
            name = f"{words} ({circuits})" if case == "gpu_over_circuits" else words
            paper = f"+{published[case]}" if case in published else "-"
            rows.append([f"{model}, {name}", f"{found[case]:+.2f}", paper])
        lines.append(Line(model, [found[case] for case in CASES], color))
        stated = [published.get(case) for case in CASES]
        lines.append(Line(f"{model}, paper", stated, color, is_dashed=True))
    text = (
        "# Steps with a failed part\n\nLonger by %. In brackets: circuits to the backup of a GPU."
        f" Made by run.py; see [README.md](README.md).\n\n"
        f"{markdown(['failed', 'here [%]', 'paper [%]'], rows)}"
    )
    files = {HERE / "table.md": text}
    if fast:
        return files
    figure = Figure(
        "A server costs more than a GPU, a GPU more than a NIC",
        "what has failed",
        "step longer [%]",
        ["NIC", "two NICs", "GPU, packets", "GPU, circuits", "server"],
        lines,
    )
    return {**files, HERE / "figure.svg": figure.svg(HERE)}


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
