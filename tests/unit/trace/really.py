"""Runs a program as one rank over gloo and notes what PyTorch's process groups are asked to do.

Nothing here is of the recorder: each group tells a hook of PyTorch's own, below all operators,
which tensors an operation gets and gives. Started by ``test_really.py``; arguments are the file for
the notes, and the program with its own.
"""

import json
import runpy
import sys
from pathlib import Path

import torch
from torch.distributed import distributed_c10d as c10d

NOTES = []

#: what an operation is called in a trace, by PyTorch's name of it up to the first underscore
NAMES = {
    "ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCE_SCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all", "BROADCAST": "broadcast", "REDUCE": "reduce", "GATHER": "gather",
    "SCATTER": "scatter", "BARRIER": "barrier", "SEND": "send", "RECV": "receive",
}  # fmt: skip


def size(tensors):
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def watch(group, ranks):
    """Note what a group of ranks is asked to do, from now on."""

    def note(asked):
        name = str(asked.name).rpartition(".")[2]
        for ending in ("_BASE", "_COALESCED", "_TENSOR", "_INTO"):
            name = name.removesuffix(ending)
        tensors = [*asked.input_tensors, *asked.output_tensors]
        NOTES.append({
            "op": NAMES[name],
            "ranks": ranks,
            "other": ranks[asked.root] if asked.root >= 0 else None,
            "input_bytes": size(asked.input_tensors),
            "output_bytes": size(asked.output_tensors),
            "dtype": str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
        })  # fmt: skip

    group.register_pre_hook(1, note)


def main(notes, *program):
    """Run a program, and write what its groups were asked to do."""
    make = c10d._new_process_group_helper

    def watched(size, place, members, *args, **kwargs):
        group, store = make(size, place, members, *args, **kwargs)
        if group is not c10d.GroupMember.NON_GROUP_MEMBER:
            watch(group, list(members or range(size)))
        return group, store

    c10d._new_process_group_helper = watched
    torch.manual_seed(0)
    sys.argv = list(program)
    sys.path.insert(0, str(Path(program[0]).resolve().parent))
    try:
        runpy.run_path(program[0], run_name="__main__")
    finally:
        Path(notes).write_text(json.dumps(NOTES), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
