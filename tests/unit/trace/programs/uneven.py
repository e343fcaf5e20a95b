"""A training program whose ranks have different sizes, and different numbers of batches."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(nn.Linear(6, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with Join([model]):
    for _ in range(1 + rank % 2):
        model(torch.randn(2, 6)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
for step in range(2):
    rows = torch.tensor([3 + (rank + step) % world])
    every = [torch.zeros(1, dtype=torch.int64) for _ in range(world)]
    dist.all_gather(every, rows)
    sizes = [int(each) for each in every]
    mine = torch.randn(sizes[rank], 6)
    padded = torch.cat([mine, torch.zeros(max(sizes) - len(mine), 6)])
    gathered = torch.empty(world * max(sizes), 6)
    dist.all_gather_into_tensor(gathered, padded)
    kept = torch.cat([part[:size] for part, size in zip(gathered.chunk(world), sizes, strict=True)])
    assert len(kept) == sum(sizes)
    # the first rank of each two sends the other what it has too many of
    got = torch.empty(sum((rank + sender) % 3 for sender in range(world)), 6)
    sent = torch.randn(sum((rank + other) % 3 for other in range(world)), 6)
    splits = [(rank + other) % 3 for other in range(world)]
    dist.all_to_all_single(got, sent, splits, splits)
    outs = [torch.empty(2, 6) for _ in range(world)]
    dist.all_to_all(outs, [torch.randn(2, 6) for _ in range(world)])
    largest = torch.tensor(sizes[rank])
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    assert int(largest) == max(sizes)
    total = torch.ones(int(largest), 6)
    dist.reduce(total, dst=world - 1)
    parts = [torch.empty(int(largest), 6) for _ in range(world)] if rank == 0 else None
    dist.gather(total, parts)
    handle = dist.broadcast(torch.empty(sizes[step], 6), src=step, async_op=True)
    model(kept).sum().backward()
    handle.wait()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
