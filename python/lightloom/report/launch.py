"""A plan as arguments of training frameworks: Megatron-Core, Megatron-Bridge and torchtitan.

The file is a list of each for a shell, which sources it, with what a framework cannot do as
remarks. It has what the plan decides; the shapes of the model, data and learning rates are the
user's. Names are those of August 2026: megatron/training/arguments.py and the configurations
that it reads, docs/megatron-lm-to-megatron-bridge.md, and torchtitan/config/configs.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from lightloom.study.compare.job import ModelJob
from lightloom.study.compare.kernels import dispatch_of

#: an argument and its value; a switch has none
Argument = tuple[str, str | int | None]

#: overrides of Megatron-Bridge; of others the argument's own name, as a field of the model
_BRIDGE = {
    "micro-batch-size": ("train.micro_batch_size",),
    "global-batch-size": ("train.global_batch_size",),
    "seq-length": ("model.seq_length", "dataset.seq_length"),
    "num-virtual-stages-per-pipeline-rank": ("model.virtual_pipeline_model_parallel_size",),
    "use-distributed-optimizer": ("ddp.use_distributed_optimizer",),
    "use-megatron-fsdp": ("ddp.use_megatron_fsdp",),
    "data-parallel-sharding-strategy": ("ddp.data_parallel_sharding_strategy",),
    "overlap-grad-reduce": ("ddp.overlap_grad_reduce",),
    "overlap-param-gather": ("ddp.overlap_param_gather",),
    "use-precision-aware-optimizer": ("optimizer.use_precision_aware_optimizer",),
    "exp-avg-dtype": ("optimizer.exp_avg_dtype",),
    "exp-avg-sq-dtype": ("optimizer.exp_avg_sq_dtype",),
}
#: number formats: those of Megatron-Core are arguments, those of Megatron-Bridge one recipe
_FORMATS: dict[str, tuple[Argument, ...]] = {
    "bf16": (("bf16", None),),
    "fp8": (("bf16", None), ("fp8-format", "hybrid"), ("fp8-recipe", "tensorwise")),
    "mxfp8": (("bf16", None), ("fp8-format", "e4m3"), ("fp8-recipe", "mxfp8")),
    "nvfp4": (("bf16", None), ("fp4-format", "e2m1"), ("fp4-recipe", "nvfp4")),
}
_RECIPES = {
    "bf16": "bf16_mixed",
    "fp8": "bf16_with_fp8_current_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}
#: what Megatron-FSDP calls what ranks share out beyond states of the optimizer
_MEGATRON_FSDP = {"gradients": "optim_grads", "parameters": "optim_grads_params"}
_TITAN_SCHEDULES = {"1f1b": "Interleaved1F1B", "zero-bubble": "InterleavedZeroBubble"}


def launch_text(job: ModelJob, command: str) -> str:
    """The plan of a job as arguments, a list for each framework.

    Parameters
    ----------
    job
        A job of a model, whose plan is known.
    command
        What found the plan, for the first line.

    Returns
    -------
    str
        Lines that a shell can source: the arrays ``MEGATRON_CORE``, ``MEGATRON_BRIDGE`` and
        ``TORCHTITAN``.
    """
    core = [*_degrees(job), *_batch(job), *_overlaps(job), *_memory(job)]
    formats = _FORMATS[job.fitted.options.precision]
    lines = [
        f"# {command}",
        f"# {job.name}: {job.plan.describe()}",
        *_array("MEGATRON_CORE", "pretrain_gpt.py of Megatron-LM", _flags([*core, *formats])),
        *(f"# {remark}" for remark in _megatron_remarks(job)),
        *_array("MEGATRON_BRIDGE", "scripts/training/run_recipe.py", _overrides(job, core)),
        *(f"# {remark}" for remark in _megatron_remarks(job)),
        *_array("TORCHTITAN", "run_train.sh, or the same fields of a configuration", _titan(job)),
        *(f"# {remark}" for remark in _titan_remarks(job)),
    ]
    return "\n".join(lines) + "\n"


def _array(name: str, of: str, words: Iterator[str]) -> list[str]:
    return ["", f"# arguments of {of}", f"{name}=(", *(f"    {word}" for word in words), ")"]


def _flags(arguments: list[Argument]) -> Iterator[str]:
    for name, value in arguments:
        yield f"--{name}" if value is None else f"--{name} {_word(name, value)}"


def _word(name: str, value: str | int) -> str:
    """The value for a shell; names of modules are several words."""
    return str(value) if name == "recompute-modules" else shlex.quote(str(value))


def _degrees(job: ModelJob) -> Iterator[Argument]:
    plan = job.plan
    yield "tensor-model-parallel-size", plan.tp
    yield "pipeline-model-parallel-size", plan.pp
    yield "context-parallel-size", plan.cp
    if plan.cp > 1:
        yield "cp-comm-type", "a2a" if plan.context_parallel == "ulysses" else "p2p"
    if job.has_routing:
        yield "expert-model-parallel-size", plan.ep
        yield "expert-tensor-parallel-size", plan.etp
    if plan.tp > 1 and plan.sequence_parallel:
        yield "sequence-parallel", None
    if _is_even(job):
        if plan.vpp > 1:
            yield "num-virtual-stages-per-pipeline-rank", plan.vpp
    else:
        yield "pipeline-model-parallel-layout", layout_text(_layers(job))
    if plan.zero1:
        yield "use-distributed-optimizer", None
    if (strategy := _MEGATRON_FSDP.get(job.sharded)) is not None:
        yield "use-megatron-fsdp", None
        yield "data-parallel-sharding-strategy", strategy


def _layers(job: ModelJob) -> list[int]:
    """Layers of each virtual stage, in the order in which a token passes them."""
    stages = job.plan.layers(job.model.num_layers)
    return [len(stage[chunk]) for chunk in range(job.plan.vpp) for stage in stages]


def _is_even(job: ModelJob) -> bool:
    return len(set(_layers(job))) == 1


def layout_text(layers: list[int]) -> str:
    """Layers of virtual stages as Megatron-Core's layout of a pipeline.

    Examples
    --------
    >>> layout_text([2, 3, 3, 2])
    'Ett|ttt|ttt|ttL'
    """
    return "E" + "|".join("t" * count for count in layers) + "L"


def _batch(job: ModelJob) -> Iterator[Argument]:
    plan = job.plan
    yield "micro-batch-size", plan.micro_batch_size
    yield "global-batch-size", plan.sequences_per_step
    yield "seq-length", plan.seq_len


def _overlaps(job: ModelJob) -> Iterator[Argument]:
    plan = job.plan
    if job.has_routing:
        dispatch = dispatch_of(job.scenario, job.model, job.options)
        yield "moe-token-dispatcher-type", dispatch.dispatcher
        if dispatch.dispatcher == "flex":
            is_rack = job.cluster.gpus_per_server > 8
            yield "moe-flex-dispatcher-backend", "hybridep" if is_rack else "deepep"
        yield "moe-grouped-gemm", None
        if job.scenario.compute.permutation == "fused":
            yield "moe-permute-fusion", None
        if plan.overlap_all_to_all == "batch":
            yield "overlap-moe-expert-parallel-comm", None
        if plan.overlap_shared_experts:
            yield "moe-shared-expert-overlap", None
    if plan.overlap_tp and plan.tp > 1:
        yield "tp-comm-overlap", None
    if plan.overlap_gradients:
        yield "overlap-grad-reduce", None
    if plan.overlap_parameters and plan.zero1:
        yield "overlap-param-gather", None


def _memory(job: ModelJob) -> Iterator[Argument]:
    level = job.fitted.options.recompute
    if level == "full":
        yield "recompute-granularity", "full"
        yield "recompute-method", "uniform"
        yield "recompute-num-layers", 1
    elif level != "none":
        yield "recompute-granularity", "selective"
        yield "recompute-modules", " ".join(_modules(job, level))
    if job.fitted.options.state_precision == "bf16":
        yield "use-precision-aware-optimizer", None
        yield "exp-avg-dtype", "bf16"
        yield "exp-avg-sq-dtype", "bf16"


def _modules(job: ModelJob, level: str) -> Iterator[str]:
    if level == "attention":
        yield "core_attn"
        return
    yield "layernorm"
    if job.has_routing:
        yield "moe_act"
    if any(attention.kv_lora_rank for attention in job.model.attentions):
        yield "mla_up_proj"


def _overrides(job: ModelJob, arguments: list[Argument]) -> Iterator[str]:
    for name, value in arguments:
        text = "true" if value is None else str(value)
        if name == "recompute-modules":
            text = f"[{text.replace(' ', ',')}]"
        for key in _BRIDGE.get(name, (f"model.{name.replace('-', '_')}",)):
            yield shlex.quote(f"{key}={text}")
    yield f"mixed_precision={_RECIPES[job.fitted.options.precision]}"


def _megatron_remarks(job: ModelJob) -> Iterator[str]:
    plan = job.plan
    if plan.schedule != "1f1b":
        yield f"not in it: schedule {plan.schedule}"
    if plan.overlap_all_to_all == "chunks":
        yield "not in it: all-to-alls hidden behind chunks of the tokens"
    if plan.strategy != "O1":
        yield f"not in it: strategy {plan.strategy} of the all-to-alls, see lightloom.torch"
    if job.fitted.options.recompute == "products":
        yield "not in it: every second product is computed again, as torchtitan does"
    if job.options.gradient_bytes == 2:
        yield "gradients are reduced in BF16: --grad-reduce-in-bf16, or in the recipe of precision"


def _titan(job: ModelJob) -> Iterator[str]:
    """Arguments of torchtitan; micro-batches without a pipeline are accumulated gradients."""
    plan = job.plan
    values: list[Argument] = [
        ("parallelism.data_parallel_shard_degree", plan.dense_dp),
        ("parallelism.tensor_parallel_degree", plan.tp),
        ("parallelism.context_parallel_degree", plan.cp),
        ("parallelism.pipeline_parallel_degree", plan.pp),
    ]
    if job.has_routing:
        values.append(("parallelism.expert_parallel_degree", plan.ep))
    if plan.pp > 1:
        looped = _TITAN_SCHEDULES.get(plan.schedule, "Interleaved1F1B")
        schedule = looped if plan.vpp > 1 else "1F1B"
        values += [
            ("parallelism.pipeline_parallel_schedule", schedule),
            ("parallelism.pipeline_parallel_layers_per_stage", max(_layers(job))),
            ("parallelism.pipeline_parallel_first_stage_less_layers", 0),
            ("parallelism.pipeline_parallel_last_stage_less_layers", 0),
            ("parallelism.num_pp_microbatches", plan.micro_batches),
        ]
    # but with ZeRO-3, parameters stay on the GPU between passes
    reshard = "always" if job.sharded == "parameters" else "never"
    values += [
        ("parallelism.fsdp_reshard_after_forward", reshard),
        (
            "training.num_tokens_per_microbatch_per_dp_rank",
            plan.micro_batch_size * plan.seq_len,
        ),
        ("training.num_tokens_per_train_step", plan.tokens_per_step),
        ("training.max_context_length", plan.seq_len),
    ]
    return _flags(values)


def _titan_remarks(job: ModelJob) -> Iterator[str]:
    plan, level = job.plan, job.fitted.options.recompute
    if level != "none":
        kind = "FullAC" if level == "full" else "SelectiveAC"
        yield f"in the configuration: activation_checkpoint = {kind}.Config()"
    if job.has_routing and plan.etp > 1:
        yield f"not in it: expert-TP {plan.etp}, experts are whole"
    if plan.pp > 1 and -(-job.model.num_layers // max(_layers(job))) != plan.virtual_stages:
        yield f"not in it: {plan.virtual_stages} stages of {job.model.num_layers} layers"
    if plan.schedule == "dualpipe":
        yield "not in it: schedule dualpipe; DualPipeV is like it"
    if plan.schedule == "zero-bubble" and plan.vpp == 1:
        yield "not in it: schedule zero-bubble with one stage per GPU"
    if plan.overlap_all_to_all != "none":
        yield "not in it: hidden all-to-alls"
