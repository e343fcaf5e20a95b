"""DeepSpeed's mixture of experts with ZeRO: deepspeed_moe.py STAGE."""

import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from torch import nn
from torch.nn import functional

HIDDEN, VOCABULARY = 32, 100
stage = int(sys.argv[1])
deepspeed.init_distributed("gloo")
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.dense = nn.Linear(HIDDEN, HIDDEN)
        expert = nn.Sequential(nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, HIDDEN))
        self.experts = MoE(HIDDEN, expert, num_experts=8, ep_size=4, k=1, use_residual=False)
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens):
        hidden = self.dense(self.embedding(tokens))
        made, balance, _ = self.experts(hidden)
        logits = self.head(hidden + made)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        return loss + 0.01 * balance


model = Model()
groups = split_params_into_different_moe_groups_for_optimizer(
    {"params": list(model.parameters()), "name": "parameters"}
)
optimizer = torch.optim.AdamW(groups, lr=1e-4)
engine, _, _, _ = deepspeed.initialize(
    model=model,
    optimizer=optimizer,
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, "overlap_comm": False},
        "zero_allow_untested_optimizer": True,
    },
)
for _ in range(4):
    tokens = torch.randint(0, VOCABULARY, (2, 16))
    loss = engine(tokens)
    engine.backward(loss)
    engine.step()
