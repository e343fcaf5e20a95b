"""Two layers with fused attention and norm; gradients are reduced on another stream."""

import torch
import torch.distributed as dist
from torch.nn import functional

BATCH, TOKENS, WIDTH, HEADS = 2, 128, 64, 4

dist.init_process_group("nccl")


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(WIDTH)
        self.given = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.made = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, states):
        shape = (BATCH, TOKENS, 3, HEADS, WIDTH // HEADS)
        query, key, value = self.given(self.norm(states)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return states + self.made(mixed.transpose(1, 2).reshape(states.shape))


model = torch.nn.Sequential(Layer(), Layer()).to(torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
side = torch.cuda.Stream()
for _ in range(2):
    states = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.bfloat16, device="cuda")
    model(states).sum().backward()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    torch.cuda.current_stream().wait_stream(side)
    optimizer.step()
    optimizer.zero_grad()
