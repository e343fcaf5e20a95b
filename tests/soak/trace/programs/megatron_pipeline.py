"""Megatron-Core's GPT on CPUs: megatron_pipeline.py TP PP.

What it asks of CUDA even for tensors of a CPU stands here.
"""

import contextlib
import sys

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
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel import get_cuda_rng_tracker
from megatron.core.transformer.transformer_config import TransformerConfig

TP, PP = map(int, sys.argv[1:])
SEQUENCE, HIDDEN, WORDS = 16, 32, 64


class NoStream:
    """A stream of CUDA where there is none."""

    def __getattr__(self, _):
        return lambda *_, **__: self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


stream = NoStream()
torch.cuda.Stream = torch.cuda.current_stream = torch.cuda.stream = lambda *_, **__: stream
torch.cuda.Event = lambda *_, **__: stream
torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None
torch.cuda.set_device = lambda *_: None
torch.Tensor.cuda = lambda self, *_, **__: self
make_zeros = torch.zeros


def zeros(*sizes, **given):
    """Zeros, wherever they are wanted."""
    return make_zeros(*sizes, **given | {"device": "cpu"})


torch.zeros = zeros
get_cuda_rng_tracker().fork = contextlib.nullcontext
dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(TP, PP)
torch.manual_seed(1)
config = TransformerConfig(
    num_layers=2, hidden_size=HIDDEN, num_attention_heads=4, ffn_hidden_size=2 * HIDDEN,
    add_bias_linear=False, tensor_model_parallel_size=TP, pipeline_model_parallel_size=PP,
    use_cpu_initialization=True, pipeline_dtype=torch.float32,
    hidden_dropout=0.0, attention_dropout=0.0, bias_dropout_fusion=False,
    masked_softmax_fusion=False, gradient_accumulation_fusion=False, batch_p2p_comm=False,
    deallocate_pipeline_outputs=True,
)  # fmt: skip
model = GPTModel(
    config, get_gpt_layer_local_spec(), vocab_size=WORDS, max_sequence_length=SEQUENCE,
    pre_process=parallel_state.is_pipeline_first_stage(),
    post_process=parallel_state.is_pipeline_last_stage(),
    share_embeddings_and_output_weights=False,
)  # fmt: skip
model = DistributedDataParallel(
    config, DistributedDataParallelConfig(overlap_grad_reduce=False), model
)
config.finalize_model_grads_func = finalize_model_grads
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def forward(_, model):
    words = torch.arange(SEQUENCE).view(1, -1) % WORDS
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool).tril() < 0.5
    output = model(words, torch.arange(SEQUENCE).view(1, -1), mask, labels=words)

    def loss_of(output):
        loss = output.float().mean()
        return loss, {"loss": loss.detach()}

    return output, loss_of


train = get_forward_backward_func()
for _ in range(2):
    model.zero_grad_buffer()
    train(
        forward_step_func=forward, data_iterator=None, model=model, num_microbatches=3,
        seq_length=SEQUENCE, micro_batch_size=1, forward_only=False,
    )  # fmt: skip
    for parameter in model.parameters():
        parameter.grad = parameter.main_grad
    optimizer.step()
dist.destroy_process_group()
