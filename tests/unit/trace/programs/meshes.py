"""A training program: groups of a mesh of two and of three dimensions, and of its parts."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("copies", "shards", "tensors"))
rank, world = dist.get_rank(), dist.get_world_size()
copies, shards = mesh.get_group("copies"), mesh["shards"].get_group()
assert dist.get_process_group_ranks(copies) == [rank % 4, rank % 4 + 4]
assert mesh.get_local_rank("tensors") == rank % 2
flat = mesh["copies", "shards"]._flatten("data")
assert flat.size() == 4
own = DeviceMesh.from_group(flat.get_group(), "cpu")
tensor = distribute_tensor(
    torch.arange(16.0 * world).view(world, 16), mesh, [Shard(0), Shard(1), Replicate()]
)
whole = tensor.redistribute(mesh, [Replicate(), Replicate(), Shard(0)])
assert whole.to_local().shape == (world // 2, 16)
assert tensor.full_tensor().shape == (world, 16)
turned = distribute_tensor(torch.ones(8, 8), mesh["tensors"], [Shard(0)]).redistribute(
    placements=[Shard(1)]
)
assert turned.to_local().shape == (8, 4)
uneven = distribute_tensor(torch.ones(5, 3), flat, [Shard(0)])
total = uneven.sum().full_tensor()
layer = nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    layer(torch.randn(4, 8)).sum().backward()
    for parameter in layer.parameters():
        part = torch.empty(parameter.numel() // 2)
        dist.reduce_scatter_tensor(part, parameter.grad.flatten(), group=shards)
        dist.all_reduce(part, group=copies)
        gathered = torch.empty(parameter.numel())
        dist.all_gather_into_tensor(gathered, part, group=shards)
        parameter.grad = gathered.view_as(parameter)
    dist.all_reduce(layer.bias.grad, group=own.get_group(), op=dist.ReduceOp.MAX)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
