"""A small GPT with experts over circuits, in plain PyTorch: what a training program looks like.

Each rank has its share of the experts of each layer and a copy of everything else. The gate tells
the controller what the dispatch will send before the experts are reached; combine and gradients go
back over the same circuits. Sums of gradients are by rings over the packet NICs. Losses are the
same to the bit, whatever the circuits.

Run as the ranks of a job: ``lightloom testbed train``, or with ``torchrun`` on servers of a region.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn

from lightloom.torch import MixNet

VOCABULARY, SEQUENCE = 64, 64


class Experts(nn.Module):
    """A layer of experts, each token at one of them."""

    def __init__(self, mixnet: MixNet, layer: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.mixnet, self.layer, self.ranks = mixnet, layer, dist.get_world_size()
        self.gate = nn.Linear(hidden, experts, bias=False)
        torch.manual_seed(1000 * (layer + 1) + dist.get_rank())  # experts differ, all else does not
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
            for _ in range(experts // self.ranks)
        )
        torch.manual_seed(layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens to their experts and back."""
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=self.gate.out_features).view(self.ranks, -1)
        splits = counts.sum(1).tolist()
        row_bytes = x.shape[1] * x.element_size()
        self.mixnet.upcoming([rows * row_bytes for rows in splits], layer=self.layer)
        coming = torch.empty_like(counts)  # circuits change meanwhile
        dist.all_to_all_single(coming, counts)
        rows, route = self.mixnet.all_to_all(x[order], splits, layer=self.layer)
        expert_of = torch.arange(coming.numel()).remainder(coming.shape[1])
        expert_of = expert_of.repeat_interleave(coming.view(-1))
        results = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            mine = (expert_of == number).nonzero().squeeze(1)
            results = results.index_add(0, mine, expert(rows[mine]))
        home = route.combine(results)
        return weight.unsqueeze(1) * torch.empty_like(home).index_copy(0, order, home)


class GptBlock(nn.Module):
    """Attention and experts."""

    def __init__(self, mixnet: MixNet, layer: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2))
        self.attention = nn.MultiheadAttention(hidden, 4, batch_first=True)
        self.experts = Experts(mixnet, layer, hidden, experts)
        self.register_buffer("mask", torch.ones(SEQUENCE, SEQUENCE).triu(1).bool())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        seen = self.norms[0](x)
        x = x + self.attention(seen, seen, seen, attn_mask=self.mask, need_weights=False)[0]
        return x + self.experts(self.norms[1](x).flatten(0, 1)).view_as(x)


class Gpt(nn.Module):
    """Tokens to the tokens that follow them."""

    def __init__(self, mixnet: MixNet, layers: int, hidden: int, experts: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(VOCABULARY, hidden)
        self.places = nn.Parameter(torch.randn(SEQUENCE, hidden) / 10)
        self.blocks = nn.Sequential(
            *(GptBlock(mixnet, layer, hidden, experts) for layer in range(layers))
        )
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the next tokens."""
        return self.head(self.blocks(self.tokens(tokens) + self.places))


def batch(step: int, sequences: int) -> torch.Tensor:
    """Sequences in which each token mostly says what the next one is."""
    seed = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    noise = torch.randint(0, 5, (sequences, SEQUENCE + 1), generator=seed)
    first = torch.randint(0, VOCABULARY, (sequences, 1), generator=seed)
    return (first + (3 + (noise > 3).long()).cumsum(1)).remainder(VOCABULARY)


def add_up_gradients(model: Gpt, mixnet: MixNet) -> None:
    """Mean gradients over ranks; experts have those of all tokens already."""
    shared = [p.grad for name, p in model.named_parameters() if ".experts.experts." not in name]
    total = mixnet.all_reduce(torch.cat([gradient.view(-1) for gradient in shared]))
    for gradient, part in zip(shared, total.split([g.numel() for g in shared]), strict=True):
        gradient.copy_(part.view_as(gradient))
    for parameter in model.parameters():
        parameter.grad.div_(dist.get_world_size())


def main() -> None:
    """Train and print a line of JSON per step."""
    parser = argparse.ArgumentParser(description="train a small GPT with experts over circuits")
    experts = 2 * int(os.environ.get("WORLD_SIZE", "1"))
    sizes = {"steps": 4, "layers": 2, "hidden": 128, "experts": experts, "sequences": 8}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    mixnet = MixNet.from_environment()
    model = Gpt(mixnet, arguments.layers, arguments.hidden, arguments.experts)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, foreach=False)
    for step in range(arguments.steps):
        mixnet.records = []
        begin_s = time.monotonic()
        tokens = batch(step, arguments.sequences)
        scores = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        add_up_gradients(model, mixnet)
        optimizer.step()
        mean = mixnet.all_reduce(loss.detach().double().view(1)) / dist.get_world_size()
        moved = [dataclasses.asdict(record) for record in mixnet.records]
        facts = {"step": step, "loss": float(mean), "step_time_s": time.monotonic() - begin_s}
        if dist.get_rank() == 0:
            exposed_s = sum(record["waited_s"] for record in moved)
            print(json.dumps(facts | {"exposed_s": exposed_s, "all_to_alls": moved}), flush=True)
    dist.barrier()
    mixnet.close()
    os._exit(0)  # threads of process groups need not be waited for


if __name__ == "__main__":
    main()
