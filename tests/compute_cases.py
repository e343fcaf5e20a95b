"""Two models, and GPUs whose operators all run at one efficiency."""

import dataclasses

import numpy as np

from lightloom.models.model import Attention, Model
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_operators import Launches

GQA = Attention("gqa", num_heads=32, num_kv_heads=8, head_dim=128)
MLA = Attention(
    "mla",
    num_heads=128,
    num_kv_heads=128,
    head_dim=128,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
)
MIXTRAL = Model(
    "mixtral",
    hidden_size=4096,
    vocab_size=32000,
    attention=GQA,
    moe_layers=(True,) * 32,
    ffn_size=14336,
    num_experts=8,
    experts_per_token=2,
    expert_ffn_size=14336,
)
DEEPSEEK = Model(
    "deepseek",
    hidden_size=5120,
    vocab_size=102400,
    attention=MLA,
    moe_layers=(False, *(True,) * 59),
    ffn_size=12288,
    num_experts=160,
    experts_per_token=6,
    expert_ffn_size=1536,
    shared_expert_ffn_size=3072,
)


def plain(gpu="b200", efficiency=0.5, **options):
    """A GPU whose operators all run at one efficiency, memory at full rate, no launches."""
    compute = ComputeModel.load(gpu, **options)
    measured = compute.efficiencies
    curves = {
        name: dataclasses.replace(
            curve,
            log_flops=np.array([0.0]),
            log_efficiency=np.log([efficiency]),
            launch_s=0.0,
            bandwidth_efficiency=None,
            norm=1.0,
        )
        for name, curve in measured.curves.items()
    }
    memory = {
        name: dataclasses.replace(kind, bandwidth_efficiency=1.0, launch_s=0.0, element_s=0.0)
        for name, kind in measured.memory.items()
    }
    even = dataclasses.replace(measured, curves=curves, memory=memory, sustained=1.0)
    kernels = dataclasses.replace(compute.kernels, launches=Launches(0.0, 0.0, 0.0, 0.0))
    return dataclasses.replace(compute, kernels=kernels).with_efficiencies(even)
