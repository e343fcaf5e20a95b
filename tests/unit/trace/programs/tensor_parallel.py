"""A training program: sequence and tensor parallelism of DTensor, and a loss over split logits.

With ``fsdp2`` what is left of the parameters is sharded, too.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

WORDS, HIDDEN, LENGTH = 32, 16, 8
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, data):
        return data + self.down(functional.gelu(self.up(self.norm(data))))


model = nn.Sequential(nn.Embedding(WORDS, HIDDEN), Block(), Block(), nn.Linear(HIDDEN, WORDS))
PLAN = {
    "0": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "3": ColwiseParallel(
        input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
    ),
}  # fmt: skip
for block in ("1", "2"):
    PLAN |= {
        f"{block}.norm": SequenceParallel(),
        f"{block}.up": ColwiseParallel(input_layouts=Shard(1)),
        f"{block}.down": RowwiseParallel(output_layouts=Shard(1)),
    }
parallelize_module(model, mesh["tp"], PLAN)
is_sharded = "fsdp2" in sys.argv
if is_sharded:
    for part in model:
        fully_shard(part, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
group = mesh["dp"].get_group()
for _ in range(2):
    words = torch.arange(2 * LENGTH).view(2, LENGTH) % WORDS
    with loss_parallel():
        loss = functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
        loss.backward()
    for parameter in [] if is_sharded else model.parameters():
        gradient = parameter.grad
        dist.all_reduce(
            gradient.to_local() if isinstance(gradient, DTensor) else gradient, group=group
        )
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
