"""Train a small mixture of experts by each strategy: two experts of two TP ranks, with gloo."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn import Linear, Module, functional

from lightloom.torch import all_to_all_tp

TP, EP, HIDDEN, TOKENS, STEPS = 2, 2, 16, 60, 10


class Layer(Module):
    """Dense weights and a gate, which all ranks have, and a TP rank's half of an expert."""

    def __init__(self, **way):
        super().__init__()
        self.way = way
        self.dense, self.gate = Linear(HIDDEN, HIDDEN), Linear(HIDDEN, EP)
        self.up, self.down = Linear(HIDDEN, 32 // TP), Linear(32 // TP, HIDDEN, bias=False)

    def forward(self, x):
        x = self.dense(x)
        weight, expert = self.gate(x).softmax(dim=1).max(dim=1)
        order = expert.argsort(stable=True)
        splits = expert.bincount(minlength=EP).tolist()
        rows, route = all_to_all_tp(x[order], splits, **self.way)
        results = route.combine(self.down(functional.gelu(self.up(rows))))
        return x.index_add(0, order, weight[order, None] * results)


def train(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=TP * EP)
    tp_groups = [dist.new_group(list(range(p * TP, p * TP + TP))) for p in range(EP)]
    ep_groups = [dist.new_group(list(range(t, TP * EP, TP))) for t in range(TP)]
    groups = {"ep_group": ep_groups[rank % TP], "tp_group": tp_groups[rank // TP]}
    losses = []
    for strategy in ("baseline", "O1", "O2", "O3", "O4"):
        layer = Layer(**groups, strategy=strategy, chunks=4)
        for number, weights in enumerate(layer.parameters()):
            torch.manual_seed(number if number < 4 else number + 10 * rank)  # a part, or alike
            torch.nn.init.normal_(weights, 0, 0.3)
        x, wanted = torch.randn(2, TOKENS, HIDDEN, generator=torch.manual_seed(rank // TP))
        for _ in range(STEPS):
            layer.zero_grad()
            (loss := (layer(x) - wanted).square().mean()).backward()
            for weights in (*layer.dense.parameters(), *layer.gate.parameters()):
                dist.all_reduce(weights.grad, group=groups["ep_group"])
            for weights in layer.parameters():
                weights.data -= 0.1 * weights.grad
        losses.append(loss.item())
        if rank == 0:
            print(f"{strategy:8}  loss {loss:.3f}, equal to the first: {loss == losses[0]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(train, (f"file://{folder}/s",), TP * EP, start_method="fork")
