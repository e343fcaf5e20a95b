"""Megatron-Core's GPT: dense, or with experts; every parallelism that its options name.

With context parallelism its layers are those of Transformer Engine, which it then needs; else they
are its own, of which the norm needs Apex. A trace has both by shape.
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
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import TransformerConfig

parser = argparse.ArgumentParser()
for name in ("tp", "pp", "ep", "cp"):
    parser.add_argument(f"--{name}", type=int, default=1)
parser.add_argument("--chunks", type=int, default=1, help="virtual stages of a rank")
parser.add_argument("--micro-batches", type=int, default=4)
parser.add_argument("--experts", type=int, default=0)
parser.add_argument("--dispatcher", default="alltoall", choices=("alltoall", "allgather"))
parser.add_argument("--overlap", action="store_true")
parser.add_argument("--cp-type", default="p2p", help="what context parallelism does")
given = parser.parse_args()
LAYERS, HIDDEN, SEQUENCE = max(2, given.pp * given.chunks), 64, 32

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
parallel_state.initialize_model_parallel(
    tensor_model_parallel_size=given.tp,
    pipeline_model_parallel_size=given.pp,
    virtual_pipeline_model_parallel_size=given.chunks if given.chunks > 1 else None,
    context_parallel_size=given.cp,
    expert_model_parallel_size=given.ep,
)
model_parallel_cuda_manual_seed(1)
experts = {
    "num_moe_experts": given.experts, "expert_model_parallel_size": given.ep,
    "moe_router_topk": 2, "moe_token_dispatcher_type": given.dispatcher,
    "moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 0.01,
}  # fmt: skip
config = TransformerConfig(
    num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=4, ffn_hidden_size=2 * HIDDEN,
    bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, add_bias_linear=False,
    tensor_model_parallel_size=given.tp, pipeline_model_parallel_size=given.pp,
    virtual_pipeline_model_parallel_size=given.chunks if given.chunks > 1 else None,
    context_parallel_size=given.cp, sequence_parallel=given.tp > 1, cp_comm_type=given.cp_type,
    **(experts if given.experts else {}),
)  # fmt: skip
data = DistributedDataParallelConfig(
    grad_reduce_in_fp32=True, use_distributed_optimizer=True,
    overlap_grad_reduce=given.overlap, overlap_param_gather=given.overlap,
)  # fmt: skip
layers = (
    get_gpt_layer_with_transformer_engine_spec(given.experts or None, moe_grouped_gemm=True)
    if given.cp > 1
    else get_gpt_layer_local_spec(given.experts or None)
)
models = []
for chunk in range(given.chunks):
    place = {"vp_stage": chunk} if given.chunks > 1 else {}
    model = GPTModel(
        config,
        layers,
        vocab_size=200,
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, **place),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, **place),
        **place,
    )
    model = Float16Module(config, model.cuda())
    models.append(DistributedDataParallel(config, data, model, disable_bucketing=chunk > 0))
optimizer = get_megatron_optimizer(
    OptimizerConfig(
        lr=1e-3, bf16=True, use_distributed_optimizer=True, overlap_param_gather=given.overlap
    ),
    models,
)
config.finalize_model_grads_func = finalize_model_grads
config.grad_scale_func = optimizer.scale_loss
if given.overlap:
    config.no_sync_func = [model.no_sync for model in models]
    config.grad_sync_func = [model.start_grad_sync for model in models]
    config.param_sync_func = [model.start_param_sync for model in models]
    if len(models) == 1:
        config.no_sync_func, config.grad_sync_func, config.param_sync_func = (
            config.no_sync_func[0], config.grad_sync_func[0], config.param_sync_func[0],
        )  # fmt: skip


def forward(_, model):
    length = SEQUENCE // given.cp
    tokens = torch.randint(0, 200, (1, length), device="cuda")
    positions = torch.arange(length, device="cuda")[None]
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device="cuda").tril() < 0.5

    def loss_of(output):
        loss = output.float().mean()
        return loss, {"loss": loss.detach()}

    return model(tokens, positions, mask, labels=tokens), loss_of


train = get_forward_backward_func()
for _ in range(2):
    for model in models:
        model.zero_grad_buffer()
    optimizer.zero_grad()
    train(
        forward_step_func=forward,
        data_iterator=[None] * given.chunks if given.chunks > 1 else None,
        model=models if given.chunks > 1 else models[0],
        num_microbatches=given.micro_batches,
        seq_length=SEQUENCE,
        micro_batch_size=1,
        forward_only=False,
    )
    optimizer.step()
dist.destroy_process_group()
