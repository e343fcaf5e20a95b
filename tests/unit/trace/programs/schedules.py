"""A training program: PyTorch's own pipeline parallelism, by the schedule that is asked for."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

HIDDEN, ROWS, CHUNKS = 8, 16, 8
SCHEDULE = sys.argv[1] if len(sys.argv) > 1 else "1F1B"
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
each = 1 if SCHEDULE in ("1F1B", "GPipe") else 2
numbers = range(rank, each * world, world)
parts = nn.ModuleList(nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU()) for _ in numbers)
stages = [
    pipelining.PipelineStage(part, number, each * world, torch.device("cpu"))
    for part, number in zip(parts, numbers, strict=True)
]
kind = pipelining.schedules.get_schedule_class(SCHEDULE)
schedule = kind(stages[0] if each == 1 else stages, CHUNKS, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
last = rank == world - 1
for _ in range(2):
    data = [torch.randn(ROWS, HIDDEN)] if rank == 0 else []
    target = {"target": torch.randn(ROWS, HIDDEN), "losses": []} if last else {}
    schedule.step(*data, **target)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
