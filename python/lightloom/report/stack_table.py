"""Tables of the permutations of a training step."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from lightloom.report.figure import Figure
from lightloom.report.plots_stack import stack_drawing
from lightloom.report.terminal import plain_table, print_table
from lightloom.trace.expand import Verified
from lightloom.trace.job import JobRoles
from lightloom.trace.local import LocalStack
from lightloom.trace.stack import PermutationStack

#: rows that are printed; --json has all
MAX_ROWS = 24


def print_stack(stack: PermutationStack, delivered: int, console: Console) -> None:
    """Print the kinds of calls by the time that ports are held, and the slots of each role."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(
        f"Step {stack.step} of {stack.world_size:,} ranks in {len(stack.sequences):,} roles: "
        f"{len(stack.permutations):,} different permutations"
    )
    table = plain_table(
        "Calls, merged over groups that issue them alike",
        ["roles", "group", "ranks", "groups", "operation", "phase", "algorithm", "calls",
         "slots", "at least", "port [MB]"],
    )  # fmt: skip
    calls = sorted(stack.calls, key=lambda call: -call.calls * call.port_bytes)
    for call in calls[:MAX_ROWS]:
        table.add_row(
            _roles(call.roles), call.group, f"{call.groups.shape[1]:,}",
            f"{len(call.groups):,}", call.op, call.phase,
            call.algorithm + " *" * call.on_demand, f"{call.calls:,}",
            f"{call.slots:,}", f"{call.lower_bound_slots:,}",
            f"{call.calls * call.port_bytes / 1e6:,.3f}",
        )  # fmt: skip
    print_table(table, console)
    if len(calls) > MAX_ROWS:
        say(f"{len(calls) - MAX_ROWS} more rows: --json has all")
    if any(call.on_demand for call in calls):
        say("* sizes depend on data: the permutations are known, the largest size is held")
    _print_roles(stack, console)
    say(f"\nchecked: each of {delivered:,} transfers is delivered once")


def _roles(roles: tuple[int, ...]) -> str:
    return str(roles[0]) if len(roles) == 1 else f"{roles[0]} to {roles[-1]}"


def _print_roles(stack: PermutationStack, console: Console) -> None:
    table = plain_table("Slots of a step", ["role", "first rank", "ranks", "slots", "at least"])
    for role in range(len(stack.sequences))[:MAX_ROWS]:
        ranks = np.flatnonzero(stack.role_of_rank == role)
        table.add_row(
            str(role), f"{ranks[0]:,}", f"{len(ranks):,}",
            f"{stack.slots(role):,}", f"{stack.lower_bound_slots(role):,}",
        )  # fmt: skip
    print_table(table, console)


def print_local(stack: PermutationStack, local: LocalStack, console: Console) -> None:
    """Print at which tier circuits turn round, and what lacking up-links cost."""
    table = plain_table(
        "Permutations over the fabric", ["tier", "permutations", "turns", "circuits", "of all [%]"]
    )
    every = int(local.circuits.sum())
    for tier in range(1, local.sizes.tiers + 1):
        parts = local.tier == tier
        circuits = int(local.circuits[:, tier - 1].sum())
        table.add_row(
            ("leaf", "spine", "core")[tier - 1], f"{len(set(local.parent[parts])):,}",
            f"{parts.sum():,}", f"{circuits:,}", f"{100 * circuits / max(every, 1):.1f}",
        )  # fmt: skip
    print_table(table, console)
    console.print()
    divided = len(local.parent) - len(stack.permutations)
    text = "checked: every circuit ends at its destination, and leaves no leaf or pod without need"
    if divided:
        text += f"; for want of up-links {divided:,} more turns"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def stack_page(stack: PermutationStack) -> str:
    """A page with a drawing of the stack."""
    drawn, height = stack_drawing(stack)
    title = f"Permutations of a step of {stack.world_size:,} ranks"
    return Figure(title, str(drawn), round(height)).to_html()


def print_roles(job: JobRoles, verified: Verified, console: Console) -> None:
    """Print the roles of a job, and what other recorded ranks say of them."""
    table = plain_table(
        f"Roles of {job.world_size:,} ranks in step {job.step}",
        ["role", "ranks", "first", "last", "recorded", "calls"],
    )
    for number, role in enumerate(job.roles[:MAX_ROWS]):
        table.add_row(
            str(number), f"{len(role.ranks):,}", f"{role.ranks[0]:,}", f"{role.ranks[-1]:,}",
            ", ".join(map(str, role.recorded[:4])) + ", ..." * (len(role.recorded) > 4),
            f"{len(job.calls[role.recorded[0]]):,}",
        )  # fmt: skip
    print_table(table, console)
    console.print()
    if len(job.roles) > MAX_ROWS:
        console.print(f"{len(job.roles) - MAX_ROWS} more roles")
    text = "no rank was recorded in addition: record some by --rank roles,5,77 to check symmetry"
    if verified.ranks:
        text = (
            f"checked: the {verified.calls:,} calls of {verified.ranks:,} more recorded "
            f"{'rank' if verified.ranks == 1 else 'ranks'} are those that symmetry expects, "
            f"{verified.sizes:,} with the same sizes"
        )
    console.print(text, highlight=False, markup=False, soft_wrap=True)
