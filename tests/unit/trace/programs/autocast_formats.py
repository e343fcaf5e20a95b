"""Writes the format that results of many functions have under autocast of the CPU."""

import sys
from pathlib import Path

import torch
from torch.nn import functional

SQUARE, ROW = torch.eye(4, requires_grad=True), torch.ones(4)
LOW = torch.ones(4, 4, dtype=torch.bfloat16)
CUBE = torch.ones(2, 3, 4, 4, 4)
LABELS = torch.zeros(4, dtype=torch.long)
MANY = torch.ones(4, 3, 4)

CALLS = {
    "product": lambda: SQUARE @ SQUARE,
    "linear": lambda: functional.linear(SQUARE, SQUARE),
    "module": lambda: torch.nn.Linear(4, 4)(SQUARE),
    "bmm": lambda: torch.bmm(MANY, MANY.mT),
    "addmm": lambda: torch.addmm(SQUARE, SQUARE, SQUARE),
    "einsum": lambda: torch.einsum("ij,jk", SQUARE, SQUARE),
    "attention": lambda: functional.scaled_dot_product_attention(MANY, MANY, MANY),
    "convolution": lambda: functional.conv1d(MANY, torch.ones(5, 3, 2)),
    "prelu": lambda: functional.prelu(SQUARE, ROW[:1]),
    "mv": lambda: torch.mv(SQUARE, ROW),
    "addmv": lambda: torch.addmv(ROW, SQUARE, ROW),
    "outer": lambda: torch.outer(ROW, ROW),
    "tensordot": lambda: torch.tensordot(SQUARE, SQUARE, 1),
    "multi_dot": lambda: torch.linalg.multi_dot([SQUARE, SQUARE, SQUARE]),
    "lstm": lambda: torch.nn.LSTM(4, 4)(MANY)[0],
    "gru": lambda: torch.nn.GRU(4, 4)(MANY)[0],
    "rnn": lambda: torch.nn.RNN(4, 4)(MANY)[0],
    "layer_norm": lambda: functional.layer_norm(LOW, (4,)),
    "rms_norm": lambda: functional.rms_norm(LOW, (4,)),
    "softmax": lambda: LOW.softmax(-1),
    "log_softmax": lambda: functional.log_softmax(LOW, -1),
    "sum": LOW.sum,
    "cumsum": lambda: LOW.cumsum(0),
    "prod": LOW.prod,
    "exp": LOW.exp,
    "pow": lambda: LOW**2,
    "norm": LOW.norm,
    "linalg_norm": lambda: torch.linalg.norm(LOW),
    "linalg_vector_norm": lambda: torch.linalg.vector_norm(LOW),
    "cov": lambda: torch.cov(SQUARE),
    "rsqrt": LOW.rsqrt,
    "gelu": lambda: functional.gelu(LOW),
    "cosine": lambda: functional.cosine_similarity(LOW, LOW),
    "mse_loss": lambda: functional.mse_loss(LOW, LOW),
    "cross_entropy": lambda: functional.cross_entropy(LOW, LABELS),
    "nll_loss": lambda: functional.nll_loss(LOW, LABELS),
    "kl_div": lambda: functional.kl_div(LOW, LOW, reduction="sum"),
    "bce": lambda: functional.binary_cross_entropy(LOW, LOW),
    "bce_logits": lambda: functional.binary_cross_entropy_with_logits(LOW, LOW),
    "cdist": lambda: torch.cdist(LOW, LOW),
    "pool": lambda: functional.avg_pool3d(CUBE.bfloat16(), 2),
    "fft": lambda: torch.fft.rfft(LOW),
    "inverse": lambda: torch.linalg.inv(SQUARE.bfloat16()),
    "interpolate": lambda: functional.interpolate(MANY.bfloat16(), scale_factor=2.0),
    "cat": lambda: torch.cat([LOW, SQUARE]),
    "stack": lambda: torch.stack([LOW, SQUARE]),
    "stack_low": lambda: torch.stack([LOW, LOW]),
    "sum_of_both": lambda: LOW + SQUARE,
}

with torch.autocast("cpu", dtype=torch.bfloat16):
    lines = [f"{name} {call().dtype}" for name, call in CALLS.items()]
Path(sys.argv[1]).write_text("\n".join(lines))

weight = torch.nn.Parameter(torch.ones(3, 3))
optimizer = torch.optim.SGD([weight], lr=0.1)
functional.linear(torch.ones(3, 3), weight).sum().backward()
optimizer.step()
