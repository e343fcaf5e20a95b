"""Process groups of ranks that do not exist, or that have no GPU."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .devices import STREAMS
from .places import call_site

#: name and ranks of every group that was made; every rank makes all of them
MADE: list[tuple[str, list[int]]] = []


def group_name(described: str | None) -> str:
    """What the program calls a group; or, if it calls it nothing, where it made it."""
    return "unnamed" if described in (None, "", "undefined") else str(described)


def _object_of(tensor: torch.Tensor, size: Any, group: Any, weights_only: bool = False) -> Any:
    """What a gathered object's bytes stand for; a job of thousands of ranks gathers thousands."""
    with torch._C._DisableTorchDispatch():
        content = torch._C.TensorBase.numpy(tensor).tobytes()[: int(size)]
    if weights_only:
        return torch.load(io.BytesIO(content), weights_only=True)
    return pickle.loads(content)


def _receiving(receive: Callable[..., int]) -> Callable[..., int]:
    """Receive from a rank that is named, also where the program takes a message from any."""

    @functools.wraps(receive)
    def recv(
        tensor: torch.Tensor,
        src: int | None = None,
        group: dist.ProcessGroup | None = None,
        tag: int = 0,
        group_src: int | None = None,
    ) -> int:
        if src is None and group_src is None and STREAMS.session is not None:
            chosen = group or dist.group.WORLD
            ranks = dist.get_process_group_ranks(chosen)
            name = group_name(chosen.group_desc)
            src = STREAMS.session.peers.first_sender(ranks, name, tag)
        return int(receive(tensor, src, group, tag, group_src))

    return recv


def follow_groups(world_size: int) -> None:
    """Note the groups that are made; those without a name by the place that made them."""
    make = c10d._new_process_group_helper

    @functools.wraps(make)
    def noted(size: int, place: int, members: Any, *args: Any, **kw: Any) -> Any:
        if group_name(kw.get("group_desc")) == "unnamed":
            file, _, rest = call_site().rpartition(":")
            line, _, function = rest.partition(" in ")
            kw["group_desc"] = f"{Path(file).stem}.{function}:{line}"
        MADE.append((kw["group_desc"], list(members or range(world_size))))
        return make(size, place, members, *args, **kw)

    c10d._new_process_group_helper = noted


def spoof_groups(spec: dict[str, Any]) -> None:
    """Let process groups of any backend be made without other ranks and without a network.

    What a program asked for is what :func:`torch.distributed.get_backend` replies. Real groups are
    those of gloo. The rank is read when a group is made, in the process of that rank.
    """
    # makes groups without peers known to PyTorch
    import torch.testing._internal.distributed.fake_pg  # noqa: F401

    from .post import JobStore

    wanted: dict[Any, str] = {}
    start, make, backend_of = (
        dist.init_process_group, c10d._new_process_group_helper, dist.get_backend,
    )  # fmt: skip

    @functools.wraps(start)
    def init_process_group(
        backend: str | None = None, init_method: Any = None, timeout: Any = None, **other: Any
    ) -> None:
        other.pop("device_id", None)
        if spec["real"]:
            start(backend="gloo", **other)
            return
        for name in ("store", "rank", "world_size"):
            other.pop(name, None)
        # what is Python of it lives as long as this names it
        spec["store"] = JobStore(spec["post"])
        start(
            backend=backend or "cpu:gloo,cuda:nccl",
            store=spec["store"], rank=spec["rank"], world_size=spec["world_size"], **other,
        )  # fmt: skip

    @functools.wraps(make)
    def new_group(size: int, place: int, members: Any, backend: Any, *args: Any, **kw: Any) -> Any:
        for name in ("device_id", "backend_options", "pg_options"):
            if name in kw:
                kw[name] = None
        used = dist.Backend("gloo" if spec["real"] else "fake")
        group = make(size, place, members, used, *args, **kw)
        # groups that are made of others ask these for their backend
        wanted[group[0]] = str(backend) if str(backend) != "fake" else get_backend()
        return group

    @functools.wraps(backend_of)
    def get_backend(group: Any = None) -> str:
        group = group or dist.group.WORLD
        name = wanted.get(group, "nccl")
        return "nccl" if "nccl" in name else name.rsplit(":", 1)[-1]

    if not spec["real"]:
        c10d._tensor_to_object = _object_of
        dist.recv = c10d.recv = _receiving(dist.recv)  # type: ignore[assignment]
    for module in (dist, c10d):
        module.init_process_group = init_process_group  # type: ignore[assignment]
        module.get_backend = get_backend  # type: ignore[assignment]
    c10d._new_process_group_helper = new_group
