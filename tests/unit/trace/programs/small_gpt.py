"""A training program: a small GPT by DDP, with a sampler, accumulation and a snapshot."""

import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WORDS, HIDDEN, HEADS, LENGTH, ACCUMULATED = 40, 32, 4, 12, 2
dist.init_process_group("gloo")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.manual_seed(rank)


class Lines(Dataset):
    """Numbers that follow one another."""

    def __len__(self):
        return 37

    def __getitem__(self, place):
        line = (torch.arange(LENGTH + 1) + place) % WORDS
        return line[:-1], line[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(2))
        self.ask, self.mix = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.feed = nn.Sequential(
            nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN), nn.Dropout(0.1)
        )
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, -1))

    def forward(self, states):
        rows, length, _ = states.shape
        shape = (rows, length, HEADS, HIDDEN // HEADS)
        query, key, value = (
            part.view(shape).transpose(1, 2)
            for part in self.ask(self.norms[0](states)).split(HIDDEN, 2)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(HIDDEN // HEADS)
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).contiguous().view(states.shape)
        states = states + self.mix(mixed)
        return states + self.feed(self.norms[1](states))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, HIDDEN), nn.Embedding(LENGTH, HIDDEN)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, WORDS, bias=False)
        self.words.weight = self.head.weight

    def forward(self, lines, wanted):
        places = torch.arange(lines.shape[1]).unsqueeze(0)
        logits = self.head(self.norm(self.blocks(self.words(lines) + self.places(places))))
        return functional.cross_entropy(logits.view(-1, WORDS), wanted.reshape(-1), ignore_index=-1)


model = DistributedDataParallel(Model(), find_unused_parameters=True)
weights = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3
)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
sampler = DistributedSampler(Lines(), shuffle=True)
loader = DataLoader(Lines(), batch_size=3, sampler=sampler, drop_last=False)
best = math.inf
for epoch in range(2):
    sampler.set_epoch(epoch)
    for number, (lines, wanted) in enumerate(loader):
        last = (number + 1) % ACCUMULATED == 0 or number + 1 == len(loader)
        model.require_backward_grad_sync = last
        loss = model(lines, wanted) / ACCUMULATED
        loss.backward()
        if last:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
    total = loss.detach().clone()
    dist.reduce(total, 0)
    dist.barrier()
snapshot = [{"epochs": 2, "rate": schedule.get_last_lr()[0]} if rank == 0 else None]
dist.broadcast_object_list(snapshot, src=0)
assert snapshot[0]["epochs"] == 2
dist.destroy_process_group()
