"""Trains an MoE layer of DeepSpeed on CPUs by strategies, and says what the losses were.

One process per rank, started by ``torch.distributed.run``: ``deepspeed_training.py FOLDER``.
Experts are cut by tensor parallelism, which DeepSpeed leaves to the user's experts and mpu.
"""

import json
import os
import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.moe.layer import MoE
from deepspeed.utils import groups
from torch import nn
from torch.nn import functional

from lightloom.errors import InputError
from lightloom.torch import use_in_deepspeed

TP, EP, HIDDEN, EXPERTS, TOKENS, STEPS = 2, 2, 16, 4, 24, 12
WAYS = (None, ("baseline", 1), ("O1", 1), ("O2", 3), ("O3", 2), ("O4", 2))


class ModelParallel:
    """What DeepSpeed asks of a program that has TP ranks, which follow one another."""

    def __init__(self):
        rank, world = dist.get_rank(), dist.get_world_size()
        tps = [dist.new_group(list(range(at, at + TP))) for at in range(0, world, TP)]
        dps = [dist.new_group(list(range(at, world, TP))) for at in range(TP)]
        self.tp, self.dp = tps[rank // TP], dps[rank % TP]

    def get_tensor_model_parallel_rank(self):
        return dist.get_rank(self.tp)

    def get_tensor_model_parallel_world_size(self):
        return TP

    def get_tensor_model_parallel_group(self):
        return self.tp

    get_model_parallel_rank = get_tensor_model_parallel_rank
    get_model_parallel_world_size = get_tensor_model_parallel_world_size
    get_model_parallel_group = get_tensor_model_parallel_group

    def get_data_parallel_rank(self):
        return dist.get_rank(self.dp)

    def get_data_parallel_world_size(self):
        return dist.get_world_size(self.dp)

    def get_data_parallel_group(self):
        return self.dp


class _ToParts(torch.autograd.Function):
    """Inputs of column-parallel weights: gradients of TP ranks are added up."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _OfParts(torch.autograd.Function):
    """Results of row-parallel weights: parts of TP ranks are added up."""

    @staticmethod
    def forward(_, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(_, gradient):
        return gradient, None


class Expert(nn.Module):
    """The part of an expert that a TP rank has."""

    def __init__(self, group):
        super().__init__()
        self.group = [group]
        self.up = nn.Linear(HIDDEN, 32 // TP, bias=False)
        self.down = nn.Linear(32 // TP, HIDDEN, bias=False)

    def forward(self, x):
        (group,) = self.group
        return _OfParts.apply(self.down(functional.gelu(self.up(_ToParts.apply(x, group)))), group)

    def __deepcopy__(self, _):
        return Expert(*self.group)


def layer_of(mpu):
    """An MoE layer, whose gate is the same on all ranks and whose experts are not."""
    torch.manual_seed(1 + dist.get_rank())
    groups.mpu = mpu
    layer = MoE(
        HIDDEN, Expert(mpu.tp), num_experts=EXPERTS, ep_size=EP, k=2, min_capacity=1,
        capacity_factor=1.5, use_rts=False, top2_2nd_expert_sampling=False,
        enable_expert_tensor_parallelism=True,
    )  # fmt: skip
    nn.init.orthogonal_(layer.deepspeed_moe.gate.wg.weight, generator=torch.manual_seed(7))
    layer.set_deepspeed_parallelism()
    return layer


def train(mpu, way):
    """The loss of each step, and how many all-to-alls and bytes there were."""
    layer = layer_of(mpu)
    if way is not None:
        strategy, chunks = way
        assert use_in_deepspeed(layer, strategy=strategy, chunks=chunks) == 1
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank() // TP)
    tokens = torch.randn(TOKENS, HIDDEN, generator=generator)
    wanted = torch.randn(TOKENS, HIDDEN, generator=generator)
    sent, losses, plain = [], [], dist.all_to_all_single

    def counted(output, input, *given, **more):
        sent.append(input.numel() * input.element_size())
        return plain(output, input, *given, **more)

    dist.all_to_all_single = counted
    for _ in range(STEPS):
        optimizer.zero_grad()
        hidden, balance, _ = layer(tokens)
        loss = (tokens + hidden - wanted).square().mean() + 0.01 * balance
        loss.backward()
        for weights in layer.parameters():
            if getattr(weights, "allreduce", True) and weights.grad is not None:
                dist.all_reduce(weights.grad, group=mpu.dp)
        optimizer.step()
        losses.append(float(loss.detach()))
    dist.all_to_all_single = plain
    return {"losses": losses, "all_to_alls": len(sent), "bytes": sum(sent)}


def refusals(mpu):
    """What the hook says of layers that it does not know."""
    texts = {"none": refusal(nn.Linear(2, 2))}
    layer = layer_of(mpu)
    inner = layer.deepspeed_moe
    own = type(inner)
    inner.__class__ = type("Layer", (own,), {})
    texts["derived"] = refusal(layer)
    inner.__class__ = own
    inner.ep_group = None
    texts["early"] = refusal(layer)
    layer = layer_of(mpu)
    groups.mpu = None
    texts["uncut"] = refusal(layer)
    return texts


def refusal(model):
    try:
        use_in_deepspeed(model)
    except InputError as error:
        return str(error)
    return ""


gather = dist.all_gather_into_tensor


def gather_flat(output_tensor, input_tensor, *given, **more):
    """Gather into a flat buffer, as DeepSpeed does: gloo needs parts that are flat as well."""
    part = input_tensor.flatten() if output_tensor.dim() == 1 else input_tensor
    return gather(output_tensor, part, *given, **more)


dist.all_gather_into_tensor = gather_flat
# its own kernels for CPUs would be compiled first
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed("gloo", dist_init_required=True)
mpu = ModelParallel()
report = {"ways": {str(way): train(mpu, way) for way in WAYS}, "refused": refusals(mpu)}
with open(f"{sys.argv[1]}/{dist.get_rank()}.json", "w") as file:
    json.dump(report, file)
dist.barrier()
os._exit(0)
