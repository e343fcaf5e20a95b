"""A training program: FSDP2 over one dimension of a mesh, tensor parallelism over the other."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional

HIDDEN = 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
mesh = init_device_mesh(DEVICE, (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, data):
        return data + self.down(functional.gelu(self.up(self.norm(data))))


model = nn.Sequential(*(Block() for _ in range(3))).to(DEVICE)
precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model:
    parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(block, mesh=mesh["dp"], mp_policy=precision)
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    loss = model(torch.randn(4, 16, HIDDEN, device=DEVICE)).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_([block.norm.weight for block in model], 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
