"""One GPU trains a layer under autocast, compiled if asked; no rank is there to talk to."""

import sys

import torch
from torch.nn import functional

ROWS, WIDTH = 256, 64


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.back = torch.nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, states):
        return states + self.back(functional.gelu(self.wide(self.norm(states))) * 0.5)


model = torch.nn.Sequential(Layer(), Layer()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
if "compiled" in sys.argv:
    model = torch.compile(model)
for _ in range(2):
    states = torch.randn(ROWS, WIDTH, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled="wide" not in sys.argv):
        loss = functional.mse_loss(model(states), states)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
