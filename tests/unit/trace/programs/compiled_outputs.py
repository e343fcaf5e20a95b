"""A compiled function returns what it goes on with, and something reads that, if asked."""

import sys

import torch
import torch.distributed as dist

SIZE = 1 << 12


@torch.compile
def doubled_and_next(numbers):
    twice = numbers * 2
    return twice, twice + 1


class Layer(torch.nn.Linear):
    def forward(self, states):
        twice, following = doubled_and_next(torch.empty(SIZE, device="cuda"))
        if "eager" in sys.argv:
            twice.neg()
        if "call" in sys.argv:
            dist.all_reduce(twice)
        if "product" in sys.argv:
            twice.view(64, 64) @ twice.view(64, 64)
        if "later" in sys.argv:
            following.neg()
            twice.neg()
        return super().forward(states)


dist.init_process_group("nccl")
layer = Layer(3, 3, bias=False, device="cuda")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    layer(torch.empty(3, 3, device="cuda")).sum().backward()
    optimizer.step()
