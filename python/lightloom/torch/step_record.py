"""What a training program says of each step, for whoever watches and draws it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from lightloom.torch.mixnet import MixNetCollectives


@contextlib.contextmanager
def recorded_step(mixnet: MixNetCollectives, step: int) -> Iterator[dict[str, Any]]:
    """Record a step while the context is open; its first rank then prints a line of JSON.

    The line has what is put into the dictionary, such as the loss; ``begin_s`` and ``step_time_s``;
    every all-to-all of the first rank, with when the first rank of all began and the last ended;
    and the circuits that carried traffic, as each server saw
    them. All times are by the clock of the machine.
    """
    mixnet.records = moved = []
    facts: dict[str, Any] = {"step": step, "begin_s": time.monotonic()}
    yield facts
    facts["step_time_s"] = time.monotonic() - facts["begin_s"]
    facts["exposed_s"] = sum(record.waited_s for record in moved)
    own = [(one.begin_s, one.end_s, one.remote_bytes) for one in moved]
    of_ranks = mixnet.agreement.gather_objects(own)
    facts["all_to_alls"] = [
        dataclasses.asdict(record)
        | {"began_s": min(one[0] for one in of_all), "ended_s": max(one[1] for one in of_all)}
        for record, of_all in zip(moved, zip(*of_ranks, strict=True), strict=True)
    ]
    facts["demand_bytes"] = sum(one[2] for of_rank in of_ranks for one in of_rank)
    facts["circuits"] = mixnet.circuit_changes()
    if dist.get_rank() == 0:
        print(json.dumps(facts), flush=True)
