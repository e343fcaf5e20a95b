"""Trains MoE layers of Megatron-Core on CPUs by strategies, and says what the losses were.

One process per rank, started by ``torch.distributed.run``: ``megatron_training.py FOLDER``.
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
from lightloom.torch import use_in_megatron

TP, EP, HIDDEN, TOKENS, STEPS = 2, 2, 16, 24, 12
WAYS = (None, ("O1", 1), ("O2", 3), ("O3", 2), ("O4", 3))


def with_uneven_parts():
    """Let gloo gather and add up parts that differ, as NCCL does: padded to the largest."""
    gather, scatter = dist.all_gather, dist.reduce_scatter

    def padded(part, size):
        return torch.cat([part, part.new_zeros(size - len(part), *part.shape[1:])])

    def all_gather(outs, part, group=None):
        size = max(map(len, outs))
        wholes = [padded(out, size) for out in outs]
        gather(wholes, padded(part, size), group=group)
        for out, whole in zip(outs, wholes, strict=True):
            out.copy_(whole[: len(out)])

    def reduce_scatter(out, parts, group=None):
        size = max(map(len, parts))
        whole = padded(out, size)
        scatter(whole, [padded(part, size) for part in parts], group=group)
        out.copy_(whole[: len(out)])

    dist.all_gather, dist.reduce_scatter = all_gather, reduce_scatter


def model_of(dtype, gate_type):
    """Two MoE layers of Megatron-Core, the same on each call."""
    torch.manual_seed(1)
    config = TransformerConfig(
        num_layers=2, hidden_size=HIDDEN, num_attention_heads=2, moe_ffn_hidden_size=32,
        tensor_model_parallel_size=TP, expert_model_parallel_size=EP,
        expert_tensor_parallel_size=TP, sequence_parallel=True, num_moe_experts=4,
        moe_router_topk=2, moe_token_dispatcher_type="alltoall", add_bias_linear=False,
        moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.01,
        moe_router_dtype=gate_type, use_cpu_initialization=True, params_dtype=dtype,
    )  # fmt: skip
    spec = get_moe_module_spec(
        use_te=False, num_experts=config.num_moe_experts, moe_grouped_gemm=False
    )
    return nn.ModuleList(build_module(spec, config=config, layer_number=n) for n in (1, 2))


def train(way, dtype=torch.float32, gate_type=None):
    """The loss of each step, and how many all-to-alls there were."""
    layers = model_of(dtype, gate_type)
    if way is not None:
        strategy, chunks = way
        assert use_in_megatron(layers, strategy=strategy, chunks=chunks) == len(layers)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank())
    tokens = torch.randn(TOKENS, 1, HIDDEN, generator=generator).to(dtype)
    wanted = torch.randn(TOKENS, 1, HIDDEN, generator=generator).to(dtype)
    calls, losses, plain = [], [], dist.all_to_all_single
    dist.all_to_all_single = lambda *given, **more: (calls.append(1), plain(*given, **more))[1]
    for _ in range(STEPS):
        optimizer.zero_grad()
        hidden = tokens
        for layer in layers:
            hidden = hidden + layer(hidden)[0]
        loss = (hidden - wanted).float().square().mean()
        loss.backward()
        for weights in layers.parameters():
            if getattr(weights, "allreduce", True) and weights.grad is not None:
                dist.all_reduce(weights.grad)
        optimizer.step()
        losses.append(float(loss.detach()))
    dist.all_to_all_single = plain
    return {"losses": losses, "all_to_alls": len(calls)}


def refusals():
    """What the hook says of layers that it does not know."""
    texts = {}
    layers = model_of(torch.float32, None)
    for name, value in {
        "moe_pad_expert_input_to_capacity": True,
        "moe_shared_expert_overlap": True,
        "cuda_graph_impl": "local",
    }.items():
        before = getattr(layers[0].config, name)
        setattr(layers[0].config, name, value)
        texts[name] = refusal(layers)
        setattr(layers[0].config, name, before)
    dispatcher = layers[0].token_dispatcher
    own = type(dispatcher)
    dispatcher.__class__ = type("Dispatcher", (own,), {})
    texts["derived"] = refusal(layers)
    dispatcher.__class__ = own
    dispatcher.tp_size = 1
    texts["tp"] = refusal(layers)
    texts["none"] = refusal(nn.Linear(2, 2))
    rank, layers = dist.get_rank(), model_of(torch.float32, None)
    # on some ranks alone: no rank may wait for those that have given up
    layers[0].config.cuda_graph_impl = "local" if rank == 2 else "none"
    texts["one rank"] = refusal(layers)
    layers[0].config.cuda_graph_impl = "none"
    texts["circuits"] = refusal(layers, **{"mixnet": object()} if rank == 1 else {})
    texts["both"] = refusal(layers, **{"mixnet": object(), "chunks": 2} if rank == 3 else {})
    texts["chunks"] = refusal(layers, strategy="O2", chunks=2 + rank // 2)
    # pipeline stages may have no such layers
    taken = use_in_megatron(nn.Linear(2, 2) if rank < 2 else layers, strategy="O2")
    texts["stages"] = f"{taken} layers"
    return texts


def refusal(model, **options):
    try:
        use_in_megatron(model, **options)
    except InputError as error:
        return str(error)
    return ""


without_cuda()
with_uneven_parts()
dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(
    tensor_model_parallel_size=TP,
    expert_model_parallel_size=EP,
    expert_tensor_parallel_size=TP,
)
report = {
    "float32": {str(way): train(way) for way in WAYS},
    "bfloat16": {str(way): train(way, torch.bfloat16, "fp32") for way in WAYS},
    "refused": refusals(),
}
with open(f"{sys.argv[1]}/{dist.get_rank()}.json", "w") as file:
    json.dump(report, file)
dist.barrier()
os._exit(0)
