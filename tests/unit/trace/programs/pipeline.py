"""A training program: a pipeline of two stages, with batched messages and coalesced collectives."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
HALF = WORLD // 2
STAGES = [dist.new_group([i, i + HALF]) for i in range(HALF)][RANK % HALF]
DATA = [dist.new_group(list(range(s * HALF, (s + 1) * HALF))) for s in range(2)][RANK // HALF]
FIRST = RANK < HALF
PEER = RANK + HALF if FIRST else RANK - HALF
layer = nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)


def transfer(operation, tensor):
    for work in dist.batch_isend_irecv([dist.P2POp(operation, tensor, PEER, STAGES)]):
        work.wait()
    return tensor


for _ in range(2):
    for _ in range(3):
        if FIRST:
            states = layer(torch.randn(4, 16))
            transfer(dist.isend, states.detach())
            states.backward(transfer(dist.irecv, torch.empty(4, 16)))
        else:
            data = transfer(dist.irecv, torch.empty(4, 16)).requires_grad_()
            layer(data).sum().backward()
            transfer(dist.isend, data.grad)
    handles = [dist.all_reduce(p.grad, group=DATA, async_op=True) for p in layer.parameters()]
    whole = torch.empty(HALF * 16)
    dist.all_gather_into_tensor(whole, layer.bias.detach(), group=DATA)
    for handle in handles:
        handle.wait()
    part = torch.empty(16)
    dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.MAX, group=DATA)
    optimizer.step()
    optimizer.zero_grad()
    stop = torch.tensor([True])
    dist.broadcast(stop, 0)
    assert stop.item()
    dist.barrier()
dist.destroy_process_group()
