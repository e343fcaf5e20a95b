"""Megatron-Core as its package has it, on CPUs: what it asks of CUDA even for tensors of a CPU."""

import torch
from megatron.core.transformer.moe import moe_utils, token_dispatcher


class NoStream:
    """A stream of CUDA where there is none."""

    def __getattr__(self, _):
        return lambda *_, **__: self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def without_cuda():
    """Give Megatron-Core streams that do nothing."""
    stream = NoStream()
    torch.cuda.Stream = torch.cuda.current_stream = torch.cuda.stream = lambda *_, **__: stream
    torch.cuda.current_device = lambda: "cpu"
    # a name that Megatron-Core 0.16 has only where Transformer Engine is installed
    moe_utils.te_general_gemm = None
    # counts that come from a GPU are arrays, as collectives take them
    token_dispatcher.maybe_move_tensor_to_cpu = lambda counts, as_numpy=False, **_: (
        counts.numpy() if as_numpy and isinstance(counts, torch.Tensor) else counts
    )
