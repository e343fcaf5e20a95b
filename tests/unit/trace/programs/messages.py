"""A training program that talks in every way that PyTorch has beside the usual ones."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
layer = nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(2):
    own = torch.empty(3, dtype=torch.int64)
    parts = [torch.arange(3) + 10 * r + step for r in range(world)] if rank == 1 else None
    dist.scatter(own, parts, src=1)
    assert own.tolist() == [10 * rank + step + k for k in range(3)]
    settings = [{"rows": 4 + step}] if rank == 0 else [None]
    dist.broadcast_object_list(settings)
    mine = [None]
    dist.scatter_object_list(mine, [f"rank {r}" for r in range(world)] if rank == 0 else None)
    assert mine == [f"rank {rank}"]
    told = [None] * world
    dist.all_gather_object(told, {"rank": rank, "rows": settings[0]["rows"] + rank})
    rows = [entry["rows"] for entry in told]
    got = [None] * world if rank == 0 else None
    dist.gather_object("x" * (rank + 1), got)
    assert got is None or [len(text) for text in got] == list(range(1, world + 1))
    data = torch.randn(rows[rank], 4)
    padded = torch.zeros(max(rows), 4)
    padded[: rows[rank]] = data
    every = [torch.empty(max(rows), 4) for _ in rows]
    dist.all_gather(every, padded)
    if rank == 0:
        for _ in range(world - 1):
            count = torch.zeros(1, dtype=torch.int64)
            sender = dist.recv(count)
            assert int(count) == rows[sender]
            dist.recv(torch.empty(int(count), 4), src=sender)
    else:
        dist.send(torch.tensor([rows[rank]]), 0)
        dist.send(data, 0)
    layer(torch.cat(every)).sum().backward()
    dist.all_reduce(layer.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
