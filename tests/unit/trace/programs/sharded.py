"""A training program: the ways of sharding of PyTorch that is asked for."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

KIND, HIDDEN, LENGTH, WORDS = sys.argv[1], 16, 8, 32
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.attention = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.mix = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, data):
        query, key, value = self.attention(self.norm(data)).unflatten(-1, (3, 2, -1)).unbind(-3)
        parts = [part.transpose(-3, -2) for part in (query, key, value)]
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return data + self.mix(mixed.transpose(-3, -2).flatten(-2))


model = nn.Sequential(nn.Embedding(WORDS, HIDDEN), Block(), Block(), nn.Linear(HIDDEN, WORDS))
if KIND.startswith("ddp"):
    # gloo has two threads, which would wait for what PowerSGD does between buckets
    bucket_mb = 25 if KIND == "ddp-powersgd" else 0.01
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    if KIND == "ddp-compressed":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif KIND == "ddp-own-hook":

        def doubled(group, bucket):
            handle = dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
            small = dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future()
            both = torch.futures.collect_all([handle, small])
            return both.then(lambda done: done.value()[0].value()[0] / world)

        model.register_comm_hook(dist.group.WORLD, doubled)
    elif KIND == "ddp-powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
elif KIND == "fsdp":
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
elif KIND == "zero-1":
    model = nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.fsdp import fully_shard

    shape = (2, world // 2) if KIND == "hsdp" else (world,)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("copies", "shards")[-len(shape) :])
    for block in list(model)[1:3]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
if KIND == "zero-1":
    from torch.distributed.optim import ZeroRedundancyOptimizer

    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    words = (torch.arange(2 * LENGTH).view(2, LENGTH) + rank) % WORDS
    loss = functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
    loss.backward()
    if KIND == "fsdp2":
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    told = [None] * world
    dist.all_gather_object(told, {"rank": rank, "words": int(words.sum())})
    assert len({entry["words"] for entry in told}) == world
dist.destroy_process_group()
