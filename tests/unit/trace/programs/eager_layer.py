"""A layer of plain operators that were measured on a GPU, one by one, of the same shapes."""

import torch
from torch.nn import functional

TOKENS, WIDTH, FFN, HEADS, SHARED, SIZE = 4096, 4096, 14336, 32, 8, 128
BF16 = {"dtype": torch.bfloat16, "device": "cuda"}


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.Parameter(torch.empty(WIDTH, **BF16))
        self.qkv = torch.nn.Linear(WIDTH, (HEADS + 2 * SHARED) * SIZE, bias=False, **BF16)
        self.up = torch.nn.Linear(WIDTH, FFN, bias=False, **BF16)
        self.down = torch.nn.Linear(FFN, WIDTH, bias=False, **BF16)

    def forward(self, states):
        heads = self.qkv(functional.rms_norm(states, (WIDTH,), self.norm))
        heads = heads.view(1, TOKENS, HEADS + 2 * SHARED, SIZE).transpose(1, 2)
        query, key, value = heads.split([HEADS, SHARED, SHARED], 1)
        found = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        states = states + found.transpose(1, 2).reshape(TOKENS, WIDTH)
        states = functional.silu(states) * states
        return states + self.down(self.up(states))


layer = Layer()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    layer(torch.empty(TOKENS, WIDTH, requires_grad=True, **BF16)).sum().backward()
    optimizer.step()
