"""DeepSpeed's ZeRO on CPUs: zero.py STAGE."""

import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed
import torch
import torch.distributed as dist
from torch import nn

stage = int(sys.argv[1])
# its own kernels for CPUs would be compiled first
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed("gloo", dist_init_required=True)
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 50))
config = {
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0, "zero_allow_untested_optimizer": True,
    "zero_optimization": {
        "stage": stage, "overlap_comm": False, "reduce_bucket_size": 3000,
        "stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 2000,
    },
}  # fmt: skip
engine, _, _, _ = deepspeed.initialize(
    model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3), config=config
)
for _ in range(4):
    words = (torch.arange(16).view(2, 8) + dist.get_rank()) % 50
    loss = nn.functional.cross_entropy(engine(words).flatten(0, 1), words.flatten())
    engine.backward(loss)
    engine.step()
