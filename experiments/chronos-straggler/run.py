"""When circuits alone beat packets, by technology, message size and stragglers.

    python experiments/chronos-straggler/run.py [--write | --check] [--resume]

Simulates one all-to-all of 16 GPUs of every size, with members late by every mean, over packets and
over circuits, and then whole steps. ``--write`` puts the completion times into runs.csv, the steps
into steps.csv, and the tables into table.md; ``--resume`` keeps what is there; ``--check`` says
whether table.md is up to date.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "chronos-fig6")]
import cases  # noqa: E402
import settings as fig6  # noqa: E402
import steps  # noqa: E402
from results import command_line, write_or_check  # noqa: E402

from lightloom.demand import rank_matrix, synthetic  # noqa: E402
from lightloom.fabric.network import Crossbars, Eps, Network, NvSwitch  # noqa: E402
from lightloom.hardware import crossbar_technology, decision_times  # noqa: E402
from lightloom.packets import Record, from_matrix, simulate_flows  # noqa: E402
from lightloom.simulate import simulate  # noqa: E402
from lightloom.units import to_bps, to_ps  # noqa: E402
from lightloom.workload import Block, TaskGraphBuilder  # noqa: E402
from lightloom.workload.task_graph import TaskGraph  # noqa: E402

TABLE, RUNS, STEPS = HERE / "table.md", HERE / "runs.csv", HERE / "steps.csv"
Values = dict[str, Any]
#: completion in seconds by network, tokens, mean lateness and draw
Runs = dict[tuple[str, int, float, int], float]


def load() -> Values:
    """The settings."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def tokens_of(values: Values, tokens: int, draw: int) -> npt.NDArray[np.int64]:
    """Tokens from GPU to GPU, one expert on each; what stays on its GPU is left out."""
    source = synthetic(
        "mixtral",
        ranks=values["members"],
        experts=values["members"],
        tokens_per_rank=tokens,
        top_k=1,
        seed=values["seed"] + draw,
        logit_sd=values["logit_sd"],
        logit_sd_start=values["logit_sd"],
    )
    drawn = source.tokens(group=0, layers=range(1), micro_batches=1, step=0)[0, 0]
    matrix = rank_matrix(drawn).astype(np.int64)
    np.fill_diagonal(matrix, 0)
    return matrix


def ready_s(values: Values, mean_s: float, draw: int) -> npt.NDArray[np.float64]:
    """When each member is ready: late by the same share of every mean."""
    stream = np.random.default_rng([values["seed"], draw])
    return stream.exponential(size=values["members"]) * mean_s


def step_of(
    values: Values, tokens: npt.NDArray[np.int64], ready: npt.NDArray[np.float64], *, new: bool
) -> TaskGraph:
    """One all-to-all, which each member reaches when it is ready."""
    count, size = len(tokens), values["token_bytes"]
    step = TaskGraphBuilder(range(count), gpus_per_worker=1)
    group = step.family("ep", [range(count)])
    table = step.demand("tokens", group, tokens[None, None])
    for member, late_s in enumerate(ready.tolist()):
        program = step.role(f"expert {member}", [member])
        program.compute("attention", duration_ps=to_ps(late_s))
        program.all_to_all(group, Block(table, 0, size, False, new), "ep")
    return step.build()


def network_of(values: Values, part: Eps | Crossbars) -> Network:
    """Servers of one GPU on one switch; nothing takes time inside them."""
    inside = NvSwitch(gpu_rate_bps=to_bps(100 * values["rate_gbps"]), latency_ps=0)
    spread = "flat" if isinstance(part, Eps) else "hierarchical"
    return Network(values["members"], 1, inside, spread, (part,))


def crossbars_of(values: Values, circuits: Values) -> Crossbars:
    """One crossbar of a technology."""
    count = values["members"]
    decided_s = 0.0
    if not circuits.get("known"):
        decided_s = decision_times(circuits["decision"]).time_s(count)
    return Crossbars(
        nics=1,
        nic_rate_bps=to_bps(values["rate_gbps"]),
        latency_ps=to_ps(2 * values["link_delay_s"]),
        guard_ps=to_ps(crossbar_technology(circuits["technology"]).guard_s),
        methods=((circuits["method"], np.full(count + 1, to_ps(decided_s), np.uint64)),),
    )


def completion_s(values: Values, name: str, key: tuple[int, float, int]) -> float:
    """When the last member has everything, from when all were to be ready."""
    tokens, mean_s, draw = key
    demand, ready = tokens_of(values, tokens, draw), ready_s(values, mean_s, draw)
    packets = values["packets"].get(name)
    if packets is None:
        circuits = values["circuits"][name]
        graph = step_of(values, demand, ready, new=not circuits.get("known"))
        run = simulate(graph, network_of(values, crossbars_of(values, circuits)))
        return run.step_time_s
    if "transport" not in packets:
        count = len(demand)
        delay_ps = to_ps(values["link_delay_s"])
        eps = Eps(1, to_bps(values["rate_gbps"]), delay_ps, count, count)
        return simulate(
            step_of(values, demand, ready, new=True), network_of(values, eps)
        ).step_time_s
    scenario = cases.scenario(fig6.load(), packets["transport"], fig6.tuned(packets["tuned"]))
    flows = from_matrix(demand * values["token_bytes"], "matrix")
    late = dataclasses.replace(flows, start_s=ready[flows.source])
    found = simulate_flows(late, scenario, record=Record(samples=0))
    return float((found.fct_s + late.start_s).max())


def simulate_all(values: Values, known: Runs) -> Runs:
    """Every network, size, lateness and draw; what is known is not simulated again."""
    found: Runs = {}
    for name in (*values["packets"], *values["circuits"]):
        for key in itertools.product(
            values["tokens"], values["stragglers_s"], range(values["draws"])
        ):
            at = (name, *key)
            found[at] = known[at] if at in known else round(completion_s(values, name, key), 10)
            print(f"{name}: {len(found)} simulated", end="\r", file=sys.stderr, flush=True)
    return found


def runs_csv(runs: Runs) -> str:
    """Text of runs.csv."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("network", "tokens", "late_s", "draw", "completion_s"))
    for key, completion in runs.items():
        lines.writerow((*key, f"{completion:.10f}"))
    return text.getvalue()


def read_runs() -> Runs:
    """Completion times of runs.csv."""
    if not RUNS.exists():
        return {}
    with RUNS.open(encoding="utf-8") as lines:
        return {
            (row["network"], int(row["tokens"]), float(row["late_s"]), int(row["draw"])): float(
                row["completion_s"]
            )
            for row in csv.DictReader(lines)
        }


def table(values: Values, runs: Runs, found: steps.Steps) -> str:
    """The text of table.md."""
    draws = values["draws"]

    def mean(name: str, tokens: int, late_s: float) -> float:
        return float(np.mean([runs[name, tokens, late_s, draw] for draw in range(draws)]))

    packets, circuits = values["packets"], values["circuits"]
    lines = [
        "# When circuits alone beat packets",
        "",
        f"One all-to-all of {values['members']} GPUs at {values['rate_gbps']} Gb/s, mean of {draws}"
        " draws (synthetic). Time from when all were to be ready; of circuits the share of a packet"
        " network's time by which they are faster, slower if negative.",
    ]
    for against, network in packets.items():
        heads = " | ".join(circuit["title"] + " [%]" for circuit in circuits.values())
        lines += [
            "",
            f"## Against packets: {network['title']}",
            "",
            f"| MB of each GPU | late by [us] | packets [ms] | {heads} |",
            f"|---:|---:|---:|{'---:|' * len(circuits)}",
        ]
        for tokens, late_s in itertools.product(values["tokens"], values["stragglers_s"]):
            base = mean(against, tokens, late_s)
            size = tokens * values["token_bytes"] / 1e6
            gains = [100 * (1 - mean(name, tokens, late_s) / base) for name in circuits]
            cells = " | ".join(f"{gain:.1f}" for gain in gains)
            lines.append(f"| {size:.0f} | {late_s * 1e6:g} | {base * 1e3:.3f} | {cells} |")
    return "\n".join([*lines, *steps.table(values["step"], found), ""])


def main() -> int:
    """Simulate, print, write or check."""
    options = command_line(__doc__, resume=True).parse_args()
    values = load()
    resumed = options.resume or options.check
    runs = simulate_all(values, read_runs() if resumed else {})
    if options.write:
        RUNS.write_text(runs_csv(runs), encoding="utf-8")
    found = steps.simulate_all(values["step"], steps.read(STEPS) if resumed else {})
    text = table(values, runs, found)
    print(text, end="")
    wanted = {TABLE: text, RUNS: runs_csv(runs), STEPS: steps.text_of(found)}
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
