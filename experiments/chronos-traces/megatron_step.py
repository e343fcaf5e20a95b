"""Two training steps of Megatron-Core's GPT at full size: megatron_step.py CASE.

Cases are those of experiment.toml. Nothing here knows of a trace: on the GPUs of the case it would
train on random tokens. Kernels are those that Megatron-Core has without Transformer Engine.
"""

import argparse
import os
import tomllib
from pathlib import Path

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

parser = argparse.ArgumentParser()
parser.add_argument("case")
parser.add_argument("--micro-batches", type=int)
given = parser.parse_args()
SETTINGS = tomllib.loads(Path(__file__).with_name("experiment.toml").read_text())
CASE = SETTINGS[given.case]
MODEL = SETTINGS["models"][CASE["model"]]
MICRO_BATCHES = given.micro_batches or CASE["micro_batches"]
PP, CHUNKS, SEQUENCE = CASE["pp"], CASE["chunks"], CASE["sequence"]


class Gather(torch.autograd.Function):
    """The sequence from the parts of all ranks of a group; its gradient is summed and divided."""

    @staticmethod
    def forward(ctx, part, group):
        """Gather the parts."""
        ctx.group = group
        whole = part.new_empty(part.shape[0] * group.size(), *part.shape[1:])
        dist.all_gather_into_tensor(whole, part.contiguous(), group=group)
        return whole

    @staticmethod
    def backward(ctx, gradient):
        """Divide the sum."""
        part = gradient.new_empty(gradient.shape[0] // ctx.group.size(), *gradient.shape[1:])
        dist.reduce_scatter_tensor(part, gradient.contiguous(), group=ctx.group)
        return part, None


class Attention(torch.nn.Module):
    """PyTorch's attention; context parallelism gathers keys and values, as Llama 3 was trained.

    Megatron-Core's own knows neither context parallelism nor latent attention.
    """

    def __init__(self, config, softmax_scale=None, pg_collection=None, **_):
        super().__init__()
        self.scale = softmax_scale
        self.group = pg_collection.cp if config.context_parallel_size > 1 else None

    def forward(self, query, key, value, *_, **__):
        """Attention of tensors of tokens, batch, heads and width."""
        if self.group is not None:
            key, value = Gather.apply(key, self.group), Gather.apply(value, self.group)
        query, key, value = (one.permute(1, 2, 0, 3) for one in (query, key, value))
        made = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=self.scale, enable_gqa=True
        )
        return made.permute(2, 0, 1, 3).flatten(2)


class Norm(torch.nn.RMSNorm):
    """PyTorch's; Megatron-Core's own refuses sequence parallelism, which sums its gradients."""

    def __init__(self, config, hidden_size, eps=1e-5, **_):
        super().__init__(hidden_size, eps, dtype=config.params_dtype)
        self.weight.sequence_parallel = config.sequence_parallel


def with_own_modules(layers):
    """The layers of a chunk with this file's attention and norms."""
    layers.layer_norm = Norm
    for layer in layers.layer_specs:
        parts = layer.submodules
        parts.input_layernorm = parts.pre_mlp_layernorm = Norm
        attention = parts.self_attention.submodules
        attention.core_attention = Attention
        if "q_rank" in MODEL:
            attention.q_layernorm = attention.kv_layernorm = Norm
    return layers


def layout():
    """Layers of each chunk, evenly; where a rank has several, embedding and loss count as one."""
    per_chunk = -(-(MODEL["layers"] + 2 * (CHUNKS > 1)) // (PP * CHUNKS))
    layers = ["embedding", *["decoder"] * MODEL["layers"], "loss"]
    if CHUNKS == 1:  # one chunk per rank: the first and the last layer have them in addition
        rows = [["decoder"] * per_chunk for _ in range(PP)]
        rows[-1] = ["decoder"] * (MODEL["layers"] - per_chunk * (PP - 1))
        return [["embedding", *rows[0]], *rows[1:-1], [*rows[-1], "loss"]]
    return [layers[i : i + per_chunk] for i in range(0, len(layers), per_chunk)]


def config():
    """Megatron's configuration of the model."""
    sizes = {
        "num_layers": MODEL["layers"], "hidden_size": MODEL["hidden"],
        "num_attention_heads": MODEL["heads"], "ffn_hidden_size": MODEL["ffn"],
        "normalization": "RMSNorm", "gated_linear_unit": True, "add_bias_linear": False,
        "activation_func": torch.nn.functional.silu, "hidden_dropout": 0.0,
        "attention_dropout": 0.0, "bf16": True, "params_dtype": torch.bfloat16,
        "pipeline_dtype": torch.bfloat16, "tensor_model_parallel_size": CASE["tp"],
        "pipeline_model_parallel_size": PP, "context_parallel_size": CASE["cp"],
        "sequence_parallel": CASE["tp"] > 1, "pipeline_model_parallel_layout": layout(),
        "virtual_pipeline_model_parallel_size": CHUNKS if CHUNKS > 1 else None,
    }  # fmt: skip
    if "experts" not in MODEL:
        return TransformerConfig(num_query_groups=MODEL["groups"], **sizes)
    dense = MODEL["dense_layers"]
    return MLATransformerConfig(
        **sizes, rope_type="rope", qk_layernorm=True, q_lora_rank=MODEL["q_rank"],
        kv_lora_rank=MODEL["kv_rank"], qk_head_dim=MODEL["head"],
        qk_pos_emb_head_dim=MODEL["rotary_head"], v_head_dim=MODEL["value_head"],
        num_moe_experts=MODEL["experts"], moe_router_topk=MODEL["top_k"],
        moe_layer_freq=[0] * dense + [1] * (MODEL["layers"] - dense),
        moe_ffn_hidden_size=MODEL["expert_ffn"],
        moe_shared_expert_intermediate_size=MODEL["expert_ffn"],
        expert_model_parallel_size=CASE["ep"], moe_token_dispatcher_type="alltoall",
        moe_router_num_groups=MODEL["router_groups"],
        moe_router_group_topk=MODEL["router_top_groups"], moe_router_score_function="sigmoid",
        moe_router_enable_expert_bias=True, moe_router_load_balancing_type="none",
    )  # fmt: skip


def build(settings, chunk):
    """The model of one chunk of this rank's stage."""
    place = {"vp_stage": chunk} if CHUNKS > 1 else {}
    layers = get_gpt_decoder_block_spec(settings, False, normalization="RMSNorm", **place)
    model = GPTModel(
        settings,
        with_own_modules(layers),
        vocab_size=MODEL["vocabulary"],
        max_sequence_length=SEQUENCE,
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, **place),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, **place),
        position_embedding_type="rope",
        share_embeddings_and_output_weights=False,
        **place,
    )
    data = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, use_distributed_optimizer=True, overlap_grad_reduce=True,
        overlap_param_gather=True,
    )  # fmt: skip
    model = Float16Module(settings, model.cuda())
    return DistributedDataParallel(settings, data, model, disable_bucketing=chunk > 0)


def forward(_, model):
    """A micro-batch of one sequence."""
    length = SEQUENCE // CASE["cp"]
    tokens = torch.randint(0, MODEL["vocabulary"], (1, length), device="cuda")
    positions = torch.arange(length, device="cuda")[None]

    def loss_of(output):
        loss = output.float().mean()
        return loss, {"loss": loss.detach()}

    return model(tokens, positions, None, labels=tokens), loss_of


def train(models, optimizer, micro_batches):
    """A step."""
    for model in models:
        model.zero_grad_buffer()
    optimizer.zero_grad()
    get_forward_backward_func()(
        forward_step_func=forward,
        data_iterator=[None] * CHUNKS if CHUNKS > 1 else None,
        model=models if CHUNKS > 1 else models[0],
        num_microbatches=micro_batches,
        seq_length=SEQUENCE,
        micro_batch_size=1,
        forward_only=False,
    )
    optimizer.step()


def main():
    """Two steps."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=CASE["tp"],
        pipeline_model_parallel_size=PP,
        virtual_pipeline_model_parallel_size=CHUNKS if CHUNKS > 1 else None,
        context_parallel_size=CASE["cp"],
        expert_model_parallel_size=CASE.get("ep", 1),
    )
    model_parallel_cuda_manual_seed(1)
    settings = config()
    models = [build(settings, chunk) for chunk in range(CHUNKS)]
    optimizer = get_megatron_optimizer(
        OptimizerConfig(lr=1e-4, bf16=True, use_distributed_optimizer=True), models
    )
    settings.finalize_model_grads_func = finalize_model_grads
    settings.grad_scale_func = optimizer.scale_loss
    hooks = [[getattr(model, name) for model in models] for name in
             ("no_sync", "start_grad_sync", "start_param_sync")]  # fmt: skip
    settings.no_sync_func, settings.grad_sync_func, settings.param_sync_func = (
        one if CHUNKS > 1 else one[0] for one in hooks
    )
    # what a step begins with depends on the one before: the first one, as short as the schedule
    # lets it be, is not meant
    for micro_batches in (PP if CHUNKS > 1 else 1, MICRO_BATCHES):
        train(models, optimizer, micro_batches)
    dist.destroy_process_group()


main()
