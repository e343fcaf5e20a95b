"""What training frameworks offer to choose, every list of names in one place.

Files of models, options of a job, plans and compute models all read these.
"""

from __future__ import annotations

from typing import Literal

#: the order in which a pipeline works through its micro-batches
PipelineSchedule = Literal["1f1b", "zero-bubble", "dualpipe"]
#: what all-to-alls are hidden behind
AllToAllOverlap = Literal["none", "chunks", "batch"]
#: how copies of tokens get to experts that several TP ranks hold together, by MoNTA's names (arXiv
#: 2411.00662; O4 is ours), or what the planner finds fastest for each layer
PlanStrategy = Literal["baseline", "O1", "O2", "O3", "O4", "auto"]
#: how the GPUs that share a sequence compute its attention: keys and values go around a ring, or an
#: all-to-all hands each GPU whole sequences of some heads
ContextParallel = Literal["ring", "ulysses"]
#: activations that the backward pass computes again, from fewer to more; ``products`` (every second
#: product, as torchtitan's selective) is never chosen unless it is asked for
Recompute = Literal["none", "selective", "attention", "products", "full"]
#: format of the matrix products of linear layers and experts
Precision = Literal["bf16", "fp8", "mxfp8", "nvfp4"]
#: format of the moments of the optimizer
StatePrecision = Literal["fp32", "bf16"]
#: what activations are kept as: each in the format of the operators that read it, or the inputs of
#: activation functions in FP8 and results of attention in 12 bits, as DeepSeek-V3
ActivationCache = Literal["framework", "fp8"]
#: what the data-parallel ranks share out, each with all before it: states of the optimizer
#: (ZeRO-1), gradients (ZeRO-2), parameters (ZeRO-3, FSDP)
Sharded = Literal["states", "gradients", "parameters"]
#: kernels of attention: the fastest in BF16 that were measured on a GPU, FlashAttention 2, which
#: PyTorch takes by default, cuDNN's in FP8, or products and a soft-max of all scores, which
#: frameworks fall back on
AttentionKernels = Literal["fastest", "flash-2", "fp8", "unfused"]
#: who writes operands of products in narrow formats: norms and activation functions what they
#: give, and a pass all others (delayed scales); a pass after another that finds the largest value
#: (current scales); a pass each (blocks, MXFP8); passes for the largest value, the cast and its
#: transposed copy (torchao)
Casts = Literal["fused", "current", "block", "separate"]
#: whether one kernel permutes the copies of tokens, or several do
Permutation = Literal["fused", "unfused"]
#: whether one kernel multiplies for all experts of a GPU, or one after the other
ExpertProducts = Literal["grouped", "sequential"]
#: how copies of tokens get to the GPUs of their experts and back, by Megatron-Core's names: an
#: all-to-all of a collective library, or kernels that send a token once to each server (DeepEP,
#: HybridEP)
Dispatcher = Literal["alltoall", "flex"]
#: which traffic of a step goes first on links: none; experts, pipeline, context parallelism,
#: gradients, as MoNTA has it (arXiv 2411.00662); or the same with the pipeline first
Priorities = Literal["none", "monta", "pipeline"]
#: how evenly a gate loads the experts, as :data:`lightloom.demand.imbalance.IMBALANCES` explains
Gate = Literal["balanced", "auxiliary", "natural", "skewed"]
#: what adds up the gradients of a network that every GPU has whole: rings, one parameter server on
#: rank 0, or all ranks as servers of equal shares
Synchronization = Literal["ring", "server", "sharded-servers"]
