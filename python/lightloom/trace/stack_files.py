"""A stack of permutations as JSON and as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightloom.demand.byte_matrix import write_npz
from lightloom.trace.local import LocalStack, local_arrays
from lightloom.trace.stack import PermutationStack, StackedCall


def stack_as_json(
    stack: PermutationStack, delivered: int, local: LocalStack | None = None
) -> dict[str, Any]:
    """Kinds of calls, and the order in which each role issues them; not the permutations."""
    roles = []
    for role, sequence in enumerate(stack.sequences):
        ranks = np.flatnonzero(stack.role_of_rank == role)
        roles.append({
            "first_rank": int(ranks[0]), "ranks": len(ranks),
            "slots": stack.slots(role), "lower_bound_slots": stack.lower_bound_slots(role),
            "calls": sequence.tolist(),
        })  # fmt: skip
    return {
        "world_size": stack.world_size,
        "step": stack.step,
        "permutations": len(stack.permutations),
        "delivered_transfers": delivered,
        "roles": roles,
        "calls": [_call_as_json(call) for call in stack.calls],
        "local": None if local is None else _local_as_json(local),
    }


def _local_as_json(local: LocalStack) -> dict[str, Any]:
    return {
        "part_of_permutation": local.parent.tolist(),
        "part_tier": local.tier.tolist(),
        "circuits_by_tier": local.circuits.tolist(),
    }


def _call_as_json(call: StackedCall) -> dict[str, Any]:
    return {
        "group": call.group, "op": call.op, "phase": call.phase, "algorithm": call.algorithm,
        "roles": list(call.roles), "groups": len(call.groups), "group_size": call.groups.shape[1],
        "size_bytes": call.size_bytes, "calls": call.calls, "on_demand": call.on_demand,
        "slots": call.slots, "lower_bound_slots": call.lower_bound_slots,
        "blocks": [
            {
                "permutations": list(block.permutations),
                "repeats": block.repeats,
                "size_bytes": block.size_bytes,
            }
            for block in call.blocks
        ],
    }  # fmt: skip


def stack_as_npz(stack: PermutationStack, local: LocalStack | None = None) -> bytes:
    """Arrays: permutations; which ones a call sets, how often, with how many bytes; the order.

    With them the settings of the switches of a fabric.
    """
    rows = [
        (number, index, block.repeats, block.size_bytes, turn)
        for number, call in enumerate(stack.calls)
        for turn, block in enumerate(call.blocks)
        for index in block.permutations
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    lengths = [len(sequence) for sequence in stack.sequences]
    return write_npz({
        "permutations": stack.permutations, "role_of_rank": stack.role_of_rank,
        "call": table[:, 0], "block": table[:, 4], "permutation": table[:, 1],
        "repeats": table[:, 2], "size_bytes": table[:, 3],
        "sequence_offsets": np.cumsum([0, *lengths]), "sequence": np.concatenate(stack.sequences),
        **({} if local is None else local_arrays(local)),
    })  # fmt: skip
