"""A training program: PyTorch's own context parallelism, by the rotation that is asked for."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.nn import functional

HIDDEN, HEADS, LENGTH = 32, 4, 64
dist.init_process_group("gloo")
world = dist.get_world_size()
mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("cp",))
set_rotate_method(sys.argv[1])
torch.manual_seed(1)
aten = torch.ops.aten


def attend(query, key, value, dropout=0.0, is_causal=False, *_, scale=None):
    """Flash attention of GPUs, by that of CPUs, which contexts cannot be divided for."""
    out, sums = aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout, is_causal, scale=scale
    )
    nothing = torch.zeros((), dtype=torch.int64)
    return out, sums, nothing, nothing, query.shape[2], key.shape[2], nothing, nothing, nothing


def differentiate(
    grad, query, key, value, out, sums, _1, _2, _3, _4, dropout, is_causal, *_, scale=None
):
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, key, value, out, sums, dropout, is_causal, scale=scale
    )


kernels = torch.library.Library("aten", "IMPL")
kernels.impl("_scaled_dot_product_flash_attention", attend, "CPU")
kernels.impl("_scaled_dot_product_flash_attention_backward", differentiate, "CPU")
functional.scaled_dot_product_attention = lambda *parts, is_causal: (
    aten._scaled_dot_product_flash_attention(*parts, 0.0, is_causal)[0]
)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ask, self.mix = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, states):
        parts = self.ask(states).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return states + self.mix(mixed.transpose(1, 2).flatten(-2))


model = nn.Sequential(Layer(), Layer())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    states, wanted = torch.randn(2, LENGTH, HIDDEN), torch.randn(2, LENGTH, HIDDEN)
    buffers = [states, wanted]
    with (
        context_parallel(mesh, buffers=buffers, buffer_seq_dims=[1, 1]),
    ):
        loss = (model(states) - wanted).square().mean()
        loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
