"""Hugging Face's Mixtral or Qwen2-MoE of random weights: mixture.py mixtral|qwen2 ddp|fsdp2."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, MixtralConfig, Qwen2MoeConfig

model_name, parallelism = sys.argv[1:]
dist.init_process_group("gloo")
SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 200, "num_experts_per_tok": 2,
    "output_router_logits": True,
}  # fmt: skip
config = (
    MixtralConfig(**SIZES, num_local_experts=4)
    if model_name == "mixtral"
    else Qwen2MoeConfig(
        **SIZES, num_experts=4, moe_intermediate_size=48, shared_expert_intermediate_size=96
    )
)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config)
if parallelism == "ddp":
    model = DistributedDataParallel(model)
else:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(2):
    tokens = torch.randint(0, config.vocab_size, (2, 16))
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
