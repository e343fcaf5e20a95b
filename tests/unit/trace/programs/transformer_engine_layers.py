"""Layers of Transformer Engine, split by tensors and by context; a real run checks their values.

In a trace nothing has values, and all are close to each other.
"""

import os

import torch
import torch.distributed as dist
import transformer_engine.pytorch as te
from torch.nn import functional

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
everyone = dist.group.WORLD
torch.manual_seed(0)
SEQUENCE, BATCH, HEADS, CHANNELS = 4 * size, 2, size, 8
WIDTH = HEADS * CHANNELS


def part(whole, dim=0):
    return whole.chunk(size, dim)[rank]


def layers(sequence_parallel):
    split = {
        "sequence_parallel": sequence_parallel, "tp_group": everyone, "bias": False,
        "params_dtype": torch.float32,
    }  # fmt: skip
    return (
        te.LayerNormLinear(WIDTH, 2 * WIDTH, parallel_mode="column", **split),
        te.Linear(2 * WIDTH, WIDTH, parallel_mode="row", **split),
    )


optimizers = []
for sequence_parallel in (False, True):
    whole = torch.randn(SEQUENCE, BATCH, WIDTH, requires_grad=True)
    column, row = torch.randn(2 * WIDTH, WIDTH), torch.randn(WIDTH, 2 * WIDTH)
    first, second = layers(sequence_parallel)
    with torch.no_grad():
        first.weight.copy_(part(column))
        second.weight.copy_(part(row, 1))
    expected = functional.layer_norm(whole, (WIDTH,)) @ column.t() @ row.t()
    expected.square().mean().backward()
    states = whole.detach()
    states = (part(states) if sequence_parallel else states).clone().requires_grad_()
    result = second(first(states))
    share = part(expected) if sequence_parallel else expected
    assert result.shape == share.shape
    assert torch.allclose(result, share, rtol=1e-3, atol=1e-3)
    (result.square().sum() / expected.numel()).backward()
    wanted = part(whole.grad) if sequence_parallel else whole.grad
    assert torch.allclose(states.grad, wanted, rtol=1e-3, atol=1e-3)
    optimizers.append(torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1))

data = [torch.randn(SEQUENCE, BATCH, HEADS, CHANNELS, requires_grad=True) for _ in "qkv"]
heads_first = [tensor.permute(1, 2, 0, 3) for tensor in data]
expected = functional.scaled_dot_product_attention(*heads_first).permute(2, 0, 1, 3).flatten(2)
expected.square().mean().backward()
for kind in ("p2p", "all_gather", "a2a", "a2a+p2p"):
    group = everyone
    if kind == "a2a+p2p":
        pairs = [dist.new_group(range(at, at + 2)) for at in range(0, size, 2)]
        halves = [dist.new_group(range(at, size, 2)) for at in range(2)]
        group = [pairs[rank // 2], halves[rank % 2]]
    attention = te.DotProductAttention(
        HEADS, CHANNELS, cp_group=group, cp_global_ranks=list(range(size)), cp_comm_type=kind,
        cp_stream=torch.cuda.Stream(),
    )  # fmt: skip
    for mask in ("no_mask", "causal"):
        inputs = [part(tensor.detach()).clone().requires_grad_() for tensor in data]
        result = attention(*inputs, attn_mask_type=mask)
        assert result.shape == (SEQUENCE // size, BATCH, WIDTH)
        (result.square().sum() / expected.numel()).backward()
        assert [tensor.grad.shape for tensor in inputs] == [tensor.shape for tensor in inputs]
        if mask == "no_mask" and "p2p" not in kind:
            assert torch.allclose(result, part(expected), atol=1e-4)
            for tensor, wanted in zip(inputs, data, strict=True):
                assert torch.allclose(tensor.grad, part(wanted.grad), atol=1e-5)

experts = te.GroupedLinear(3, WIDTH, 8, bias=False, params_dtype=torch.float32)
result = experts(torch.randn(12, WIDTH), [4, 0, 8])
assert result.shape == (12, 8)
for optimizer in optimizers:
    optimizer.step()
assert os.environ["RANK"] == str(rank)
