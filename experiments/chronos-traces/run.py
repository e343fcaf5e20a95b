"""What ranks of large jobs communicate in a step: traces of Megatron-Core at full size.

Records one rank of each role of every case, and one more, expands them to all ranks and to
permutations. LIGHTLOOM_TORCH_PYTHON names a Python that has torch and megatron-core.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import tomllib
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import ROOT, command_line, write_or_check

from lightloom.trace.algorithms import Algorithm
from lightloom.trace.expand import Expansion
from lightloom.trace.extend import PLACEHOLDER, extend, micro_batch_programs
from lightloom.trace.job import JobRoles, find_job
from lightloom.trace.record import TracedJob, record_roles
from lightloom.trace.stack_build import build_stack
from lightloom.trace.trace import Trace

HERE = Path(__file__).parent
PYTHON = os.environ.get("LIGHTLOOM_TORCH_PYTHON", str(ROOT / ".venv/torch/bin/python"))

#: Megatron's groups, as the paper names parallelisms
GROUPS = {
    "TENSOR_MODEL_PARALLEL_GROUP": "TP", "CONTEXT_PARALLEL_GROUP": "CP",
    "PIPELINE_MODEL_PARALLEL_GROUP": "PP", "DATA_PARALLEL_GROUP_WITH_CP": "DP",
    "EXPERT_MODEL_PARALLEL_GROUP": "EP", "EXPERT_DATA_PARALLEL_GROUP": "DP of experts",
    "TENSOR_AND_CONTEXT_PARALLEL_GROUP": "TP and CP",
}  # fmt: skip


def trace_of(name: str, case: dict) -> Trace:
    """Record a case; with fewer micro-batches where it says so."""
    program = [PYTHON, str(HERE / "megatron_step.py"), name]
    job = TracedJob(case["world_size"], time_limit_s=7200.0)

    def show(share: float, doing: str) -> None:
        print(f"\r{name}: {share:4.0%} {doing}   ", end="", file=sys.stderr)

    if "recorded" not in case:
        return record_roles([program], job, (), show, random_ranks=1)[0]
    numbers = [*case["recorded"], case["micro_batches"]]
    programs = micro_batch_programs([*program, "--micro-batches", PLACEHOLDER], numbers)
    return extend(record_roles(programs[:-1], job, (), show, random_ranks=1), numbers)


def row_of(name: str, case: dict, trace: Trace, job: JobRoles) -> list[str]:
    """A row of the table: a job's roles and calls."""
    expansion = Expansion(job)
    verified = expansion.verify()
    calls = sum(len(role.ranks) * expansion.count(int(role.ranks[0])) for role in job.roles)
    data = case["world_size"] // (case["tp"] * case["cp"] * case["pp"])
    return [
        name, f"{case['world_size']:,}", f"{case['tp']} {case['cp']} {case['pp']} {data}",
        str(case["micro_batches"]), str(len(job.roles)), f"{calls:,}",
        f"{verified.calls:,} of {verified.ranks}", trace.calls_hash[:16],
    ]  # fmt: skip


def volumes_of(name: str, job: JobRoles) -> list[list[str]]:
    """What a rank of the second stage puts into calls of each kind of group."""
    rank = job.roles[1].recorded[0]
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for call in job.calls[rank]:
        size = call.output_bytes if call.op == "receive" else call.input_bytes
        found = sums[GROUPS.get(call.group, "others"), call.op]
        found[0] += 1
        found[1] += size
        found[2] = max(found[2], size)
    return [
        [name, group, op, f"{number:,}", f"{total / 1e9:,.3f}", f"{largest / 1e6:,.3f}"]
        for (group, op), (number, total, largest) in sorted(sums.items())
    ]


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Rows of Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(one)} |" for one in lines)


def processor_time_s() -> float:
    """Of this process and all that it waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


def main() -> int:
    """Record the cases, and write or compare the table."""
    parser = command_line(__doc__)
    parser.add_argument("--only", help="one case, which is printed")
    options = parser.parse_args()
    settings = tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))
    cases = {name: case for name, case in settings.items() if name != "models"}
    rows, volumes = [], []
    for name, case in cases.items():
        if options.only not in (None, name):
            continue
        began, used_s = time.monotonic(), processor_time_s()
        trace = trace_of(name, case)
        job = find_job(trace)
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        recorded = (
            f"{time.monotonic() - began:.0f} s, {processor_time_s() - used_s:.0f} s of processors, "
            f"at most {largest:.1f} GB of a process"
        )
        used_s = processor_time_s()
        stack = build_stack(job, Algorithm("auto"), local_size=8, overhead_bytes=1e6)
        stack.check()
        taken_s = processor_time_s() - used_s
        print(f"\r{name}: recorded in {recorded}; permutations in {taken_s:.0f} s", file=sys.stderr)
        rows.append(row_of(name, case, trace, job))
        volumes += volumes_of(name, job)
    text = table(
        ["case", "GPUs", "TP CP PP DP", "micro-batches", "roles", "calls of all ranks",
         "calls of more ranks as expected", "trace"], rows,
    )  # fmt: skip
    text += "\n\n" + table(["case", "group", "operation", "calls", "[GB]", "largest [MB]"], volumes)
    if options.only is not None:
        print(text)
        return 0
    return write_or_check({HERE / "table.md": text + "\n"}, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
