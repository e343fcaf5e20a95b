"""Writes the format of results under autocast of the GPU, by the form of a call."""

import sys
from pathlib import Path

import torch
from torch.nn import functional

LOW = torch.ones(4, 4, dtype=torch.bfloat16, device="cuda")

CALLS = {
    "plain": lambda: torch.softmax(LOW, -1),
    "method": lambda: LOW.softmax(-1),
    "by keyword": lambda: torch.softmax(input=LOW, dim=-1),
    "format by place": lambda: torch.softmax(LOW, -1, torch.float16),
    "method, format by place": lambda: LOW.softmax(-1, torch.float16),
    "format by keyword": lambda: torch.softmax(LOW, -1, dtype=torch.float16),
    "functional": lambda: functional.softmax(input=LOW, dim=-1),
    "sum by keyword": lambda: torch.sum(input=LOW),
    "norm": lambda: torch.linalg.norm(LOW),
    "vector norm": lambda: torch.linalg.vector_norm(LOW),
    "covariance": lambda: torch.cov(LOW.float()),
}

with torch.autocast("cuda", dtype=torch.bfloat16):
    lines = [f"{name}: {call().dtype}" for name, call in CALLS.items()]
Path(sys.argv[1]).write_text("\n".join(lines))

weight = torch.nn.Parameter(torch.ones(3, 3, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
functional.linear(torch.ones(3, 3, device="cuda"), weight).sum().backward()
optimizer.step()
