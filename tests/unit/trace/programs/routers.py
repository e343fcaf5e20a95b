"""A training program whose router chooses experts in the way that is asked for."""

import sys

import torch
import torch.distributed as dist
from torch import nn

EXPERTS, HIDDEN, TOKENS = 8, 4, 64
KIND = sys.argv[1]
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
gate, expert = nn.Linear(HIDDEN, EXPERTS), nn.Linear(HIDDEN, HIDDEN)
optimizer = torch.optim.SGD([*gate.parameters(), *expert.parameters()], lr=0.1)
for step in range(2):
    data = torch.randn(TOKENS, HIDDEN)
    scores = gate(data).softmax(-1)
    if KIND == "max":
        chosen = scores.max(-1).indices
    elif KIND == "argmax":
        chosen = scores.argmax(-1)
    elif KIND == "sort":
        chosen = scores.sort(-1, descending=True).indices[:, 0]
    elif KIND == "argsort":
        chosen = scores.argsort(-1, descending=True)[:, 0]
    elif KIND == "multinomial":
        chosen = torch.multinomial(scores, 1).squeeze(1)
    elif KIND == "threshold":
        chosen = (scores > 0.2).int().argmax(-1)
    elif KIND == "hash":
        chosen = (torch.arange(TOKENS) * (rank + 1) + step) % EXPERTS
    else:
        chosen = scores.topk(1).indices.squeeze(1)
    counts = torch.bincount(chosen, minlength=EXPERTS)
    sent = counts.view(world, -1).sum(1)
    got = torch.empty_like(sent)
    dist.all_to_all_single(got, sent)
    rows = torch.empty(int(got.sum()), HIDDEN)
    order = data[chosen.argsort()]
    dist.all_to_all_single(rows, order, got.tolist(), sent.tolist())
    back = torch.empty_like(order)
    dist.all_to_all_single(back, expert(rows).detach(), sent.tolist(), got.tolist())
    (back + gate(data).sum()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
