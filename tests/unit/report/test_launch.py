"""A plan as arguments of frameworks: all degrees, the batch, and what cannot be said."""

import shlex
import subprocess

import pytest

from lightloom import Scenario
from lightloom.parallel.plan import balanced_layout
from lightloom.report.launch import launch_text, layout_text
from lightloom.study.compare.job import prepare

ARRAYS = ("MEGATRON_CORE", "MEGATRON_BRIDGE", "TORCHTITAN")


def job(model="mixtral-8x7b", gpus=128, gpu="h100", plan=None, **changes):
    cluster = {"rate_gbps": 400, "gpu": gpu}
    return prepare(Scenario(model=model, gpus=gpus, cluster=cluster, plan=plan or {}, **changes))


def arrays(text, tmp_path):
    """The arrays as a shell has them."""
    path = tmp_path / "launch.sh"
    path.write_text(text)
    found = []
    for name in ARRAYS:
        script = f'source {shlex.quote(str(path))}; printf "%s\\n" "${{{name}[@]}}"'
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        found.append(done.stdout.splitlines())
    return found


def as_flags(words):
    """Values by flag; several words of one together, a switch without any."""
    found = {}
    for word in words:
        if word.startswith("--"):
            name = word
            found[name] = []
        else:
            found[name].append(word)
    return {name: " ".join(values) for name, values in found.items()}


def test_a_plan_is_the_same_for_every_framework(tmp_path):
    plan = {"tp": 4, "pp": 4, "ep": 8, "vpp": 2, "micro_batches": 8, "micro_batch_size": 2}
    made = job(plan=plan)
    core, bridge, titan = arrays(launch_text(made, "lightloom compare"), tmp_path)
    flags, fields = as_flags(core), dict(word.split("=", 1) for word in bridge)
    assert (
        flags["--tensor-model-parallel-size"] == fields["model.tensor_model_parallel_size"] == "4"
    )
    assert flags["--expert-tensor-parallel-size"] == "4"
    assert flags["--num-virtual-stages-per-pipeline-rank"] == "2"
    assert fields["model.virtual_pipeline_model_parallel_size"] == "2"
    assert int(flags["--global-batch-size"]) == made.plan.sequences_per_step == 8 * 2 * 8
    assert flags["--sequence-parallel"] == ""
    assert fields["ddp.use_distributed_optimizer"] == "true"
    assert fields["mixed_precision"] == "bf16_mixed"
    given = as_flags(titan)
    degrees = ("data_parallel_shard", "tensor_parallel", "context_parallel", "pipeline_parallel")
    product = 1
    for name in degrees:
        product *= int(given[f"--parallelism.{name}_degree"])
    assert product == made.plan.gpus
    assert given["--parallelism.pipeline_parallel_schedule"] == "Interleaved1F1B"
    assert given["--training.num_tokens_per_train_step"] == str(made.plan.tokens_per_step)
    # 32 layers on 8 virtual stages
    assert given["--parallelism.pipeline_parallel_layers_per_stage"] == "4"


@pytest.mark.parametrize(("layers", "stages"), [(61, 16), (94, 8), (32, 4), (7, 7)])
def test_a_layout_has_every_layer(layers, stages):
    text = layout_text(list(balanced_layout(layers, stages)))
    assert text.count("t") == layers
    assert len(text.split("|")) == stages
    assert (text[0], text[-1]) == ("E", "L")


def test_uneven_stages_are_a_layout(tmp_path):
    plan = {"tp": 1, "pp": 4, "ep": 64, "vpp": 4, "micro_batches": 8, "micro_batch_size": 1}
    made = job("deepseek-v3", 256, "gb200", plan, compute={"precision": "mxfp8"})
    core, bridge, titan = arrays(launch_text(made, "x"), tmp_path)
    flags = as_flags(core)
    assert flags["--pipeline-model-parallel-layout"].count("t") == made.model.num_layers
    assert "--num-virtual-stages-per-pipeline-rank" not in flags
    assert flags["--moe-flex-dispatcher-backend"] == "hybridep"
    assert (flags["--fp8-format"], flags["--fp8-recipe"]) == ("e4m3", "mxfp8")
    assert "mixed_precision=bf16_with_mxfp8_mixed" in bridge
    assert "--parallelism.expert_parallel_degree" in titan


@pytest.mark.parametrize(
    ("level", "flags"),
    [
        ("none", {}),
        ("selective", {"--recompute-granularity": "selective",
                       "--recompute-modules": "layernorm moe_act"}),
        ("attention", {"--recompute-granularity": "selective", "--recompute-modules": "core_attn"}),
        ("full", {"--recompute-granularity": "full", "--recompute-method": "uniform",
                  "--recompute-num-layers": "1"}),
    ],
)  # fmt: skip
def test_recomputation_is_said(tmp_path, level, flags):
    made = job(recompute=level, memory_check=False)
    text = launch_text(made, "x")
    core, _, _ = arrays(text, tmp_path)
    assert {k: v for k, v in as_flags(core).items() if k.startswith("--recompute")} == flags
    assert ("activation_checkpoint" in text) == (level != "none")


def test_what_a_framework_cannot_do_is_a_remark():
    text = launch_text(job("deepseek-v3", 2048, "h800"), "x")
    assert "# not in it: schedule dualpipe\n" in text
    assert "# not in it: schedule dualpipe; DualPipeV is like it" in text
    assert "--overlap-moe-expert-parallel-comm" in text
    dense = launch_text(job("llama-3-405b", 1024), "x")
    assert "expert" not in dense
    assert "moe" not in dense


@pytest.mark.parametrize(
    ("sharded", "strategy", "reshard"),
    [
        ("states", None, "never"),
        ("gradients", "optim_grads", "never"),
        ("parameters", "optim_grads_params", "always"),
    ],
)
def test_what_ranks_share_out_is_said(tmp_path, sharded, strategy, reshard):
    made = job("olmoe-1b-7b", 16, plan={"tp": 1, "pp": 1, "ep": 8}, memory={"sharded": sharded})
    core, _, titan = arrays(launch_text(made, "lightloom compare"), tmp_path)
    assert as_flags(core).get("--data-parallel-sharding-strategy") == strategy
    assert ("--use-megatron-fsdp" in core) == (strategy is not None)
    assert as_flags(titan)["--parallelism.fsdp_reshard_after_forward"] == reshard
    zero = {"states": "", "gradients": ", ZeRO-2", "parameters": ", ZeRO-3"}[sharded]
    assert f"(dense DP 16{zero})" in made.plan_summary()[0]
