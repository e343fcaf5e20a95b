"""DeepSpeed's mixture of experts: deepspeed_moe.py STAGE native|automatic.

Its own layer works up to ZeRO-2; DeepSeek-V3 of transformers, whose experts DeepSpeed spreads by
itself, also with ZeRO-3.
"""

import sys

import deepspeed
import torch
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from torch import nn
from torch.nn import functional
from transformers import AutoModelForCausalLM, DeepseekV3Config

HIDDEN, VOCABULARY = 64, 200
stage, kind = int(sys.argv[1]), sys.argv[2]
deepspeed.init_distributed("nccl")
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.dense = nn.Linear(HIDDEN, HIDDEN)
        expert = nn.Sequential(nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, HIDDEN))
        self.experts = MoE(HIDDEN, expert, num_experts=8, ep_size=4, k=2, use_residual=False)
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens):
        hidden = self.dense(self.embedding(tokens))
        made, balance, _ = self.experts(hidden)
        logits = self.head(hidden + made)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        return loss + 0.01 * balance


config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": stage},
    "zero_allow_untested_optimizer": True,
    "gradient_clipping": 1.0,
}
if kind == "native":
    model = Model()
    parameters = split_params_into_different_moe_groups_for_optimizer(
        {"params": list(model.parameters()), "name": "parameters"}
    )
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
else:
    model = AutoModelForCausalLM.from_config(
        DeepseekV3Config(
            hidden_size=HIDDEN, intermediate_size=96, moe_intermediate_size=48,
            num_hidden_layers=2, first_k_dense_replace=1, num_attention_heads=4,
            num_key_value_heads=4, vocab_size=VOCABULARY, num_experts_per_tok=2,
            n_routed_experts=8, n_group=1, topk_group=1, kv_lora_rank=16, q_lora_rank=16,
            qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16,
        )
    )  # fmt: skip
    optimizer = None
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}
    config["expert_parallel"] = {
        "enabled": True, "autoep_size": 4, "preset_model": "deepseek_v3", "use_grouped_mm": False,
    }  # fmt: skip
engine, _, _, _ = deepspeed.initialize(
    model=model, optimizer=optimizer, model_parameters=model.parameters(), config=config
)
for _ in range(4):
    tokens = torch.randint(0, VOCABULARY, (2, 16), device="cuda")
    loss = engine(tokens) if kind == "native" else engine(input_ids=tokens, labels=tokens).loss
    engine.backward(loss)
    engine.step()
