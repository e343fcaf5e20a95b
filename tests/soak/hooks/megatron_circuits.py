"""Trains MoE layers of Megatron-Core over circuits of a testbed, and says what the losses were.

A rank per server, started by ``lightloom testbed run``: ``megatron_circuits.py FOLDER``.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
from megatron.core.transformer.spec_utils import build_module
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron_cpu import without_cuda
from torch import nn

from lightloom.errors import InputError
from lightloom.torch import MixNet, use_in_megatron

HIDDEN, TOKENS, STEPS = 64, 512, 6


def model_of(ranks):
    """Two MoE layers of Megatron-Core, the same on each call."""
    torch.manual_seed(1)
    config = TransformerConfig(
        num_layers=2, hidden_size=HIDDEN, num_attention_heads=2, moe_ffn_hidden_size=32,
        expert_model_parallel_size=ranks, num_moe_experts=2 * ranks, moe_router_topk=2,
        moe_token_dispatcher_type="alltoall", add_bias_linear=False,
        moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.01,
        use_cpu_initialization=True, params_dtype=torch.float32,
    )  # fmt: skip
    spec = get_moe_module_spec(
        use_te=False, num_experts=config.num_moe_experts, moe_grouped_gemm=False
    )
    return nn.ModuleList(build_module(spec, config=config, layer_number=n) for n in (1, 2))


def train(mixnet):
    """The loss of each step, and the bytes that this rank sent over circuits and packets."""
    layers = model_of(dist.get_world_size())
    if mixnet is not None:
        assert use_in_megatron(layers, mixnet=mixnet) == len(layers)
        mixnet.records = []
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank())
    tokens = torch.randn(TOKENS, 1, HIDDEN, generator=generator)
    wanted = torch.randn(TOKENS, 1, HIDDEN, generator=generator)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        hidden = tokens
        for layer in layers:
            hidden = hidden + layer(hidden)[0]
        loss = (hidden - wanted).square().mean()
        loss.backward()
        for weights in layers.parameters():
            if getattr(weights, "allreduce", True) and weights.grad is not None:
                dist.all_reduce(weights.grad)
        optimizer.step()
        losses.append(float(loss.detach()))
    if mixnet is None:
        return {"losses": losses}
    sent = {str(nic): size for (nic, way), size in mixnet.nic_bytes().items() if way == "sent"}
    return {"losses": losses, "sent": sent, "all_to_alls": len(mixnet.records)}


def refusal(mixnet, **settings):
    """What the hook says of layers whose tokens cannot take circuits."""
    layers = model_of(dist.get_world_size())
    for name, value in settings.items():
        setattr(layers[0].token_dispatcher, name, value)
    try:
        use_in_megatron(layers, mixnet=mixnet)
    except InputError as error:
        return str(error)
    return ""


without_cuda()
dist.init_process_group("gloo")
ranks, rank = dist.get_world_size(), dist.get_rank()
parallel_state.initialize_model_parallel(expert_model_parallel_size=ranks)
mixnet = MixNet.from_environment()
alone = [dist.new_group([other]) for other in range(ranks)][rank]
report = {
    "plain": train(None),
    "circuits": train(mixnet),
    "refused": {
        "tp": refusal(mixnet, tp_size=2),
        "groups": refusal(mixnet, ep_group=alone),
    },
}
with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
    json.dump(report, file)
dist.barrier()
os._exit(0)
