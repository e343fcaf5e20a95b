"""Mixtral 8x7B in Megatron-Core, with attention in one kernel: what `README.md` traces.

Run as one rank of a job, by ``lightloom trace record``.
"""

import argparse
import os

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.module import Float16Module, MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig

SEQUENCE, VOCABULARY = 4096, 32000

parser = argparse.ArgumentParser()
for name, default in (("tp", 1), ("pp", 2), ("ep", 8), ("layers", 32), ("micro-batches", 8)):
    parser.add_argument(f"--{name}", type=int, default=default)
given = parser.parse_args()

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
parallel_state.initialize_model_parallel(
    tensor_model_parallel_size=given.tp,
    pipeline_model_parallel_size=given.pp,
    expert_model_parallel_size=given.ep,
    expert_tensor_parallel_size=1,
)
model_parallel_cuda_manual_seed(1)
config = TransformerConfig(
    num_layers=given.layers, hidden_size=4096, num_attention_heads=32, num_query_groups=8,
    ffn_hidden_size=14336, moe_ffn_hidden_size=14336, gated_linear_unit=True,
    activation_func=torch.nn.functional.silu, normalization="RMSNorm", add_bias_linear=False,
    num_moe_experts=8, moe_router_topk=2, moe_token_dispatcher_type="alltoall",
    moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.01,
    expert_model_parallel_size=given.ep, expert_tensor_parallel_size=1, bf16=True,
    params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
    hidden_dropout=0.0, attention_dropout=0.0,
    tensor_model_parallel_size=given.tp, pipeline_model_parallel_size=given.pp,
    sequence_parallel=given.tp > 1, bias_dropout_fusion=False,
)  # fmt: skip


class FusedAttention(MegatronModule):
    """Scores and their product with the values in one kernel, which only PyTorch is needed for."""

    def __init__(self, config, *_, **__):
        super().__init__(config)

    def forward(self, query, key, value, *_, **__):
        """Tensors are tokens x batch x heads x width."""
        heads = [one.permute(1, 2, 0, 3) for one in (query, key, value)]
        mixed = torch.nn.functional.scaled_dot_product_attention(
            *heads, is_causal=True, enable_gqa=True
        )
        return mixed.permute(2, 0, 1, 3).reshape(*query.shape[:2], -1)


spec = get_gpt_layer_local_spec(num_experts=8, normalization="RMSNorm")
spec.submodules.self_attention.submodules.core_attention = FusedAttention
model = GPTModel(
    config, spec, vocab_size=VOCABULARY, max_sequence_length=SEQUENCE,
    pre_process=parallel_state.is_pipeline_first_stage(),
    post_process=parallel_state.is_pipeline_last_stage(),
    position_embedding_type="rope", share_embeddings_and_output_weights=False,
)  # fmt: skip
data = DistributedDataParallelConfig(
    grad_reduce_in_fp32=True, use_distributed_optimizer=True,
    overlap_grad_reduce=True, overlap_param_gather=True,
)  # fmt: skip
model = DistributedDataParallel(config, data, Float16Module(config, model.cuda()))
optimizer = get_megatron_optimizer(
    OptimizerConfig(lr=1e-4, bf16=True, use_distributed_optimizer=True, overlap_param_gather=True),
    [model],
)
config.finalize_model_grads_func = finalize_model_grads
config.grad_scale_func = optimizer.scale_loss
config.no_sync_func = model.no_sync
config.grad_sync_func, config.param_sync_func = model.start_grad_sync, model.start_param_sync


def forward(_, model):
    """One micro-batch, of numbers that nobody reads."""
    tokens = torch.randint(0, VOCABULARY, (1, SEQUENCE), device="cuda")
    positions = torch.arange(SEQUENCE, device="cuda")[None]

    def loss_of(output):
        loss = output.float().mean()
        return loss, {"loss": loss.detach()}

    return model(tokens, positions, None, labels=tokens), loss_of


train = get_forward_backward_func()
for _ in range(2):
    model.zero_grad_buffer()
    optimizer.zero_grad()
    train(
        forward_step_func=forward, data_iterator=None, model=model,
        num_microbatches=given.micro_batches, seq_length=SEQUENCE, micro_batch_size=1,
        forward_only=False,
    )  # fmt: skip
    optimizer.step()
dist.destroy_process_group()
