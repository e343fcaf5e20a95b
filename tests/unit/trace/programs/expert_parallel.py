"""A training program: experts on ranks of a group, data parallelism over all ranks."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

EP, CHOSEN, HIDDEN, VOCABULARY = 4, 2, 32, 100
dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
EXPERTS = 2 * EP
GROUP = [dist.new_group(list(range(first, first + EP))) for first in range(0, WORLD, EP)][
    RANK // EP
]
torch.manual_seed(0)


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, sent, received):
        ctx.sizes = (sent, received)
        arrived = rows.new_empty((sum(received), *rows.shape[1:]))
        dist.all_to_all_single(arrived, rows.contiguous(), received, sent, group=GROUP)
        return arrived

    @staticmethod
    def backward(ctx, rows):
        sent, received = ctx.sizes
        returned = rows.new_empty((sum(sent), *rows.shape[1:]))
        dist.all_to_all_single(returned, rows.contiguous(), sent, received, group=GROUP)
        return returned, None, None


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(EXPERTS // EP))

    def forward(self, tokens):
        weights, chosen = self.router(tokens).softmax(-1).topk(CHOSEN, -1)
        order = chosen.view(-1).argsort(stable=True)
        counts = torch.bincount(chosen.view(-1), minlength=EXPERTS)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts, group=GROUP)
        sent, received = (count.view(EP, -1).sum(1).tolist() for count in (counts, theirs))
        rows = AllToAll.apply(tokens[order // CHOSEN], sent, received)
        parts = torch.split(rows, theirs.tolist())
        done = [self.experts[i % len(self.experts)](part) for i, part in enumerate(parts)]
        back = AllToAll.apply(torch.cat(done), received, sent)
        weighted = back * weights.view(-1)[order, None]
        return tokens + torch.zeros_like(tokens).index_add(0, order // CHOSEN, weighted)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.layers = nn.ModuleList(Experts() for _ in range(2))
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, ids):
        tokens = self.norm(self.embedding(ids))
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens)


model = DistributedDataParallel(Model())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(2):
    ids = torch.randint(0, VOCABULARY, (64,))
    loss = functional.cross_entropy(model(ids), ids)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    shown = loss.detach()
    dist.all_reduce(shown)
    gathered = [None] * WORLD
    dist.all_gather_object(gathered, {"rank": RANK, "loss": shown.isfinite().item()})
dist.destroy_process_group()
